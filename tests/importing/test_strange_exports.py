"""Exports with traps come in right, or end with a question, a refusal or a rejected row that names what is in doubt."""

import tomllib
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from counterfoil.importing.infer import propose
from counterfoil.importing.results import ImportFailed
from importing.exports import Outcome, imported, written
from importing.test_corpus import TODAY

EXPORTS = tomllib.loads((Path(__file__).parent / "strange_exports.toml").read_text("utf-8"))["export"]


@pytest.mark.parametrize("export", EXPORTS, ids=lambda export: export["name"])
def test_an_export_with_a_trap_is_right_or_asked_about(export: dict[str, Any], tmp_path: Path) -> None:
    assert ending(export, tmp_path) == export.get("days", export.get("asks"))


@pytest.mark.parametrize("export", [one for one in EXPORTS if "later" in one], ids=lambda export: export["name"])
def test_what_the_sample_did_not_have_is_right_or_rejected_in_a_later_file(
    export: dict[str, Any], tmp_path: Path
) -> None:
    sample = written(tmp_path, export["bills"], "bills.csv")
    mapping = propose([sample], [], [], None, today=TODAY, answers=export.get("answers")).text()
    found = imported("csv", written(tmp_path, export["later"], "later.csv"), mapping=mapping)
    assert ("rejected" if found.rejected else days_of(found)) == export.get("laterDays", "rejected")


def ending(export: dict[str, Any], folder: Path) -> object:
    """Return the bills and the net of each day or, if the export is asked about, what the test expects to be named."""
    bills = written(folder, export["bills"], "bills.csv")
    payments = [written(folder, export["payments"], "payments.csv")] if "payments" in export else []
    try:
        proposal = propose([bills], [], payments, None, today=TODAY, answers=export.get("answers"))
        if proposal.questions:
            return named(export, " ".join(f"{one.text} {one.choices}" for one in proposal.questions))
        found = imported("csv", bills, payments=tuple(payments), mapping=proposal.text())
    except ImportFailed as error:
        return named(export, str(error))
    return named(export, " ".join(one.detail for one in found.rejected)) if found.rejected else days_of(found)


def days_of(found: Outcome) -> dict[str, list[Any]]:
    days: dict[str, list[Any]] = defaultdict(lambda: [0, Decimal()])
    for bill in found.bills:
        days[bill["closedAt"][:10]][0] += 1
        days[bill["closedAt"][:10]][1] += 0 if bill.get("void") else Decimal(bill["amounts"]["net"])
    return {day: [count, str(net)] for day, (count, net) in days.items()}


def named(export: dict[str, Any], text: str) -> str:
    asks = str(export.get("asks", "nothing"))
    return asks if asks in text else text
