"""Measure the cost of requests without a valid key, compared with a customer's requests: `python -m bench.strangers`.

All callers take turns in one run, so that other load affects all of them equally.
With `--folder`, the data is kept for the next run.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import machine
from bench.contestants import HOST, PATIENCE_SEC, free_port
from bench.starting import answers
from bench.world import COUNTERFOIL, GROUP, World, issue_keys, made
from counterfoil.domain import credentials

ROUNDS, SECONDS, CONNECTIONS = 7, 2, 8
SCRIPT = """
local callers = { %(callers)s }
local asked = 0
request = function()
    asked = asked + 1
    return wrk.format("GET", "%(path)s", callers[asked %% #callers + 1])
end
done = function(summary) io.write("\\nANSWERS " .. summary.requests .. "\\n") end
"""


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--folder", type=Path)
    with tempfile.TemporaryDirectory() as scratch:
        folder = words.parse_args().folder or Path(scratch)
        world = made(folder, 10_000, 31)
        with _service(world) as (port, session):
            _compare(port, session, _callers(world))


def _callers(world: World) -> dict[str, list[str]]:
    """Return the keys that each kind of caller sends; an empty string means that no key is sent."""
    keys = issue_keys(world, GROUP, 20)
    unknown = [credentials.format_key(credentials.generate(os.urandom)) for _ in range(20)]
    mistyped = [f"{key[:30]}{'A' if key[30] != 'A' else 'B'}{key[31:]}" for key in keys]
    return {"a customer": keys, "no key": [""], "a mistyped key": mistyped, "an unknown key": unknown}


@contextmanager
def _service(world: World) -> Iterator[tuple[int, int]]:
    port = free_port()
    words = [*COUNTERFOIL, "serve", "--port", str(port), "--admin-port", "0", "--log", "off"]
    server = subprocess.Popen(words, env=world.environment, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        end = time.monotonic() + PATIENCE_SEC
        while not answers(port) and time.monotonic() < end:
            time.sleep(0.05)
        yield port, server.pid
    finally:
        server.terminate()
        server.wait()


def _compare(port: int, session: int, callers: dict[str, list[str]]) -> None:
    spent: dict[str, list[float]] = {name: [] for name in callers}
    for _ in range(ROUNDS):
        for name, keys in callers.items():
            spent[name].append(_round(port, session, keys))
    customer = statistics.median(spent["a customer"])
    print("| caller | processor time, µs per request | ratio to a customer |\n|---|---|---|")
    for name, rounds in spent.items():
        median = statistics.median(rounds)
        print(f"| {name} | {median:.0f} ({min(rounds):.0f}-{max(rounds):.0f}) | {median / customer:.2f} |")


def _round(port: int, session: int, keys: list[str]) -> float:
    """Return the processor time per response, in microseconds."""
    headers = ", ".join(f'{{ ["authorization"] = "Bearer {key}" }}' if key else "{}" for key in keys)
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT % {"callers": headers, "path": "/ext/v1/usage"})
        script.flush()
        before = machine.processor_seconds(session) or 0.0
        words = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "-s", script.name, f"http://{HOST}:{port}"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        after = machine.processor_seconds(session) or 0.0
    return (after - before) / int(done.stdout.rpartition("ANSWERS ")[2]) * 1e6


if __name__ == "__main__":
    main()
