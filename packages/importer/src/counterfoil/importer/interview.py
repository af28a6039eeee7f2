"""Collects the doubts of a reading. Each has an answer that was given or, until then, its first choice."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from counterfoil.importer.form import Kind, sentence
from counterfoil.importing.mapping import SALE


class Doubt(Struct, frozen=True):
    """What the file does not prove. `choices` are the answers with their texts, the most probable first."""

    id: str
    kind: Kind
    text: str
    choices: dict[str, str]
    example: str = ""
    free: bool = False
    typed: str = ""
    """What a person types if the only option is not right."""
    default: str | None = None
    must_confirm: bool = False
    """Whether it is asked although only one answer is possible, because no record shows that the answer is right."""

    @property
    def may_be_sale(self) -> bool:
        """Whether it is about the state of bills, which may all be sold."""
        return self.kind == "state" and SALE in self.choices


class Refuted(Exception):
    """An answer that the file refutes. The message says why."""

    def __init__(self, doubt: str, answer: str, reason: str) -> None:
        super().__init__(reason)
        self.doubt = doubt
        self.answer = answer
        self.reason = reason


class NeedsOtherReport(Exception):
    """No answer would be right. The message says why, and which report of the till to export instead."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Interview:
    """The answers that were given, and the doubts that are left."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self.answers = answers
        self.doubts: list[Doubt] = []
        self.used: set[str] = set()
        """The IDs of the answers that a doubt asked for."""
        self.assumed: list[str] = []
        self.proven: list[str] = []

    def answer(self, doubt: str) -> str | None:
        """Return the answer that was given, without asking for it."""
        if doubt in self.answers:
            self.used.add(doubt)
        return self.answers.get(doubt)

    def choose(
        self,
        doubt: str,
        kind: Kind,
        text: str,
        choices: Mapping[str, str] | Sequence[str],
        *,
        example: str = "",
        free: bool = False,
        typed: str = "",
        default: str | None = None,
        must_confirm: bool = False,
    ) -> str:
        """Return the answer to a doubt. Until there is one, note the doubt, and return its default or first choice."""
        named = dict(choices) if isinstance(choices, Mapping) else {choice: choice for choice in choices}
        given = self.answer(doubt)
        if given is not None:
            if given not in named and not free:
                raise Refuted(
                    doubt, given, sentence("{given} is not one of: {named}", given=given, named=", ".join(named))
                )
            return given
        self.doubts.append(Doubt(doubt, kind, text, named, example, free, typed, default, must_confirm))
        return default if default is not None else next(iter(named), "")

    def is_open(self, doubt: str) -> bool:
        """Return whether a doubt was noted."""
        return any(one.id == doubt for one in self.doubts)

    def other_sales(self, doubt: Doubt) -> dict[str, str]:
        """Return the answers by which no other column says anything, if a doubt is about the state of bills.

        Two columns may mark the same bills. If each were left out by the other one, no answer would change anything.
        """
        if doubt.kind != "state":
            return {}
        return {other.id: SALE for other in self.doubts if other.may_be_sale and other.id != doubt.id}

    def withdraw(self, doubt: str) -> list[Doubt]:
        """Take back a doubt that is asked in another way, and return it, if there is one."""
        found = [one for one in self.doubts if one.id == doubt]
        self.doubts = [one for one in self.doubts if one.id != doubt]
        return found

    def assume(self, text: str) -> None:
        self.assumed.append(text)

    def prove(self, text: str) -> None:
        self.proven.append(text)
