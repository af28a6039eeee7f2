"""The audit log: who changed keys or the store, what changed, and when."""

from collections.abc import Iterator, Mapping, Sequence

from counterfoil.domain.audit import Act, AuditEntry, FieldValue
from counterfoil.model.calendar import iso_utc
from counterfoil.model.text import translatable
from counterfoil.program.columns import DATA, ListColumn
from counterfoil.program.times import instant, minute

# Fields whose values are times in UTC.
TIMES = ("revokesAt", "revokedAt")


def value_text(value: FieldValue, nothing: str = "none") -> str:
    """Return the value of a field as text. `nothing` stands for a missing value."""
    if value is None:
        return nothing
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else " ".join(value)


def shown_value(field: str, value: FieldValue, nothing: str = "none") -> str:
    """Return the value of a field as people see it: a time in the zone of the setting `timezone`."""
    if field in TIMES and isinstance(value, str):
        return minute(instant(value, None))
    return value_text(value, nothing)


def changed_values(entry: AuditEntry) -> Iterator[tuple[str, list[FieldValue]]]:
    """Yield each changed field with its value or, if it had one, both; not the time of the entry again."""
    for name, change in entry.changes.items():
        if change.after != iso_utc(entry.at):
            is_new = change.before is None and entry.act != Act.KEY_CHANGED
            yield name, [change.after] if is_new else [change.before, change.after]


def _changes(entry: AuditEntry) -> list[str]:
    changes = []
    for name, values in changed_values(entry):
        texts = [value_text(value, "–") for value in values]
        changes.append(f"{name}: {' → '.join(texts)}")
    return changes


def _shown_changes(entry: AuditEntry) -> list[str]:
    changes = []
    for name, values in changed_values(entry):
        texts = [shown_value(name, value) for value in values]
        changes.append(f"{name} {' -> '.join(texts)}")
    return changes


COLUMNS: Sequence[ListColumn[AuditEntry]] = (
    ListColumn("at", kind="time", terminal="time", page=translatable("Time"), other_names={"csv": "time_utc"}),
    ListColumn("act", terminal="act", page=translatable("Action"), text=lambda entry: entry.act.replace("_", " ")),
    ListColumn("actor", lambda entry: entry.actor.name, terminal="actor", page=translatable("Who")),
    ListColumn("via", lambda entry: entry.actor.via, terminal="via"),
    ListColumn("host", lambda entry: entry.actor.host, terminal="host"),
    ListColumn("keyId", kind="key", terminal="key ID", page=translatable("Key"), text=lambda entry: entry.key_id or ""),
    ListColumn("changes", without=("console", "csv")),
    ListColumn(
        "changed",
        _changes,
        terminal="changes",
        page=translatable("What changed"),
        other_names={"console": "changes"},
        text=lambda entry: entry.detail or "; ".join(_shown_changes(entry)) or "-",
        without=("json", "csv"),
    ),
    ListColumn("changes", lambda entry: "; ".join(_changes(entry)) or entry.detail, without=("json", "console")),
    ListColumn("detail", without=("csv",)),
)


def with_labels(labels: Mapping[str, str]) -> Sequence[ListColumn[AuditEntry]]:
    """Return the columns with the labels of the keys, which a terminal shows beside their IDs."""

    def label(entry: AuditEntry) -> str:
        return labels.get(entry.key_id or "", "")

    return (*COLUMNS[:6], ListColumn("label", label, terminal="label", text=label, without=DATA), *COLUMNS[6:])
