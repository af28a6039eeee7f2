"""Finds recent changes that somebody else made to a key, before the key is updated or rotated.

A change that the same operator made in the console counts as somebody else's.
"""

import sys
from typing import NamedTuple

from msgspec.structs import replace

from counterfoil import bootstrap
from counterfoil.cli.terminal import confirm, is_terminal
from counterfoil.domain.access import Key
from counterfoil.domain.audit import Act, Actor, FieldValue, field_changes
from counterfoil.domain.calendar import HOUR_MS
from counterfoil.domain.messages import duration
from counterfoil.key_issuing import KeyChanges, KeyIssuingError
from counterfoil.settings import Settings

# How long a change counts as recent, and how many of the key's latest audit entries are searched for recent changes.
RECENT_MS, RECENT_ENTRIES = HOUR_MS, 100


class RecentValue(NamedTuple):
    """A value that somebody else set recently, and the value that replaces it."""

    description: str
    replacement: str


def recent_values(settings: Settings, key: Key, changes: KeyChanges, now: int, by: Actor) -> list[RecentValue]:
    """Return the values that somebody else set recently and that this update replaces."""
    planned = field_changes(key, replace(key, **changes.changed_fields()))
    entries = bootstrap.operator_reads(settings).audit(RECENT_ENTRIES, key.key_id, now - RECENT_MS)
    found = []
    for name in sorted(planned):
        latest = next((entry for entry in entries if entry.act == Act.KEY_CHANGED and name in entry.changes), None)
        if latest is None or (latest.actor.name, latest.actor.via) == (by.name, by.via):
            continue
        before, after = latest.changes[name].before, latest.changes[name].after
        description = (
            f"{duration(now - latest.at)} ago, {latest.actor.name} ({latest.actor.via}) "
            f"changed {name} from {_value(before)} to {_value(after)}."
        )
        found.append(RecentValue(description, _value(planned[name].after)))
    return found


def successors_by_others(settings: Settings, key_id: str, now: int, by: Actor) -> set[FieldValue]:
    """Return the IDs of the successors that somebody else recently issued by rotating the key."""
    entries = bootstrap.operator_reads(settings).audit(RECENT_ENTRIES, key_id, now - RECENT_MS)
    return {
        entry.changes["successor"].after
        for entry in entries
        if entry.act == Act.KEY_ROTATED and (entry.actor.name, entry.actor.via) != (by.name, by.via)
    }


def confirm_replacement(replaced: list[RecentValue]) -> None:
    """Ask whether to replace each value, and abort if the answer is no. Raise if there is no terminal."""
    for value in replaced:
        if not is_terminal(sys.stdin):
            raise KeyIssuingError(
                f"{value.description} Nothing was changed. "
                f"To replace that value with {value.replacement}, run the command with --yes."
            )
        confirm(f"{value.description} Replace it with {value.replacement}?")


def _value(value: FieldValue) -> str:
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else value if isinstance(value, str) else " ".join(value)
