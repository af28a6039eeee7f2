"""Replaces the ledger and the rejects file with objects that write nothing, so that a delivery is only checked."""

from collections.abc import Callable, Sequence
from pathlib import Path

from counterfoil.domain.changes import Change, KnownFacts, Outcome, PutShop
from counterfoil.domain.intake import Intake, LoadProgress
from counterfoil.ingest.lines import Rejected, SourceLine
from counterfoil.ingest.pipeline import RejectsFile

MAX_EXAMPLES = 10


class CheckingLedger:
    """A ledger that remembers the shops of a delivery but writes nothing.

    `stored_facts` returns the facts of a shop in the store, and `intake`
    returns the counts of earlier loads. Every outcome is `UNCHANGED`, because
    only a load can tell whether a record would be added or changed.
    """

    def __init__(self, stored_facts: Callable[[str], KnownFacts | None], intake: Callable[[], Intake]) -> None:
        self._intake = intake
        self._stored_facts = stored_facts
        self._delivered: dict[str, KnownFacts] = {}

    def facts(self, shop_id: str) -> KnownFacts | None:
        return self._delivered.get(shop_id) or self._stored_facts(shop_id)

    def begin_load(self, source: str) -> LoadProgress:  # noqa: ARG002 - a check is not recorded as a load
        return LoadProgress(0)

    def stop_load(self, number: int, changed: int) -> None:
        """Do nothing: a check is not recorded as a load."""

    def apply(self, changes: Sequence[Change], progress: LoadProgress | None = None) -> list[Outcome]:  # noqa: ARG002
        for change in changes:
            if isinstance(change, PutShop):
                self._delivered[change.shop.shop_id] = KnownFacts(0, change.facts)
        return [Outcome.UNCHANGED] * len(changes)

    def rewrite_bills(self, most: int) -> bool:  # noqa: ARG002 - nothing is rewritten
        return False

    def change_intake(self, change: Callable[[Intake, int], Intake]) -> Intake:
        return change(self._intake(), 0)

    def report_watched_folder(self, name: str, files: int, quarantined: int, *, is_stopped: bool = False) -> None:
        """Do nothing: a check does not watch a folder."""

    def advance_horizon(self) -> int:
        return 0


class RejectExamples(RejectsFile):
    """Keeps the line numbers and reasons of the first rejects for the summary. It does not write a file."""

    def __init__(self) -> None:
        super().__init__(Path())
        self.examples: list[dict[str, object]] = []

    def add(self, line: SourceLine, rejected: Rejected) -> None:
        if len(self.examples) < MAX_EXAMPLES:
            found = {"source": line.source, "line": line.number, "reason": rejected.reason}
            self.examples.append({**found, "fields": list(rejected.fields)})
