"""An operator for tests that change keys, and an audit hook that records nothing."""

from counterfoil.domain.access import Key
from counterfoil.domain.audit import Actor, AuditEntry

OPERATOR = Actor("alice", "cli", "back-office")


def unrecorded(before: Key, after: Key) -> AuditEntry | None:
    """Return None, so that the change is not recorded in the audit log."""
    return None
