"""`counterfoil reconcile`: compare a copy with the service and, with `--fix`, fix the differences."""

from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import date
from decimal import Decimal

import click
from msgspec import Struct, field

from counterfoil.cli.remote import (
    DIFFERENT,
    EXPECTED_ERRORS,
    ExitStatus,
    Remote,
    exit_status,
    exit_with,
    print_error,
    pull_progress,
    remote_options,
    sigterm_as_interrupt,
    since_option,
)
from counterfoil.cli.terminal import echo, json_option, print_json, print_list, print_note
from counterfoil.client.errors import CopyMismatch
from counterfoil.client.pull_state import Tally
from counterfoil.client.reconcile import Difference, Reconciler, Totals
from counterfoil.client.sinks import private_files
from counterfoil.text import counted
from counterfoil.views.columns import ListColumn, json_row


class Comparison(Struct):
    """The result of a comparison, complete or partial."""

    found: list[Difference] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    is_first_pull_finished: bool = True
    days: int = 0
    tally: Tally = field(default_factory=Tally)
    outcome: ExitStatus = ExitStatus()

    @property
    def is_equal(self) -> bool:
        return self.is_first_pull_finished and not (self.found or self.outcome.exit_code)


@click.command()
@remote_options
@since_option
@click.option("--fix", is_flag=True)
@json_option
def command(*, remote: Remote, since: date | None, fix: bool, as_json: bool) -> None:
    with sigterm_as_interrupt():
        comparison = compare(remote, since=since, fix=fix)
        _print_report(comparison, as_json)
    outcome = comparison.outcome.exit_code
    exit_with(outcome or (DIFFERENT if not comparison.is_first_pull_finished or (comparison.found and not fix) else 0))


def compare(remote: Remote, *, since: date | None, fix: bool) -> Comparison:
    """Run one comparison and return its result."""
    comparison = Comparison()
    try:
        if not remote.destination.exists():
            raise CopyMismatch(f"there is no copy at {remote.destination.display_name}. Run `counterfoil pull` first.")
        with (
            private_files(),
            closing(remote.destination.open()) as sink,
            remote.client() as client,
            pull_progress() as show,
        ):
            reconciler = Reconciler(client, sink, since=since, fix=fix, on_progress=show)
            comparison.unread, comparison.tally = reconciler.unread, reconciler.tally
            for difference in reconciler.run():
                comparison.found.append(difference)
                comparison.days = reconciler.days
            comparison.days = reconciler.days
            comparison.is_first_pull_finished = reconciler.is_first_pull_finished
    except EXPECTED_ERRORS as error:
        comparison.outcome = exit_status(error)
    return comparison


def _print_report(comparison: Comparison, as_json: bool) -> None:
    if as_json:
        print_json(_view(comparison))
    elif not comparison.is_first_pull_finished:
        print_note("the copy is not complete yet, so nothing was compared. Run `counterfoil pull` first.")
    elif comparison.tally.requests:
        if comparison.found:
            print_list(_COLUMNS, comparison.found)
        echo(_summary(comparison))
    print_error(comparison.outcome, "any fixes made so far are saved. Run the same command to restart the comparison.")


def _summary(comparison: Comparison) -> str:
    found = comparison.found
    days, requests = comparison.days, comparison.tally.requests
    prefix = f"{counted(days, 'day')} compared in {counted(requests, 'request')}: "
    if found:
        differ = "1 differs" if len(found) == 1 else f"{len(found):,} differ"
        fixed = " It was fixed." if len(found) == 1 else " All were fixed."
        return f"{prefix}{differ} from the service.{fixed if found[0].is_fixed else ''}"
    if comparison.is_equal:
        return f"{prefix}the copy matches the service."
    return f"{prefix}no differences so far."


def _describe(difference: Difference) -> str:
    counts = {"missing": difference.missing, "extra": difference.removed, "different": difference.different}
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


def _view(comparison: Comparison) -> dict[str, object]:
    tally, outcome = comparison.tally, comparison.outcome
    return {
        "status": outcome.status,
        "equal": comparison.is_equal,
        "days": comparison.days,
        "bills": tally.bills_read,
        "requests": tally.requests,
        "requestsLeft": tally.remaining,
        "unread": comparison.unread,
        "differences": [json_row(_COLUMNS, difference) for difference in comparison.found],
        "error": outcome.error,
    }


def _money(amount: Decimal) -> str:
    """Format an amount with at least two decimal places and no further trailing zeros."""
    whole = amount.normalize()
    return f"{whole:f}" if whole.as_tuple().exponent < -2 else f"{amount:.2f}"  # type: ignore[operator]


def _totals(totals: Totals) -> dict[str, object]:
    return {"count": totals.count, "net": _money(totals.net), "voids": totals.voids}


def _both(heading: str, value: Callable[[Totals], str]) -> ListColumn[Difference]:
    """Return a column with the values of the service and of the copy in one cell, so that the table is not too wide."""

    def text(found: Difference) -> str:
        return f"{value(found.service)} / {value(found.copy)}"

    return ListColumn("", kind="number", terminal=heading, text=text)


_COLUMNS: Sequence[ListColumn[Difference]] = (
    ListColumn("shopId", kind="code", terminal="shop"),
    ListColumn("day", kind="code", terminal="day", text=lambda found: found.day or "no date"),
    _both("bills", lambda totals: f"{totals.count:,}"),
    _both("net: service / copy", lambda totals: _money(totals.net)),
    _both("voids", lambda totals: f"{totals.voids:,}"),
    ListColumn("service", lambda found: _totals(found.service)),
    ListColumn("copy", lambda found: _totals(found.copy)),
    ListColumn("missing"),
    ListColumn("removed"),
    ListColumn("different"),
    ListColumn("fixed", lambda found: found.is_fixed),
    ListColumn("", _describe, terminal="in the copy"),
)
