"""Check, before anything is timed, that all contestants give the same answers to the same questions."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import httpx

from bench.contestants import Running
from bench.questions import Backfill, Question
from bench.workloads import Workload
from bench.world import World

CHECKED = 6


class Differs(Exception):
    """A contestant's answer differs from ours, so comparing its speed with ours would be meaningless."""


@cache
def _client() -> httpx.Client:
    """Return the client that all requests share, because creating a client takes longer than a request.

    The client does not keep idle connections.
    """
    return httpx.Client(timeout=60, limits=httpx.Limits(max_keepalive_connections=0))


def data_of(running: Running, workload: Workload, question: Question) -> Any:
    """Return a contestant's answer without the envelope, or None if it does not support the question."""
    path = running.contestant.phrase(question)
    if path is None:
        return None
    answer = _client().get(running.url + path, headers=running.headers(workload.franchise, "identity")[0])
    answer.raise_for_status()
    body = answer.json()
    return body["data"] if isinstance(body, dict) else body


def check(ours: Running, others: Iterable[Running], workloads: Iterable[Workload]) -> int:
    """Compare some answers for each workload; return how many were compared."""
    compared = 0
    for workload in workloads:
        for question in workload.questions[:: max(1, len(workload.questions) // CHECKED)]:
            expected = data_of(ours, workload, question)
            for other in others:
                answered = data_of(other, workload, question)
                if answered is None or expected is None:
                    continue
                compared += 1
                if not same(expected, answered):
                    path = other.contestant.phrase(question)
                    raise Differs(
                        f"{other.contestant.title} answers {path} differently: {difference(expected, answered)}"
                    )
    return compared


def same(ours: Any, theirs: Any) -> bool:
    """Return whether two answers are equal. 120 equals 120.0, and Datasette may wrap a single bill in a list."""
    return theirs in (ours, [ours])


def difference(ours: Any, theirs: Any, where: str = "data") -> str:
    """Describe one difference between two answers."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in ours.keys() | theirs.keys():
            if ours.get(name) != theirs.get(name):
                return difference(ours.get(name), theirs.get(name), f"{where}.{name}")
    if isinstance(ours, list) and isinstance(theirs, list):
        if len(ours) != len(theirs):
            return f"{where} has {len(theirs)} elements, not {len(ours)}"
        for place, (own, other) in enumerate(zip(ours, theirs, strict=True)):
            if own != other:
                return difference(own, other, f"{where}[{place}]")
    return f"{where} is {theirs!r}, not {ours!r}"


def save_pages(ours: Running, world: World, workload: Workload) -> None:
    """Save our pages as files. The contestants that measure the upper limit serve these files."""
    world.limits.mkdir(exist_ok=True)
    for question in workload.questions:
        if isinstance(question, Backfill):
            path = ours.contestant.phrase(question)
            answer = _client().get(f"{ours.url}{path}", headers=ours.headers(workload.franchise, "identity")[0])
            answer.raise_for_status()
            (world.limits / f"page-{question.number}.json").write_bytes(answer.content)
