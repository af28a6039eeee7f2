"""Checks and loads source records for the console, in a process that can open neither keys nor usage.

The console may issue keys, so it never writes bills itself. It starts this program if no watcher takes its files. Bills
and members are read here, where nothing can be opened that decides who gets them.

    python -m counterfoil.cli.keyless_load check|load [--other-ids] [--accept-change] NAME < RECORDS

The records come on standard input, so that a load goes on when the console stops and deletes its files.
"""

import os
import sys
from pathlib import Path
from typing import Any, BinaryIO

import click
from msgspec import to_builtins

from counterfoil.backends.sqlite import files
from counterfoil.cli import load_run
from counterfoil.cli.load_run import LoadReport, doubt_texts, report_view
from counterfoil.domain.acceptances import shown_doubts
from counterfoil.importing.sentences import texts_of
from counterfoil.ingest.checking import RejectExamples
from counterfoil.ingest.pipeline import Summary
from counterfoil.ingest.sources import BUFFER_BYTES, ConvertedFile
from counterfoil.program.main import run_command
from counterfoil.program.terminal import print_json
from counterfoil.settings import load as load_settings


def _from_the_start() -> BinaryIO:
    """Return the file that is standard input. A load may read it more than once."""
    opened = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=BUFFER_BYTES)
    opened.seek(0)
    return opened


@click.command()
@click.argument("action", type=click.Choice(["check", "load"]))
@click.argument("name", type=click.Path(path_type=Path))
@click.option("--other-ids", is_flag=True, help="Other files of the format have the same sales under other IDs.")
@click.option("--accept-change", is_flag=True, help="Load the records although they differ sharply from earlier ones.")
def command(action: str, name: Path, *, other_ids: bool, accept_change: bool) -> int:
    """Check or load the records on standard input under a NAME, and print the result as JSON."""
    settings = load_settings()
    records = ConvertedFile(name, os.fstat(sys.stdin.fileno()).st_size, _from_the_start)
    is_check = action == "check"
    rejects = RejectExamples() if is_check else load_run.new_rejects_file(settings, records.name)
    report = LoadReport(summary=Summary(source=records.name), rejects=rejects, records=records)
    # Before the comparison, so that whatever changes during it counts as a change.
    compared_with = load_run.compared_state(settings) if is_check else ""
    load_run.run_load(settings, report, is_guarded=not accept_change)
    if accept_change and not report.interrupted and not is_check:
        report.accepted = load_run.accept_change(settings, report.summary, is_confirmed=True)
    view: dict[str, Any] = {"load": report.summary.load, **report_view(report)}
    view["comparedWith"] = compared_with
    view["doubts"] = doubt_texts(report)
    view["shown"] = to_builtins(shown_doubts(report.doubts, report.summary.guard))
    if is_check and other_ids:
        # Without what reads exports, a load starts a fifth faster.
        from counterfoil.cli import load_exports  # noqa: PLC0415

        same_sales = load_exports.other_ids(settings, records)
        if same_sales:
            view["doubts"].append(same_sales)
    view["texts"] = [to_builtins(text) for text in texts_of(view["doubts"])]
    view["doubts"] = [str(text) for text in view["doubts"]]
    print_json(view)
    is_wrong = bool(report.summary.rejected or records.damage)
    return load_run.exit_status(report, is_wrong=is_wrong)


def run() -> None:
    files.never_open("keys", "usage")
    sys.exit(run_command(lambda: command.main(standalone_mode=False)))


if __name__ == "__main__":
    run()
