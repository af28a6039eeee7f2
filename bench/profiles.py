"""The profiles of the benchmark: quick, full, and growth."""

from itertools import product

from msgspec import Struct

from bench.rounds import Pair


class Profile(Struct, frozen=True, kw_only=True):
    """A benchmark profile. The pairs in a group are measured in alternating rounds; `parts` names other experiments."""

    name: str
    command: str
    bills: int
    days: int = 120
    rounds: int = 5
    seconds: int = 1
    groups: tuple[list[Pair], ...] = ()
    parts: tuple[str, ...] = ()


def each(contestants: tuple[str, ...], workloads: tuple[str, ...]) -> list[Pair]:
    return [Pair(contestant, workload) for workload, contestant in product(workloads, contestants)]


OURS, FASTAPI, LIMIT = ("counterfoil",), ("fastapi",), ("memory",)
PEERS = ("fastapi", "fastify", "datasette")
STORED = ("stored", "stored-duties")
COMPILED = ("bun-duties", "go-duties", "bun", "go")
HELLO = each(LIMIT, ("hello",))
ENCODED = each(OURS, ("page-gzip", "page-zstd"))
SMALL = ("poll", "bill", "member", "lookup")

QUICK = Profile(
    name="quick",
    command="make bench-quick",
    bills=10_000,
    days=31,
    groups=(
        [*HELLO, *each((*OURS, *STORED, *COMPILED), SMALL), *each(FASTAPI, ("poll",))],
        [*each((*OURS, *PEERS, *STORED, *COMPILED, *LIMIT, "nginx"), ("page",)), *ENCODED],
        each((*OURS, *FASTAPI), ("members", "shops")),
    ),
    parts=("disk",),
)
FULL = Profile(
    name="full",
    command="make bench",
    bills=100_000,
    seconds=2,
    groups=(
        [*HELLO, *each((*OURS, *PEERS, *STORED, *COMPILED), SMALL)],
        [*each((*OURS, *PEERS, *STORED, *COMPILED, *LIMIT, "nginx"), ("page",)), *ENCODED],
        each((*OURS, *PEERS, *STORED, *COMPILED), ("members", "shops")),
    ),
    parts=("disk", "workers", "mixed", "start", "postgres", "load", "end-to-end", "growth"),
)
GROWTH = Profile(name="growth", command="make bench-growth", bills=10_000, days=31, parts=("growth-to-the-end",))
PROFILES = {profile.name: profile for profile in (QUICK, FULL, GROWTH)}
