"""The interface of the two stores of a copy."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from counterfoil.copying.tables import CopiedTable, Row


class CopyRefused(Exception):
    """The copy cannot be made or finished; the message says why and what to do."""


class CopySide(Protocol):
    """A store whose rows can be read."""

    def groups(self, table: CopiedTable, since: int) -> list[Any]:
        """Return the groups of a table; for request records, only from the hour `since` on."""

    def compared(self, table: CopiedTable, group: Any) -> Iterable[Row]:
        """Return the rows of a group, without the body of a sealed table."""

    def whole(self, table: CopiedTable, since: int) -> Iterator[tuple[Any, Row]]:
        """Yield every whole row with its group; for request records, only from the hour `since` on."""


class CopySource(CopySide, Protocol):
    """The store to copy from."""

    def fingerprint(self) -> str: ...

    def retired(self) -> bool: ...

    def moved_to(self) -> str:
        """Return the address that replaces this store, even if retiring it did not finish; empty if there is none."""

    def snapshot(self) -> AbstractContextManager[int]:
        """Read everything in this context as of one moment; the context value is the horizon of that moment."""

    def held(self) -> AbstractContextManager[int]:
        """Block all other writers to the source in this context; the context value is its horizon."""

    def retire(self, moved_to: str) -> None:
        """Retire the held source permanently: it no longer stamps bills, admits requests or issues keys."""

    def picked(self, table: CopiedTable, group: Any, keys: Collection[Row] | None) -> Iterator[Row]:
        """Yield the whole rows of a group: those with these keys, or all if `keys` is None."""

    def size(self) -> int:
        """Return the approximate number of rows, for the progress bar."""

    def newest_stamp(self) -> int: ...


class CopyTarget(CopySide, Protocol):
    """The store to copy into."""

    def claim(self, fingerprint: str) -> bool:
        """Claim the target as the copy of this store; return False if it already is that copy and open.

        Raise `CopyRefused` if the target holds anything else.
        """

    def move(self, table: CopiedTable, group: Any, gone: Collection[Row], rows: list[Row]) -> None:
        """Delete the rows with the keys in `gone` and insert `rows`, in one transaction."""

    def clear(self, table: CopiedTable, group: Any) -> None: ...

    def open(self, fingerprint: str, horizon: int) -> None:
        """Open the target to services and loaders, at this horizon or a later one."""
