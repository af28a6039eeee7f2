"""Tables of members: what is kept of a row, and which rows are rejected by name. All people here are invented."""

import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from openpyxl import Workbook

from counterfoil.importer.form import Form, FormFiles, MemberTotals
from counterfoil.importer.members.member_headings import is_of_members
from counterfoil.importer.members.members import members_form
from counterfoil.importer.proposal import form
from counterfoil.importing.mapping import KnownBase, parse_mapping
from counterfoil.importing.results import ImportFailed
from importing.exports import EXAMPLES, Outcome, imported, written

MAPPING = """
[base]
id = "club"
[member]
id = "No"
createdAt = "Joined"
tel = "Phone"
email = "Email"
points = "Points"
credit = "Credit"
rank = "Tier"
"""
HEADING = "No,Joined,Phone,Email,Points,Credit,Tier,Name,Birthday\n"
FIRST = "7,2026-01-31,0800000001,one@example.com,120,15.50,Gold,Example One,1990-01-01\n"
TODAY = date(2026, 11, 18)


def members(folder: Path, *rows: str, mapping: str = MAPPING, **options: Any) -> Outcome:
    export = written(folder, HEADING + "".join(rows))
    return imported(None, export, mapping=mapping, **{"today": TODAY, **options})


def test_a_member_is_what_the_api_returns_of_one_and_nothing_else(tmp_path: Path) -> None:
    found = members(tmp_path, FIRST)
    tiers = [{"code": "Gold", "name": "Gold"}]
    assert found.bases == [{"kind": "base", "id": "club", "creditEnabled": True, "tiers": tiers}]
    assert found.members == [
        {
            "kind": "member",
            "id": "7",
            "providerId": "club",
            "createdAt": "2026-01-31",
            "rank": "Gold",
            "points": "120",
            "credit": "15.50",
            "tel": "0800000001",
            "email": "one@example.com",
        }
    ]


@pytest.mark.parametrize("name", ["name", "birthday", "gender", "address", "note"])
def test_what_is_never_stored_cannot_be_mapped(name: str) -> None:
    with pytest.raises(ImportFailed, match="never stored"):
        parse_mapping({"member": {"id": "No", name: "Name"}}, "mapping.toml")


@pytest.mark.parametrize(
    ("content", "entry"),
    [
        ({"member": {"id": "No"}, "bill": {"id": "No"}}, "a table of members"),
        ({"member": {"id": "No"}, "status": {"column": "State"}}, "a table of members"),
        ({"member": {"id": "No"}, "file": {"fillDown": ["No"]}}, "fillDown"),
        ({"member": {"id": "No", "key": "No"}}, "no key"),
        ({"member": {"id": "No", "points": {"add": ["A", "B"]}}}, "member.points"),
        ({"member": {"id": "No", "points": {"column": "A", "negate": True}}}, "member.points"),
    ],
)
def test_an_entry_that_would_have_no_effect_on_members_is_refused(content: dict[str, Any], entry: str) -> None:
    with pytest.raises(ImportFailed, match=entry):
        parse_mapping(content, "mapping.toml")


def test_a_base_that_the_store_knows_is_not_written_over(tmp_path: Path) -> None:
    known = KnownBase(id="club", tiers=("Silver",))
    found = members(tmp_path, FIRST, bases=(known,))
    assert (found.bases, len(found.members)) == ([], 1)
    assert "no tier" in found.note
    assert "no store credit" in found.note


@pytest.mark.parametrize(
    ("bases", "base"), [((), None), ((KnownBase(id="a"),), "a"), ((KnownBase(id="a"), KnownBase(id="b")), None)]
)
def test_the_base_is_named_once_unless_the_store_has_only_one(
    tmp_path: Path, bases: tuple[KnownBase, ...], base: str | None
) -> None:
    mapping = MAPPING.replace('[base]\nid = "club"\n', "")
    if base is None:
        with pytest.raises(ImportFailed, match="--base"):
            members(tmp_path, FIRST, mapping=mapping, bases=bases)
        assert members(tmp_path, FIRST, mapping=mapping, bases=bases, base="c").members[0]["providerId"] == "c"
    else:
        assert members(tmp_path, FIRST, mapping=mapping, bases=bases).members[0]["providerId"] == base


