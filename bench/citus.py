"""Compare Citus with plain PostgreSQL in the same run: the time per loaded record and per request.

    COUNTERFOIL_TEST_CITUS=postgresql://postgres@coordinator/postgres PYTHONPATH=tests .venv/bin/python -m bench.citus

Plain PostgreSQL is a database on the coordinator's server in which Citus is not installed.
Prints a Markdown table with the medians over all rounds and their ratio.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any

from citus.cluster import cluster
from counterfoil.backends.postgres.administration import migrate
from records import EVER, Record, base, bills, branch, member
from running_service import RunningService

SHOPS = 20
ASKED = 200
PLENTY: dict[str, Any] = {"per_min": 10**9, "per_day": 10**9}
PLAIN, CITUS = "PostgreSQL", "Citus"

Taken = dict[str, float]
Query = dict[str, Any]
_numbers = count(1)


def plain_database() -> str:
    node, name = cluster().coordinator, f"bench_plain_{next(_numbers)}"
    node.command(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    node.command(f"CREATE DATABASE {name}")
    migrate(node.url(name))
    return node.url(name)


def measured(stack: ExitStack, number: int) -> dict[str, Taken]:
    """Run one round on empty stores; return the time of each operation in milliseconds, per store."""
    addresses = {PLAIN: plain_database(), CITUS: cluster().fresh_database()[1]}
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    services = {
        kind: stack.enter_context(closing(RunningService(folder / kind, store=url))) for kind, url in addresses.items()
    }
    shops = [branch(franchiseId="f", providerId=f"base-{place % 2}") for place in range(SHOPS)]
    taken: dict[str, Taken] = {kind: {} for kind in services}
    for what, records in loads(shops, number):
        for kind, service in services.items():
            taken[kind][what] = loading(service, records)
    keys = {kind: service.key(franchise="f", **PLENTY) for kind, service in services.items()}
    for what, path, query in questions(services[PLAIN], keys[PLAIN], shops[7]):
        for kind, found in asked(services, keys, path, query).items():
            taken[kind][what] = found
    return taken


def loads(shops: list[Record], number: int) -> Iterator[tuple[str, list[Record]]]:
    of_each = [bills(of, number // SHOPS) for of in shops]
    again = [record | {"cashier": "Lek"} for of in of_each for record in of]
    yield "load a shop", [*shops, base("base-0"), base("base-1")]
    yield f"load a bill, {SHOPS} shops in turn", [record for one in zip(*of_each, strict=True) for record in one]
    yield "load a changed bill, one shop after the other", again
    yield "load a bill that has not changed", again
    yield "load a member", [member(of) for of in shops for _ in range(number // SHOPS)]


def loading(service: RunningService, records: list[Record]) -> float:
    began = time.perf_counter()
    service.load(*records)
    return (time.perf_counter() - began) / len(records) * 1000


def questions(service: RunningService, key: str, of: Record) -> Iterator[tuple[str, str, Query]]:
    page = {"shopId": of["id"], "limit": 200}
    bill_id = service.data("transactions", key, **page, updatedSince=EVER)[0]["id"]
    yield "page of 200 bills by change", "transactions", page | {"updatedSince": EVER}
    yield "page of 200 bills by day", "transactions", page | {"from": "20260101", "to": "20260131"}
    yield "poll without a change", "transactions", page | {"updatedSince": "2026-06-01T00:00:00Z"}
    yield f"one bill, key for {SHOPS} shops", f"transactions/{bill_id}", {}
    yield "page of 200 members", "members", {"providerId": of["providerId"], "limit": 200}
    yield "shops", "shops", {}


def asked(services: dict[str, RunningService], keys: dict[str, str], path: str, query: Query) -> Taken:
    """Send the same HTTP request many times; return the median time in milliseconds, per store.

    The stores take turns, so other load affects both equally.
    """
    taken: dict[str, list[float]] = {kind: [] for kind in services}
    for _ in range(ASKED):
        for kind, service in services.items():
            url = f"{service.url}{service.settings.prefix}/v1/{path}"
            began = time.perf_counter()
            answer = service.server.client.get(url, params=query, headers={"authorization": f"Bearer {keys[kind]}"})
            taken[kind].append(time.perf_counter() - began)
            assert answer.status_code == 200, answer.text
    return {kind: statistics.median(found[ASKED // 10 :]) * 1000 for kind, found in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare Citus with plain PostgreSQL.")
    parser.add_argument("--bills", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    found = []
    for _ in range(arguments.rounds):
        with ExitStack() as stack:
            found.append(measured(stack, arguments.bills))
    print(f"| milliseconds | {PLAIN} | {CITUS} | ratio |\n|---|---|---|---|")
    for what in found[0][PLAIN]:
        plain, citus = (statistics.median(one[kind][what] for one in found) for kind in (PLAIN, CITUS))
        print(f"| {what} | {plain:.2f} | {citus:.2f} | {citus / plain:.1f} |")


if __name__ == "__main__":
    main()
