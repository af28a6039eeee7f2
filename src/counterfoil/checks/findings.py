"""The results of checks. `findings.toml` has their kinds: check, severity, code, English text and advice.

The Thai texts are in `console/texts.toml`.
"""

import tomllib
from collections.abc import Iterable
from datetime import datetime
from importlib.resources import files
from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType, convert

from counterfoil.domain.messages import NOTHING, Message, Value

Status = Literal["ok", "warn", "fail"]
# The possible statuses of a finding, worst first.
SEVERITY: tuple[Status, ...] = ("fail", "warn", "ok")


class Finding(Struct, frozen=True):
    """The result of a check. `subject` names what it is about, such as a server; `since` is when it began.

    `amount` is how bad it is, such as the number of shops that are silent. A higher one is worth a notification.
    """

    check: str
    status: Status
    message: Message
    advice: Message = NOTHING
    code: str = ""
    subject: str | UnsetType = UNSET
    since: datetime | UnsetType = UNSET
    amount: int = 0


class FindingKind(Struct, frozen=True, forbid_unknown_fields=True):
    """A finding without its values. If several checks have findings of this kind, `check` is empty.

    `shared_advice` is the code of a message, if several kinds have the same advice.
    """

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
    amount: int = 0,
    **values: Value,
) -> Finding:
    """Return a finding of the kind with this code. Its message and its advice share the values."""
    kind = KINDS[code]
    advice = MESSAGES[kind.shared_advice] if kind.shared_advice else advice_of(code)
    message = Message(code, kind.text, values)
    return Finding(check or kind.check, kind.status, message, advice(**values), code, subject, since, amount)


def advice_of(code: str) -> Message:
    """Return the advice that only this kind has, without its values."""
    return Message(f"{code}.advice", KINDS[code].advice) if KINDS[code].advice else NOTHING


def failed(check: str, problem: Message, advice: Message = NOTHING) -> Finding:
    """Return the finding that a store or a setting has a problem, which comes from another part of Counterfoil."""
    return Finding(check, "fail", problem.as_sentence(), advice, problem.code)


def worst_status(findings: Iterable[Finding]) -> Status:
    found = {finding.status for finding in findings}
    return next((status for status in SEVERITY if status in found), "ok")


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: SEVERITY.index(finding.status))
