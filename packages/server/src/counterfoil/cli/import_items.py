"""The files of open items that `counterfoil import --item` reads."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from msgspec.structs import replace

from counterfoil import bootstrap
from counterfoil.domain.open_items import OpenItem, joined
from counterfoil.machine.operator import machine_name
from counterfoil.settings import Settings


def item_to_import(settings: Settings, number: int) -> OpenItem:
    """Return the file of the open item with this number, or the first one that can be imported if it has several.

    Raise `UsageError` if none can.
    """
    for item in _open_items(settings):
        if item.number == number:
            files = [part for part in item.parts if _has_file(part)]
            if not files:
                raise click.UsageError(f"{item.title} has no file on this machine that can be imported.")
            for part in files:
                if not _is_changed(part):
                    return replace(part, number=item.number)
            raise click.UsageError(f"{item.title}: the file was changed since it was delivered. Deliver it again.")
    raise click.UsageError(f"There is no open item {number}. `counterfoil loads open` lists them.")


def unanswered_items(settings: Settings) -> Iterator[OpenItem]:
    """Yield the files that wait for answers, and are here as they were delivered, with their item's number."""
    for item in _open_items(settings):
        for part in item.parts:
            if part.kind == "needs_answers" and _has_file(part) and not _is_changed(part):
                yield replace(part, number=item.number)


def _open_items(settings: Settings) -> Sequence[OpenItem]:
    return [] if bootstrap.is_without_store(settings) else joined(bootstrap.store(settings).reads().open_items())


def _has_file(item: OpenItem) -> bool:
    is_here = item.machine == machine_name() and Path(item.path).is_file()
    return is_here and item.kind in ("quarantined", "needs_answers")


def _is_changed(item: OpenItem) -> bool:
    """Return whether a file that waits for answers is not the one that was delivered."""
    if not item.digest:
        return False
    with Path(item.path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() != item.content_digest
