"""Lists the files that were not loaded or were empty, and moves files to quarantine."""

from collections.abc import Sequence
from pathlib import Path

from counterfoil.ingest.sources import Source, printable_name
from counterfoil.ingest.spool import move

# The printed summary is kept short; `--json` lists every file.
MAX_NAMES = 10


def move_to_quarantine(paths: Sequence[Path], folder: Path) -> list[Path]:
    """Move files to the quarantine folder, which is created with mode 0700 if needed, and return their new paths."""
    return [moved for path in paths if (moved := move(path, folder))]


def file_rows(records: Source, quarantined: Sequence[Path]) -> list[tuple[str, str]]:
    """Return the summary's rows about files that were not loaded, are empty or were quarantined."""
    return [
        *_rows("cannot be read", _names(records.unreadable)),
        *_rows("not loaded", [f"{name} (not a source record file)" for name in _names(records.ignored)]),
        *_rows("not loaded", [f"{name} (still being written)" for name in _names(records.unfinished)]),
        *_rows("empty", records.empty),
        *_rows("quarantined", [str(path) for path in quarantined]),
    ]


def file_view(records: Source, quarantined: Sequence[Path]) -> dict[str, object]:
    """Return the files that were not loaded, are empty or were quarantined, as `--json` prints them."""
    return {
        "unreadableFiles": _names(records.unreadable),
        "ignoredFiles": _names(records.ignored),
        "unfinishedFiles": _names(records.unfinished),
        "emptyFiles": records.empty,
        "quarantined": [str(path) for path in quarantined],
    }


def _names(paths: Sequence[Path]) -> list[str]:
    return [printable_name(path.name) for path in paths]


def _rows(label: str, names: Sequence[str]) -> list[tuple[str, str]]:
    rows = [(label, name) for name in names[:MAX_NAMES]]
    if len(names) > MAX_NAMES:
        rows.append((label, f"{len(names) - MAX_NAMES:,} more; --json lists them"))
    return rows
