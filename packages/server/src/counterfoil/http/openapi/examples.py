"""Invented example data, from `examples.json`. The functions that write responses turn it into complete bodies.

In the file, "@bill.items.0" stands for a part of another object, and an object with "@like" for another object with
some of its fields replaced.
"""

from functools import cache, reduce
from importlib.resources import files
from typing import Any

from msgspec import UNSET, UnsetType, json

from counterfoil.domain.access import DEFAULT_PER_MIN, WINDOW_SEC
from counterfoil.domain.problems import RATE_LIMITED, Problem, Refused, TooManyRequests
from counterfoil.http import wire
from counterfoil.http.openapi.operations import DOCUMENT, Json, Operation
from counterfoil.model.version import API_VERSION
from counterfoil.reads import Answer

REQUEST_ID = "9f2c41d07ab35e68"
_SERVER_TIME = 1_790_856_000_123  # 2026-10-01T12:00:00.123Z
DESCRIPTION = {"openapi": "3.1.0", "info": {"title": "Counterfoil", "version": API_VERSION}, "paths": {}}
_FILE: Json = json.decode((files("counterfoil.http.openapi") / "examples.json").read_bytes())


def _resolved(node: Any) -> Any:
    if isinstance(node, str) and node.startswith("@"):
        name, *path = node[1:].split(".")
        return reduce(lambda part, key: part[int(key) if key.isdigit() else key], path, _object(name))
    if isinstance(node, list):
        return [_resolved(part) for part in node]
    if isinstance(node, dict):
        parts = {key: _resolved(part) for key, part in node.items()}
        return parts.pop("@like", {}) | parts
    return node


@cache
def _object(name: str) -> Any:
    return _resolved(_FILE["objects"][name])


def examples_of(schema: str) -> list[Any]:
    """Return the examples of a published object."""
    examples: list[Any] = _resolved(_FILE["schemas"][schema])
    return examples


def example_bodies(operation: Operation) -> dict[str, Any]:
    """Return example bodies of the operation, by name."""
    if operation.public:
        return {"description": DESCRIPTION}
    responses = _resolved(_FILE["responses"][operation.id])
    return {name: _example_body(operation, name, data) for name, data in responses.items()}


def _example_body(operation: Operation, name: str, data: Any) -> Any:
    next_cursor: str | UnsetType | None = UNSET
    mark: str | UnsetType | None = UNSET
    if operation.cursor:
        next_cursor = DOCUMENT["parameters"][operation.cursor]["example"] if name == "fullPage" else None
    if operation.marked:
        mark = None if next_cursor else DOCUMENT["parameters"]["since"]["example"]
    answer = Answer(data=json.encode(data), horizon=_SERVER_TIME, seal=b"", next_cursor=next_cursor, mark=mark)
    return json.decode(wire.success_body(answer))


def example_error_body(problem: Problem) -> Any:
    """Return the body of an error response."""
    return json.decode(wire.problem_body(example_refusal(problem)))


def example_refusal(problem: Problem) -> Refused:
    if problem is RATE_LIMITED:
        return TooManyRequests(key_id="", retry_after_sec=17, limit=DEFAULT_PER_MIN, window_sec=WINDOW_SEC)
    return Refused(problem)
