"""Records in the audit what a command did to the store as a whole."""

from contextlib import closing

from counterfoil import bootstrap
from counterfoil.domain.audit import Act, AuditEntry
from counterfoil.machine.clock import SystemClock
from counterfoil.machine.operator import operator
from counterfoil.settings import Settings


def audit_entry(act: Act, detail: str) -> AuditEntry:
    """Return the entry for what the user who runs this command does now."""
    return AuditEntry(at=SystemClock().now_ms(), act=act, actor=operator(), detail=detail)


def record(settings: Settings, act: Act, detail: str) -> None:
    with closing(bootstrap.audit(settings)) as audit:
        audit.record(audit_entry(act, detail))
