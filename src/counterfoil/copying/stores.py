"""The interfaces of the source and the target of a copy."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from counterfoil.copying.tables import CopiedTable, Row
from counterfoil.domain.audit import AuditEntry


class CopyRefused(Exception):
    """The copy cannot be made or finished; the message says why and what to do."""


class CopySide(Protocol):
    """One side of a copy: a store whose rows can be read."""

    def groups(self, table: CopiedTable, since: int) -> list[Any]:
        """Return the groups of a table. For request records, return only groups from the hour `since` onwards."""

    def compared(self, table: CopiedTable, group: Any) -> Iterable[Row]:
        """Return the rows of a group. The body column is left out if the table also stores a digest of it."""

    def whole(self, table: CopiedTable, since: int) -> Iterator[tuple[Any, Row]]:
        """Yield complete rows with their groups. For request records, yield only rows from the hour `since` onwards."""


class CopySource(CopySide, Protocol):
    """The store to copy from."""

    def fingerprint(self) -> str: ...

    def retired(self) -> bool: ...

    def moved_to(self) -> str:
        """Return the address of the store that replaces this one, or "" if there is none.

        This works even if retiring the store was interrupted.
        """

    def snapshot(self) -> AbstractContextManager[int]:
        """Return a context in which everything is read from one snapshot. It yields the horizon of the snapshot."""

    def held(self) -> AbstractContextManager[int]:
        """Return a context that blocks all other writers to the source. It yields the horizon of the source."""

    def retire(self, moved_to: str) -> None:
        """Retire the source permanently, so that it no longer stamps bills, admits requests or issues keys.

        This must be called within `held`.
        """

    def picked(self, table: CopiedTable, group: Any, keys: Collection[Row] | None) -> Iterator[Row]:
        """Yield complete rows of a group: the rows with the given keys, or all rows if `keys` is None."""

    def size(self) -> int:
        """Return the approximate number of rows, for the progress bar."""

    def newest_stamp(self) -> int: ...


class CopyTarget(CopySide, Protocol):
    """The store to copy into."""

    def claim(self, fingerprint: str) -> bool:
        """Claim the target for a copy of the store with this fingerprint.

        Return False if the target is already open as a copy of that store. Raise
        `CopyRefused` if the target contains any other data.
        """

    def move(self, table: CopiedTable, group: Any, gone: Collection[Row], rows: list[Row]) -> None:
        """Delete the rows with the keys in `gone` and insert `rows`, in one transaction."""

    def clear(self, table: CopiedTable, group: Any) -> None: ...

    def open(self, fingerprint: str, horizon: int, entry: AuditEntry) -> None:
        """Open the target to services and loaders, at this horizon or later, and add `entry` to its audit log."""
