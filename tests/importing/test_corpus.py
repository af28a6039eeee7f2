"""Every export of the corpus comes in right with its proposed mapping, or ends with a question about a column."""

import tomllib
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from counterfoil.importing.infer import propose
from counterfoil.importing.proposals import Proposal
from counterfoil.importing.results import ImportFailed
from importing.export_corpus import STYLES, Figures, Style, no_figures, truth, write
from importing.exports import Outcome, imported

TODAY = date(2026, 11, 30)


def test_the_corpus_has_many_styles_with_names_of_their_own() -> None:
    assert len({style.name for style in STYLES}) == len(STYLES) >= 30


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
def test_an_export_comes_in_right_or_with_a_question_that_names_the_column(style: Style, tmp_path: Path) -> None:
    bills, lines, payments = write(style, tmp_path)
    proposal = propose(bills, lines, payments, None, today=TODAY)
    if style.expect != "right":
        asked = " ".join([*(question.text for question in proposal.questions), *proposal.undecided])
        assert any(name in asked for name in style.expect.split("|")), proposal.text()
        assert not is_usable(proposal, bills, lines, payments), proposal.text()
        if not style.answers:
            return
        proposal = propose(bills, lines, payments, None, today=TODAY, answers=style.answers)
    assert [question.text for question in proposal.questions] == [], proposal.text()
    found = imported("csv", *bills, lines=tuple(lines), payments=tuple(payments), mapping=proposal.text())
    assert found.rejected == [], proposal.text()
    assert figures(style, found) == expected(style), proposal.text()


def is_usable(proposal: Proposal, bills: list[Path], lines: list[Path], payments: list[Path]) -> bool:
    """Return whether the mapping converts all bills although a question is open."""
    try:
        found = imported("csv", *bills, lines=tuple(lines), payments=tuple(payments), mapping=proposal.text())
    except ImportFailed:
        return False
    return not found.rejected


def expected(style: Style) -> Figures:
    return {place: _shown(style, day) for place, day in truth(style).items()}


def figures(style: Style, found: Outcome) -> Figures:
    """Return what the imported bills add up to, per shop and day."""
    names = {shop["id"]: shop["name"] for shop in found.shops}
    result: Figures = {}
    for bill in found.bills:
        shop = names[bill["shopId"]] if len(names) > 1 or names[bill["shopId"]] in style.shops else style.shops[0]
        day = result.setdefault((shop, bill["closedAt"][:10]), no_figures())
        amounts: dict[str, Any] = bill["amounts"]
        net = Decimal(amounts["net"])
        day["bills"] += 1
        day["voids"] += bool(bill.get("void"))
        if bill.get("void"):
            continue
        day["refunds"] += net < 0
        day["net"] += net
        day["tip"] += Decimal(amounts.get("tip", 0))
        day["tax"] += Decimal(amounts.get("vat", 0))
    ids = {(bill["shopId"], bill["id"]) for bill in found.bills}
    assert len(ids) == len(found.bills)
    return {place: _shown(style, day) for place, day in result.items()}


def _shown(style: Style, day: dict[str, Decimal]) -> dict[str, Decimal]:
    left_out = set() if "tax=" in style.columns else {"tax"}
    left_out |= set() if "tip=" in style.columns else {"tip"}
    return {name: value for name, value in day.items() if name not in left_out}


def test_a_proposal_is_the_same_mapping_each_time(tmp_path: Path) -> None:
    bills, lines, payments = write(STYLES[0], tmp_path)
    texts = {propose(bills, lines, payments, None, today=TODAY).text() for _ in range(2)}
    assert len(texts) == 1
    assert tomllib.loads(texts.pop())
