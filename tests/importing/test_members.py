"""Tables of members: what is kept of a row, and which rows are rejected by name. All people here are invented."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook

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