def test_rows_without_an_id_and_with_that_of_another_member_are_rejected_by_name(tmp_path: Path) -> None:
    other = FIRST.replace("120", "121")
    found = members(tmp_path, FIRST, ",2026-01-31,,,1,,,,\n", FIRST.replace("7,", "8,", 1), other)
    assert [member["id"] for member in found.members] == ["8"]
    rejected = {(row.line, row.reason) for row in found.rejected}
    assert rejected == {(3, "no_member_id"), (2, "repeated_member"), (5, "repeated_member")}
    assert "0800000001" not in str(found.rejected)


def test_a_row_that_occurs_again_is_left_out_and_so_are_totals(tmp_path: Path) -> None:
    found = members(tmp_path, FIRST, FIRST, "Total,,,,240,31.00,,,\n")
    assert (len(found.members), found.rejected) == (1, [])
    assert {row.line for row in found.skipped} == {3, 4}


def test_an_email_and_a_phone_number_that_cannot_be_right_are_left_out_and_counted(tmp_path: Path) -> None:
    found = members(tmp_path, "7,2026-01-31,none,one(at)example,5,,,,\n")
    assert found.members == [
        {"kind": "member", "id": "7", "providerId": "club", "createdAt": "2026-01-31", "points": "5"}
    ]
    assert "the email address is not read in 1 of its rows: line 2" in found.note
    assert "the phone number is not read in 1" in found.note
    assert "one(at)example" not in found.note


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ("7,31/31/2026,,,1,,,,\n", "createdAt"),
        ("7,2027-01-31,,,1,,,,\n", "createdAt"),
        ("7,,,,many,,,,\n", "points"),
        ("7,,,,,1O.00,,,\n", "credit"),
        ("7,,8.0E+10,,,,,,\n", "tel"),
    ],
)
def test_a_value_that_cannot_be_read_rejects_the_member_without_quoting_it(
    tmp_path: Path, row: str, field: str
) -> None:
    [rejected] = members(tmp_path, row).rejected
    assert (rejected.reason, rejected.detail.partition(":")[0]) == ("unreadable_value", field)
    value = next(cell for cell in row.strip().split(",")[1:] if cell)
    assert value not in rejected.detail


@pytest.mark.parametrize(
    ("days", "order", "first"),
    [
        (("03/04/2026", "13/04/2026"), None, "2026-04-03"),
        (("04/03/2026", "04/13/2026"), None, "2026-04-03"),
        (("03/12/2026", "04/11/2026"), None, "2026-03-12"),
        (("03/04/2026", "05/06/2026"), "dmy", "2026-04-03"),
        (("03/04/2026", "05/06/2026"), None, None),
        (("13/04/2026", "04/13/2026"), None, None),
    ],
)
def test_the_order_of_day_and_month_is_proven_by_the_file_or_asked(
    tmp_path: Path, days: tuple[str, ...], order: str | None, first: str | None
) -> None:
    rows = [f"{number},{day},,,1,,,,\n" for number, day in enumerate(days)]
    mapping = MAPPING if order is None else f'[dates]\norder = "{order}"\n{MAPPING}'
    if first is None:
        with pytest.raises(ImportFailed, match=r"dates\.order"):
            members(tmp_path, *rows, mapping=mapping)
    else:
        assert members(tmp_path, *rows, mapping=mapping).members[0]["createdAt"] == first


def test_points_that_expire_and_coupons_are_read_from_their_columns(tmp_path: Path) -> None:
    mapping = """
[base]
id = "club"
[member]
id = "No"
points = "Points"
pointsExpireAt = "Until"
coupons = { column = "Coupons", split = ";" }
couponStatus = { constant = "available" }
labels = { column = "Tags", split = ";" }
leftOut = { column = "State", values = { "Blocked" = "true", "Active" = "false" } }
"""
    text = "No,Points,Until,Coupons,Tags,State\n1,10,2027-03-31,C1; C2,vip,Active\n2,5,,,,Blocked\n3,5,,,,Gone\n"
    found = imported(None, written(tmp_path, text), mapping=mapping)
    [member] = found.members
    assert member["points"] == [{"amount": "10", "expireAt": "2027-03-31"}]
    assert member["coupons"] == [{"code": "C1", "status": "available"}, {"code": "C2", "status": "available"}]
    assert member["labels"] == ["vip"]
    assert [row.line for row in found.skipped] == [3]
    assert found.reasons == [("export.csv", 4, "unknown_status")]


