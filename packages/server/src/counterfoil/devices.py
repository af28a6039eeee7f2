"""Sign-in links and signed-in devices. Every change is audited. SQL is written as in `operator_reads.py`."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from msgspec import json
from msgspec.structs import replace

from counterfoil.domain.audit import Act, Actor, AuditEntry, FieldChange
from counterfoil.domain.devices import FORGOTTEN_MS, Device
from counterfoil.model.messages import Message, MessageError
from counterfoil.ports import AuditedTransaction

_ALL = "SELECT body FROM console_devices"
_ONE = "SELECT body FROM console_devices WHERE device_id = :device_id"
# A device that is only changed keeps the hash of its token.
_WRITE = """
    INSERT INTO console_devices (device_id, token_digest, body) VALUES (:device_id, :digest, :body)
    ON CONFLICT (device_id) DO UPDATE
        SET body = excluded.body, token_digest = coalesce(excluded.token_digest, console_devices.token_digest)
    RETURNING device_id
"""
_FORGET = "DELETE FROM console_devices WHERE device_id = :device_id RETURNING device_id"


class UnknownDevice(MessageError):
    """There is no device with this ID."""


class DeviceStore:
    """The devices of a store. `changing` opens a transaction, of which only one at a time can change devices."""

    def __init__(self, changing: Callable[[], AbstractContextManager[AuditedTransaction]]) -> None:
        self.changing = changing

    def change(
        self,
        device_id: str,
        change: Callable[[Device | None], Device | None],
        entry: AuditEntry | None,
        token_digest: bytes | None = None,
    ) -> Device | None:
        """Write the device that `change` makes of the stored one, if any, with its entry. If it is None, do nothing."""
        with self.changing() as transaction:
            found = [json.decode(body, type=Device) for (body,) in transaction.ask(_ONE, device_id=device_id)]
            changed = change(found[0] if found else None)
            if changed is None:
                return None
            transaction.ask(_WRITE, device_id=device_id, digest=token_digest, body=json.encode(changed))
            transaction.audit([entry] if entry else [])
            return changed

    def forget(self, before_ms: int) -> None:
        """Delete the devices that have neither been made nor used since this instant, whatever their state is."""
        with self.changing() as transaction:
            for (body,) in transaction.ask(_ALL):
                device = json.decode(body, type=Device)
                if max(device.made_at, device.last_used_at or 0) < before_ms:
                    transaction.ask(_FORGET, device_id=device.device_id)


def record_link(store: DeviceStore, device: Device, by: Actor) -> None:
    """Record that a sign-in link was made, and delete devices that ended long ago."""
    # No device stays signed in for longer than that after its last use: see the range of `console_idle_days`.
    store.forget(device.made_at - FORGOTTEN_MS)
    entry = AuditEntry(
        at=device.made_at, act=Act.CONSOLE_LINK_MADE, actor=by, changes=_facts(device), detail=described(device)
    )
    store.change(device.device_id, lambda found: found or device, entry)


def sign_in(store: DeviceStore, device: Device, token_digest: bytes) -> bool:
    """Record a device that has just been signed in. Return False if its link was used before or is revoked."""

    def signed_in(found: Device | None) -> Device | None:
        is_refused = found and (found.signed_in_at is not None or found.revoked_at is not None)
        return None if is_refused else device

    entry = AuditEntry(
        at=device.signed_in_at or 0,
        act=Act.CONSOLE_SIGNED_IN,
        actor=device.actor,
        changes=_facts(device),
        detail=described(device),
    )
    return store.change(device.device_id, signed_in, entry, token_digest) is not None


def note_use(store: DeviceStore, device_id: str, now_ms: int) -> None:
    """Store the time of the latest use. Uses are not audited."""
    store.change(device_id, lambda found: found and found.used(now_ms), None)


def revoke(store: DeviceStore, device_id: str, now_ms: int, by: Actor, act: Act = Act.DEVICE_REVOKED) -> None:
    """Sign a device out, or make its link useless. A device that is already revoked is not changed."""
    found: list[Device] = []

    def revoked(device: Device | None) -> Device | None:
        found.extend([device] if device else [])
        return replace(device, revoked_at=now_ms) if device and device.revoked_at is None else None

    changes = {"device": FieldChange(None, device_id)}
    entry = AuditEntry(at=now_ms, act=act, actor=by, changes=changes, detail=f"device {device_id}")
    store.change(device_id, revoked, entry)
    if not found:
        raise UnknownDevice(
            Message(
                "unknown_device",
                "there is no device {device_id} in this store. Run `counterfoil console devices` to see all.",
                device_id=device_id,
            )
        )


def _facts(device: Device) -> dict[str, FieldChange]:
    """Return what `described` says, for readers of other languages."""
    facts = {"name": device.name, "role": device.role, "device": device.device_id}
    changes = {name: FieldChange(None, value) for name, value in facts.items()}
    return changes | ({"days": FieldChange(None, device.days)} if device.days else {})


def described(device: Device) -> str:
    lasting = f", {device.days} days" if device.days else ""
    return f"device {device.device_id}, {device.name}, {device.role}{lasting}"
