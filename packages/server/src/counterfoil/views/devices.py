"""The devices that are signed in to the console, and sign-in links that were not used yet."""

from collections.abc import Sequence

from counterfoil.domain.devices import Device, Lifetimes, ends_at, state_of
from counterfoil.model.text import translatable
from counterfoil.program.columns import ListColumn

STATE_NAMES = {"link": "link not used yet", "signed_in": "signed in", "expired": "expired", "revoked": "revoked"}


def columns(lifetimes: Lifetimes, now: int) -> Sequence[ListColumn[Device]]:
    def state(device: Device) -> str:
        return state_of(device, lifetimes, now)

    return (
        ListColumn("deviceId", kind="code", terminal="device ID", page=translatable("Device ID")),
        ListColumn("name", terminal="name", page=translatable("Name")),
        ListColumn("role", terminal="role", page=translatable("Role")),
        ListColumn(
            "state", state, terminal="state", page=translatable("State"), text=lambda device: STATE_NAMES[state(device)]
        ),
        ListColumn("lastUsedAt", kind="time", terminal="last used", page=translatable("Last used")),
        ListColumn(
            "endsAt",
            lambda device: device.revoked_at or ends_at(device, lifetimes),
            "time",
            "ends",
            page=translatable("Ends"),
        ),
        ListColumn("days"),
        ListColumn("signedInAt", kind="time"),
        ListColumn("madeBy", terminal="link by", page=translatable("Link by")),
        ListColumn("madeOn"),
        ListColumn("madeAt", kind="time"),
        ListColumn("revokedAt", kind="time"),
    )
