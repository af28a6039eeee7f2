"""Notices a sudden change in deliveries: a share of records that is much higher than in earlier loads.

Loads are compared in groups, because the shares of a small delivery say little. A group is one load, or several small
loads that together have MIN_GROUP_LINES lines. A group is compared with the latest earlier groups, once there are
MIN_EARLIER_GROUPS of them. An alarm is raised if a share exceeds their highest share both by JUMP_POINTS and by the
factor JUMP_FACTOR, or if records have a field whose name is not known from earlier groups. In both cases, at least
MIN_AFFECTED records must be affected. A group that raises an alarm is not used for comparison until the operator
accepts it. A load is judged by what it brings: if only the small loads before it differ, the alarm is theirs.

The average bill needs no groups: even a small file with cents instead of units is a hundred times off. A load raises an
alarm if its average is JUMP_OF_AVERAGE times as high as any before, or as low.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import astuple, replace

from counterfoil.domain.doubts import DeliveryDoubt, Measure

MIN_GROUP_LINES = 200
MIN_EARLIER_GROUPS = 3
MAX_EARLIER_GROUPS = 30
MIN_AFFECTED = 10
JUMP_POINTS = 0.02
JUMP_FACTOR = 1.5
JUMP_OF_AVERAGE = 30
# Maximum number of unknown field names that are remembered. The oldest names are forgotten first.
MAX_KNOWN_NAMES = 500


class DeliveryCounts(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Counts for one or more loads. `unreadable` and `unknown` count records by `kind: field`."""

    lines: int = 0
    rejected: int = 0
    bills: int = 0
    undated: int = 0
    no_items: int = 0
    no_amounts: int = 0
    records: dict[str, int] = {}
    unreadable: dict[str, int] = {}
    unknown: dict[str, int] = {}
    with_net: int = 0
    net: int = 0
    """What these bills come to in whole units of the currency, refunds as positive numbers."""

    def plus(self, other: "DeliveryCounts") -> "DeliveryCounts":
        return DeliveryCounts(*map(_sum, astuple(self), astuple(other)))


