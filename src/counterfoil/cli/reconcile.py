"""`counterfoil reconcile`: compare a copy with the service and, with `--fix`, fix the differences."""

from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import date
from decimal import Decimal

import click
from msgspec import Struct, field, to_builtins

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
from counterfoil.client.row_comparison import LeftOut, RowDifferences
from counterfoil.client.sinks import private_files
from counterfoil.client.sinks.sql import COMPARED_TABLES
from counterfoil.text import counted
from counterfoil.views.columns import ListColumn, json_row


class Comparison(Struct):
    """The result of a comparison, complete or partial. Only a deep comparison has `tables` and `left_out`."""

    deep: bool
    found: list[Difference] = field(default_factory=list)
    tables: list[RowDifferences] = field(default_factory=list)
    left_out: LeftOut = LeftOut()
    unread: list[str] = field(default_factory=list)
    is_first_pull_finished: bool = True
    days: int = 0
    lost_tables: list[str] = field(default_factory=list)
    repaired_files: list[str] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    outcome: ExitStatus = ExitStatus()

    @property
    def is_equal(self) -> bool:
        return self.is_first_pull_finished and not (self.differences or self.lost_tables or self.outcome.exit_code)

    @property
    def has_result(self) -> bool:
        """Whether anything can be said. An unfinished deep comparison has no result."""
        if self.deep and not self.tables:
            return not self.outcome.exit_code
        return self.tally.requests > 0

    @property
    def differences(self) -> Sequence[Difference | RowDifferences]:
        return self.tables if self.deep else self.found


@click.command()
@remote_options
@since_option
@click.option("--deep", is_flag=True)
@click.option("--fix", is_flag=True)
@json_option
def command(*, remote: Remote, since: date | None, deep: bool, fix: bool, as_json: bool) -> None:
    if deep and since is not None:
        raise click.UsageError("--deep compares everything, so it cannot be used with --since.")
    with sigterm_as_interrupt():
        comparison = compare(remote, since=since, deep=deep, fix=fix)
        _print_report(comparison, as_json)
    is_different = comparison.lost_tables or (comparison.differences and not fix)
    is_different = is_different or not comparison.is_first_pull_finished
    exit_with(comparison.outcome.exit_code or (DIFFERENT if is_different else 0))


def compare(remote: Remote, *, since: date | None, deep: bool, fix: bool) -> Comparison:
    """Run one comparison and return its result."""
    comparison = Comparison(deep)
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
            try:
                if deep:
                    reconciler.compare_rows()
                for difference in () if deep else reconciler.run():
                    comparison.found.append(difference)
            finally:
                comparison.tables, comparison.left_out = reconciler.tables, reconciler.left_out
                comparison.days, comparison.lost_tables = reconciler.days, reconciler.lost_tables
                comparison.repaired_files = reconciler.repaired_files
                comparison.is_first_pull_finished = reconciler.is_first_pull_finished
    except EXPECTED_ERRORS as error:
        comparison.outcome = exit_status(error)
    return comparison


def _print_report(comparison: Comparison, as_json: bool) -> None:
    if as_json:
        print_json(_view(comparison))
    elif not comparison.is_first_pull_finished:
        print_note("the copy is not complete yet, so nothing was compared. Run `counterfoil pull` first.")
    elif comparison.has_result:
        if comparison.found:
            print_list(_COLUMNS, comparison.found)
        if comparison.tables:
            print_list(_TABLE_COLUMNS, comparison.tables)
        echo(_summary(comparison))
    print_error(comparison.outcome, "any fixes made so far are saved. Run the same command to restart the comparison.")


def _summary(comparison: Comparison) -> str:
    """Return sentences that say what was compared, with which result, and what was not compared."""
    found, requests = comparison.differences, counted(comparison.tally.requests, "request")
    if comparison.deep:
        subject = f"every row of {counted(len(COMPARED_TABLES), 'table')} compared in {requests}"
    else:
        subject = f"{counted(comparison.days, 'day')} compared in {requests}"
    if found:
        differing = counted(len(found), "table" if comparison.deep else "day")
        differ = f"{differing} {'differs' if len(found) == 1 else 'differ'}"
        fixed = " It was fixed." if len(found) == 1 else " All were fixed."
        result = f"{differ} from the service.{fixed if found[0].is_fixed else ''}"
    else:
        result = "no differences." if comparison.is_equal else "no differences so far."
    return f"{subject}: {result} {_limits(comparison)}".rstrip()


def _limits(comparison: Comparison) -> str:
    """Return sentences about what was not compared."""
    sentences = []
    if comparison.lost_tables:
        lost = ", ".join(comparison.lost_tables)
        sentences.append(f"The copy has lost rows or columns of {lost}: the next pull reads everything again.")
    if comparison.repaired_files:
        files = ", ".join(comparison.repaired_files)
        sentences.append(f"Files that had lost rows were written again: {files}.")
    left_out = comparison.left_out
    counts = {"shop": left_out.shops, "bill": left_out.bills, "member": left_out.members}
    if gone := ", ".join(counted(count, noun) for noun, count in counts.items() if count):
        sentences.append(f"Not compared, because the service no longer returns them, parts included: {gone}.")
    if left_out.pending:
        changed = counted(left_out.pending, "bill or shop", "bills or shops")
        sentences.append(f"Not compared, because the next pull reads them: {changed}.")
    if comparison.deep:
        sentences.append("Not compared, because the service has no such list: removed_bills.")
    else:
        sentences.append(
            "Compared were which bills exist, and their date, time of change, void status, net and tip. Not compared "
            "were their other columns, lines, payments and promotions, nor shops, members and Parquet files: --deep "
            "compares them."
        )
    return " ".join(sentences)


def _describe(difference: Difference) -> str:
    counts = {"missing": difference.missing, "extra": difference.removed, "different": difference.different}
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


# The columns of a copy that a comparison of digests covers.
_IN_DIGESTS = (
    "bills.shop_id",
    "bills.id",
    "bills.bill_date",
    "bills.updated_at",
    "bills.status",
    "bills.net",
    "bills.tip",
)


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
        "lostTables": comparison.lost_tables,
        "repairedFiles": comparison.repaired_files,
        "differences": [json_row(_COLUMNS, difference) for difference in comparison.found],
        "deep": comparison.deep,
        "tables": [json_row(_TABLE_COLUMNS, difference) for difference in comparison.tables],
        "compared": [table.name for table in COMPARED_TABLES] if comparison.deep else _IN_DIGESTS,
        "leftOut": to_builtins(comparison.left_out),
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
_TABLE_COLUMNS: Sequence[ListColumn[RowDifferences]] = (
    ListColumn("table", kind="code", terminal="table"),
    ListColumn("missing", kind="number", terminal="missing in the copy"),
    ListColumn("extra", kind="number", terminal="only in the copy"),
    ListColumn("different", kind="number", terminal="different"),
    ListColumn("fixed", lambda found: found.is_fixed),
)
