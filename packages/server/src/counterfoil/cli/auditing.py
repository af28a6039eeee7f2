"""Audit entries about the store, which commands write."""

from contextlib import closing

from counterfoil import bootstrap
from counterfoil.domain.audit import Act, AuditEntry
from counterfoil.machine.operator import operator
from counterfoil.program.clock import SystemClock
from counterfoil.program.terminal import print_note
from counterfoil.settings import Settings, display_value


def audit_entry(act: Act, detail: str, at: int | None = None) -> AuditEntry:
    return AuditEntry(at=SystemClock().now_ms() if at is None else at, act=act, actor=operator(), detail=detail)


def record_new_store(settings: Settings) -> None:
    """Write an audit entry about a new store, and print a message, because the user may have mistyped the path."""
    record(settings, Act.STORE_CREATED, "")
    print_note(f"created the store {display_value(settings, 'store')}.")


def record(settings: Settings, act: Act, detail: str, at: int | None = None) -> None:
    with closing(bootstrap.store(settings).key_store()) as audit:
        audit.record(audit_entry(act, detail, at))
