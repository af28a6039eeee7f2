"""The devices that are signed in to the console, and sign-in links that were not used yet."""

from collections.abc import Sequence

from counterfoil.domain.devices import Device, Lifetimes, ends_at, state_of
from counterfoil.program.columns import ListColumn

STATE_NAMES = {"link": "link not used yet", "signed_in": "signed in", "expired": "expired", "revoked": "revoked"}


def columns(lifetimes: Lifetimes, now: int) -> Sequence[ListColumn[Device]]:
    def state(device: Device) -> str:
        return state_of(device, lifetimes, now)

    return (
        ListColumn("deviceId", kind="code", terminal="device ID", page="device.id"),
        ListColumn("name", terminal="name", page="device.name"),
        ListColumn("role", terminal="role", page="device.role"),
        ListColumn("state", state, terminal="state", page="state", text=lambda device: STATE_NAMES[state(device)]),
        ListColumn("lastUsedAt", kind="time", terminal="last used", page="keys.last_used"),
        ListColumn(
            "endsAt", lambda device: device.revoked_at or ends_at(device, lifetimes), "time", "ends", page="device.ends"
        ),
        ListColumn("days"),
        ListColumn("signedInAt", kind="time"),
        ListColumn("madeBy", terminal="link by", page="device.made_by"),
        ListColumn("madeOn"),
        ListColumn("madeAt", kind="time"),
        ListColumn("revokedAt", kind="time"),
    )