def test_phone_numbers_of_a_workbook_get_the_zero_that_the_spreadsheet_has_taken_away(tmp_path: Path) -> None:
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    for row in (["No", "Phone"], ["0017", 800000001], ["0018", "+66800000002"], ["0019", "0800000003"]):
        sheet.append(row)
    path = tmp_path / "members.xlsx"
    book.save(path)
    mapping = '[base]\nid = "club"\n[member]\nid = "No"\ntel = "Phone"\ntelPrefix = { constant = "0" }\n'
    found = imported(None, path, mapping=mapping)
    assert [(member["id"], member["tel"]) for member in found.members] == [
        ("0017", "0800000001"),
        ("0018", "+66800000002"),
        ("0019", "0800000003"),
    ]


def test_customers_of_loyverse_have_their_points_and_visits_and_no_sign_up() -> None:
    found = imported(None, EXAMPLES / "loyverse-customers.csv", base="club", today=TODAY)
    assert found.titles == ["Loyverse customers"]
    assert [member.get("points") for member in found.members] == ["120.00", "0.00", "15.50"]
    assert found.members[0]["visits"] == ["2026-11-14"] * 3
    assert "createdAt" not in found.members[0]
    assert "Example" not in str(found.members)


def test_a_file_of_loyverse_with_a_column_that_is_not_known_is_refused(tmp_path: Path) -> None:
    text = (EXAMPLES / "loyverse-customers.csv").read_text("utf-8").replace("Total spent", "Store credit")
    with pytest.raises(ImportFailed, match="Store credit"):
        imported(None, written(tmp_path, text), base="club")


def test_members_and_bills_are_not_imported_together() -> None:
    names = ("loyverse-customers.csv", "loyverse-receipts.csv")
    with pytest.raises(ImportFailed, match="separately"):
        imported(None, *(EXAMPLES / name for name in names), base="club")


# --- the form -------------------------------------------------------------------------


def asked(path: Path, **answers: str) -> Form:
    return form(FormFiles((path,)), answers, today=TODAY)


def questions(found: Form) -> dict[str, list[str]]:
    """Return the answers that are offered to each question."""
    return {question.id: [option.answer for option in question.options] for question in found.questions}


def test_the_form_asks_for_the_balance_and_the_base_and_says_what_is_never_stored() -> None:
    path = EXAMPLES / "members.csv"
    found = asked(path)
    assert questions(found) == {"points": ["Points left", "Points earned", "none"], "base": []}
    assert found.never_stored == ("Name", "Birthday")
    assert not found.is_complete
    complete = asked(path, points="Points left", base="club")
    totals = MemberTotals(
        members=3, rejected=0, points="155", credit="0", phones=2, emails=2, tiers={"Silver": 2, "Gold": 1}
    )
    assert (complete.is_complete, complete.members) == (True, totals)
    converted = imported(None, path, mapping=complete.mapping, today=TODAY)
    assert [member.get("points") for member in converted.members] == ["120", "35", "0"]
    assert converted.bases[0]["id"] == "club"
    assert asked(path, points="none", base="club").members == replace(totals, points="0")


def test_an_accepted_mapping_recognises_the_next_file_as_members(tmp_path: Path) -> None:
    mapping = asked(EXAMPLES / "members.csv", points="Points left", base="club").mapping
    folder = tmp_path / "mappings"
    folder.mkdir()
    recognise = '\n[recognise]\nname = "members"\ncolumns = ["Member No", "Points left"]\n'
    (folder / "members.toml").write_text(mapping + recognise, "utf-8")
    found = imported(None, EXAMPLES / "members.csv", own_mappings=folder)
    assert (found.titles, len(found.members), found.bills) == (["members"], 3, [])


