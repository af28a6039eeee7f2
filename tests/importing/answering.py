"""Answers the questions of a form like a person who knows what the till has sold."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path

from msgspec import Struct

from counterfoil.domain.bills import bill_dates
from counterfoil.domain.shops import shop_from
from counterfoil.importer.form import MOST_QUESTIONS, Form, FormFiles, Totals
from counterfoil.importer.kept import KeptReadings
from counterfoil.importer.proposal import form
from counterfoil.model.pos_values import day, instant
from importing.exports import Outcome, imported

TODAY = date(2026, 11, 30)
IsRight = Callable[[Outcome], bool]
# Like the process that makes forms, keep the tables and readings of a file from one answer to the next.
_KEPT = KeptReadings()


class Ending(Struct):
    """How an export ended: `right`, `wrong`, `asked`, `refused` or `rejected`, with the answers that were given."""

    how: str
    answers: dict[str, str]
    form: Form
    detail: str = ""


def without_answers(files: FormFiles, is_right: IsRight) -> Ending:
    """Return how an export ends if nobody answers anything."""
    found = form(files, {}, today=TODAY, kept=_KEPT)
    return Ending("asked", {}, found) if found.open else _complete(files, found, {}, is_right)


def answered(files: FormFiles, is_right: IsRight, free: Mapping[str, str] | None = None) -> Ending:
    """Return how an export ends if somebody who knows the truth answers. `free` are answers that no option has."""
    return _answered(files, is_right, free or {}, {})


def _answered(files: FormFiles, is_right: IsRight, free: Mapping[str, str], answers: dict[str, str]) -> Ending:
    found = form(files, answers, today=TODAY, kept=_KEPT)
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
    loaded, shown = days_of_load(outcome), days_of_form(found.totals)
    if loaded != shown:
        return Ending("wrong", answers, found, f"the form says {shown}, and a load has {loaded}")
    return Ending("right" if is_right(outcome) else "wrong", answers, found)


def days_of_form(totals: Totals) -> dict[str, Decimal]:
    nets: dict[str, Decimal] = defaultdict(Decimal)
    for of_shop in totals.days:
        nets[of_shop.day] += Decimal(of_shop.net)
    return dict(nets)


def days_of_load(outcome: Outcome) -> dict[str, Decimal]:
    """Return the net of each business day, or calendar day without a closing time, as a load counts the records."""
    shops = [shop_from(record) for record in outcome.shops]
    facts = {shop.shop_id: of_shop for shop, of_shop in shops}
    nets: dict[str, Decimal] = defaultdict(Decimal)
    for bill in outcome.bills:
        shop = facts[bill["shopId"]]
        zone = shop.zone()
        closed_at, recorded = instant(bill.get("closedAt"), zone), day(bill.get("tradingDay"), zone)
        _, business_day, calendar_day = bill_dates(closed_at, recorded, shop, zone)
        sold = Decimal() if bill.get("void") else Decimal(bill["amounts"]["net"])
        nets[business_day or calendar_day or ""] += sold
    return dict(nets)


def files_of(export: Mapping[str, str], folder: Path) -> FormFiles:
    """Write a made-up export to files."""
    paths = {}
    for kind in ("bills", "payments"):
        if kind in export:
            paths[kind] = folder / f"{kind}.csv"
            paths[kind].write_text(export[kind], "utf-8")
    return FormFiles((paths["bills"],), (), (paths["payments"],) if "payments" in paths else ())
