"""The results of a run: JSON for programs, Markdown and plots for people."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from bench import plots
from bench.rounds import Measured, Pair
from bench.targets import Verdict

HEADS = ("target", "wanted", "ratio", "in processor time", "reached")
FAIR_PEER = "our stored JSON"
TWO_WORKERS, ON_POSTGRES = "counterfoil-2", "-pg"
RESULTS = Path(__file__).parent / "results"


class Run(Struct, kw_only=True):
    """All results of a run."""

    profile: str
    command: str
    machine: dict[str, str]
    versions: dict[str, str]
    left_out: list[str]
    titles: dict[str, str]
    facts: dict[str, Any] = msgspec.field(default_factory=dict)
    measured: dict[Pair, Measured] = msgspec.field(default_factory=dict)
    verdicts: list[Verdict] = msgspec.field(default_factory=list)

    def conclude(self, verdicts: Sequence[Verdict]) -> None:
        """Add verdicts. A verdict replaces an earlier verdict with the same `what`."""
        self.verdicts = list({one.what: one for one in (*self.verdicts, *verdicts)}.values())


def write(run: Run, folder: Path = RESULTS) -> list[Path]:
    folder.mkdir(exist_ok=True)
    data, text = folder / f"{run.profile}.json", folder / f"{run.profile}.md"
    plain = msgspec.to_builtins(msgspec.structs.replace(run, measured={}))
    plain["measured"] = {str(pair): msgspec.to_builtins(one) for pair, one in run.measured.items()}
    data.write_text(json.dumps(plain, indent=2, ensure_ascii=False) + "\n", "utf-8")
    text.write_text("\n".join(_lines(run)) + "\n", "utf-8")
    return [data, text]


def read(profile: str, folder: Path = RESULTS) -> Run:
    """Read the results of an earlier run."""
    plain = json.loads((folder / f"{profile}.json").read_text("utf-8"))
    measured = {Pair(*name.split("/")): one for name, one in plain.pop("measured").items()}
    run = msgspec.convert(plain, Run)
    run.measured = {pair: msgspec.convert(one, Measured) for pair, one in measured.items()}
    return run


def draw(run: Run, folder: Path = RESULTS) -> list[Path]:
    """Render a plot for each workload with several contestants. Contestants on PostgreSQL get separate plots."""
    bars: dict[str, dict[str, float]] = {}
    for pair, one in run.measured.items():
        if pair.contestant != TWO_WORKERS:
            name = f"postgres-{pair.workload}" if ON_POSTGRES in pair.contestant else pair.workload
            bars.setdefault(name, {})[run.titles[pair.contestant]] = one.rate
    paths = []
    for name, values in bars.items():
        if len(values) > 1:
            paths.append(folder / f"{run.profile}-{name}.svg")
            workload = run.titles[name.removeprefix("postgres-")]
            plots.bars(paths[-1], f"{workload}: responses per second", values)
    return paths


def _lines(run: Run) -> list[str]:
    return [
        f"# `{run.command}`",
        "",
        "Claims are based on the ratios; absolute numbers are for orientation only.",
        "",
        *targets(run.verdicts),
        "",
        *_measured(run.measured, run.titles),
        "",
        *table(("fact", ""), [(name, _plain(value)) for name, value in run.facts.items()]),
        "",
        *table(("machine", ""), list(run.machine.items())),
        "",
        *table(("version", ""), list(run.versions.items())),
        "",
        f"Left out: {'; '.join(run.left_out) or 'nothing'}.",
    ]


def targets(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a table of the targets, those against the fair peer first."""
    fair_first = sorted(verdicts, key=lambda verdict: FAIR_PEER not in verdict.what)
    return table(HEADS, [_verdict_row(verdict) for verdict in fair_first])


def _verdict_row(verdict: Verdict) -> tuple[str, ...]:
    reached = {True: "yes", False: "**no**", None: "not measured"}[verdict.reached]
    return verdict.what, verdict.target, shown(verdict.ratio), shown(verdict.by_processor), reached


def _measured(measured: Mapping[Pair, Measured], titles: Mapping[str, str]) -> list[str]:
    rows = [
        (
            titles.get(pair.workload, pair.workload),
            titles.get(pair.contestant, pair.contestant),
            shown(one.rate),
            f"{shown(one.least)} - {shown(one.most)}",
            f"{one.p50_us / 1000:.2f} / {one.p99_us / 1000:.2f}",
            shown(one.bytes_each),
            shown(one.cpu_us),
        )
        for pair, one in measured.items()
    ]
    heads = ("workload", "contestant", "median /s", "spread", "p50 / p99 ms", "bytes each", "processor us each")
    return table(heads, rows)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *(f"| {' | '.join(row)} |" for row in rows)]


def shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _plain(value: Any) -> str:
    return shown(value) if isinstance(value, float) else str(value)
