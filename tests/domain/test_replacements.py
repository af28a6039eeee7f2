"""Tests for recognising that a stored bill would be replaced by another one."""

from typing import Any

import pytest

from counterfoil.domain.bills import bill_from
from counterfoil.domain.changes import EncodedBill, KnownFacts, put_bill
from counterfoil.domain.replacements import ReplacementGuard, implausible
from counterfoil.domain.shops import shop_from

KNOWN = KnownFacts(1, shop_from({"id": "sh"})[1])
LATTE, TEA, SOUP = ({"name": name, "qty": 1, "total": total} for name, total in (("L", 65), ("T", 40), ("S", 120)))


def encoded(day: str = "14", time: str = "18:05", **record: Any) -> EncodedBill:
    complete = {"id": "1", "shopId": "sh", "closedAt": f"2026-11-{day}T{time}", **record}
    return put_bill(bill_from(complete, KNOWN.facts, str), KNOWN, None)


def reason(stored: EncodedBill, new: EncodedBill) -> str | None:
    found = implausible(stored.body, new, is_export=True)
    return found.reason if found else None


STORED = encoded(lines=[LATTE, TEA], amounts={"net": 105})

CASES = [
    ("a line is added", None, encoded(lines=[LATTE, TEA, SOUP], amounts={"net": 225})),
    ("all lines are renamed", None, encoded(lines=[{"name": "Latte", "qty": 1, "total": 105}], amounts={"net": 105})),
    ("it is voided", None, encoded(lines=[LATTE, TEA], amounts={"net": 0}, void=True)),
    ("it has no lines any more", "incomplete", encoded(amounts={"net": 80})),
    ("it has neither lines nor a total any more", None, encoded(amounts={"net": 0})),
    ("another day has the same sale", "other_bill", encoded("15", lines=[LATTE, TEA], amounts={"net": 105})),
    ("the day is lost", "moved", encoded("xx", lines=[LATTE, TEA], amounts={"net": 105})),
    ("the number starts again", "other_bill", encoded("15", lines=[SOUP], amounts={"net": 120})),
    ("another till has the same number", "other_bill", encoded(time="12:00", lines=[SOUP], amounts={"net": 120})),
    ("a refund has the number of the sale", "other_bill", encoded(lines=[LATTE, TEA], amounts={"net": -105})),
    ("another bill without lines", "other_bill", encoded("15", amounts={"net": 120})),
    ("the second half of a bill", "other_bill", encoded(lines=[SOUP], amounts={"net": 120})),
    ("the second half states the whole total", "other_bill", encoded(lines=[SOUP], amounts={"net": 105})),
    ("some lines, with the whole total", "incomplete", encoded(lines=[TEA], amounts={"net": 105})),
    ("some lines, and it is voided", None, encoded(lines=[TEA], amounts={"net": 40}, void=True)),
]


