"""The summary of an import: how many bills and shops were converted, and why rows were skipped or rejected."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime
from pathlib import Path

import click

from counterfoil.importing import results
from counterfoil.ingest.converted_exports import ConvertedExport, ImportTally
from counterfoil.ingest.pipeline import RejectsFile
from counterfoil.model.text import counted
from counterfoil.program.clock import SystemClock
from counterfoil.program.terminal import echo, print_note, style

MAX_SHOWN = 20
COLUMN = 10
_ADVICE = re.compile(r"\. (?=[A-Z])")


@contextmanager
def import_rejects(path: Path | None) -> Iterator[Callable[[ConvertedExport], None]]:
    """Yield a function that writes the rejected rows to a new file. If the import fails, it is deleted."""
    if path is None:
        yield lambda _: None
        return
    if path.exists():
        raise click.BadParameter(f"{path} already exists. Choose a new file name.", param_hint="--rejects")
    with closing(RejectsFile(path)) as file:

        def write(export: ConvertedExport) -> None:
            for row in export.rejects():
                file.write(row)

        try:
            yield write
        except BaseException:
            if file.used:
                path.unlink(missing_ok=True)
            raise


def today() -> date:
    """Return the day in UTC. No bill is later than the day after it."""
    return datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC).date()


def say_once(note: str) -> None:
    """Say once in a command what an export does not show, and not for each file that arrives or is read again."""
    context = click.get_current_context(silent=True)
    said: set[str] = context.meta.setdefault(__name__, set()) if context else set()
    if note not in said:
        said.add(note)
        print_note(note)


def say_notes(export: ConvertedExport) -> None:
    """Say what the operator must know of an export, although it can be loaded."""
    for note in export.notes:
        say_once(note)
    if export.has_shop_without_zone:
        say_once(
            "the export does not name the time zone of its shops, so new ones get that of Bangkok. "
            "If they are elsewhere, use --timezone, or set dates.timezone in a mapping."
        )


def _left_out(tally: ImportTally, reason: str, count: int) -> tuple[str, str]:
    """Return the name and the text of a line about rows that are left out, with their money if they are bills."""
    money = tally.left_out.get(reason)
    if money is None:
        return "skipped", f"{count:,}: {reason}"
    amount = f"{money.net:,.2f}"
    if money.unknown:
        amount += f" without {counted(money.unknown, 'bill')} whose net cannot be read"
    return "left out", f"{counted(money.bills, 'bill')}, {amount}: {reason}"


def print_tally(tally: ImportTally) -> None:
    def say(name: str, text: str) -> None:
        echo(style(name.ljust(COLUMN), dim=True) + "  " + text)

    if tally.members or tally.bases:
        say("members", f"{tally.members:,} converted")
    else:
        say("bills", f"{tally.bills:,} converted")
    if tally.bases:
        say("bases", f"{tally.bases:,} converted")
    if tally.shops:
        say("shops", f"{tally.shops:,} converted")
    for reason, count in tally.skipped.items():
        say(*_left_out(tally, reason, count))
    for reason, count in tally.rejected.items():
        say("rejected", f"{count:,}: the row {results.REJECT_REASONS[reason]}")
    advised: set[str] = set()
    for row in tally.first_rejects[:MAX_SHOWN]:
        bill = f", bill {row.bill}" if row.bill else ""
        # What is wrong differs from row to row, but what to do about it is said once.
        problem, *advice = _ADVICE.split(row.detail, maxsplit=1)
        say("", f"{row.file} line {row.line}{bill}: {problem if advised.issuperset(advice) else row.detail}")
        advised.update(advice)
    total = tally.rejected.total()
    if total > MAX_SHOWN:
        say("", f"… and {total - MAX_SHOWN:,} more")
    if total:
        where = f" The rejected rows are in {tally.rejects_file}." if tally.rejects_file else ""
        hint = "" if tally.rejects_file or total <= MAX_SHOWN else " Use --rejects FILE to write all rejects to a file."
        rows = "1 row, so its bill was" if total == 1 else f"{total:,} rows, so their bills were"
        echo(f"Rejected {rows} not converted.{where}{hint} Fix the mapping or the export, then import it again.")
    _print_export_totals(tally)


def _print_export_totals(tally: ImportTally) -> None:
    wrong = tally.wrong_totals
    for total in wrong[:MAX_SHOWN]:
        difference = f"{total.stated:,f}, but its rows add up to {total.computed:,f}"
        echo(f"{total.file} line {total.line}: the export states that {total.column} is {difference}.")
    if wrong:
        echo(
            f"Wrong: {len(wrong):,} of {counted(len(tally.export_totals), 'total')} of the export. Check whether "
            "rows are missing, and which column fills which field."
        )
    elif tally.export_totals:
        echo(f"The rows add up to {counted(len(tally.export_totals), 'total')} of the export.")


def tally_view(tally: ImportTally) -> dict[str, object]:
    return {
        "recognised": tally.recognised,
        "bills": tally.bills,
        "shops": tally.shops,
        "members": tally.members,
        "bases": tally.bases,
        "newShops": tally.new_shops,
        "skipped": dict(tally.skipped),
        "leftOut": [
            {"reason": reason, "bills": money.bills, "net": str(money.net), "withoutNet": money.unknown}
            for reason, money in tally.left_out.items()
        ],
        "rejected": tally.rejected.total(),
        "reasons": dict(tally.rejected),
        "rejects": tally.first_rejects[:MAX_SHOWN],
        "rejectsFile": str(tally.rejects_file) if tally.rejects_file else None,
        "exportTotals": tally.export_totals,
    }
