"""The files of `counterfoil import`, as another process can read them."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from counterfoil.importer.protocol import InputFile, Kind


def input_files(
    bills: Sequence[Path], lines: Sequence[Path], payments: Sequence[Path], folder: Path
) -> list[InputFile]:
    """Return the files of an export. Copies of pipes are in the folder."""
    files: list[InputFile] = []
    kinds: list[tuple[Kind, Sequence[Path]]] = [("bills", bills), ("lines", lines), ("payments", payments)]
    for kind, paths in kinds:
        for path in paths:
            files.append(InputFile(str(_readable(path.absolute(), folder / str(len(files)))), kind))
    return files


def _readable(path: Path, folder: Path) -> Path:
    """Return a file or, of a pipe, a copy in a new folder, because another process could not open or reread it."""
    if path.is_file():
        return path
    copy = folder / path.name
    if not copy.exists():
        folder.mkdir()
        with path.open("rb") as pipe, copy.open("wb") as file:
            shutil.copyfileobj(pipe, file)
    return copy