@pytest.mark.parametrize(("expected", "new"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_stored_bill_with_lines(expected: str | None, new: EncodedBill) -> None:
    assert reason(STORED, new) == expected


COFFEE, CAKE, RICE = (
    {"name": name, "qty": 1, "total": total} for name, total in (("Coffee", 50), ("C", 80), ("R", 30))
)
MEAL = [LATTE, TEA, SOUP, COFFEE]
TWO_LATTES = LATTE | {"qty": 2, "total": 130}
SHARED_LINES = [
    ("another till sold one of the products too", "other_bill", MEAL, "12:00", [LATTE, CAKE]),
    ("another till sold most of the products too", "other_bill", MEAL, "12:00", [LATTE, TEA, SOUP, CAKE]),
    ("another till sold the same product twice", "other_bill", [LATTE], "12:00", [TWO_LATTES]),
    ("another bill has a part of the lines", "other_bill", MEAL, "12:00", [LATTE]),
    ("a bill is split, and both parts have one line", "other_bill", [COFFEE, TEA], "18:05", [COFFEE, CAKE]),
    ("a bill is split, and only the day is known", "other_bill", [COFFEE, TEA], "00:00", [COFFEE, CAKE]),
    ("a line is counted as often as it occurs", "other_bill", [COFFEE, COFFEE, TEA], "18:05", [COFFEE, CAKE, RICE]),
    ("one of four lines is corrected", None, MEAL, "18:05", [LATTE, TEA, SOUP, CAKE]),
    ("one of four lines is corrected a minute later", None, MEAL, "18:06", [LATTE, TEA, SOUP, CAKE]),
    ("a quantity is corrected", None, [LATTE, TEA], "18:05", [TWO_LATTES, TEA]),
    ("another till sold the same and more", "other_bill", [LATTE], "19:30", [LATTE, CAKE]),
    ("another till sold the same", "other_bill", [LATTE], "12:00", [LATTE]),
    ("an export begins within the bill", "incomplete", MEAL, "18:05", [LATTE]),
    ("an export begins within the bill, which repeats a line", "incomplete", [TEA, TEA], "18:05", [TEA]),
    ("prices are changed", None, [LATTE, TEA], "18:05", [LATTE | {"total": 60}, TEA | {"total": 30}]),
]


@pytest.mark.parametrize(
    ("expected", "stored", "time", "new"), [case[1:] for case in SHARED_LINES], ids=[case[0] for case in SHARED_LINES]
)
def test_a_bill_that_has_lines_in_common_with_the_stored_one(
    expected: str | None, stored: list[dict[str, Any]], time: str, new: list[dict[str, Any]]
) -> None:
    def bill_with(lines: list[dict[str, Any]], time: str) -> EncodedBill:
        return encoded(time=time, lines=lines, amounts={"net": sum(line["total"] for line in lines)})

    stored_time = "00:00" if time == "00:00" else "18:05"
    assert reason(bill_with(stored, stored_time), bill_with(new, time)) == expected


LATER = {"time": "19:30", "lines": [LATTE, CAKE], "amounts": {"net": 145}}
SAME_DAY = {"time": "00:00", "lines": [LATTE], "amounts": {"net": 65}}
TILLS = [
    ("a table orders more", None, {"table": {"name": "7"}}, {"table": {"name": "7"}, **LATER}),
    ("another table orders the same", "other_bill", {"table": {"name": "7"}}, {"table": {"name": "8"}, **LATER}),
    ("one till adds to a bill", None, {"deviceId": "A"}, {"deviceId": "A", **LATER}),
    ("the bill of a till is dated later", "moved", {"deviceId": "A"}, {"deviceId": "A", "day": "15"}),
    ("it is read in another time zone", "moved", {"deviceId": "A"}, {"deviceId": "A", "time": "11:05"}),
    ("its time is corrected", None, {"deviceId": "A"}, {"deviceId": "A", "time": "11:17"}),
    ("another till is a minute later", "other_bill", {"stationId": "A"}, {"stationId": "B", "time": "18:06"}),
    ("a till is renamed", None, {"deviceId": "A"}, {"deviceId": "B"}),
    ("a bill gets a table", None, {}, {"table": {"name": "8"}}),
    ("a bill gets a day", None, {"day": "xx"}, {}),
    ("a payment is corrected", None, SAME_DAY, {**SAME_DAY, "payments": [{"name": "Card", "amount": 65}]}),
    ("another cashier", "other_bill", {**SAME_DAY, "cashier": "Mali"}, {**SAME_DAY, "cashier": "Nok"}),
    ("an ID that no till counts", None, {"id": "f0000000-0000-4000-8000-000000000001"}, LATER),
]


@pytest.mark.parametrize(("expected", "stored", "new"), [case[1:] for case in TILLS], ids=[case[0] for case in TILLS])
def test_a_bill_with_the_same_content_may_be_of_another_till(
    expected: str | None, stored: dict[str, Any], new: dict[str, Any]
) -> None:
    content = {"lines": [LATTE], "amounts": {"net": 65}, "id": stored.get("id", "1")}
    assert reason(encoded(**{**content, **stored}), encoded(**{**content, **new})) == expected


@pytest.mark.parametrize(("time", "expected"), [("18:05", None), ("00:00", "other_bill"), ("12:00", "other_bill")])
def test_a_bill_without_lines_is_known_by_its_time_unless_that_is_assumed(time: str, expected: str | None) -> None:
    assert reason(encoded(time=time, amounts={"net": 100}), encoded(time=time, amounts={"net": 110})) == expected
    assert reason(encoded(time=time, amounts={"net": 100}), encoded(time="19:03", amounts={"net": 110})) == "other_bill"


CARD = [{"name": "Card", "amount": 75}]
PARTS = [
    ("no payments", "incomplete", {"lines": [LATTE], "amounts": {"net": 65, "tip": 0, "vat": 0}}),
    ("no tip", "incomplete", {"lines": [LATTE], "amounts": {"net": 65, "vat": 4}, "payments": CARD}),
    ("no tax", "incomplete", {"lines": [LATTE], "amounts": {"net": 75, "tip": 10}, "payments": CARD}),
    ("a tip and a tax of 0", None, {"lines": [LATTE], "amounts": {"net": 75, "tip": 0, "vat": 0}, "payments": CARD}),
    ("no payments, because it is voided", None, {"lines": [LATTE], "amounts": {"net": 75}, "void": True}),
    ("no payments, because nothing is left to pay", None, {"lines": [LATTE], "amounts": {"net": 0}}),
    ("other payments", None, {"lines": [LATTE], "amounts": {"net": 70, "tip": 5, "vat": 4}, "payments": CARD[:1] * 2}),
]


@pytest.mark.parametrize(("expected", "new"), [case[1:] for case in PARTS], ids=[case[0] for case in PARTS])
def test_another_export_of_the_same_bills_lacks_a_part_of_the_stored_bill(
    expected: str | None, new: dict[str, Any]
) -> None:
    stored = encoded(lines=[LATTE], payments=CARD, amounts={"net": 75, "tip": 10, "vat": 4})
    assert reason(stored, encoded(**new)) == expected
    assert reason(encoded(**new), stored) is None


NATIVE = [
    ("it was closed later", None, encoded(time="23:00", lines=[LATTE, TEA], amounts={"net": 105})),
    ("the lines are corrected", None, encoded(lines=[LATTE, SOUP], amounts={"net": 105})),
    ("the total is corrected", None, encoded(lines=[LATTE, TEA], amounts={"net": 90})),
    ("it is refunded", None, encoded(lines=[LATTE, TEA], amounts={"net": -105})),
    ("it moves to another day", "moved", encoded("15", lines=[LATTE, TEA], amounts={"net": 105})),
    ("it has other lines and another total", "other_bill", encoded(lines=[SOUP], amounts={"net": 120})),
    ("it loses its lines", "incomplete", encoded(amounts={"net": 105})),
]


@pytest.mark.parametrize(("expected", "new"), [case[1:] for case in NATIVE], ids=[case[0] for case in NATIVE])
def test_a_source_record_replaces_the_stored_bill_and_only_the_implausible_is_named(
    expected: str | None, new: EncodedBill
) -> None:
    guard = ReplacementGuard()
    assert not guard.rejects(STORED.body, new)
    assert [bill.reason for bill in guard.first] == ([expected] if expected else [])


MOVED = encoded("15", lines=[LATTE, TEA], amounts={"net": 105}, deviceId="till 1")
ON_TILL = encoded(lines=[LATTE, TEA], amounts={"net": 105}, deviceId="till 1")


@pytest.mark.parametrize(
    ("found", "bills", "may_write"), [(0, 1, True), (1, 10, True), (1, 9, False), (5, 500, True), (6, 500, False)]
)
def test_an_export_may_have_five_such_bills_and_a_tenth(found: int, bills: int, may_write: bool) -> None:
    for is_export in (True, False):
        guard = ReplacementGuard(is_export=is_export)
        for _ in range(found):
            assert not guard.rejects(ON_TILL.body, MOVED)
        assert guard.may_write(bills) is (may_write or not is_export)
    assert not ReplacementGuard(moved=6).may_write(59)


def test_bills_that_moved_before_there_were_too_many_are_counted_as_written() -> None:
    guard = ReplacementGuard(is_export=True)
    guard.rejects(ON_TILL.body, MOVED)
    guard.may_write(100)
    for _ in range(5):
        guard.rejects(ON_TILL.body, MOVED)
    assert (guard.may_write(100), guard.written, guard.moved) == (False, 1, 6)


def test_a_few_bills_may_be_corrected_but_not_most_bills_of_an_export() -> None:
    stored, corrected = (
        encoded(lines=lines, amounts={"net": net}) for lines, net in (([LATTE, TEA], 105), ([TWO_LATTES, TEA], 170))
    )
    cheaper, renamed = [LATTE | {"total": 60}, TEA], [LATTE, TEA | {"name": "Soda"}]
    repriced = encoded(lines=cheaper, amounts={"net": 100})
    untimed, *others = (
        encoded(time="12:00", lines=lines, amounts={"net": net})
        for lines, net in (([LATTE, TEA], 105), (cheaper, 100), (renamed, 105), ([LATTE, TEA, SOUP], 225))
    )
    for old, bills, changes, may_write in (
        (stored, 5, [corrected] * 5, True),
        (stored, 60, [corrected] * 6, True),
        (stored, 59, [corrected] * 6, False),
        (stored, 9, [repriced] * 9, True),
        *((untimed, 2, [other] * 2, False) for other in others),
        *((untimed, 2, [other], True) for other in others),
    ):
        guard = ReplacementGuard(is_export=True)
        assert not any(guard.rejects(old.body, change) for change in changes)
        assert guard.may_write(bills) == may_write
