"""`counterfoil reconcile`: compare a copy with the service and, with `--fix`, fix the differences."""

from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import date

import click
from msgspec import Struct, field, to_builtins

from counterfoil.client.errors import CopyMismatch
from counterfoil.client.reconcile import Comparison, Difference, Reconciler
from counterfoil.client.row_comparison import RowDifferences
from counterfoil.client.sinks import private_files
from counterfoil.client.sinks.sql import COMPARED_TABLES, ShopDayTotals
from counterfoil.copies import remote
from counterfoil.copies.remote import ExitStatus, Remote
from counterfoil.model.text import counted, decimal_text
from counterfoil.program.columns import DATA, ListColumn, json_row
from counterfoil.program.main import Command
from counterfoil.program.terminal import echo, json_option, print_json, print_list, print_message, print_note


class Report(Struct):
    """What a comparison has found, by day or, if it is deep, by table."""

    deep: bool
    result: Comparison = field(default_factory=Comparison)
    found: list[Difference] = field(default_factory=list)
    outcome: ExitStatus = ExitStatus()

    @property
    def is_equal(self) -> bool:
        return self.result.is_first_pull_finished and not (
            self.differences or self.result.lost_tables or self.result.incomplete_shops or self.outcome.exit_code
        )

    @property
    def has_result(self) -> bool:
        """Whether anything can be said. An unfinished deep comparison has no result."""
        if self.deep and not self.result.tables:
            return not self.outcome.exit_code
        return self.result.tally.requests > 0

    @property
    def differences(self) -> Sequence[Difference | RowDifferences]:
        return self.result.tables if self.deep else self.found


@click.command(cls=Command)
@remote.remote_options
@remote.since_option(
    "Compare only this day and later days, and no undated bills. [default: all days and undated bills]"
)
@click.option("--deep", is_flag=True, help="Read everything, and compare every row of every table.")
@click.option(
    "--fix",
    is_flag=True,
    help="Replace what differs: the bills of days that differ or, with --deep, every row, by reading "
    "everything once more.",
)
@json_option
def command(*, given: Remote, since: date | None, deep: bool, fix: bool, as_json: bool) -> int:
    """Compare a copy with the service by shop and day, and list the days that differ.

    Compared are which bills exist, and their date, time of change, void status, net and tip. With --deep,
    everything is read again, and every row of every table is compared.

    A pull keeps the copy equal to the service, so differences are rare. They occur, for example, if somebody has
    changed rows in the copy. Changes since the last pull do not count as differences. Exit status: 0 if the copy is
    equal or was fixed, 3 if something differs or the copy is not complete yet, 4 if the day's quota is used up, 5
    if the service cannot be reached or fails, 130 if interrupted, 1 if the comparison failed.
    """
    if deep and since is not None:
        raise click.UsageError("--deep compares everything, so it cannot be used with --since.")
    with remote.sigterm_as_interrupt():
        report = compare(given, since=since, deep=deep, fix=fix)
        _print_report(report, as_json)
    result = report.result
    is_incomplete = bool(result.lost_tables or result.incomplete_shops) or not result.is_first_pull_finished
    is_different = is_incomplete or bool(report.differences and not fix)
    return report.outcome.exit_code or (remote.DIFFERENT if is_different else 0)


def compare(given: Remote, *, since: date | None, deep: bool, fix: bool) -> Report:
    """Run one comparison and return its result."""
    report = Report(deep)
    try:
        if not given.destination.exists():
            raise CopyMismatch(f"there is no copy at {given.destination.display_name}. Run `counterfoil pull` first.")
        with (
            private_files(),
            closing(given.destination.open()) as sink,
            given.client() as client,
            remote.pull_progress() as show,
        ):
            reconciler = Reconciler(client, sink, since=since, fix=fix, result=report.result)
            report.result.tally.on_progress = show
            if deep:
                reconciler.compare_rows()
            for difference in () if deep else reconciler.run():
                report.found.append(difference)
    except remote.EXPECTED_ERRORS as error:
        report.outcome = remote.exit_status(error)
    return report


def _print_report(report: Report, as_json: bool) -> None:
    if as_json:
        print_json(_view(report))
    elif not report.result.is_first_pull_finished:
        print_note("the copy is not complete yet, so nothing was compared. Run `counterfoil pull` first.")
    elif report.has_result:
        if report.found:
            print_list(_COLUMNS, report.found)
        if report.result.tables:
            print_list(_TABLE_COLUMNS, report.result.tables)
        echo(_summary(report))
    if report.result.incomplete_shops:
        print_message(remote.describe_incomplete_shops(report.result.incomplete_shops))
    remote.print_error(report.outcome, "any fixes made so far are saved. Run the same command to restart the report.")


