"""Devices that sign in to the console: what they may do, and when they are signed out."""

from typing import Final, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.domain.audit import Actor
from counterfoil.model.calendar import DAY_MS

# A reader sees everything except personal data and secrets, and changes nothing. An operator may do everything.
Role = Literal["reader", "operator"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
DeviceState = Literal["link", "signed_in", "expired", "revoked"]
# Devices that ended this long ago are no longer listed.
FORGOTTEN_MS = 90 * DAY_MS


def allows(role: Role, needed: Role) -> bool:
    """Return whether a role includes another one."""
    return ROLES.index(role) >= ROLES.index(needed)


class Lifetimes(Struct, frozen=True, kw_only=True):
    """How long devices stay signed in: those that were signed in for a number of days, and all others."""

    idle_ms: int
    longest_ms: int
    idle_in_days_ms: int
    most_days: int


class Device(Struct, frozen=True, kw_only=True):
    """A browser that a link signed in, or will until `link_until`. `days` is None for a working session only."""

    device_id: str
    name: str
    role: Role
    days: int | None
    made_by: str
    made_on: str
    made_at: int
    link_until: int
    signed_in_at: int | None = None
    last_used_at: int | None = None
    revoked_at: int | None = None

    @property
    def actor(self) -> Actor:
        """Return who acts with this device. The ID leads to the person who made the link, whatever the name is."""
        return Actor(self.name, "console", f"device {self.device_id}")

    def used(self, now_ms: int) -> "Device":
        return replace(self, last_used_at=max(now_ms, self.last_used_at or 0))


def expires_at(device: Device, lifetimes: Lifetimes) -> int:
    """Return when the device is signed out even if it is used until then, or when its unused link expires."""
    if device.signed_in_at is None:
        return device.link_until
    if device.days is None:
        return device.signed_in_at + lifetimes.longest_ms
    return device.signed_in_at + min(device.days, lifetimes.most_days) * DAY_MS


def ends_at(device: Device, lifetimes: Lifetimes) -> int:
    """Return when the device is signed out if it is not used again, or when its unused link expires."""
    if device.last_used_at is None:
        return expires_at(device, lifetimes)
    idle_ms = lifetimes.idle_ms if device.days is None else lifetimes.idle_in_days_ms
    return min(expires_at(device, lifetimes), device.last_used_at + idle_ms)


def state_of(device: Device, lifetimes: Lifetimes, now_ms: int) -> DeviceState:
    if device.revoked_at is not None:
        return "revoked"
    if now_ms >= ends_at(device, lifetimes):
        return "expired"
    return "link" if device.signed_in_at is None else "signed_in"
