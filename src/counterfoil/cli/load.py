"""`counterfoil load`: load source records into the store."""

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC
from pathlib import Path

import click
from msgspec import Struct

from counterfoil import bootstrap
from counterfoil.cli.load_fields import field_rows, field_view
from counterfoil.cli.load_files import file_rows, file_view, move_to_quarantine
from counterfoil.cli.main import INTERRUPTED
from counterfoil.cli.options import json_option, setting_option, settings_from, store_option
from counterfoil.cli.progress import progress
from counterfoil.cli.terminal import print_fields, print_json
from counterfoil.domain.calendar import from_ms
from counterfoil.domain.changes import Outcome
from counterfoil.domain.tokens import MIN_SECRET_BYTES, Pseudonyms
from counterfoil.ingest.checking import CheckingLedger, RejectExamples
from counterfoil.ingest.converters import ConverterStopped, free_cores
from counterfoil.ingest.lines import REASONS
from counterfoil.ingest.pipeline import Pipeline, RejectsFile, Summary
from counterfoil.ingest.sources import SUFFIXES, Damage, Source, SourceError, SourceLine, open_source
from counterfoil.machine.clock import SystemClock
from counterfoil.ports import Ledger, StoreUnavailable
from counterfoil.settings import Settings

SOME_REJECTED = 3
OUTCOMES = tuple(
    outcome.value for outcome in (Outcome.ADDED, Outcome.CHANGED, Outcome.UNCHANGED, Outcome.LATE, Outcome.REMOVED)
)

# A load creates thousands of lists per batch but no reference cycles. With the default threshold, the garbage collector
# took 6 % of its time.
OBJECTS_BETWEEN_COLLECTIONS = 100_000


class SourceList(Source):
    """Several sources, read one after the other as if they were one."""

    def __init__(self, parts: Sequence[Source]) -> None:
        sizes = [part.total for part in parts]
        total = None if None in sizes else sum(size for size in sizes if size is not None)
        super().__init__(", ".join(part.name for part in parts), total)
        self._parts = parts
        self.ignored = [path for part in parts for path in part.ignored]

    def lines(self) -> Iterator[SourceLine]:
        done = 0
        damage = Damage()
        for part in self._parts:
            self.position = lambda part=part, done=done: done + part.position()  # type: ignore[misc]
            yield from damage.skipped(part)
            done += part.total or 0
            self.unreadable += part.unreadable
            self.empty += part.empty
        self.position = lambda: done
        damage.raise_if_any()