class Intake(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The store's memory of earlier loads: counts and field names, but no values."""

    pending: DeliveryCounts = DeliveryCounts()
    earlier: list[DeliveryCounts] = []
    known_names: list[str] = []
    alarms: list[DeliveryDoubt] = []
    alarming: DeliveryCounts | None = None
    """The group that raised the alarms. It counts as normal once the operator accepts it."""
    alarmed_at: int = field(default=0)
    groups: int = field(default=0, name="judged")
    """The number of groups so far. If a load increases it, that load completed a group."""


def with_load(intake: Intake, load: DeliveryCounts, now_ms: int) -> Intake:
    """Return the intake after a load, which may raise or clear alarms."""
    if jump := _jump_of_average(intake, load):
        return replace(intake, alarms=[jump], alarming=load, alarmed_at=now_ms)
    group = intake.pending.plus(load)
    if group.lines < MIN_GROUP_LINES:
        return replace(intake, pending=group)
    after = replace(intake, pending=DeliveryCounts(), groups=intake.groups + 1)
    alarms = _alarms(intake, group)
    if not alarms:
        return _with_normal_group(after, group)
    if not any(_is_brought_by(load, alarm) for alarm in alarms):
        is_group = load.lines >= MIN_GROUP_LINES
        after = _with_normal_group(after, load) if is_group else replace(after, pending=load)
    alarmed_at = intake.alarmed_at if intake.alarms else now_ms
    return replace(after, alarms=alarms, alarming=group, alarmed_at=alarmed_at)


def alarms_of(intake: Intake, load: DeliveryCounts) -> list[DeliveryDoubt]:
    """Return the alarms that a load raises itself, and not only the small loads before it."""
    if jump := _jump_of_average(intake, load):
        return [jump]
    group = intake.pending.plus(load)
    if group.lines < MIN_GROUP_LINES:
        return []
    return [alarm for alarm in _alarms(intake, group) if _is_brought_by(load, alarm)]


def accepted(intake: Intake) -> Intake:
    """Return the new intake: the operator has accepted the group that raised the alarms, so it counts as normal."""
    group = intake.alarming
    if any(alarm.measure == "average" for alarm in intake.alarms):
        # From now on both averages are normal, so they are not added up.
        intake = _with_normal_group(intake, intake.pending)
        intake = replace(intake, pending=DeliveryCounts())
    return _with_normal_group(intake, group) if group else intake


def comparable_groups(intake: Intake) -> list[DeliveryCounts]:
    """Return the earlier groups whose shares are compared. Accepting another average adds smaller groups, too."""
    return [group for group in intake.earlier if group.lines >= MIN_GROUP_LINES]


def _with_normal_group(intake: Intake, group: DeliveryCounts) -> Intake:
    # A group without lines says nothing. Stores may have one from before this was checked.
    earlier = [counts for counts in (*intake.earlier, replace(group, unknown={})) if counts.lines]
    # After the first groups, rare names are not remembered, so that an alarm is raised if they become frequent.
    is_first = len(comparable_groups(intake)) < MIN_EARLIER_GROUPS
    names = [name for name, count in group.unknown.items() if is_first or count >= MIN_AFFECTED]
    known_names = list(dict.fromkeys([*(name for name in intake.known_names if name not in names), *names]))
    return replace(
        intake,
        earlier=earlier[-MAX_EARLIER_GROUPS:],
        known_names=known_names[-MAX_KNOWN_NAMES:],
        alarms=[],
        alarming=None,
        alarmed_at=0,
    )


def _jump_of_average(intake: Intake, load: DeliveryCounts) -> DeliveryDoubt | None:
    if load.with_net < MIN_AFFECTED:
        return None
    average = _average_net(load)
    earlier = [counts for counts in (intake.pending, *intake.earlier) if counts.with_net >= MIN_AFFECTED]
    if not earlier:
        return None
    lowest = min(_average_net(counts) for counts in earlier)
    highest = max(_average_net(counts) for counts in earlier)
    if max(average / highest, lowest / average) < JUMP_OF_AVERAGE:
        return None
    nearest = highest if average > highest else lowest
    return DeliveryDoubt("average", round(average), max(round(nearest), 1))


def _average_net(counts: DeliveryCounts) -> float:
    """Return the average net of bills, but not zero, because it divides another one."""
    return max(counts.net / counts.with_net, 0.01)


def _alarms(intake: Intake, group: DeliveryCounts) -> list[DeliveryDoubt]:
    """Return the sudden changes in a group, or none if there are too few groups to compare it with."""
    earlier = comparable_groups(intake)
    if len(earlier) < MIN_EARLIER_GROUPS:
        return []
    alarms = []
    highest = _highest_shares(earlier)
    for (measure, name), (count, total) in _shares(group).items():
        before = highest.get((measure, name), 0.0)
        if count >= MIN_AFFECTED and _is_jump(count / total, before):
            alarms.append(DeliveryDoubt(measure, count, total, before, name))
    for name, count in group.unknown.items():
        if count >= MIN_AFFECTED and name not in intake.known_names:
            alarms.append(DeliveryDoubt("unknown_field", count, _records_of(group, name), 0.0, name))
    return alarms


def _is_jump(share: float, before: float) -> bool:
    return share - before >= JUMP_POINTS and share >= before * JUMP_FACTOR


def _is_brought_by(load: DeliveryCounts, alarm: DeliveryDoubt) -> bool:
    """Return whether a load has its part in an alarm of its group: whether its own share is too high."""
    if alarm.measure == "unknown_field":
        return alarm.field in load.unknown
    count, total = _shares(load).get((alarm.measure, alarm.field), (0, 0))
    return total > 0 and _is_jump(count / total, alarm.before)


def _highest_shares(groups: Sequence[DeliveryCounts]) -> dict[tuple[Measure, str], float]:
    highest: dict[tuple[Measure, str], float] = {}
    for group in groups:
        for key, (count, total) in _shares(group).items():
            highest[key] = max(highest.get(key, 0.0), count / total)
    return highest


def _shares(group: DeliveryCounts) -> dict[tuple[Measure, str], tuple[int, int]]:
    """Return the number of affected records and of all records, for each share that is compared."""
    shares: dict[tuple[Measure, str], tuple[int, int]] = {("rejected", ""): (group.rejected, group.lines)}
    if group.bills:
        shares["undated", ""] = (group.undated, group.bills)
        shares["no_items", ""] = (group.no_items, group.bills)
        shares["no_amounts", ""] = (group.no_amounts, group.bills)
    for name, count in group.unreadable.items():
        shares["unreadable", name] = (count, _records_of(group, name))
    return shares


def _records_of(group: DeliveryCounts, name: str) -> int:
    """Return the number of records of the kind that `name` begins with, such as `bill` in `bill: lines.qty`."""
    kind = name.partition(":")[0]
    return max(group.records.get(kind, 0), group.unreadable.get(name, 0), group.unknown.get(name, 0))


def _sum(first: Any, second: Any) -> Any:
    """Add two counts, or counts by name, for at most MAX_KNOWN_NAMES names."""
    if isinstance(first, int):
        return first + second
    names = list(dict.fromkeys([*first, *second]))[:MAX_KNOWN_NAMES]
    return {name: first.get(name, 0) + second.get(name, 0) for name in names}
