"""Open items: what waits for the operator until it is loaded, removed or resolved, on every back end."""

from counterfoil.domain.open_items import OpenItem
from counterfoil.operator_reads import OperatorReads
from counterfoil.ports import Ledger
from ports.open_store import OpenStore
from running_service import ManualClock


def load(ledger: Ledger, rejects_file: str = "", **files: int) -> int:
    """Run a load that read these files, each with this number of rejected lines, and return its number."""
    progress = ledger.begin_load("spool")
    progress.files = {name.replace("_", "."): count for name, count in files.items()}
    progress.rejected = sum(files.values())
    progress.rejects_file = progress.rejects_path = rejects_file
    progress.finished = True
    ledger.apply([], progress)
    ledger.close_loaded(progress.number, progress.loaded_files())
    return progress.number


def waiting(ledger: Ledger) -> list[dict[str, int]]:
    return [dict(item.files) for item in ledger.open_items()]


def test_a_load_with_rejected_lines_opens_one_item_that_grows_with_the_load(
    open_store: OpenStore, reads: OperatorReads
) -> None:
    progress = open_store.ledger.begin_load("spool")
    progress.rejects_file = progress.rejects_path = "spool-1.ndjson"
    for files in ({"a.ndjson": 2}, {"a.ndjson": 2, "b.ndjson": 0}, {"a.ndjson": 2, "b.ndjson": 5}):
        progress.files = files
        open_store.ledger.apply([], progress)
    (item,) = reads.open_items()
    assert (item.kind, item.load, item.lines, item.path) == ("rejects", progress.number, 7, "spool-1.ndjson")
    assert item.files == {"a.ndjson": 2, "b.ndjson": 5}


def test_rejected_lines_stay_open_until_their_rejects_file_is_loaded(open_store: OpenStore) -> None:
    load(open_store.ledger, "first.ndjson", bills_ndjson=3)
    load(open_store.ledger, other_ndjson=0)
    assert waiting(open_store.ledger) == [{"bills.ndjson": 3}]
    load(open_store.ledger, first_ndjson=0)
    assert waiting(open_store.ledger) == []


def test_lines_that_are_rejected_again_belong_to_the_later_load(open_store: OpenStore, reads: OperatorReads) -> None:
    load(open_store.ledger, "first.ndjson", bills_ndjson=3)
    again = load(open_store.ledger, "second.ndjson", first_ndjson=1)
    (item,) = reads.open_items()
    assert (item.load, item.lines) == (again, 1)


def test_each_file_of_an_item_is_closed_by_its_own_new_delivery(open_store: OpenStore) -> None:
    load(open_store.ledger, "first.ndjson", a_ndjson=1, b_ndjson=2)
    load(open_store.ledger, a_ndjson=0)
    assert waiting(open_store.ledger) == [{"b.ndjson": 2}]
    load(open_store.ledger, b_ndjson=0)
    assert waiting(open_store.ledger) == []


def test_a_later_delivery_closes_nothing_if_the_same_name_is_used_every_day(
    open_store: OpenStore, clock: ManualClock
) -> None:
    load(open_store.ledger, bills_ndjson=0)
    clock.advance(1)
    load(open_store.ledger, "first.ndjson", bills_ndjson=1)
    clock.advance(1)
    load(open_store.ledger, bills_ndjson=0)
    assert waiting(open_store.ledger) == [{"bills.ndjson": 1}]


def test_a_file_that_is_damaged_again_closes_nothing(open_store: OpenStore) -> None:
    quarantined = OpenItem(kind="quarantined", files={"bills.gz": 0}, path="/kept/quarantine/1-bills.gz", place="till")
    open_store.ledger.add_items([quarantined])
    open_store.ledger.close_loaded(1, {"bills.gz": None})
    assert waiting(open_store.ledger) == [{"bills.gz": 0}]
    open_store.ledger.close_loaded(1, {"bills.gz": 0})
    assert waiting(open_store.ledger) == []


def test_standard_input_says_nothing_about_an_earlier_delivery(open_store: OpenStore) -> None:
    load(open_store.ledger, "first.ndjson", stdin=1)
    load(open_store.ledger, stdin=0)
    assert waiting(open_store.ledger) == [{"stdin": 1}]


def test_an_item_is_closed_once(open_store: OpenStore, reads: OperatorReads) -> None:
    load(open_store.ledger, "first.ndjson", bills_ndjson=3)
    (item,) = reads.open_items()
    assert [one.closed_by for one in open_store.ledger.close_items([item.number, 77], "resolved")] == ["resolved"]
    assert open_store.ledger.close_items([item.number], "removed") == []
    assert waiting(open_store.ledger) == []


def test_items_outlive_the_hundred_loads_that_a_store_remembers(open_store: OpenStore, reads: OperatorReads) -> None:
    load(open_store.ledger, "first.ndjson", bills_ndjson=3)
    for _ in range(101):
        open_store.ledger.begin_load("more")
    assert [row.number for row in reads.loads(500)][-1] > 1
    assert waiting(open_store.ledger) == [{"bills.ndjson": 3}]


def test_only_a_held_file_can_be_decided_about_and_it_stays_open_until_that_is_done(open_store: OpenStore) -> None:
    held = OpenItem(kind="held", files={"bills.ndjson": 0}, path="/kept/held/1-bills.ndjson", place="till")
    open_store.ledger.add_items([held])
    load(open_store.ledger, "first.ndjson", other_ndjson=1)
    first, second = open_store.ledger.open_items()
    decided = open_store.ledger.decide_items([first.number, second.number], "accepted")
    assert [(item.number, item.decision) for item in decided] == [(first.number, "accepted")]
    assert [item.decision for item in open_store.ledger.open_items()] == ["accepted", None]
    open_store.ledger.close_items([first.number], "accepted")
    assert [item.number for item in open_store.ledger.open_items()] == [second.number]
