"""Compares the cost of a request in two source trees, such as two commits, in short alternating rounds.

    git worktree add /tmp/before COMMIT
    PYTHONPATH=tests .venv/bin/python -m bench.versions --before /tmp/before

Gives each tree a store of its own. By default, the application of each tree
answers polls in a process without HTTP, a hundred per round. The rounds alternate,
so that other load on the machine affects both equally, and the tenth percentile is
compared, because other load can only increase the processor time. With --http,
every round sends requests to the service with wrk for a few seconds, and the
medians are compared; --request chooses the kind of request. Prints one line of JSON.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from bench import machine, trees
from bench.contestants import free_port
from bench.pull import HOST, wait_for

BASE = {"kind": "base", "id": "mb_bench", "tiers": [{"code": "gold", "name": "Gold"}]}
SHOP = {"kind": "shop", "id": "sh_bench", "name": "Bench", "franchiseId": "bench", "providerId": "mb_bench"}
MEMBER = {
    "kind": "member",
    "providerId": "mb_bench",
    "createdAt": "2026-01-01T12:00:00+07:00",
    "rank": "gold",
    "points": 120,
    "tel": "0890000000",
}
BILL = {
    "kind": "bill",
    "shopId": "sh_bench",
    "closedAt": "2026-01-01T12:00:00+07:00",
    "lines": [
        {"productId": f"p_{number}", "name": f"Dish {number}", "qty": number, "unitPrice": 120, "total": 120 * number}
        for number in range(1, 6)
    ],
    "amounts": {"subtotal": 1800, "net": 1800},
    "payments": [{"name": "Cash", "amount": 1800, "change": 0}],
}
BILLS = MEMBERS = 200
# `updatedSince` is later than every stored change, so a poll gets an empty list.
POLL = "/ext/v1/transactions?shopId=sh_bench&updatedSince=2099-01-01T00:00:00Z"
PATHS = {
    "poll": POLL,
    "page": "/ext/v1/transactions?shopId=sh_bench&from=20260101&to=20260101&limit=200",
    "bill": "/ext/v1/transactions/b_7?shopId=sh_bench",
    "members": "/ext/v1/members?providerId=mb_bench&limit=200",
    "shops": "/ext/v1/shops",
}
PLENTY = 100_000_000
POLLS = 100
WARM_UP = 2

Result = TypeVar("Result")


class Cost(Struct, frozen=True):
    """The cost of a request in one round: microseconds of processor time, and responses per second."""

    cpu_us: float
    rate: float


class Service:
    """A service that runs the code of one source tree."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self._worker: subprocess.Popen[str] | None = None
        self._environment = os.environ | {
            "PYTHONPATH": trees.python_path(tree),
            "COUNTERFOIL_STORE": str(folder / "store"),
        }
        records = [BASE, SHOP]
        records += [BILL | {"id": f"b_{number}"} for number in range(BILLS)]
        records += [MEMBER | {"id": f"m_{number}"} for number in range(MEMBERS)]
        self._run("load", "-", stdin="\n".join(map(json.dumps, records)))
        limits = ("--per-min", str(PLENTY), "--per-day", str(PLENTY))
        self._key = json.loads(self._run("keys", "issue", "--shop", SHOP["id"], *limits, "--json"))["key"]

    def _run(self, *words: str, stdin: str = "") -> str:
        command = [sys.executable, "-m", "counterfoil", *words]
        done = subprocess.run(command, env=self._environment, input=stdin, capture_output=True, text=True, check=True)
        return done.stdout

    @contextmanager
    def serving(self) -> Iterator[None]:
        port = free_port()
        words = ["serve", "--port", str(port), "--admin-port", "0", "--log", "off", "--workers", "1"]
        process = subprocess.Popen(
            [sys.executable, "-m", "counterfoil", *words], env=self._environment, start_new_session=True
        )
        self._process_id, self._url = process.pid, f"http://{HOST}:{port}"
        try:
            wait_for(f"{self._url}/ext/v1/openapi.json")
            yield
        finally:
            process.terminate()
            process.wait()

    @contextmanager
    def working(self) -> Iterator[None]:
        path, _, query = POLL.partition("?")
        command = [sys.executable, str(Path(__file__).with_name("poll_worker.py")), path, query, self._key]
        self._worker = subprocess.Popen(
            command, env=self._environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            yield
        finally:
            self._worker.communicate()

    def poll_in_process(self, polls: int) -> float:
        """Return the processor time per poll in microseconds."""
        assert self._worker
        assert self._worker.stdin
        assert self._worker.stdout
        self._worker.stdin.write(f"{polls}\n")
        self._worker.stdin.flush()
        return float(self._worker.stdout.readline())

    def request(self, path: str, seconds: int, connections: int) -> Cost:
        words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-H", f"Authorization: Bearer {self._key}"]
        before = machine.processor_seconds(self._process_id)
        done = subprocess.run([*words, f"{self._url}{path}"], capture_output=True, text=True, check=True)
        after = machine.processor_seconds(self._process_id)
        if "Non-2xx" in done.stdout:
            raise SystemExit(done.stdout)
        lines = [line.split() for line in done.stdout.splitlines()]
        requests = next(int(words[0]) for words in lines if words[1:3] == ["requests", "in"])
        rate = next(float(words[1]) for words in lines if words and words[0] == "Requests/sec:")
        return Cost(((after or 0) - (before or 0)) / requests * 1e6, rate)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--before", type=Path, required=True, help="source tree to compare with")
    parser.add_argument("--after", type=Path, default=Path.cwd(), help="source tree to measure")
    parser.add_argument("--http", action="store_true", help="send requests to the whole service with wrk")
    parser.add_argument("--request", choices=PATHS, default="poll", help="kind of request with --http")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=int, default=2, help="length of a round with --http")
    parser.add_argument("--connections", type=int, default=8, help="number of connections with --http")
    asked = parser.parse_args()
    with ExitStack() as stack:
        services = []
        for tree in (asked.before, asked.after):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            services.append(Service(tree.resolve(), folder))
            stack.enter_context(services[-1].serving() if asked.http else services[-1].working())
        if asked.http:
            result = _over_http(services, PATHS[asked.request], asked.rounds or 15, asked.seconds, asked.connections)
        else:
            result = _in_process(services, asked.rounds or 300)
    print(json.dumps(result))


