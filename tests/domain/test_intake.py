"""Tests for alarms: which differences from earlier loads raise an alarm, and when the alarm ends."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from counterfoil.checks.contents import sudden_changes, watched_folders
from counterfoil.domain import intake as rules
from counterfoil.domain import loads
from counterfoil.domain.doubts import describe

MINUTE_MS = 60_000


def load(lines: int = 1_000, **counts: Any) -> rules.DeliveryCounts:
    """Return the counts for one load of bills."""
    return rules.DeliveryCounts(**{"lines": lines, "bills": lines, "records": {"bill": lines}, **counts})


def after(*loads: rules.DeliveryCounts, intake: rules.Intake | None = None) -> rules.Intake:
    intake = intake or rules.Intake()
    for number, counts in enumerate(loads):
        intake = rules.with_load(intake, counts, 1_000 + number)
    return intake


NORMAL = after(*[load()] * 10)


def alarms(intake: rules.Intake) -> list[tuple[str, str, int]]:
    return [(alarm.measure, alarm.field, alarm.count) for alarm in intake.alarms]


def test_a_small_load_with_another_average_raises_an_alarm_alone_and_leaves_the_others_pending() -> None:
    usual, in_cents = load(20, with_net=20, net=900), load(20, with_net=20, net=90_000)
    changed = after(usual, in_cents)
    assert (alarms(changed), changed.pending) == ([("average", "", 4500)], usual)
    assert alarms(after(in_cents, usual)) == [("average", "", 45)]
    assert not after(usual, load(9, with_net=9, net=40_500)).alarms
    assert not after(in_cents, usual, intake=rules.accepted(changed)).alarms


@pytest.mark.parametrize(
    ("counts", "alarm"),
    [
        ({"undated": 50}, ("undated", "", 50)),
        ({"no_items": 50}, ("no_items", "", 50)),
        ({"no_amounts": 50}, ("no_amounts", "", 50)),
        ({"rejected": 50}, ("rejected", "", 50)),
        ({"unreadable": {"bill: lines.qty": 50}}, ("unreadable", "bill: lines.qty", 50)),
        ({"unknown": {"bill: closed_at": 50}}, ("unknown_field", "bill: closed_at", 50)),
    ],
)
def test_five_percent_after_none_raise_an_alarm(counts: dict[str, Any], alarm: tuple[str, str, int]) -> None:
    assert alarms(after(load(**counts), intake=NORMAL)) == [alarm]


def test_the_first_loads_raise_no_alarm() -> None:
    intake = after(load(undated=1_000, unknown={"bill: x": 1_000}))
    assert not intake.alarms
    assert not after(*[load()] * (rules.MIN_EARLIER_GROUPS - 1), load(undated=1_000)).alarms


def test_a_small_delivery_raises_no_alarm_alone_but_several_do() -> None:
    few = rules.MIN_GROUP_LINES // 4
    intake = after(*[load(few, undated=few)] * 3, intake=NORMAL)
    assert not intake.alarms
    intake = after(load(few, undated=few), intake=intake)
    assert alarms(intake) == [("undated", "", 4 * few)]


def test_a_load_is_judged_by_what_it_brings() -> None:
    intake = after(load(150, rejected=11), intake=NORMAL)
    for good in (load(60), load(500)):
        assert rules.alarms_of(intake, good) == []
    assert alarms(after(load(60), intake=intake)) == [("rejected", "", 11)], "the alarm of the load before"
    assert after(load(60), intake=intake).pending == load(60)
    both = load(60, rejected=6, undated=6)
    assert [alarm.measure for alarm in rules.alarms_of(after(load(150, undated=6), intake=NORMAL), both)] == ["undated"]


def test_a_few_records_in_a_large_delivery_raise_no_alarm() -> None:
    assert not after(load(100_000, undated=1_999), intake=NORMAL).alarms
    assert not after(load(rules.MIN_GROUP_LINES, undated=rules.MIN_AFFECTED - 1), intake=NORMAL).alarms


def test_a_share_that_is_usual_raises_no_alarm() -> None:
    usual = after(*[load(undated=40), load(undated=60), load(undated=20)] * 2)
    assert not after(load(undated=80), intake=usual).alarms
    assert alarms(after(load(undated=90), intake=usual)) == [("undated", "", 90)]


def test_an_alarm_stays_until_a_comparable_load_is_normal() -> None:
    alarmed = after(load(undated=50), intake=NORMAL)
    assert after(load(rules.MIN_GROUP_LINES // 2), intake=alarmed).alarms
    still = after(load(undated=60), intake=alarmed)
    assert alarms(still) == [("undated", "", 60)]
    assert still.alarmed_at == alarmed.alarmed_at
    assert not after(load(), intake=still).alarms


def test_an_alarming_load_does_not_become_the_standard() -> None:
    intake = NORMAL
    for _ in range(2 * rules.MAX_EARLIER_GROUPS):
        intake = after(load(undated=50), intake=intake)
        assert intake.alarms
    assert intake.earlier == NORMAL.earlier


def test_an_accepted_change_becomes_the_standard() -> None:
    assert rules.accepted(NORMAL) == NORMAL, "without an alarm, accepting changes nothing"
    alarmed = after(load(undated=50, unknown={"bill: table_no": 900}), intake=NORMAL)
    assert len(alarmed.alarms) == 2
    intake = rules.accepted(alarmed)
    assert not intake.alarms
    assert not after(load(undated=55, unknown={"bill: table_no": 1_000}), intake=intake).alarms
    assert alarms(after(load(undated=100), intake=intake)) == [("undated", "", 100)]


def test_loading_goes_on_after_another_average_was_accepted() -> None:
    usual, dearer = load(240, with_net=240, net=24_000), load(240, with_net=240, net=960_000)
    intake = rules.accepted(after(*[usual] * 4, dearer))
    assert [group.lines for group in intake.earlier] == [240] * 5
    assert not after(usual, dearer, intake=intake).alarms


def test_a_store_that_has_an_empty_group_forgets_it() -> None:
    intake = replace(NORMAL, earlier=[*NORMAL.earlier, rules.DeliveryCounts()])
    assert alarms(after(load(undated=50), intake=intake)) == [("undated", "", 50)]
    assert after(load(), intake=intake).earlier == [*NORMAL.earlier, load()]


def test_a_few_bad_records_that_were_accepted_with_another_average_do_not_become_the_standard() -> None:
    usual, few = load(240, with_net=240, net=24_000), load(20, undated=20, with_net=20, net=80_000)
    intake = rules.accepted(after(*[usual] * 4, few))
    assert alarms(after(load(undated=500), intake=intake)) == [("undated", "", 500)]


@st.composite
def deliveries(draw: st.DrawFn) -> rules.DeliveryCounts:
    lines = draw(st.sampled_from([0, 1, 9, 10, 40, 150, 199, 200, 240, 5_000]))
    bills = draw(st.integers(0, lines))
    average = draw(st.sampled_from([0, 1, 100, 4_000, 10_000_000]))
    up_to_all = st.integers(0, bills)
    with_net = draw(up_to_all)
    fields = ["bill: note", "bill: lines.qty"] if bills else []
    names = st.fixed_dictionaries({}, optional=dict.fromkeys(fields, st.integers(1, max(bills, 1))))
    return rules.DeliveryCounts(
        lines=lines,
        rejected=draw(st.integers(0, lines - bills)),
        bills=bills,
        undated=draw(up_to_all),
        no_items=draw(up_to_all),
        no_amounts=draw(up_to_all),
        records={"bill": bills} if bills else {},
        unreadable=draw(names),
        unknown=draw(names),
        with_net=with_net,
        net=average * with_net,
    )


@given(st.lists(st.one_of(deliveries(), st.just("accept")), max_size=40))
def test_no_sequence_of_loads_and_acceptances_ends_loading(steps: list[rules.DeliveryCounts | str]) -> None:
    intake = rules.Intake()
    for number, step in enumerate(steps):
        if isinstance(step, rules.DeliveryCounts):
            intake = rules.with_load(intake, step, number)
            assert all(str(describe(alarm)) for alarm in intake.alarms)
            continue
        alarming, intake = intake.alarming, rules.accepted(intake)
        assert not intake.alarms
        if alarming:
            again = rules.with_load(replace(intake, pending=rules.DeliveryCounts()), alarming, number)
            assert not again.alarms, "what was accepted is normal"
    assert all(group.lines for group in intake.earlier)


def test_a_name_that_was_rare_raises_an_alarm_when_it_becomes_frequent() -> None:
    rare = {"bill: note": rules.MIN_AFFECTED - 1}
    intake = after(*[load(unknown=rare)] * 5, intake=NORMAL)
    assert not intake.alarms
    assert alarms(after(load(unknown={"bill: note": 500}), intake=intake)) == [("unknown_field", "bill: note", 500)]


def test_a_name_that_the_first_loads_had_is_known() -> None:
    intake = after(load(unknown={"bill: note": 1}), load(), load(), load())
    assert not after(load(unknown={"bill: note": 1_000}), intake=intake).alarms


def test_the_intake_has_a_bounded_size() -> None:
    intake = rules.Intake()
    for number in range(100):
        names = {f"bill: x{number}-{n}": 20 for n in range(200)}
        intake = rules.accepted(after(load(unknown=names, unreadable=dict.fromkeys(names, 1)), intake=intake))
    assert len(intake.earlier) == rules.MAX_EARLIER_GROUPS
    assert len(intake.known_names) == rules.MAX_KNOWN_NAMES
    small = load(1, unknown={"bill: y": 1})
    pending = after(*[load(1, unknown={f"bill: y{n}": 1 for n in range(199)}), small], intake=rules.Intake()).pending
    assert len(pending.unknown) <= rules.MAX_KNOWN_NAMES


def test_an_alarm_is_described_with_both_shares() -> None:
    (alarm,) = after(load(undated=50), intake=NORMAL).alarms
    assert str(describe(alarm)) == "5.0% of bills have no date (50 of 1,000; at most 0.0% in earlier loads)"
    (alarm,) = after(load(unreadable={"bill: lines.qty": 50}), intake=NORMAL).alarms
    assert str(describe(alarm)).startswith("5.0% of bill records have an unreadable lines.qty (50 of 1,000;")
    (alarm,) = after(load(unknown={"bill: closed_at": 50}), intake=NORMAL).alarms
    assert (
        str(describe(alarm)) == "unknown field bill: closed_at, which earlier loads did not have (50 of 1,000 records)"
    )


def code(folder: loads.WatchedFolder, now: int, silent_after_min: int) -> str:
    (found,) = watched_folders([folder], now, silent_after_min)
    return found.code


def test_a_watched_folder_is_stale_without_a_heartbeat_and_silent_without_a_delivery() -> None:
    folder = loads.WatchedFolder("spool", seen_at=0, delivered_at=0, files=1)
    assert code(folder, loads.STALE_HEARTBEAT_MS, 0) == "folder_watched"
    assert code(folder, 5 * MINUTE_MS, 0) == "watcher_unseen"
    assert code(replace(folder, files=0), loads.STALE_HEARTBEAT_MS, 0) == "folder_new"
    beating = replace(folder, seen_at=90 * MINUTE_MS)
    assert code(beating, 90 * MINUTE_MS, 90) == "folder_watched"
    assert code(beating, 91 * MINUTE_MS, 90) == "folder_silent"
    assert code(replace(folder, is_stopped=True), loads.FORGET_FOLDER_MS, 90) == "watcher_stopped"


def test_loads_are_not_called_usual_before_there_are_enough_to_compare_with() -> None:
    codes = [[found.code for found in sudden_changes(after(*[load()] * number), 0)] for number in (0, 1, 3, 4)]
    assert codes == [[], ["intake_learning"], ["intake_learning"], ["intake_usual"]]
