"""The control totals of an import or a load: the table, and the option that compares them with the POS's own figure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from operator import itemgetter
from typing import Literal

import click
from msgspec import Struct

from counterfoil.model.calendar import as_number
from counterfoil.model.control_totals import ControlTotals, TotalsOfDay, TotalsReport, day_text, decimal_text
from counterfoil.model.pos_values import MILLION
from counterfoil.model.text import counted, printable
from counterfoil.program.columns import DATA, ListColumn
from counterfoil.program.terminal import print_list, print_wrapped

# Two days of twelve shops. `--json` lists every shop and day.
MAX_ROWS = 24
# At most this many shops are named in a note.
MAX_SHOPS = 3
_AMOUNT = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d{1,6})?", re.ASCII)
_HEADER = ("bills", "void", "refunds", "net", "tip", "tax")


class ExpectedNet(Struct, frozen=True):
    """The net that the POS reports, in millionths: for a business day, or for all bills if the day is None."""

    day: int | None
    net: int


def _expected_net(value: str) -> ExpectedNet:
    day, _, amount = value.rpartition("=")
    try:
        number = as_number(date.fromisoformat(day)) if day else None
    except ValueError:
        number = 0
    if number == 0 or not _AMOUNT.fullmatch(amount) or value.startswith("="):
        raise click.BadParameter(
            f"{value!r} is not an amount such as 144638.00, or a day with one: 2026-11-14=144638.00."
        )
    return ExpectedNet(number, int(Decimal(amount.replace(",", "")) * MILLION))


def _once_per_day(
    ctx: click.Context, param: click.Parameter, value: tuple[ExpectedNet, ...]
) -> tuple[ExpectedNet, ...]:
    days = {expected.day for expected in value}
    if len(days) < len(value):
        raise click.BadParameter("name each day once, and the amount of all bills once.", ctx, param)
    return value


expect_net_option = click.option(
    "--expect-net",
    type=_expected_net,
    metavar="[DAY=]AMOUNT",
    multiple=True,
    callback=_once_per_day,
    help="The net that the POS reports, for all bills or for a day (2026-11-14=144638.00). If the bills add up to "
    "another amount, nothing is written and the exit status is 1.",
)


def net_differences(expected: Sequence[ExpectedNet], totals: ControlTotals) -> list[str]:
    """Return a sentence for each amount that differs from the totals or cannot be compared."""
    differences = []
    for wanted in expected:
        days = day_text(wanted.day) or "" if wanted.day else "all bills"
        found = totals.net_of(wanted.day)
        if found is None:
            differences.append(
                f"the net of {days} cannot be compared, because there are too many days. Import fewer days at a time."
            )
        elif found != wanted.net:
            net = money_text(decimal_text(found))
            wanted_net = money_text(decimal_text(wanted.net))
            difference = money_text(decimal_text(found - wanted.net))
            differences.append(f"the net of {days} is {net}, not {wanted_net}: a difference of {difference}.")
    return differences


def print_totals(report: TotalsReport, proposed_closing: str | None = None) -> None:
    """Print the totals. `proposed_closing` is the closing time that the bills of a store suggest for their shops."""
    if not report.bills:
        return
    names, rows = _rows(report)
    if len(rows) > 1:
        rows.append(("total", *[""] * (len(names) - 1), *_figures([report])))
    columns: list[ListColumn[tuple[str, ...]]] = []
    for place, heading in enumerate((*names, *_HEADER)):
        kind: Literal["text", "number"] = "text" if heading in names else "number"
        columns.append(ListColumn(heading, kind=kind, terminal=heading, text=itemgetter(place), without=DATA))
    print_list(columns, rows)
    for note in _notes(report):
        print_wrapped(note)
    if report.without_business_day:
        print_wrapped(_without_business_day(report.without_business_day, proposed_closing))


def _rows(report: TotalsReport) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the rows per shop and day or, if these are too many, per day, per shop, or for all bills together."""
    all_together = [("all", *_figures([report]))]
    if report.more_days:
        return ("days",), all_together
    for names in (("day", "shop"), ("day",), ("shop",)):
        groups: dict[tuple[str, ...], list[TotalsOfDay]] = {}
        for totals in report.days:
            labels = {"day": totals.day or "no day", "shop": printable(totals.shop_id or "others")}
            group = tuple(labels[name] for name in names)
            groups.setdefault(group, []).append(totals)
        if len(groups) <= MAX_ROWS:
            return names, [(*group, *_figures(of_group)) for group, of_group in sorted(groups.items())]
    return ("days",), all_together


