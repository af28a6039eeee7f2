"""Writes an audit entry about a command that changed the store as a whole."""

from contextlib import closing

from counterfoil import bootstrap
from counterfoil.domain.audit import Act, AuditEntry
from counterfoil.machine.clock import SystemClock
from counterfoil.machine.operator import operator
from counterfoil.settings import Settings


def audit_entry(act: Act, detail: str) -> AuditEntry:
    """Return an audit entry for an act of the user who runs this command."""
    return AuditEntry(at=SystemClock().now_ms(), act=act, actor=operator(), detail=detail)


def record(settings: Settings, act: Act, detail: str) -> None:
    with closing(bootstrap.audit(settings)) as audit:
        audit.record(audit_entry(act, detail))
