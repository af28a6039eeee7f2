"""Writes an audit entry about a command that changed the store as a whole."""

from contextlib import closing

from counterfoil import bootstrap
from counterfoil.cli.terminal import print_note
from counterfoil.domain.audit import Act, AuditEntry
from counterfoil.machine.clock import SystemClock
from counterfoil.machine.operator import operator
from counterfoil.settings import Settings, display_value


def audit_entry(act: Act, detail: str) -> AuditEntry:
    """Return an audit entry for an action of the user who runs this command."""
    return AuditEntry(at=SystemClock().now_ms(), act=act, actor=operator(), detail=detail)


def is_without_store(settings: Settings) -> bool:
    """Return whether the store is embedded and does not exist yet. The command then creates it."""
    return not settings.database and not bootstrap.store(settings).exists()


def record_new_store(settings: Settings) -> None:
    """Write an audit entry about a new store, and print a message, because the user may have mistyped the path."""
    record(settings, Act.STORE_CREATED, "")
    print_note(f"created the store {display_value(settings, 'store')}.")


def record(settings: Settings, act: Act, detail: str) -> None:
    with closing(bootstrap.audit(settings)) as audit:
        audit.record(audit_entry(act, detail))
