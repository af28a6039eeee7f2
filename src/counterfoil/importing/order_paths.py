"""The expressions of `apis/*.toml`: where a value is in an order of an API.

`payments[].tips` has a value for each payment; `refunds[status!=FAILED|REJECTED].amount` only for those that satisfy
the conditions, which are separated by commas; `$` begins at the order instead of its part. `+` and `-` join terms, of
which those with `!` are required; `|` separates alternatives, of which the first one that has a value counts.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from typing import Any

from msgspec import Struct

from counterfoil.importing.results import Reason, RowProblem

Order = dict[str, Any]
NOTHING = "0"
"""The term that gives a sum a value if there is nothing to add."""
_OPERATORS = re.compile(r" ([|+-]) ")
_STEP = re.compile(r"(\w*)(\[[^\]]*\])?(?:\.|$)")
_CONDITION = re.compile(r"(!?)(\$?(?:[\w.]|\[[^\]]*\])+)(?:(!?=|!?~)(.*))?")


class _Condition(Struct, frozen=True):
    """What a value must be: equal to one of several words, similar to one, or (without words) there at all."""

    path: "_Path"
    is_negated: bool
    words: frozenset[str] | None
    pattern: re.Pattern[str] | None

    def holds(self, order: Order, part: Order) -> bool:
        found = list(self.path.values(order, part))
        if self.pattern:
            is_true = any(self.pattern.search(word_of(value).lower()) for value in found)
        elif self.words is not None:
            is_true = any(word_of(value) in self.words for value in found)
        else:
            # The number 0 is a value.
            is_true = any(value or (isinstance(value, int | Decimal) and value is not False) for value in found)
        return is_true != self.is_negated


class _Step(Struct, frozen=True):
    name: str
    conditions: tuple[_Condition, ...] | None = None
    """None if the step is not a list of parts, or one part that is used only if it satisfies conditions."""


class _Path(Struct, frozen=True):
    steps: tuple[_Step, ...]
    from_order: bool

    def values(self, order: Order, part: Order) -> Iterator[Any]:
        """Yield the values that this path leads to, except empty ones."""
        return _followed(order, order if self.from_order else part, self.steps)


def _followed(order: Order, value: Any, steps: tuple[_Step, ...]) -> Iterator[Any]:
    if not steps:
        if value is not None and value != "":
            yield value
        return
    step, rest = steps[0], steps[1:]
    inner = (value.get(step.name) if isinstance(value, dict) else None) if step.name else value
    if step.conditions is None:
        yield from _followed(order, inner, rest)
        return
    # Only a part with conditions may be an object, because a list that is none would lose its elements.
    for part in [inner] if isinstance(inner, dict) and step.conditions else parts_of(inner):
        if all(condition.holds(order, part) for condition in step.conditions):
            yield from _followed(order, part, rest)


class _Term(Struct, frozen=True):
    sign: int
    is_required: bool
    path: _Path | None


class Expression(Struct, frozen=True):
    alternatives: tuple[tuple[_Term, ...], ...]

    def values(self, order: Order, part: Order) -> list[tuple[int, Any]]:
        """Return the values of the first alternative that has any, each with its sign, which is 0 for the number 0."""
        for terms in self.alternatives:
            found: list[tuple[int, Any]] = []
            for term in terms:
                values = list(term.path.values(order, part)) if term.path else [0]
                if term.is_required and not values:
                    found = []
                    break
                found += [(term.sign, value) for value in values]
            if found:
                return found
        return []


@cache
def expression(text: str) -> Expression:
    alternatives: list[list[_Term]] = [[]]
    operators = ["+", *_OPERATORS.findall(text)]
    for operator, term in zip(operators, _OPERATORS.split(text)[::2], strict=True):
        if operator == "|":
            alternatives.append([])
        path, is_required = term.removesuffix("!"), term.endswith("!")
        sign = 0 if term == NOTHING else -1 if operator == "-" else 1
        alternatives[-1].append(_Term(sign, is_required, _path(path) if sign else None))
    return Expression(tuple(map(tuple, alternatives)))


@cache
def condition(text: str) -> _Condition:
    """Parse a condition such as `status!=FAILED|REJECTED`, `name~deliver`, `coupon` or `!coupon`."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ValueError(text)
    absent, path, operator, words = found.groups()
    is_negated = bool(absent) or (operator or "").startswith("!")
    is_pattern = (operator or "").endswith("~")
    listed = frozenset(words.split("|")) if operator and not is_pattern else None
    return _Condition(_path(path), is_negated, listed, re.compile(words) if is_pattern else None)


def _path(text: str) -> _Path:
    from_order, text = text.startswith("$"), text.removeprefix("$")
    steps = []
    position = 0
    while position < len(text):
        found = _STEP.match(text, position)
        if found is None:
            raise ValueError(text)
        conditions = None if found[2] is None else tuple(map(condition, filter(None, found[2][1:-1].split(","))))
        steps.append(_Step(found[1], conditions))
        position = found.end()
    return _Path(tuple(steps), from_order)


def parts_of(value: object) -> list[Order]:
    """Return the objects in a list. A part of another type would be lost, so it rejects the order."""
    if not value:
        return []
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        raise RowProblem(Reason.NOT_AN_ORDER, "has a list whose elements cannot be read")
    return value


def word_of(value: object) -> str:
    """Return a value as it is compared and shown: a string, a number, `true` or `false`."""
    return str(value).lower() if isinstance(value, bool) else "" if isinstance(value, dict | list) else str(value)
