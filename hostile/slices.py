"""Stores the slices of a campaign that is too long for one run, one line per slice, and combines their totals."""

from pathlib import Path

from msgspec import Struct, field, json

from hostile.campaign import Result


class Slice(Struct):
    """The totals of one run, and the load of the machine before and after it."""

    part: str
    store: str
    seed: int
    seconds: float
    load_before: float
    load_after: float
    totals: dict[str, int | float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    next_number: int = 0


class Slices:
    """The slices in a file. Without a file, slices are kept only in memory."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        lines = file.read_bytes().splitlines() if file and file.exists() else []
        self._slices = [json.decode(line, type=Slice) for line in lines]

    def add(self, done: Slice) -> None:
        self._slices.append(done)
        if self._file:
            with self._file.open("ab") as file:
                file.write(json.encode(done) + b"\n")

    def next_number(self, store: str, seed: int) -> int:
        """Return the number of the first request with this seed that has not been sent to this kind of store."""
        found = [one for one in self._slices if (one.part, one.store, one.seed) == ("requests", store, seed)]
        return max((one.next_number for one in found), default=0)

    def combined(self, part: str, store: str) -> Slice:
        """Return one part's totals for one kind of store: the sums of integers and the maxima of other numbers.

        `load_before` and `load_after` of the result are the lowest and the highest load in any of the slices.
        """
        found = [one for one in self._slices if (one.part, one.store) == (part, store)]
        result = Result(part)
        for one in found:
            for name, value in one.totals.items():
                before = result.totals.get(name, 0)
                result.totals[name] = before + value if isinstance(value, int) else max(float(before), value)
            result.faults += one.faults
        return Slice(
            part,
            store,
            seed=found[-1].seed,
            seconds=sum(one.seconds for one in found),
            load_before=min(min(one.load_before, one.load_after) for one in found),
            load_after=max(max(one.load_before, one.load_after) for one in found),
            totals=result.totals,
            faults=result.faults,
        )
