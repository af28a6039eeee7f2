"""The targets of the wrk rounds, as ratios of two results from the same run.

A target holds on every kind of machine that was measured, so that a ratio below it shows a change of the code, and not
of the machine. docs/evidence/performance.md says which ratios were wished for and are out of reach.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

from bench.rounds import Measured, Pair

OURS = "counterfoil"
STORED = "FastAPI on our stored JSON with the same duties"
PEERS = ("fastapi", "fastify", "datasette")

Results = Mapping[Pair, Measured]


class Verdict(Struct, frozen=True, kw_only=True):
    """A target and its result.

    `ratio` is the measured value. For some targets it is not a ratio but, for
    example, a number of seconds. It is None if it was not measured.
    """

    what: str
    target: str
    ratio: float | None
    reached: bool | None
    by_processor: float | None = None
    """`ratio`, but computed from processor time, which other load on the machine hardly affects."""


def at_least(what: str, wanted: float, ratio: float | None, by_processor: float | None = None) -> Verdict:
    reached = None if ratio is None else ratio >= wanted
    return Verdict(what=what, target=f">= {wanted:,g}", ratio=ratio, reached=reached, by_processor=by_processor)


def at_most(what: str, wanted: float, ratio: float | None, by_processor: float | None = None) -> Verdict:
    reached = None if ratio is None else ratio <= wanted
    return Verdict(what=what, target=f"<= {wanted:,g}", ratio=ratio, reached=reached, by_processor=by_processor)


def judged(results: Results) -> list[Verdict]:
    """Return the verdicts on the workloads that wrk runs."""
    return [
        _rates(results, f"page, times {STORED}", 0.9, (OURS, "page"), ("stored-duties", "page")),
        _rates(results, f"poll, times {STORED}", 1.5, (OURS, "poll"), ("stored-duties", "poll")),
        _rates(results, f"one bill, times {STORED}", 1.5, (OURS, "bill"), ("stored-duties", "bill")),
        _rates(results, "page, times Bun with the same duties", 2, (OURS, "page"), ("bun-duties", "page")),
        _rates(results, "page, times Go with the same duties", 4, (OURS, "page"), ("go-duties", "page")),
        _rates(results, "poll, times FastAPI", 4, (OURS, "poll"), ("fastapi", "poll")),
        _rates(results, "page, times FastAPI", 20, (OURS, "page"), ("fastapi", "page")),
        _rates(results, "page, times Datasette", 10, (OURS, "page"), ("datasette", "page")),
        _rates(results, "page, times Fastify", 5, (OURS, "page"), ("fastify", "page")),
        *_encodings(results),
        _rates(results, "members page, times FastAPI", 7, (OURS, "members"), ("fastapi", "members")),
        _rates(results, "shops, times FastAPI", 10, (OURS, "shops"), ("fastapi", "shops")),
    ]


def _encodings(results: Results) -> list[Verdict]:
    plain = [results[pair].rate for name in PEERS if (pair := Pair(name, "page")) in results]
    verdicts = []
    for encoding in ("gzip", "zstd"):
        ours = results.get(Pair(OURS, f"page-{encoding}"))
        smaller = _ratio(results, (OURS, "page"), (OURS, f"page-{encoding}"), _bytes)
        verdicts.append(at_least(f"page in {encoding}, times smaller", 5, smaller))
        against = ours.rate / max(plain) if ours and plain else None
        verdicts.append(at_least(f"page in {encoding}, times the best peer's plain page", 1, against))
    return verdicts


def _rates(results: Results, what: str, wanted: float, ours: tuple[str, str], other: tuple[str, str]) -> Verdict:
    spent = _ratio(results, other, ours, lambda one: one.cpu_us)
    return at_least(what, wanted, _ratio(results, ours, other, lambda one: one.rate), spent)


def _bytes(one: Measured) -> float | None:
    return one.bytes_each


def _ratio(
    results: Results, over: tuple[str, str], under: tuple[str, str], value: Callable[[Measured], float | None]
) -> float | None:
    above, below = results.get(Pair(*over)), results.get(Pair(*under))
    if above is None or below is None:
        return None
    top, bottom = value(above), value(below)
    return top / bottom if top is not None and bottom else None
