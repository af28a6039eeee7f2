"""The results of checks. `findings.toml` has their kinds: check, severity, code, English text and advice."""

import tomllib
from collections.abc import Iterable, Sequence
from datetime import datetime
from importlib.resources import files
from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType, convert

from counterfoil.model.messages import NOTHING, Message, Value

Status = Literal["ok", "warn", "fail"]
# The possible statuses of a finding, worst first.
SEVERITY: tuple[Status, ...] = ("fail", "warn", "ok")


class Finding(Struct, frozen=True):
    """The result of a check about `subject`, since `since`. Another one of `ids` is worth another notification."""

    check: str
    status: Status
    message: Message
    advice: Message = NOTHING
    code: str = ""
    subject: str | UnsetType = UNSET
    since: datetime | UnsetType = UNSET
    ids: Sequence[str] = ()


class FindingKind(Struct, frozen=True, forbid_unknown_fields=True):
    """A finding without its values. `check` is empty if several checks find it; `shared_advice` is a message's code."""

    status: Status
    text: str
    check: str = ""
    advice: str = ""
    shared_advice: str = ""


_TABLES = tomllib.loads((files("counterfoil.checks") / "findings.toml").read_text("utf-8"))
MESSAGES: Final = {code: Message(code, text) for code, text in _TABLES["messages"].items()}
KINDS: Final = convert(_TABLES["kinds"], dict[str, FindingKind])


def finding(
    code: str,
    /,
    *,
    check: str = "",
    subject: str | UnsetType = UNSET,
    since: datetime | UnsetType = UNSET,
    ids: Sequence[str] = (),
    **values: Value,
) -> Finding:
    """Return a finding of the kind with this code. Its message and its advice share the values."""
    kind = KINDS[code]
    own_advice = Message(f"{code}.advice", kind.advice) if kind.advice else NOTHING
    advice = MESSAGES[kind.shared_advice] if kind.shared_advice else own_advice
    message = Message(code, kind.text, values)
    return Finding(check or kind.check, kind.status, message, advice(**values), code, subject, since, ids)


def failed(check: str, problem: Message, advice: Message = NOTHING) -> Finding:
    """Return the finding that a store or a setting has a problem, which comes from another part of Counterfoil."""
    return Finding(check, "fail", problem.as_sentence(), advice, problem.code)


def worst_status(findings: Iterable[Finding]) -> Status:
    found = {finding.status for finding in findings}
    return next((status for status in SEVERITY if status in found), "ok")


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: SEVERITY.index(finding.status))
