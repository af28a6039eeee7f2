"""`python -m bench quick | full | growth`: run the benchmark and write its results.

`make bench`, `make bench-quick` and `make bench-growth` call this.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench import copies, duties, machine, report, sameness, workloads, world
from bench.contestants import Contestant, Running, all_running, field
from bench.parts import PARTS
from bench.profiles import PROFILES, Profile
from bench.rounds import Measured, Pair, alternate, cores
from bench.targets import OURS, judged
from bench.workloads import Workload
from bench.world import World
from bench.wrk import phrased

# The value of `--parts` that selects the comparison with the other contestants.
ROUNDS = "rounds"
WRK_MISSING = "wrk is not installed: `apt-get install wrk` (Debian), `brew install wrk` (macOS)."


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Compare Counterfoil with its alternatives.")
    parser.add_argument("profile", choices=sorted(PROFILES))
    parser.add_argument("--folder", type=Path, help="folder for the data; existing data is reused")
    parser.add_argument(
        "--parts", nargs="+", choices=sorted([ROUNDS, *PARTS]), help="rerun only these parts of the last run"
    )
    given = parser.parse_args()
    if not shutil.which("wrk"):
        raise SystemExit(WRK_MISSING)
    with tempfile.TemporaryDirectory(prefix="counterfoil-bench-") as scratch:
        folder = given.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        profile = PROFILES[given.profile]
        run = again(profile, folder.resolve(), given.parts) if given.parts else ran(profile, folder.resolve())
    for path in [*report.write(run), *report.draw(run)]:
        say(f"wrote {path.relative_to(Path.cwd())}" if path.is_relative_to(Path.cwd()) else f"wrote {path}")
    print("\n".join(report.targets(run.verdicts)))


def ran(profile: Profile, folder: Path) -> report.Run:
    contestants = field()
    run = report.Run(
        profile=profile.name,
        command=profile.command,
        machine=machine.described(),
        versions=machine.versions(),
        left_out=[],
        facts={"bills": f"{profile.bills:,}"},
        titles={},
    )
    say(f"generating and loading {profile.bills:,} bills")
    made = world.made(folder, profile.bills, profile.days)
    copies.fill_sqlite(made)
    if profile.groups:
        add_rounds(run, profile, made, contestants)
    add_parts(run, profile, made, profile.parts)
    return run


def again(profile: Profile, folder: Path, parts: Sequence[str]) -> report.Run:
    """Rerun some parts of the last run; return the updated run."""
    run = report.read(profile.name)
    made = world.made(folder, profile.bills, profile.days)
    copies.fill_sqlite(made)
    if ROUNDS in parts:
        run.machine, run.versions = machine.described(), machine.versions()
        add_rounds(run, profile, made, field())
    add_parts(run, profile, made, [part for part in parts if part != ROUNDS])
    return run


def add_rounds(run: report.Run, profile: Profile, made: World, contestants: dict[str, Contestant]) -> None:
    run.titles |= {one.name: one.title for one in contestants.values()}
    run.left_out = [f"{one.title}: {one.missing}" for one in contestants.values() if one.missing]
    for reason in run.left_out:
        say(f"left out: {reason}")
    measured = rounds(profile, made, contestants, run)
    run.measured |= measured
    run.conclude(judged(measured))


def add_parts(run: report.Run, profile: Profile, made: World, parts: Sequence[str]) -> None:
    for part in parts:
        # A run takes a long time and a part may fail, so the results so far are saved before each part.
        report.write(run)
        say(f"--- {part}")
        PARTS[part](run, made, profile)


def rounds(profile: Profile, made: World, contestants: dict[str, Contestant], run: report.Run) -> dict[Pair, Measured]:
    """Start the profile's contestants, check their responses and duties, and measure them in alternating rounds."""
    questions = workloads.drawn(made)
    run.titles |= {one.name: one.title for one in questions.values()}
    named = dict.fromkeys(pair.contestant for group in profile.groups for pair in group)
    present = [contestants[name] for name in named if not contestants[name].missing]
    pinned = cores()
    measured: dict[Pair, Measured] = {}
    began = time.monotonic()
    with all_running([contestants[OURS]], made, None) as alone:
        sameness.save_pages(alone[OURS], made, questions["page"])
    with all_running(present, made, pinned.contestant) as started:
        agree(started, questions, run)
        for one in started.values():
            if one.contestant.has_duties:
                duties.check(one.contestant.duties_file(made), one, phrased(one, questions["bill"]))
                say(f"{one.contestant.title}: performs all duties")
        for group in profile.groups:
            matches = [
                (started[pair.contestant], questions[pair.workload]) for pair in group if pair.contestant in started
            ]
            measured |= alternate(matches, profile.rounds, profile.seconds, pinned.wrk, say)
    run.facts["seconds of rounds"] = round(time.monotonic() - began)
    return measured


def agree(started: dict[str, Running], questions: dict[str, Workload], run: report.Run) -> None:
    others = [one for name, one in started.items() if name != OURS]
    compared = sameness.check(started[OURS], others, questions.values())
    run.facts["answers compared before timing"] = f"{compared}, all the same"
    say(f"{compared} answers compared: all the same")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
