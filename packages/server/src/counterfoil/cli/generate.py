"""`counterfoil generate`: write realistic source records to standard output or to a folder."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date, datetime, timedelta
from pathlib import Path

import click

from counterfoil.demo.worldgen.plan import WorldPlan
from counterfoil.demo.worldgen.world import world
from counterfoil.machine.files import StandardOutput, draft_of, open_output
from counterfoil.model.calendar import thai_day
from counterfoil.program.clock import SystemClock
from counterfoil.program.main import Command
from counterfoil.program.terminal import echo, is_terminal, print_json, progress

FILES = {b"base": "bases", b"shop": "shops", b"member": "members", b"bill": "bills"}
# Every record starts with its kind: {"kind":"bill",...
KIND_OFFSET = len('{"kind":"')
PROGRESS_EVERY = 500
STANDARD_OUTPUT = "-"
MAX_BILLS, MAX_SHOPS, MAX_DAYS = 1_000_000_000, 100_000, 3_650
FIRST_DAY, LAST_DAY = date(2000, 1, 1), date(2199, 12, 31)


def today_in_thailand() -> date:
    return thai_day(SystemClock().now_ms())


def day_in_range(text: str) -> date:
    """Parse a day for which all generated dates are valid, including members' dates, which are years earlier."""
    day: datetime = click.DateTime(["%Y-%m-%d"])(text)
    if not FIRST_DAY <= day.date() <= LAST_DAY:
        raise click.BadParameter(f"{text} is not between {FIRST_DAY} and {LAST_DAY}.")
    return day.date()


@click.command(cls=Command)
@click.option("--bills", type=click.IntRange(0, MAX_BILLS), required=True, help="Number of bills.")
@click.option(
    "--shops", type=click.IntRange(1, MAX_SHOPS), help="Number of shops. [default: 18, or more if there are many bills]"
)
@click.option(
    "--members",
    type=click.IntRange(0, MAX_BILLS),
    help="Number of members. [default: 1,500, or more if there are many bills]",
)
@click.option(
    "--seed",
    type=int,
    default=1,
    help="The same seed gives the same output, if --until and all other options are the same too.",
)
@click.option("--until", type=day_in_range, metavar="YYYY-MM-DD", help="Last day with bills. [default: yesterday]")
@click.option("--days", type=click.IntRange(1, MAX_DAYS), default=120, help="Number of days with bills.")
@click.option(
    "--out",
    default=STANDARD_OUTPUT,
    show_default="stdout",
    metavar="DIR",
    help="Write one file per kind of record to this folder.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="With --out DIR: print the number of records in each file written, as JSON."
)
def command(
    bills: int,
    shops: int | None,
    members: int | None,
    seed: int,
    until: date | None,
    days: int,
    out: str,
    as_json: bool,
) -> None:
    """Write invented but realistic source records as NDJSON, in constant memory."""
    # Only whole days are generated, so runs on the same day give the same data.
    last_day = until or today_in_thailand() - timedelta(days=1)
    plan = WorldPlan(
        until=last_day,
        seed=seed,
        days=days,
        bills=bills,
        shops=shops or max(18, bills // 50_000),
        members=members if members is not None else max(1_500, bills // 20),
    )
    if out == STANDARD_OUTPUT:
        if as_json:
            raise click.UsageError(
                "--json requires --out DIR, because otherwise the records are written to standard output."
            )
        _to_standard_output(plan)
        return
    written = _to_folder(plan, Path(out))
    if as_json:
        print_json(written)
        return
    for path, count in written.items():
        echo(f"{count:>12,} {'record ' if count == 1 else 'records'}  {path}")


def _to_standard_output(plan: WorldPlan) -> None:
    out = StandardOutput()
    for line in _lines_with_progress(plan, show_progress=not is_terminal(sys.stdout)):
        out.write(line + b"\n")
    out.flush()


def _to_folder(plan: WorldPlan, folder: Path) -> dict[str, int]:
    """Write one file per kind of record; return the counts. The files get their final names once all are complete."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {kind: folder / f"{name}.ndjson" for kind, name in FILES.items()}
    written = dict.fromkeys(paths, 0)
    with ExitStack() as stack:
        # The stack closes all files before it renames the first of them.
        drafts = {kind: stack.enter_context(draft_of(path)) for kind, path in paths.items()}
        files = {kind: stack.enter_context(open_output(drafts[kind], name=path)) for kind, path in paths.items()}
        for line in _lines_with_progress(plan, show_progress=True):
            kind = line[KIND_OFFSET : line.index(b'"', KIND_OFFSET)]
            files[kind].write(line + b"\n")
            written[kind] += 1
    return {str(paths[kind]): count for kind, count in written.items()}


def _lines_with_progress(plan: WorldPlan, show_progress: bool) -> Iterator[bytes]:
    total = plan.bills + plan.members + plan.shops
    with progress("Generating", total, "records", is_shown=show_progress) as update:
        for count, line in enumerate(world(plan)):
            if count % PROGRESS_EVERY == 0:
                update(count, count)
            yield line
