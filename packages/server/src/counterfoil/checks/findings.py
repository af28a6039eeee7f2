"""What a check finds. The kinds of findings are declared beside the checks that find them."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

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


class FindingKind(Struct, frozen=True, kw_only=True):
    """A finding without its values. Several kinds may share their advice, which is a message then.

    The console names checks, and advises something else than a command, in `console/templates/findings.html`.
    """

    code: str
    check: str = ""
    """Empty if several checks find it."""
    status: Status
    text: str
    advice: str | Message = ""

    def __call__(
        self,
        *,
        check: str = "",
        subject: str | UnsetType = UNSET,
        since: datetime | UnsetType = UNSET,
        ids: Sequence[str] = (),
        **values: Value,
    ) -> Finding:
        """Return a finding of this kind. Its message and its advice share the values."""
        return Finding(
            check=check or self.check,
            status=self.status,
            message=Message(self.code, self.text, **values),
            advice=self._advice()(**values),
            code=self.code,
            subject=subject,
            since=since,
            ids=ids,
        )

    def _advice(self) -> Message:
        if isinstance(self.advice, Message):
            return self.advice
        return Message(f"{self.code}.advice", self.advice) if self.advice else NOTHING


def failed(check: str, problem: Message, advice: Message = NOTHING) -> Finding:
    """Return the finding that a store or a setting has a problem, which comes from another part of Counterfoil."""
    return Finding(check, "fail", problem.as_sentence(), advice, problem.code)


def worst_status(findings: Iterable[Finding]) -> Status:
    found = {finding.status for finding in findings}
    return next((status for status in SEVERITY if status in found), "ok")


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: SEVERITY.index(finding.status))
