"""Lists the files that were not loaded or were empty."""

from collections.abc import Sequence
from pathlib import Path

from counterfoil.ingest.sources import Source
from counterfoil.ingest.watching import not_source
from counterfoil.text import printable

# The printed summary is kept short; `--json` lists every file.
MAX_NAMES = 10


def why_not_loaded(records: Source) -> dict[Path, str]:
    """Return every file that was not loaded, except unfinished ones, with the reason."""
    refused = {path: f"{printable(path.name)} is {kind}." for path, kind in records.refused.items()}
    return {**records.damage, **{path: not_source(path.name) for path in records.ignored}, **refused}


def file_rows(records: Source, quarantined: Sequence[Path]) -> list[tuple[str, str]]:
    """Return the summary's rows about files that were not loaded, are empty or were quarantined."""
    return [
        *_rows("cannot be read", _names(list(records.damage))),
        *_rows("not loaded", [f"{name} (not a source record file)" for name in _names(records.ignored)]),
        *_rows("not loaded", [f"{printable(path.name)} ({kind})" for path, kind in records.refused.items()]),
        *_rows("not loaded", [f"{name} (still being written)" for name in _names(records.unfinished)]),
        *_rows("empty", records.empty),
        *_rows("quarantined", [str(path) for path in quarantined]),
    ]


def file_view(records: Source, quarantined: Sequence[Path]) -> dict[str, object]:
    """Return the files that were not loaded, are empty or were quarantined, as `--json` prints them."""
    return {
        "unreadableFiles": _names(list(records.damage)),
        "ignoredFiles": _names(records.ignored),
        "refusedFiles": _names(list(records.refused)),
        "unfinishedFiles": _names(records.unfinished),
        "emptyFiles": records.empty,
        "quarantined": [str(path) for path in quarantined],
    }


def _names(paths: Sequence[Path]) -> list[str]:
    return [printable(path.name) for path in paths]


def _rows(label: str, names: Sequence[str]) -> list[tuple[str, str]]:
    rows = [(label, name) for name in names[:MAX_NAMES]]
    if len(names) > MAX_NAMES:
        rows.append((label, f"{len(names) - MAX_NAMES:,} more; --json lists them"))
    return rows
