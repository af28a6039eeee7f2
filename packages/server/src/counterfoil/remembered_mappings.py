"""Where accepted mappings are kept, so that the next file with the same headings asks nothing.

Whoever may write to the folder decides how money is read, so it must belong to the user or to root. In a store that is
shared, it may also belong to the other user, who may write the books anyway.
"""

import hashlib
import os
import re
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Final

from msgspec import json

from counterfoil.backends.sqlite.mappings import FOLDER
from counterfoil.importer.form import Form
from counterfoil.importer.protocol import Kind
from counterfoil.importing.formats import built_in_tables, own_tables
from counterfoil.importing.mapping import parse_mapping
from counterfoil.importing.results import ImportFailed
from counterfoil.importing.sorted_rows import LINE, PAYMENT
from counterfoil.importing.tables import required_columns
from counterfoil.machine.files import draft_of, is_shared, make_folder, open_output, who_may_write
from counterfoil.model.text import printable
from counterfoil.settings import Settings

MAX_NAME = 60
ONLY_BILLS: Final[tuple[Kind, ...]] = ("bills",)
_NOT_IN_NAMES = re.compile(r"[^\w-]+")


def mappings_folder(settings: Settings, given: Path | None) -> Path | None:
    """Return the folder of mappings that was given, or the store's own one if it exists. Raise if others may write."""
    folder = given or settings.store / FOLDER
    if not folder.is_dir():
        return None
    for path in (folder, *sorted(folder.glob("*.toml"))):
        problem = who_may_write(path, trusts_group=given is None)
        if problem:
            raise ImportFailed(f"{problem}, and mappings decide how money is read. Change its owner or mode.")
    return folder


def watched_mappings(settings: Settings, given: Path | None) -> Path | None:
    """Return the folder of mappings for a watcher. The store's own one is created, so that answers take effect."""
    if given is None and settings.store.is_dir():
        make_folder(settings.store / FOLDER)
    return mappings_folder(settings, given)


def remember(
    settings: Settings, given: Path | None, export: Path, form: Form, kinds: Collection[Kind] = ONLY_BILLS
) -> Path:
    """Write an accepted mapping where mappings are looked up, and return its path. The caller records who did.

    `kinds` is what the files have, if the lines or payments of the bills are in files of their own. Then the mapping is
    recognised by the headings of all of them.
    """
    mapping = f"{form.mapping}\n{_recognise_section(export, form, kinds)}"
    folder = given or settings.store / FOLDER
    make_folder(folder)
    path = _same_headings(folder, mapping) or folder / mapping_name(export)
    if path.exists() and _headings(path.read_text("utf-8")) != _headings(mapping):
        # Two exports of the same name have different columns, and neither mapping may replace the other.
        digest = hashlib.sha256(mapping.encode()).hexdigest()[:8]
        path = folder / f"{path.stem}-{digest}.toml"
    _write(path, mapping)
    return path


def remember_order(settings: Settings, given: Path | None, titles: Collection[str], order: str) -> list[Path]:
    """Write in which order the dates of known tables are, and return the paths. The caller records who said it.

    A mapping without an ID only changes the table of this name and with these headings.
    """
    folder = given or settings.store / FOLDER
    make_folder(folder)
    paths = []
    for title in titles:
        tables = [table for table in (*own_tables(folder), *built_in_tables()) if table.has_id]
        same_name = [table.recognition for table in tables if table.recognition.name == title]
        # Of two mappings with the same name, nothing says which one read the file.
        if len(same_name) != 1:
            continue
        [recognition] = same_name
        name, columns = json.encode(recognition.name).decode(), json.encode(recognition.columns).decode()
        path = folder / mapping_name(Path(f"{title} dates"))
        _write(path, f'[recognise]\nname = {name}\ncolumns = {columns}\n\n[dates]\norder = "{order}"\n')
        paths.append(path)
    return paths


def _write(path: Path, mapping: str) -> None:
    with draft_of(path) as draft, open_output(draft, name=path) as file:
        file.write(mapping.encode())
        if is_shared(path.parent):
            # The user who watches a folder reads it, whatever the umask is.
            os.fchmod(file.fileno(), 0o640)


def _recognise_section(export: Path, form: Form, kinds: Collection[Kind]) -> str:
    """Return the section of a mapping that says which files it is for."""
    entries: dict[str, object] = {
        "name": mapping_name(export).removesuffix(".toml"),
        "columns": [column.heading for column in form.columns if column.standing != "unread"],
    }
    if "lines" in kinds or "payments" in kinds:
        mapping = parse_mapping(tomllib.loads(form.mapping), export.name)
        has_lines = "lines" in kinds
        if has_lines:
            entries["lines"] = required_columns(mapping, LINE, is_flat=False)
        if "payments" in kinds:
            entries["payments"] = required_columns(mapping, PAYMENT, is_flat=not has_lines)
    lines = [f"{name} = {json.encode(value).decode()}" for name, value in entries.items()]
    return "\n".join(["[recognise]", *lines, ""])


def _same_headings(folder: Path, mapping: str) -> Path | None:
    """Return the mapping that is recognised by the same headings, which the new one replaces."""
    for path in sorted(folder.glob("*.toml")):
        if _headings(path.read_text("utf-8")) == _headings(mapping):
            return path
    return None


def _headings(mapping: str) -> list[set[str]] | None:
    """Return the headings by which a mapping recognises bills, lines and payments, or None if it cannot be read."""
    try:
        section = tomllib.loads(mapping).get("recognise", {})
    except tomllib.TOMLDecodeError:
        return None
    return [set(section.get(entry, ())) for entry in ("columns", "lines", "payments")]


def mapping_name(export: Path) -> str:
    """Return the name of the mapping for an export. Digits that differ from file to file, such as a date, go."""
    words = _NOT_IN_NAMES.sub("-", re.sub(r"\d+", "", export.stem)).strip("-_")
    return f"{printable(words)[:MAX_NAME].lower() or 'export'}.toml"