class LoadReport(Struct, kw_only=True):
    """The result of a load, complete or partial."""

    summary: Summary
    rejects: RejectsFile
    records: Source
    seconds: float = 0
    quarantined: list[Path] = []
    interrupted: bool = False

    @property
    def check(self) -> bool:
        return isinstance(self.rejects, RejectExamples)

    @property
    def per_second(self) -> float:
        return self.summary.lines / self.seconds if self.seconds else 0.0


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@setting_option("batch", int, "N")
@setting_option("converters", int, "N")
@click.option(
    "--rejects",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File for rejected lines; must not exist. [default: a new file in STORE/rejects]",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Reject records that have unknown fields or unreadable values.",
)
@click.option("--check", is_flag=True, help="Write nothing; say what would be rejected and which fields are not used.")
@click.option(
    "--quarantine",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Move files that cannot be read, or are not source records, to this folder; exit with status 3.",
)
@store_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    sources: tuple[str, ...],
    batch: int | None,
    converters: int | None,
    rejects: Path | None,
    strict: bool,
    check: bool,
    quarantine: Path | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Load source records (NDJSON or JSON, also .gz or .zst) from files, folders, or `-` for standard input.

    Loading the same records twice is safe; to resume an interrupted load, run
    the same command. Exit status: 0 all loaded, 3 some lines were rejected, 1
    failed, 130 interrupted.
    """
    settings = settings_from(ctx, batch=batch, converters=converters, store=store)
    if check and (quarantine or rejects):
        raise click.UsageError("--check writes and moves no files. Leave out --rejects and --quarantine.")
    records = SourceList([open_source(name, may_be_empty=quarantine is not None) for name in sources])
    if check:
        rejects_file: RejectsFile = RejectExamples()
    else:
        rejects_file = RejectsFile(_require_new_file(rejects) if rejects else _new_rejects_path(settings, records.name))
    report = LoadReport(summary=Summary(source=records.name), rejects=rejects_file, records=records)
    try:
        _load(settings, report, strict)
    except (SourceError, StoreUnavailable, ConverterStopped) as error:
        if not (quarantine and isinstance(error, SourceError) and records.unreadable):
            if report.summary.lines:
                _print_report(report, as_json)
            raise
        click.echo(f"counterfoil: {error}", err=True)
    if quarantine and not report.interrupted:
        report.quarantined = move_to_quarantine([*records.unreadable, *records.ignored], quarantine)
    _print_report(report, as_json)
    if report.interrupted:
        raise click.exceptions.Exit(INTERRUPTED)
    if report.summary.rejected or report.quarantined:
        raise click.exceptions.Exit(SOME_REJECTED)


def _load(settings: Settings, report: LoadReport, strict: bool) -> None:
    """Run the load and report the result, even if it fails."""
    records, rejects = report.records, report.rejects
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    began = time.perf_counter()
    # A check shows no token, and asking for the secret of a new store would create it.
    pseudonyms = Pseudonyms(bytes(MIN_SECRET_BYTES)) if report.check else bootstrap.pseudonyms(settings)
    opened = _open_for_check(settings) if report.check else closing(bootstrap.ledger(settings))
    doing = "Checking" if report.check else "Loading"
    with opened as ledger, progress(doing, records.total, "lines") as show_progress:

        def show(summary: Summary) -> None:
            report.summary = summary
            show_progress(records.position(), summary.lines)

        try:
            processes = min(settings.converters, free_cores())
            Pipeline(ledger, pseudonyms, rejects, settings.batch, show, strict=strict, processes=processes).load(
                records
            )
        except KeyboardInterrupt:
            report.interrupted = True
        except SourceError as error:
            if not report.summary.lines:
                raise
            raise SourceError(
                f"{str(error).rstrip('.')}. The lines before that were loaded. "
                "Damage can alter lines unnoticed, so get the file again and load it."
            ) from error
        finally:
            rejects.close()
            report.seconds = time.perf_counter() - began


@contextmanager
def _open_for_check(settings: Settings) -> Iterator[Ledger]:
    """Open a ledger that writes nothing. A store that does not exist yet is not created."""
    if not settings.database and not (settings.store / "books.sqlite3").exists():
        yield CheckingLedger(lambda _: None)
        return
    with closing(bootstrap.ledger(settings)) as ledger:
        yield CheckingLedger(ledger.facts)


def _require_new_file(rejects: Path) -> Path:
    """Refuse an existing file, which may hold earlier rejects or be a source of this load."""
    if rejects.exists():
        raise click.BadParameter(f"{rejects} already exists. Choose a new file name.", param_hint="--rejects")
    return rejects


def _new_rejects_path(settings: Settings, name: str) -> Path:
    first = name.partition(", ")[0]
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        first = first.removesuffix(suffix)
    stamp = f"{from_ms(SystemClock().now_ms(), UTC):%Y%m%dT%H%M%SZ}"
    folder, number = settings.store / "rejects", 1
    path = folder / f"{first[:100]}-{stamp}.ndjson"
    while path.exists():
        number += 1
        path = folder / f"{first[:100]}-{stamp}-{number}.ndjson"
    return path


# --- the summary -------------------------------------------------------------------


def _print_report(report: LoadReport, as_json: bool) -> None:
    summary = report.summary
    if as_json:
        print_json(_view(report))
        return
    pairs = [("lines read", f"{summary.lines:,} in {report.seconds:.1f} s ({report.per_second:,.0f}/s)")]
    if report.check:
        pairs.append(("would load", f"{summary.outcomes.total():,}"))
    else:
        pairs += [(name, f"{summary.outcomes[name]:,}") for name in OUTCOMES if summary.outcomes[name]]
    pairs += [("rejected", f"{count:,}: the line {REASONS[reason]}") for reason, count in summary.rejected.items()]
    if isinstance(report.rejects, RejectExamples):
        pairs += [("for example", _describe(example)) for example in report.rejects.examples]
    if report.rejects.used:
        pairs.append(("rejects file", str(report.rejects.path)))
    print_fields(pairs + field_rows(summary.fields) + file_rows(report.records, report.quarantined))
    if not summary.lines and not report.interrupted:
        click.echo("The delivery is empty: it contains no records.")
    if report.check:
        click.echo("Nothing was written. Run the same command without --check to load.")
    elif report.interrupted:
        click.echo("Stopped. Progress saved. Run the same command to resume.")
    elif report.rejects.used:
        rejected = f"Rejected {summary.rejected.total():,} of {summary.lines:,} lines."
        click.echo(f"{rejected} Fix the cause, then run `counterfoil load` on the rejects file.")


def _describe(example: dict[str, object]) -> str:
    fields = example["fields"]
    named = f" ({', '.join(fields)})" if isinstance(fields, list) and fields else ""
    return f"{example['source']} line {example['line']}: {example['reason']}{named}"


def _view(report: LoadReport) -> dict[str, object]:
    summary = report.summary
    checked: dict[str, object] = {}
    if isinstance(report.rejects, RejectExamples):
        # What would become of a record is not known without writing it.
        checked = {
            **dict.fromkeys(OUTCOMES),
            "check": True,
            "wouldLoad": summary.outcomes.total(),
            "rejectExamples": report.rejects.examples,
        }
    return {
        "source": summary.source,
        "lines": summary.lines,
        **{name: summary.outcomes[name] for name in OUTCOMES},
        "setAside": summary.rejected.total(),
        "reasons": dict(summary.rejected),
        "rejectsFile": str(report.rejects.path) if report.rejects.used else None,
        "seconds": round(report.seconds, 3),
        "linesPerSecond": round(report.per_second),
        "interrupted": report.interrupted,
        **field_view(summary.fields),
        **file_view(report.records, report.quarantined),
        **checked,
    }
