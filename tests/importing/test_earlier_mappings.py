"""Each check of a mapping that was written before there was a form still holds."""

from datetime import date
from pathlib import Path

import pytest

from counterfoil.importing.results import ImportFailed
from importing.exports import Outcome, imported, written

MAPPING = (Path(__file__).parent / "earlier_mapping.toml").read_text("utf-8")
SAMPLE = """\
Receipt No,Date,Time,Branch,Table,Item,Qty,Amount,Total,Payment,Status,Cashier
1001,13/04/2026,6:05 PM,Riverside,T1,Khao soi,2,190.00,200.00,Cash,Paid,Ann
1001,13/04/2026,6:05 PM,Riverside,T1,Tea,1,10.00,200.00,Cash,Paid,Ann
1002,13/04/2026,6:40 PM,Riverside,T2,Set menu,1,500.00,500.00,Card,Paid,Bo
1003,14/04/2026,7:10 PM,Old Town,T1,Tea,2,100.00,100.00,Cash,Void,Ann
1004,14/04/2026,7:30 PM,Old Town,T3,Curry,1,160.00,160.00,QR,Paid,Bo
"""


def later(folder: Path, text: str) -> Outcome:
    return imported("csv", written(folder, text, "later.csv"), mapping=MAPPING, today=date(2026, 12, 20))


def test_the_sample_of_an_earlier_mapping_is_read_as_before(tmp_path: Path) -> None:
    found = later(tmp_path, SAMPLE)
    bills = [(bill["id"], bill["amounts"]["net"], bill.get("void", False)) for bill in found.bills]
    assert bills == [
        ("2026-04-13-Riverside-1001", "200.00", False),
        ("2026-04-13-Riverside-1002", "500.00", False),
        ("2026-04-14-Old Town-1003", "100.00", True),
        ("2026-04-14-Old Town-1004", "160.00", False),
    ]


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        pytest.param("Khao soi,2,190.00", "Khao soi,,190.00", "doubtful_value", id="filled"),
        pytest.param("Set menu,1,500.00,500.00", "Set menu,1,$500.00,$500.00", "doubtful_value", id="decimals"),
        pytest.param("6:40 PM", "18:40", "doubtful_value", id="halfDays"),
        pytest.param("Khao soi,2,190.00", "Khao soi,2,180.00", "doubtful_value", id="equal"),
        pytest.param(",T3,", ",Staff,", "doubtful_value", id="codes"),
        pytest.param("Curry", "Void curry", "doubtful_value", id="words"),
        pytest.param("QR,Paid", "QR,Pending", "unknown_status", id="status"),
        pytest.param(",QR,", ",Owed,", "unknown_status", id="others"),
    ],
)
def test_a_check_of_an_earlier_mapping_rejects_the_bill(tmp_path: Path, before: str, after: str, reason: str) -> None:
    found = later(tmp_path, SAMPLE.replace(before, after))
    assert [row.reason for row in found.rejected] == [reason]
    assert len(found.bills) == 3


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        pytest.param(",Cashier\n", ",Cashier,Fee\n", "the columns", id="columns"),
        pytest.param(",Cashier\n", ",Server\n", "no column", id="heading"),
    ],
)
def test_a_file_that_an_earlier_mapping_does_not_fit_is_refused(
    tmp_path: Path, before: str, after: str, said: str
) -> None:
    with pytest.raises(ImportFailed, match=said):
        later(tmp_path, SAMPLE.replace(before, after))


def test_an_earlier_mapping_refuses_dates_in_another_order(tmp_path: Path) -> None:
    text = SAMPLE.replace("13/04/2026", "04/13/2026").replace("14/04/2026", "04/14/2026")
    with pytest.raises(ImportFailed, match=r"dates\.order is dmy"):
        later(tmp_path, text)