def _figures(of: Sequence[TotalsOfDay | TotalsReport]) -> tuple[str, ...]:
    counts = [
        sum(totals.bills for totals in of),
        sum(totals.voids for totals in of),
        sum(totals.refunds for totals in of),
    ]
    amounts = [
        sum(Decimal(totals.net) for totals in of),
        sum(Decimal(totals.tip) for totals in of),
        sum(Decimal(totals.tax) for totals in of),
    ]
    return *(f"{count:,}" for count in counts), *(f"{amount:,f}" for amount in amounts)


def money_text(amount: str) -> str:
    return f"{Decimal(amount):,f}"


def _notes(report: TotalsReport) -> Iterator[str]:
    shops = {totals.shop_id for totals in report.days}
    days = {totals.day for totals in report.days if totals.day}
    if len(report.days) > MAX_ROWS or report.more_days:
        span = f"{report.first_day} to {report.last_day}" if report.first_day else "no day"
        of = "" if report.more_days else f" ({counted(len(days), 'day')}, {counted(len(shops), 'shop')})"
        yield f"Days {span}{of}: net {money_text(report.net)}; --json lists every shop and day."
    if report.more_days:
        yield f"The totals of {counted(report.more_days, 'earlier shop day')} are not listed; the sums include them."
    if report.without_day:
        yield f"{counted(report.without_day, 'bill')} without a day."
    if report.without_net:
        yield f"{counted(report.without_net, 'bill')} without a net amount (amounts.net): not part of the net."
    if report.repeated:
        yield (
            f"Occurred again under the same ID and shop: {counted(report.repeated, 'bill')}. Each occurrence "
            "was added, but only the latest version is served."
        )
    elif report.repeated is None:
        yield "There are too many bills to tell whether some occurred again and were added each time."
    yield from _not_adding_up(report)


def _without_business_day(bills: Mapping[str, int], proposed: str | None) -> str:
    shops = ", ".join(printable(shop_id) for shop_id in list(bills)[:MAX_SHOPS])
    more = f" and {len(bills) - MAX_SHOPS:,} more" if len(bills) > MAX_SHOPS else ""
    why = f"{counted(sum(bills.values()), 'bill')} without a business day, because the shop has no closing time"
    quiet = f" Next to no bills are closed around {proposed}, so it may be that time." if proposed else ""
    return (
        f"{why}: {shops}{more}. Their days above are calendar days, so sales after midnight count to the next day."
        f"{quiet} Set it with `counterfoil shops set --missing --closing-time {proposed or 'HH:MM'}`."
    )


def _not_adding_up(report: TotalsReport) -> Iterator[str]:
    if not report.payments.compared and not report.lines.compared:
        yield "The net of these bills cannot be checked: no bill has payments, or lines with totals."
    for name, comparison in (("payments", report.payments), ("lines", report.lines)):
        if comparison.different:
            yield (
                f"Warning: the net differs from the {name} in {comparison.different:,} of "
                f"{counted(comparison.compared, 'bill')} with {name}:"
            )
            for bill in report.not_adding_up:
                if bill.basis == name:
                    of_shop = f"of shop {printable(bill.shop_id)}: {money_text(bill.difference)}"
                    yield f"  bill {printable(bill.bill_id)} {of_shop}"
    if report.mostly_differs:
        yield "Most bills do not add up. Check which column fills amounts.net before you use these bills."
