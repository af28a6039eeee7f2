"""Copies the accepted mappings of a store into a backup, and back.

Mappings decide how money is read, and a copy belongs to the user who makes it. So what others may have written is
left out: as a copy, it would be trusted. Without a mapping, an import only asks again.
"""

import hashlib
import os
from pathlib import Path

from msgspec import Struct

from counterfoil.machine.files import is_shared, open_regular, who_may_write
from counterfoil.model.text import printable

FOLDER = "mappings"
# What a shared store gives to its group: see `counterfoil.machine.files.make_folder`.
SHARED_FOLDER_MODE = 0o2770
SHARED_FILE_MODE = 0o640


class BackedUpMapping(Struct, frozen=True, rename="camel"):
    """A mapping in a backup: its size and its hash."""

    size_bytes: int
    sha256: str


def is_mapping_name(name: str) -> bool:
    return name.endswith(".toml") and Path(name).name == name and printable(name) == name


def copy_mappings(store: Path, draft: Path) -> tuple[dict[str, BackedUpMapping], list[str]]:
    """Copy the mappings of a store into a backup. Return them, and a sentence about each that was left out."""
    folder = store / FOLDER
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".toml")
    except FileNotFoundError:
        return {}, []
    except OSError as error:
        return {}, [f"{folder} cannot be read: {error.strerror}"]
    if problem := _problem(folder):
        return {}, [problem]
    mappings = {}
    left_out = []
    for path in paths:
        try:
            problem = _problem(path)
            if problem:
                left_out.append(problem)
                continue
            with open_regular(path) as file:
                content = file.read()
        except FileNotFoundError:
            # It has just been deleted.
            continue
        except OSError as error:
            left_out.append(f"{path} cannot be read: {error.strerror}")
            continue
        write_mapping(draft, path.name, content)
        mappings[path.name] = BackedUpMapping(len(content), hashlib.sha256(content).hexdigest())
    return mappings, left_out


def _problem(path: Path) -> str | None:
    """Return a sentence about why a mapping of a store, or their folder, is not copied, or None."""
    if path.is_symlink():
        return f"{path} is a link"
    if path.suffix == ".toml" and not is_mapping_name(path.name):
        return f"{printable(str(path))} has characters in its name that cannot be printed"
    return who_may_write(path, trusts_group=True)


def write_mapping(folder: Path, name: str, content: bytes) -> None:
    """Write a mapping into a new folder, for its owner only."""
    (folder / FOLDER).mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(folder / FOLDER / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def who_may_write_backup(source: Path, names: list[str]) -> str | None:
    """Return a sentence about others who may have written the mappings of a backup, or None."""
    folder = source / FOLDER
    for path in (source, folder, *(folder / name for name in names)):
        if path.is_symlink() and path != source:
            return f"{path} is a link"
        if problem := who_may_write(path):
            return problem
    return None


def put_mappings(draft: Path, store: Path) -> list[str]:
    """Move the restored mappings into the store. Return the names of those that were not moved.

    Where there was no store yet, a mapping with the same name may be there. It stays.
    """
    source, folder = draft / FOLDER, store / FOLDER
    if not source.is_dir():
        return []
    folder.mkdir(mode=0o700, exist_ok=True)
    kept = []
    for path in sorted(source.iterdir()):
        target = folder / path.name
        if not target.exists():
            path.rename(target)
        elif target.read_bytes() != path.read_bytes():
            kept.append(path.name)
    if is_shared(store):
        share_mappings(store)
    return kept


def share_mappings(store: Path) -> None:
    """Let the group of a shared store read the mappings of this user, and add others."""
    folder = store / FOLDER
    if not folder.is_dir():
        return
    for path in (folder, *folder.glob("*.toml")):
        if path.is_symlink() or os.geteuid() not in (0, path.stat().st_uid):
            continue
        path.chmod(SHARED_FOLDER_MODE if path.is_dir() else SHARED_FILE_MODE)
