"""The part of a load's summary about files that were not read or are empty, and the quarantine of such files."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from counterfoil.ingest.sources import Source, printable_name

# The printed summary is kept short; `--json` lists every file.
MAX_NAMES = 10


def move_to_quarantine(paths: Sequence[Path], folder: Path) -> list[Path]:
    """Move files to a folder that only the owner can read, and return their new paths."""
    moved = []
    for path in paths:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        target, number = folder / path.name, 1
        while target.exists():
            number += 1
            target = folder / f"{path.name}.{number}"
        shutil.move(path, target)
        moved.append(target)
    return moved


def file_rows(records: Source, quarantined: Sequence[Path]) -> list[tuple[str, str]]:
    """Return the rows of the summary about files."""
    return [
        *_rows("cannot be read", _names(records.unreadable)),
        *_rows("not loaded", [f"{name} (not a source record file)" for name in _names(records.ignored)]),
        *_rows("empty", records.empty),
        *_rows("quarantined", [str(path) for path in quarantined]),
    ]


def file_view(records: Source, quarantined: Sequence[Path]) -> dict[str, object]:
    """Return the same information in the form that `--json` prints."""
    return {
        "unreadableFiles": _names(records.unreadable),
        "ignoredFiles": _names(records.ignored),
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
