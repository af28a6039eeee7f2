"""Answers the questions of a form like a person who knows what the till has sold."""

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path

from msgspec import Struct

from counterfoil.importer.form import MOST_QUESTIONS, Form, FormFiles
from counterfoil.importer.proposal import form
from importing.exports import Outcome, imported

TODAY = date(2026, 11, 30)
IsRight = Callable[[Outcome], bool]


class Ending(Struct):
    """How an export ended: `right`, `wrong`, `asked`, `refused` or `rejected`, with the answers that were given."""

    how: str
    answers: dict[str, str]
    form: Form
    detail: str = ""


def without_answers(files: FormFiles, is_right: IsRight) -> Ending:
    """Return how an export ends if nobody answers anything."""
    found = form(files, {}, today=TODAY)
    return Ending("asked", {}, found) if found.open else _complete(files, found, {}, is_right)


def answered(files: FormFiles, is_right: IsRight, free: Mapping[str, str] | None = None) -> Ending:
    """Return how an export ends if somebody who knows the truth answers. `free` are answers that no option has."""
    return _answered(files, is_right, free or {}, {})


def _answered(files: FormFiles, is_right: IsRight, free: Mapping[str, str], answers: dict[str, str]) -> Ending:
    found = form(files, answers, today=TODAY)
    if not found.open:
        return _complete(files, found, answers, is_right)
    if len(answers) == MOST_QUESTIONS:
        return Ending("refused", answers, found, "a sixth question")
    question = found.open[0]
    first: Ending | None = None
    choices = [option.answer for option in question.options]
    for choice in [*choices, *([free[question.id]] if question.id in free else [])]:
        ending = _answered(files, is_right, free, {**answers, question.id: choice})
        if ending.how == "right":
            return ending
        first = first or ending
    return first or Ending("refused", answers, found, "a question without options")


def _complete(files: FormFiles, found: Form, answers: dict[str, str], is_right: IsRight) -> Ending:
    if not found.is_complete:
        reason = found.advice or " ".join(one.reason for one in found.refused)
        return Ending("refused", answers, found, reason)
    outcome = imported("csv", *files.bills, lines=files.lines, payments=files.payments, mapping=found.mapping)
    if outcome.rejected:
        return Ending("rejected", answers, found, outcome.rejected[0].detail)
    net = sum(Decimal(bill["amounts"]["net"]) for bill in outcome.bills if not bill.get("void"))
    if found.totals is None or (len(outcome.bills), net) != (found.totals.bills, Decimal(found.totals.net)):
        return Ending("wrong", answers, found, f"the form says {found.totals}")
    return Ending("right" if is_right(outcome) else "wrong", answers, found)


def files_of(export: Mapping[str, str], folder: Path) -> FormFiles:
    """Write a made-up export to files."""
    paths = {}
    for kind in ("bills", "payments"):
        if kind in export:
            paths[kind] = folder / f"{kind}.csv"
            paths[kind].write_text(export[kind], "utf-8")
    return FormFiles((paths["bills"],), (), (paths["payments"],) if "payments" in paths else ())
