"""Lets root act as the owner of a folder. That user could otherwise put links in the way, which lead root elsewhere."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = 0


@contextmanager
def acting_as_owner(folder: Path) -> Iterator[None]:
    """If root runs this process, act as the owner of a folder until the block ends. Otherwise, nothing changes.

    The groups are those of the folder and of what is in it, because a user may have groups only while a unit runs.
    """
    if os.getuid() != ROOT:
        yield
        return
    with acting_as_root():
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no folder {folder}")
        found = folder.stat()
        groups = {found.st_gid}
        for entry in os.scandir(folder):
            # A watcher may take a file out of the folder meanwhile.
            with suppress(FileNotFoundError):
                groups.add(entry.stat(follow_symlinks=False).st_gid)
    with _acting_as(found.st_uid, found.st_gid, groups):
        yield


@contextmanager
def acting_as_root() -> Iterator[None]:
    """If root runs this process, act as root again until the block ends. Otherwise, nothing changes."""
    if os.getuid() != ROOT:
        yield
        return
    with _acting_as(ROOT, os.getgid(), os.getgroups()):
        yield


@contextmanager
def _acting_as(user: int, group: int, groups: Collection[int]) -> Iterator[None]:
    if user == ROOT == os.geteuid():
        # In a container, root may have no right to become somebody else.
        yield
        return
    before = os.geteuid(), os.getegid(), os.getgroups()
    _become(user, group, groups)
    try:
        yield
    finally:
        _become(*before)


def _become(user: int, group: int, groups: Collection[int]) -> None:
    os.seteuid(ROOT)
    os.setgroups(sorted(groups))
    os.setegid(group)
    os.seteuid(user)
