"""The results of checks. A kind of finding is defined once: its check, severity, code, English text and advice.

The Thai texts are in `console/texts.toml`.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

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


class FindingKind(Struct, frozen=True):
    """A finding without its values, which the message and the advice share. Call it to fill them in."""

    check: str
    status: Status
    message: Message
    advice: Message

    def __call__(
        self,
        *,
        check: str = "",
        subject: str | UnsetType = UNSET,
        since: datetime | UnsetType = UNSET,
        amount: int = 0,
        **values: Value,
    ) -> Finding:
        """Return a finding. `check` is its check if several have findings of this kind."""
        code, message, advice = self.message.code, self.message(**values), self.advice(**values)
        return Finding(check or self.check, self.status, message, advice, code, subject, since, amount)


def ok(check: str, code: str, text: str, advice: str | Message = NOTHING) -> FindingKind:
    return _kind("ok", check, code, text, advice)


def warn(check: str, code: str, text: str, advice: str | Message = NOTHING) -> FindingKind:
    return _kind("warn", check, code, text, advice)


def fail(check: str, code: str, text: str, advice: str | Message = NOTHING) -> FindingKind:
    return _kind("fail", check, code, text, advice)


def _kind(status: Status, check: str, code: str, text: str, advice: str | Message) -> FindingKind:
    """Return a kind of finding. Advice that several kinds share is a message of its own."""
    named = Message(f"{code}.advice", advice) if isinstance(advice, str) else advice
    return FindingKind(check, status, Message(code, text), named)


def failed(check: str, problem: Message, advice: Message = NOTHING) -> Finding:
    """Return the finding that a store or a setting has a problem, which comes from another part of Counterfoil."""
    return Finding(check, "fail", problem.as_sentence(), advice, problem.code)


def worst_status(findings: Iterable[Finding]) -> Status:
    found = {finding.status for finding in findings}
    return next((status for status in SEVERITY if status in found), "ok")


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: SEVERITY.index(finding.status))
