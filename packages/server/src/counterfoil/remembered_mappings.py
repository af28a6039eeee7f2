"""Where accepted mappings are kept, so that the next file with the same headings asks nothing.

Whoever may write to the folder decides how money is read, so it must belong to the user or to root. In a store that is
shared, it may also belong to the other user, who may write the books anyway.
"""

import hashlib
import os
import re
import tomllib
from pathlib import Path

from msgspec import json

from counterfoil.backends.sqlite.mappings import FOLDER
from counterfoil.importer.form import Form
from counterfoil.importing.results import ImportFailed
from counterfoil.machine.files import draft_of, is_shared, make_folder, open_output, who_may_write
from counterfoil.model.text import printable
from counterfoil.settings import Settings

MAX_NAME = 60
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


def remember(settings: Settings, given: Path | None, export: Path, form: Form) -> Path:
    """Write an accepted mapping where mappings are looked up, and return its path. The caller records who did."""
    used = [column.heading for column in form.columns if column.standing != "unread"]
    headings = json.encode(used).decode()
    name = json.encode(mapping_name(export).removesuffix(".toml")).decode()
    mapping = f"{form.mapping}\n[recognise]\nname = {name}\ncolumns = {headings}\n"
    folder = given or settings.store / FOLDER
    make_folder(folder)
    path = _same_headings(folder, mapping) or folder / mapping_name(export)
    if path.exists() and _headings(path.read_text("utf-8")) != _headings(mapping):
        # Two exports of the same name have different columns, and neither mapping may replace the other.
        digest = hashlib.sha256(mapping.encode()).hexdigest()[:8]
        path = folder / f"{path.stem}-{digest}.toml"
    with draft_of(path) as draft, open_output(draft, name=path) as file:
        file.write(mapping.encode())
        if is_shared(folder):
            # The user who watches a folder reads it, whatever the umask is.
            os.fchmod(file.fileno(), 0o640)
    return path


def _same_headings(folder: Path, mapping: str) -> Path | None:
    """Return the mapping that is recognised by the same headings, which the new one replaces."""
    for path in sorted(folder.glob("*.toml")):
        if _headings(path.read_text("utf-8")) == _headings(mapping):
            return path
    return None


def _headings(mapping: str) -> set[str] | None:
    """Return the headings by which a mapping is recognised, or None if it cannot be read."""
    try:
        return set(tomllib.loads(mapping).get("recognise", {}).get("columns", ()))
    except tomllib.TOMLDecodeError:
        return None


def mapping_name(export: Path) -> str:
    """Return the name of the mapping for an export. Digits that differ from file to file, such as a date, go."""
    words = _NOT_IN_NAMES.sub("-", re.sub(r"\d+", "", export.stem)).strip("-_")
    return f"{printable(words)[:MAX_NAME].lower() or 'export'}.toml"