HEAD = "Member No,Phone,Points balance"


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        (f"{HEAD}\n1,0800000001,5\n2,0800000002,7\n", {}),
        (f"{HEAD}\n1,800000001,5\n2,800000002,7\n", {"phones": ["0", "none"]}),
        (f"{HEAD},Joined\n1,0800000001,5,03/04/2026\n2,0800000002,7,05/06/2026\n", {"dates": ["dmy", "mdy"]}),
        (f"{HEAD},Status\n1,0800000001,5,Active\n2,0800000002,7,Blocked\n", {"state": ["all", "Blocked", "Active"]}),
        (f"{HEAD},Coupons\n1,0800000001,5,C1\n2,0800000002,7,\n", {"coupons": ["available", "unknown", "none"]}),
        (f"{HEAD},Card no\n1,0800000001,5,91\n2,0800000002,7,92\n", {"id": ["Member No", "Card no"]}),
        (f"{HEAD},Wallet\n1,0800000001,5,91\n2,0800000002,7,92\n", {"credit": ["Wallet", "none"]}),
        (f"{HEAD}\n1,0800000001,1.250\n2,0800000002,7.125\n", {"decimals": [".", ","]}),
        (
            f"{HEAD},Joined,Total,Qty\n1,0800000001,5,2026-01-31,9,1\n2,0800000002,7,2026-01-31,8,1\n",
            {"rows": ["members", "bills"]},
        ),
    ],
)
def test_what_a_table_does_not_prove_is_asked(tmp_path: Path, text: str, offered: dict[str, list[str]]) -> None:
    found = asked(written(tmp_path, text), base="club")
    always = {"points": ["Points balance", "none"]}
    assert questions(found) == {**offered, **always}
    answers = {name: choices[0] for name, choices in (offered | always).items()}
    complete = asked(written(tmp_path, text), base="club", **answers)
    assert (complete.advice, complete.refused, complete.is_complete) == ("", (), True)
    assert complete.members is not None
    assert complete.members.members == 2


def test_blocked_members_are_left_out_by_an_answer_and_named(tmp_path: Path) -> None:
    rows = "1,0800000001,5,Active\n2,0800000002,7,Blocked\n3,0800000003,1,Gone\n"
    path = written(tmp_path, f"{HEAD},Status\n{rows}")
    found = asked(path, base="club", points="none", state="Blocked, Gone")
    assert found.members is not None
    assert found.members.members == 1
    assert "Blocked or Gone" in " ".join(found.proven)
    assert asked(path, base="club", points="none", state="Never").refused[0].id == "state"


def test_rows_that_are_bills_by_an_answer_are_read_as_bills(tmp_path: Path) -> None:
    text = f"{HEAD},Joined,Total\n1,0800000001,5,2026-01-31 12:00,9.00\n2,0800000002,7,2026-01-31 12:10,8.50\n"
    found = asked(written(tmp_path, text), rows="bills")
    assert (found.members, found.answers["rows"]) == (None, "bills")
    assert "bill" in f"{found.file} {found.advice}"


def test_a_table_in_which_nothing_tells_members_apart_is_refused_with_advice(tmp_path: Path) -> None:
    found = asked(written(tmp_path, "Name,Phone,Points\nA,1,5\nB,1,6\nC,1,6\n"))
    assert "No column tells the members apart" in found.advice
    assert not found.is_complete


@pytest.mark.parametrize("name", ["bills.csv", "square-items.csv", "shopify-orders.csv", "toast-orders.csv"])
def test_bills_are_never_taken_for_members(name: str) -> None:
    assert members_form(FormFiles((EXAMPLES / name,)), {}, today=TODAY) is None


@pytest.mark.parametrize("heading", ["Ticket No,Fecha,Teléfono,Points,Importe", "Bon,Datum,Phone,Points,Summe"])
def test_bills_with_phone_numbers_and_points_are_not_taken_for_members(heading: str, tmp_path: Path) -> None:
    text = f"{heading}\n1,2026-01-31,0800000001,5,9.00\n2,2026-01-31,0800000002,7,8.50\n"
    assert members_form(FormFiles((written(tmp_path, text),)), {}, today=TODAY) is None


@pytest.mark.parametrize("file", ["strange_exports.toml", "asked_exports.toml"])
def test_no_strange_export_of_bills_is_asked_whether_it_has_members(file: str) -> None:
    exports = tomllib.loads((Path(__file__).parent / file).read_text("utf-8"))["export"]
    texts = [str(export["bills"]) for export in exports if "bills" in export]
    lines = [[line.split(",") for line in text.strip().splitlines()[:3]] for text in texts]
    assert lines
    assert [rows for rows in lines if any(is_of_members(cells) for cells in rows)] == []