def _in_process(services: list[Service], count: int) -> dict[str, object]:
    rounds = list(_alternate(count, lambda place: services[place].poll_in_process(POLLS)))
    low = [statistics.quantiles([costs[place] for costs in rounds], n=10)[0] for place in (0, 1)]
    return {
        "rounds": count,
        "cpuUs": {"before": round(low[0], 1), "after": round(low[1], 1)},
        "cpuRatio": round(low[1] / low[0], 4),
        "medianRatio": round(statistics.median(after / before for before, after in rounds), 4),
    }


def _over_http(services: list[Service], path: str, count: int, seconds: int, connections: int) -> dict[str, object]:
    rounds = _alternate(count, lambda place: services[place].request(path, seconds, connections))
    return _summary([list(pair) for pair in rounds])


def _alternate(count: int, measure: Callable[[int], Result]) -> Iterator[tuple[Result, Result]]:
    """Yield the results of both trees for each round after the warm-up rounds. The trees take turns going first."""
    for number in range(count + WARM_UP):
        order = (0, 1) if number % 2 else (1, 0)
        results = {place: measure(place) for place in order}
        if number >= WARM_UP:
            yield results[0], results[1]


def _summary(rounds: list[list[Cost]]) -> dict[str, object]:
    cpu = [statistics.median(costs[place].cpu_us for costs in rounds) for place in (0, 1)]
    rate = [statistics.median(costs[place].rate for costs in rounds) for place in (0, 1)]
    ratios = [after.cpu_us / before.cpu_us for before, after in rounds]
    return {
        "rounds": len(rounds),
        "cpuUs": {"before": round(cpu[0], 1), "after": round(cpu[1], 1)},
        "perSecond": {"before": round(rate[0]), "after": round(rate[1])},
        "cpuRatio": {"median": round(statistics.median(ratios), 3), "quartiles": _quartiles(ratios)},
    }


def _quartiles(ratios: list[float]) -> list[float]:
    first, _, third = statistics.quantiles(ratios, n=4)
    return [round(first, 3), round(third, 3)]


if __name__ == "__main__":
    main()
