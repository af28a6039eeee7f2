"""Open items: what waits for the operator until its own file is loaded or it is closed by hand, on every back end."""

from msgspec.structs import replace

from counterfoil.domain.loads import RejectedLine
from counterfoil.domain.open_items import OpenItem
from counterfoil.operator_reads import OperatorReads
from ports.backends import OpenLedger
from ports.open_store import OpenStore

FIRST, SECOND = "20261117T104200Z-5f3a9c01-bills.ndjson", "20261117T104200Z-5f3a9c02-bills.ndjson"


def load(ledger: OpenLedger, rejects_file: str = "", **files: int) -> int:
    """Run a load that read these files, each with this number of rejected lines, and return its number."""
    return load_files(ledger, rejects_file, {f"{name}.ndjson": count for name, count in files.items()})


def load_files(ledger: OpenLedger, rejects_file: str, files: dict[str, int]) -> int:
    progress = ledger.begin_load("spool")
    progress.files = files
    for line in range(sum(files.values())):
        progress.add_reject(RejectedLine("spool", line, "no_shop"))
    progress.rejects_file, progress.rejects_path = rejects_file, f"/store/rejects/{rejects_file}"
    progress.finished = True
    ledger.apply([], progress)
    ledger.close_loaded(dict.fromkeys(files, 3))
    return progress.number


def held(name: str = FIRST) -> OpenItem:
    return OpenItem(identity=name, kind="held", files={"bills.ndjson": 0}, path=f"/kept/held/{name}", machine="till")


def waiting(reads: OperatorReads) -> list[dict[str, int]]:
    return [dict(item.files) for item in reads.open_items()]


def test_a_load_with_rejected_lines_opens_one_item_that_grows_with_the_load(open_store: OpenStore) -> None:
    progress = open_store.ledger.begin_load("spool")
    progress.rejects_file, progress.rejects_path = FIRST, f"/store/rejects/{FIRST}"
    for files in ({"a.ndjson": 2}, {"a.ndjson": 2, "b.ndjson": 0}, {"a.ndjson": 2, "b.ndjson": 5}):
        progress.files = files
        open_store.ledger.apply([], progress)
    (item,) = open_store.reads.open_items()
    assert (item.kind, item.load, item.lines) == ("rejects", progress.number, 7)
    assert item.path == f"/store/rejects/{FIRST}"
    assert item.files == {"a.ndjson": 2, "b.ndjson": 5}


def test_rejected_lines_stay_open_until_their_own_rejects_file_is_loaded(open_store: OpenStore) -> None:
    load(open_store.ledger, FIRST, bills=3)
    load(open_store.ledger, SECOND, bills=2)
    load(open_store.ledger, bills=0)
    assert waiting(open_store.reads) == [{"bills.ndjson": 3}, {"bills.ndjson": 2}]
    load_files(open_store.ledger, "", {FIRST: 0})
    assert waiting(open_store.reads) == [{"bills.ndjson": 2}]


def test_lines_that_are_rejected_again_belong_to_the_later_load_with_their_age_and_delivered_names(
    open_store: OpenStore,
) -> None:
    load(open_store.ledger, FIRST, bills=2, others=1)
    (first,) = open_store.reads.open_items()
    open_store.clock.advance(3_600)
    later = load_files(open_store.ledger, SECOND, {FIRST: 2, "new.ndjson": 1})
    (again,) = open_store.reads.open_items()
    assert (again.load, again.lines, again.opened_at) == (later, 3, first.opened_at)
    assert again.files == {"bills.ndjson, others.ndjson": 2, "new.ndjson": 1}


def test_a_rejects_file_with_a_name_of_the_operator_closes_nothing(open_store: OpenStore) -> None:
    load(open_store.ledger, "rejects.ndjson", bills=3)
    load(open_store.ledger, "rejects.ndjson", other=1)
    load(open_store.ledger, rejects=0)
    assert waiting(open_store.reads) == [{"bills.ndjson": 3}, {"other.ndjson": 1}]


def test_a_file_that_was_not_read_to_its_end_is_not_loaded(open_store: OpenStore) -> None:
    open_store.ledger.add_items([replace(held(), kind="quarantined")])
    open_store.ledger.close_loaded({SECOND: 9})
    assert waiting(open_store.reads) == [{"bills.ndjson": 0}]
    open_store.ledger.close_loaded({FIRST: 9})
    assert waiting(open_store.reads) == []


def test_a_part_of_a_rejects_file_does_not_close_its_item(open_store: OpenStore) -> None:
    load(open_store.ledger, FIRST, bills=3, other=2)
    open_store.ledger.close_loaded({FIRST: 4})
    assert waiting(open_store.reads) == [{"bills.ndjson": 3, "other.ndjson": 2}]
    open_store.ledger.close_loaded({FIRST: 5})
    assert waiting(open_store.reads) == []


def test_a_kept_file_has_one_item_which_stays_closed(open_store: OpenStore) -> None:
    ledger = open_store.ledger
    ledger.add_items([held(), held(SECOND)])
    ledger.add_items([replace(held(), machine="another-pod", path=f"/mnt/held/{FIRST}")])
    first, second = open_store.reads.open_items()
    (closed,) = ledger.change_items([replace(first, closed_by="discarded")])
    assert closed.closed_at is not None
    ledger.add_items([held()])
    assert [item.number for item in open_store.reads.open_items()] == [second.number]
    assert [item.closed_by for item in open_store.reads.items_of([FIRST, SECOND, "unknown"])] == ["discarded", None]


def test_an_item_is_closed_once(open_store: OpenStore) -> None:
    load(open_store.ledger, FIRST, bills=3)
    (item,) = open_store.reads.open_items()
    assert len(open_store.ledger.change_items([replace(item, closed_by="resolved")])) == 1
    assert open_store.ledger.change_items([replace(item, closed_by="loaded"), replace(item, number=77)]) == []
    assert waiting(open_store.reads) == []


def test_an_accepted_item_stays_open_until_it_is_closed(open_store: OpenStore) -> None:
    open_store.ledger.add_items([held()])
    (item,) = open_store.reads.open_items()
    open_store.ledger.change_items([replace(item, decision="accepted")])
    (accepted,) = open_store.reads.open_items()
    assert accepted == replace(item, decision="accepted")


def test_items_outlive_the_hundred_loads_that_a_store_remembers_and_rejected_lines_do_not(
    open_store: OpenStore,
) -> None:
    number = load(open_store.ledger, FIRST, bills=3)
    assert len(open_store.reads.rejects(number, 10)) == 3
    for _ in range(100):
        open_store.ledger.begin_load("more")
    assert number not in [row.number for row in open_store.reads.loads(1_000)]
    assert len(open_store.reads.loads(1_000)) == 100
    assert open_store.reads.rejects(number, 10) == []
    assert waiting(open_store.reads) == [{"bills.ndjson": 3}]
