"""Run one round of wrk and parse its result.

wrk requests the paths of a workload in turn, over a few connections.
"""

import json
import subprocess
import tempfile
import time
from pathlib import Path

from msgspec import Struct

from bench import machine
from bench.contestants import Running
from bench.workloads import Workload

# Small responses need more connections to keep a server busy. For large responses, there are only a few
# connections, because responses still in flight at the end are not counted.
CONNECTIONS = {"small": 8, "large": 3, "huge": 1}
# With fewer responses than this in a round, the responses still in flight at the end would distort the rate.
ENOUGH = 30
SETTLE_SEC, SETTLE_TRIES = 0.2, 300
SCRIPT = """
local paths = {}
local callers = %(callers)s
local asked = 0

init = function()
    for line in io.lines("%(paths)s") do paths[#paths + 1] = line end
end

-- Requests the paths in turn. In each pass over the paths, a path is requested by the next caller.
request = function()
    local path = paths[asked %% #paths + 1]
    local caller = callers[(asked + math.floor(asked / #paths)) %% #callers + 1]
    asked = asked + 1
    return wrk.format("GET", path, caller)
end

done = function(summary, latency)
    local errors = summary.errors
    io.write(string.format(
        '\\nRESULT {"requests":%%d,"micros":%%d,"bytes":%%d,"failed":%%d,"mean":%%d,"p50":%%d,"p99":%%d}\\n',
        summary.requests, summary.duration, summary.bytes,
        errors.connect + errors.read + errors.write + errors.status + errors.timeout,
        latency.mean, latency:percentile(50), latency:percentile(99)))
end
"""


class Round(Struct, frozen=True):
    """The results of one round. Times are in microseconds; `cpu_us` is the processor time per response."""

    rate: float
    p50_us: int
    p99_us: int
    bytes_each: float | None
    cpu_us: float | None
    answers: int


class Failed(Exception):
    """Some requests failed or got an error status."""


def phrased(running: Running, workload: Workload) -> list[str]:
    """Return the questions as paths for the contestant, leaving out those that it does not support."""
    asked = [running.contestant.phrase(question) for question in workload.questions]
    return [path for path in asked if path is not None]


def drive(running: Running, workload: Workload, seconds: int, cores: set[int] | None) -> Round | None:
    """Run wrk for `seconds` seconds; return the result, or None if no response arrived in time."""
    paths = phrased(running, workload)
    with tempfile.TemporaryDirectory() as scratch:
        script = _written(Path(scratch), paths, running.headers(workload.franchise, workload.encoding))
        pin = ["taskset", "-c", ",".join(map(str, sorted(cores)))] if cores else []
        connections = CONNECTIONS[workload.size] * running.contestant.workers
        words = ["-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s", "-s", str(script)]
        before = machine.processor_seconds(running.process_id)
        done = subprocess.run([*pin, "wrk", *words, running.url], capture_output=True, text=True, check=True)
        after = machine.processor_seconds(running.process_id)
    told = json.loads(done.stdout.rpartition("RESULT ")[2])
    if told["failed"]:
        raise Failed(f"{running.contestant.title}, {workload.title}: {told}")
    if not told["requests"]:
        return None
    seconds_taken = told["micros"] / 1e6
    rate = told["requests"] / seconds_taken
    if told["requests"] < ENOUGH:
        # In a closed loop, the rate is the number of connections divided by the mean time per response.
        rate = connections / (told["mean"] / 1e6)
    spent = after - before if before is not None and after is not None else None
    return Round(
        rate=rate,
        p50_us=told["p50"],
        p99_us=told["p99"],
        bytes_each=told["bytes"] / told["requests"] if told["requests"] >= ENOUGH else None,
        cpu_us=spent / (rate * seconds_taken) * 1e6 if spent is not None else None,
        answers=told["requests"],
    )


def settle(running: Running) -> None:
    """Wait up to a minute for a contestant to finish the requests that wrk has abandoned."""
    for _ in range(SETTLE_TRIES):
        before = machine.processor_seconds(running.process_id)
        time.sleep(SETTLE_SEC)
        after = machine.processor_seconds(running.process_id)
        if before is None or after is None or after - before < SETTLE_SEC / 5:
            return


def _written(folder: Path, paths: list[str], callers: list[dict[str, str]]) -> Path:
    listed, script = folder / "paths", folder / "ask.lua"
    listed.write_text("\n".join(paths) + "\n", "utf-8")
    tables = ", ".join(
        "{" + ", ".join(f'["{name}"] = "{value}"' for name, value in headers.items()) + "}" for headers in callers
    )
    script.write_text(SCRIPT % {"paths": listed, "callers": f"{{{tables}}}"}, "utf-8")
    return script
