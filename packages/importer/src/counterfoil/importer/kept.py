"""Keeps what was read and tried of the latest files, so that another answer about them takes less time."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from counterfoil.importer.form import FormFiles
from counterfoil.importer.solver import ExportReading, ExportSource
from counterfoil.importing.results import RejectedRow

FACTS_OF_SHOPS = frozenset({"name", "franchiseId", "closingTime"})
"""What a mapping says about shops, and what rejects no row."""


class KeptReadings:
    """The tables, readings and rejected rows of the latest form. It is forgotten when a form of other files begins."""

    def __init__(self) -> None:
        self._key: object = None
        self._source: ExportSource | None = None
        self._readings: dict[object, ExportReading] = {}
        self._used: set[object] = set()
        self._rejected: dict[str, Sequence[RejectedRow]] = {}
        self._made = 0
        self.on_reading: Callable[[int], None] = lambda _: None
        """Called after each new reading with how many the present form has made."""

    def begin(self, files: FormFiles, *facts: object) -> ExportSource:
        """Return the tables of the files, which are those of the last form if neither files nor facts have changed."""
        key = (_identity(files), facts)
        if self._source is None or key != self._key:
            self.forget()
            self._key, self._source = key, ExportSource(files)
        self._used = set()
        self._made = 0
        return self._source

    def reading(self, key: object, make: Callable[[], ExportReading]) -> ExportReading:
        self._used.add(key)
        if key not in self._readings:
            try:
                self._readings[key] = make()
            finally:
                self._made += 1
                self.on_reading(self._made)
        return self._readings[key]

    def rejected(self, mapping: Mapping[str, Any], make: Callable[[], Sequence[RejectedRow]]) -> Sequence[RejectedRow]:
        """Return the rows that a mapping rejects, which what it says about shops and their groups does not change."""
        key = repr(_without_facts_of_shops(mapping))
        if key not in self._rejected:
            self._rejected[key] = make()
        return self._rejected[key]

    def finish(self) -> None:
        """Keep only the readings of the present form, of which the next answer needs some."""
        self._readings = {key: reading for key, reading in self._readings.items() if key in self._used}

    def forget(self) -> None:
        self._key = self._source = None
        self._readings.clear()
        self._rejected.clear()


def _identity(files: FormFiles) -> object:
    """Return what changes when a file is replaced or written again."""
    found: list[object] = []
    for kind in (files.bills, files.lines, files.payments):
        for path in kind:
            status = path.stat()
            found.append((path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))
        found.append(None)
    return found


def _without_facts_of_shops(mapping: Mapping[str, Any]) -> dict[str, Any]:
    rest = _without(mapping, ("answers", "accepted"))
    shops = rest.get("shop")
    if shops:
        tables = shops if isinstance(shops, list) else [shops]
        rest["shop"] = [_without(table, FACTS_OF_SHOPS) for table in tables]
    return rest


def _without(entries: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in entries.items() if name not in names}
