"""`counterfoil copy`: copy a live store from a folder to PostgreSQL and, with `--cut-over`, switch over to it."""

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import click

from counterfoil import bootstrap
from counterfoil.backends.moving import CutOver, MoveReport, MoveStage, StoreMove, TableDifference
from counterfoil.backends.sqlite.mappings import FOLDER
from counterfoil.cli.auditing import audit_entry
from counterfoil.cli.options import json_option, settings_from, utc_option
from counterfoil.domain.audit import Act
from counterfoil.model.calendar import iso_utc
from counterfoil.model.text import counted, without_password
from counterfoil.program.columns import ListColumn, json_row
from counterfoil.program.main import INTERRUPTED, Command
from counterfoil.program.terminal import echo, print_fields, print_json, print_list, print_note, status_line
from counterfoil.program.times import second
from counterfoil.settings import DATABASES, SettingsError, check_address

DIFFERENT = 3
MAX_LISTED = 20
_COLUMNS: Sequence[ListColumn[TableDifference]] = (
    ListColumn("table", terminal="table"),
    ListColumn("group", terminal="group", text=lambda found: found.group),
    ListColumn("atSource", kind="number", terminal="at source"),
    ListColumn("atTarget", kind="number", terminal="at target"),
)


@click.command(cls=Command)
@click.option("--from", "source", required=True, metavar="sqlite:DIR", help="Folder of the store to copy.")
@click.option(
    "--to",
    "target",
    required=True,
    metavar="postgresql://...",
    help="Database prepared with `counterfoil migrate`. It must be empty before the first run.",
)
@click.option(
    "--cut-over",
    is_flag=True,
    help="Once the stores are identical, retire the source and open the target. You must stop all loads first.",
)
@utc_option
@json_option
def command(source: str, target: str, cut_over: bool, as_json: bool) -> int:
    """Copy a live store from a folder to PostgreSQL. Run the command again to copy later changes.

    The target stays closed until a run with --cut-over finds that both stores contain the same rows. After that,
    the source can no longer be used. Exit status: 0 if the stores are identical or the cut-over is already done, 3
    if they differ (the differences are listed), 130 if interrupted, 1 if the copy failed.
    """
    from counterfoil.backends.postgres.move_target import PostgresMoveTarget  # noqa: PLC0415 - an extra

    folder, database = _folder(source), _database(target)
    settings_from()
    began = time.perf_counter()
    with (
        closing(bootstrap.move_source(folder)) as source_store,
        closing(PostgresMoveTarget(database)) as target_store,
        status_line("connecting") as show,
    ):
        rows = source_store.size()

        def on_progress(stage: MoveStage, read: int, moved: int) -> None:
            show(f"{stage.value}: {read:,} of about {rows:,} rows read, {moved:,} moved")

        entry = audit_entry(Act.STORE_MOVED, f"from {folder.resolve()}")
        switch = CutOver(without_password(database), entry) if cut_over else None
        try:
            report = StoreMove(source_store, target_store, on_progress).run(switch)
        except KeyboardInterrupt:
            echo("Stopped. Progress saved. Run the same command to resume.", err=True)
            return INTERRUPTED
    mappings = sorted(folder.glob(f"{FOLDER}/*.toml"))
    _print_report(report, time.perf_counter() - began, as_json, folder, mappings)
    return 0 if report.verified or report.nothing_to_do else DIFFERENT


def _folder(source: str) -> Path:
    if "://" in source or not (path := Path(source.removeprefix("sqlite:")).expanduser()).is_dir():
        raise SettingsError(
            f"--from must be the folder of a store, such as sqlite:/var/lib/counterfoil, not {_masked(source)}."
        )
    return path


def _database(target: str) -> str:
    if not target.startswith(DATABASES):
        raise SettingsError(f"--to must start with {DATABASES[0]}, not {_masked(target)}.")
    check_address("--to", target)
    return target


def _masked(address: str) -> str:
    return repr(without_password(address))


def _print_report(report: MoveReport, seconds: float, as_json: bool, folder: Path, mappings: Sequence[Path]) -> None:
    if as_json:
        print_json({**_view(report), "seconds": round(seconds, 3), "notCopied": [str(path) for path in mappings]})
        return
    if mappings:
        print_note(
            f"{counted(len(mappings), 'remembered mapping')} of exports in {folder / FOLDER} cannot be copied into a"
            " database. Copy this folder to where `import`, the watcher and the console will run, as"
            f" counterfoil-data/{FOLDER}, or name it with COUNTERFOIL_IMPORT_MAPPINGS. Otherwise, they ask again."
        )
    if report.nothing_to_do:
        echo("Nothing to do: the target is already open and the source is retired.")
        return
    moved, passes = counted(report.moved, "row"), counted(report.passes, "pass", "passes")
    print_fields(
        [
            ("moved", f"{moved} in {seconds:.1f} s ({report.moved / seconds:,.0f}/s), {passes}"),
            ("compared", ", ".join(f"{count:,} {name}" for name, count in report.rows.items() if count)),
            ("as of", second(report.horizon)),
        ]
    )
    if report.differences:
        print_list(_COLUMNS, report.differences[:MAX_LISTED])
        more = len(report.differences) - MAX_LISTED
        if more > 0:
            echo(f"... and {more:,} more. The stores differ. Run the same command again to copy the differences.")
        else:
            echo("The stores differ. Run the same command again to copy the differences.")
    elif report.opened:
        echo(
            "The stores are identical. The target is open and the source is retired. Start the nodes with "
            f"COUNTERFOIL_STORE=postgresql://... and the source's deployment secret, usually in {folder / 'secret'}."
        )
    else:
        echo("The stores are identical. To switch over, stop all loads and run the same command with --cut-over.")


def _view(report: MoveReport) -> dict[str, object]:
    return {
        "passes": report.passes,
        "moved": report.moved,
        "rows": report.rows,
        "asOf": iso_utc(report.horizon) if report.horizon else None,
        "equal": report.verified,
        "differences": [json_row(_COLUMNS, found) for found in report.differences],
        "opened": report.opened,
        "nothingToDo": report.nothing_to_do,
    }