def _summary(report: Report) -> str:
    """Return sentences that say what was compared, with which result, and what was not compared."""
    found, requests = report.differences, counted(report.result.tally.requests, "request")
    if report.deep:
        subject = f"every row of {counted(len(COMPARED_TABLES), 'table')} compared in {requests}"
    else:
        subject = f"{counted(report.result.days, 'day')} compared in {requests}"
    if found:
        differing = counted(len(found), "table" if report.deep else "day")
        differ = f"{differing} {'differs' if len(found) == 1 else 'differ'}"
        fixed = " It was fixed." if len(found) == 1 else " All were fixed."
        result = f"{differ} from the service.{fixed if found[0].is_fixed else ''}"
    else:
        result = "no differences." if report.is_equal else "no differences so far."
    return f"{subject}: {result} {_limits(report)}".rstrip()


def _limits(report: Report) -> str:
    """Return sentences about what was not compared."""
    sentences = []
    if report.result.lost_tables:
        lost = ", ".join(report.result.lost_tables)
        sentences.append(f"The copy has lost rows or columns of {lost}: the next pull reads everything again.")
    if report.result.repaired_files:
        files = ", ".join(report.result.repaired_files)
        sentences.append(f"Files that had lost rows were written again: {files}.")
    left_out = report.result.left_out
    counts = {"shop": left_out.shops, "bill": left_out.bills, "member": left_out.members}
    if gone := ", ".join(counted(count, noun) for noun, count in counts.items() if count):
        sentences.append(f"Not compared, because the service no longer returns them, parts included: {gone}.")
    if left_out.pending:
        changed = counted(left_out.pending, "bill or shop", "bills or shops")
        sentences.append(f"Not compared, because the next pull reads them: {changed}.")
    unlisted = "Not compared, because the service has no such list: removed_bills and removed_members."
    sentences.append(
        unlisted
        if report.deep
        else (
            "Compared were which bills exist, and their date, time of change, void status, net and "
            "tip. Not compared were their other columns, lines, payments and promotions, nor shops, "
            "members and Parquet files: --deep compares them."
        )
    )
    return " ".join(sentences)


def _describe(difference: Difference) -> str:
    counts = {"missing": difference.missing, "extra": difference.removed, "different": difference.different}
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


# The columns of a copy that a comparison of digests covers.
_IN_DIGESTS = [f"bills.{name}" for name in ("shop_id", "id", "bill_date", "updated_at", "status", "net", "tip")]


def _view(report: Report) -> dict[str, object]:
    tally, outcome = report.result.tally, report.outcome
    return {
        "status": outcome.status,
        "equal": report.is_equal,
        "days": report.result.days,
        "bills": tally.bills_read,
        "requests": tally.requests,
        "requestsLeft": tally.remaining,
        "unread": report.result.unread,
        "lostTables": report.result.lost_tables,
        "incompleteShops": report.result.incomplete_shops,
        "repairedFiles": report.result.repaired_files,
        "differences": [json_row(_COLUMNS, difference) for difference in report.found],
        "deep": report.deep,
        "tables": [json_row(_TABLE_COLUMNS, difference) for difference in report.result.tables],
        "compared": [table.name for table in COMPARED_TABLES] if report.deep else _IN_DIGESTS,
        "leftOut": to_builtins(report.result.left_out),
        "error": outcome.error,
    }


def _totals(totals: ShopDayTotals) -> dict[str, object]:
    return {"count": totals.bills, "net": decimal_text(totals.net), "voids": totals.voids}


def _both(heading: str, value: Callable[[ShopDayTotals], str]) -> ListColumn[Difference]:
    """Return a column with the values of the service and of the copy in one cell, so that the table is not too wide."""

    def text(found: Difference) -> str:
        return f"{value(found.service)} / {value(found.copy)}"

    return ListColumn(heading, kind="number", terminal=heading, text=text, without=DATA)


_COLUMNS: Sequence[ListColumn[Difference]] = (
    ListColumn("shopId", kind="code", terminal="shop"),
    ListColumn("day", kind="code", terminal="day", text=lambda found: found.day or "no date"),
    _both("bills", lambda totals: f"{totals.bills:,}"),
    _both("net: service / copy", lambda totals: decimal_text(totals.net)),
    _both("voids", lambda totals: f"{totals.voids:,}"),
    ListColumn("service", lambda found: _totals(found.service)),
    ListColumn("copy", lambda found: _totals(found.copy)),
    ListColumn("missing"),
    ListColumn("removed"),
    ListColumn("different"),
    ListColumn("fixed", lambda found: found.is_fixed),
    ListColumn("inTheCopy", _describe, terminal="in the copy", without=DATA),
)
_TABLE_COLUMNS: Sequence[ListColumn[RowDifferences]] = (
    ListColumn("table", kind="code", terminal="table"),
    ListColumn("missing", kind="number", terminal="missing in the copy"),
    ListColumn("extra", kind="number", terminal="only in the copy"),
    ListColumn("different", kind="number", terminal="different"),
    ListColumn("fixed", lambda found: found.is_fixed),
)
