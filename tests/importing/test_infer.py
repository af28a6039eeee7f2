"""Tests for proposed mappings: columns recognised by English and Thai headings and by values, and open questions."""

import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from counterfoil.cli.main import program
from counterfoil.importing import column_profiles
from counterfoil.importing.infer import propose
from counterfoil.importing.proposals import Proposal
from counterfoil.importing.results import ImportFailed
from importing.exports import EXAMPLES, imported, written

THAI = (
    "เลขที่บิล;วันที่;เวลา;สาขา;โต๊ะ;ชื่อสินค้า;จำนวน;ราคาต่อหน่วย;จำนวนเงิน;ยอดสุทธิ;วิธีชำระเงิน;พนักงาน;สถานะ\n"
    "ก001;14/11/2569;18:05;ริมน้ำ;ต4;ข้าวซอย;2;95,00;190,00;1.240,00;เงินสด;มะลิ;ชำระแล้ว\n"
    "ก001;14/11/2569;18:05;ริมน้ำ;ต4;ชาเย็น;1;1.050,00;1.050,00;1.240,00;เงินสด;มะลิ;ชำระแล้ว\n"
    "ก002;14/11/2569;18:20;ริมน้ำ;;ส้มตำ;1;80,00;80,00;80,00;พร้อมเพย์;มะลิ;ยกเลิก\n"
)


TODAY = date(2026, 11, 30)


def inferred(*paths: Path, shop: str | None = None, **answers: str) -> tuple[Proposal, dict[str, Any]]:
    """Return the proposal for a file of bills and, if given, one of lines and one of payments."""
    files = [[path] for path in paths] + [[], []]
    given = {name.replace("_", "."): value for name, value in answers.items()}
    proposal = propose(files[0], files[1], files[2], shop, today=TODAY, answers=given)
    return proposal, tomllib.loads(proposal.text())


def test_the_proposal_for_a_common_export_imports_it_without_a_change(tmp_path: Path) -> None:
    export = EXAMPLES / "bills.csv"
    proposal, _ = inferred(export)
    found = imported("csv", export, mapping=proposal.text())
    assert found.rejected == []
    assert [bill["amounts"]["net"] for bill in found.bills] == ["240.00", "1120.00", "80.00", "-95.00", "120.00"]
    assert [len(bill["lines"]) for bill in found.bills] == [2, 1, 1, 1, 1]
    assert [bill.get("void", False) for bill in found.bills] == [False, False, True, False, False]
    assert proposal.missing == []


def test_a_heading_that_ends_in_a_period_ends_a_sentence_with_one(tmp_path: Path) -> None:
    rows = "".join(f"100{number},1{number}/11/2026 10:00,60.00,0.00\n" for number in range(5))
    proposal, _ = inferred(written(tmp_path, f"Bill,Date,Total,Disc.\n{rows}"))
    assert "Disc. " in proposal.text()
    assert "Disc.." not in proposal.text()


def test_a_later_file_with_a_new_column_is_refused(tmp_path: Path) -> None:
    proposal, mapping = inferred(EXAMPLES / "bills.csv")
    heading, *rows = (EXAMPLES / "bills.csv").read_text("utf-8").splitlines()
    later = written(tmp_path, "\n".join([f"{heading},Surcharge", *(f"{row},5.00" for row in rows)]))
    with pytest.raises(ImportFailed, match="Surcharge"):
        imported("csv", later, mapping=proposal.text())
    known = proposal.text().replace("columns = [", 'columns = ["Surcharge", ')
    assert len(imported("csv", later, mapping=known).bills) == 5
    assert "Surcharge" not in mapping["file"]["columns"]


@pytest.mark.parametrize("encoding", ["utf-8", "cp874", "utf-8-sig", "utf-16"])
def test_thai_headings_decimal_commas_and_buddhist_years_are_recognised(tmp_path: Path, encoding: str) -> None:
    export = written(tmp_path, THAI, encoding=encoding)
    proposal, mapping = inferred(export)
    assert mapping["numbers"] == {"decimal": ",", "thousands": "."}
    assert (mapping["file"]["encoding"], mapping["file"]["delimiter"]) == (encoding, ";")
    assert mapping["shopIds"] == {"ริมน้ำ": "shop-1"}
    found = imported("csv", export, mapping=proposal.text())
    assert found.rejected == []
    first, second = found.bills
    assert (first["closedAt"], first["amounts"]["net"]) == ("2026-11-14T18:05:00", "1240.00")
    assert [line["total"] for line in first["lines"]] == ["190.00", "1050.00"]
    assert (second["void"], second["payments"]) == (True, [{"name": "พร้อมเพย์", "amount": "80.00"}])


@pytest.mark.parametrize(
    ("encoding", "total", "text"),
    [
        ("windows-1252", "Total payé", "Numéro de ticket;Date;Total payé;Annulé\nA1;14/11/2026 18:05;240,00;Non\n"),
        ("windows-1251", "К оплате", "№ чека;Закрыт;К оплате;Статус\n1001;09.11.2026 22:10;512,00;Оплачен\n"),
        ("windows-1251", "К оплате", "Отчет\n\nДата;№ чека;К оплате\n09.11.2026 22:10;7;1\xa0512,00 р.\n"),
        ("windows-1250", "Do zapłaty", "Nr rachunku;Data;Do zapłaty\n7;2026-11-09 22:10;512,00 zł\n"),
        ("gb18030", "实收金额", "订单号,结账时间,实收金额\n7,2026-11-09 22:10,58.50\n"),
        ("cp932", "合計金額", "日付,伝票番号,合計金額\n2026/10/31 10:00,1,1200\n2026/10/31 11:00,2,950\n"),
    ],
    ids=["single accents", "Cyrillic", "no-break spaces", "Polish", "Chinese", "Japanese"],
)
def test_an_export_is_read_in_the_encoding_of_its_language(
    tmp_path: Path, encoding: str, total: str, text: str
) -> None:
    proposal, mapping = inferred(written(tmp_path, text, encoding=encoding))
    assert (mapping["file"]["encoding"], mapping["bill"]["amounts"]["net"]) == (encoding, total)
    assert proposal.questions == []


def test_an_encoding_that_no_word_shows_is_asked_for(tmp_path: Path) -> None:
    text = "Bill No,Date,Item,Total\n1,2026-10-31 10:00,ラーメン,5\n"
    export = written(tmp_path, text, encoding="cp932")
    question = inferred(export, shop="s")[0].questions[0]
    assert (question.entry, question.examples) == ("file.encoding", ("ラーメン", "儔乕儊儞"))
    proposal, mapping = inferred(export, shop="s", file_encoding="cp932")
    assert (mapping["file"]["encoding"], question in proposal.questions) == ("cp932", False)
    with pytest.raises(ImportFailed, match="ebcdic is none of utf-8"):
        inferred(export, file_encoding="ebcdic")
    # A search that tries all ways to split a long word would not end.
    (tmp_path / "long.csv").write_bytes(b"Bill No,Date,Item,Total\n1,2026-10-31 10:00," + b"\xa1" * 5000 + b"\xdf,5\n")
    assert inferred(tmp_path / "long.csv", shop="s")[0].sections["[file]"]


def test_an_encoding_that_is_not_known_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bills.csv").write_bytes(b"Bill,Date,\x81\xff\x8dTotal\n1,2026-10-31 10:00,5\n")
    with pytest.raises(ImportFailed, match="UTF-8"):
        inferred(tmp_path / "bills.csv", shop="s")


def test_short_thai_headings_are_recognised(tmp_path: Path) -> None:
    export = written(tmp_path, "เลขที่บิล,วันที่,ยอด,วิธีชำระ\nก1,14/11/2569 18:05,240,เงินสด\nก2,14/11/2569 18:06,80,โอน\n")
    mapping = inferred(export)[1]
    assert mapping["bill"]["amounts"]["net"] == "ยอด"
    assert mapping["payment"] == [{"name": "วิธีชำระ", "amount": "ยอด"}]
    lines = written(tmp_path, "เลขที่บิล,รายการ,จำนวน,มูลค่า\nก1,ข้าวซอย,2,240\nก2,ชา,1,80\n", "lines.csv")
    assert inferred(export, lines)[1]["line"]["total"] == "มูลค่า"


def test_lines_are_joined_by_the_id_that_both_files_have(tmp_path: Path) -> None:
    export = written(
        tmp_path, "BON_ID;BON_NR;BON_ENDE;UMS_BRUTTO\na7;1;2026-11-13 10:00;9,45\nb8;2;2026-11-13 11:00;8,00\n"
    )
    text = "BON_ID;ARTIKELTEXT;MENGE;STK_BR;SUMME\na7;Tee;1,000;9,45000;9,45\nb8;Reis;2,000;4,00000;8,00\n"
    proposal, mapping = inferred(export, written(tmp_path, text, "lines.csv"), shop="s")
    assert (mapping["bill"]["key"], mapping["line"]["key"], mapping["line"]["qty"]) == ("BON_ID", "BON_ID", "MENGE")
    assert proposal.questions == []


def test_the_preview_has_a_void_and_a_refund_however_late_they_are(tmp_path: Path) -> None:
    rows = [f"A{number},14/11/2026 18:05,100,Paid\n" for number in range(10)]
    rows += ["V1,14/11/2026 18:06,90,Void\n", "R1,14/11/2026 18:07,80,Refund\n"]
    export = written(tmp_path, "".join(["Bill No,Date,Total,Status\n", *rows]))
    shown = CliRunner().invoke(program, ["import", "--infer", str(export)]).stderr
    assert "5 of 12 bills in the sample, as the API would serve them" in shown
    ids = [line.split("-")[-1] for line in shown.splitlines() if line.startswith("  id: ")]
    assert ids == ['A0"', 'A1"', 'A2"', 'V1"', 'R1"']
    assert 'status: "void"' in shown
    assert '"net":-80' in shown


def test_the_date_order_is_not_asked_for_if_the_export_has_no_dates(tmp_path: Path) -> None:
    export = written(tmp_path, "Bill No,Total\n1,10\n2,20\n")
    shown = CliRunner().invoke(program, ["import", "--infer", str(export), "-o", str(tmp_path / "m.toml")]).stderr
    assert "The first 2 of 2 bills in the sample" in shown
    assert "dates.order" not in shown
    assert "the day comes before the month" not in shown


@pytest.mark.parametrize(("heading", "time"), [("Business Date", ""), ("Date", " 18:05")])
def test_a_date_order_that_nothing_shows_is_asked_for(tmp_path: Path, heading: str, time: str) -> None:
    ambiguous = written(tmp_path, f"Bill No,{heading},Total\n1,03/04/2026{time},10\n", "ambiguous.csv")
    assert "order" not in inferred(ambiguous, shop="s")[1]["dates"]
    shown = CliRunner().invoke(program, ["import", "--infer", str(ambiguous), "-o", str(tmp_path / "m.toml")]).stderr
    assert "--set dates.order=dmy  03 Apr 2026" in shown
    assert "--set dates.order=mdy  04 Mar 2026" in shown
    assert f"The mapping is in {tmp_path / 'm.toml'}. Answer the 1 question in the same command, then run:" in shown


@pytest.mark.parametrize(
    ("order", "name", "heading", "row"),
    [
        ("dmy", "", "Bill No,Date,Total", "05/11/2026 10:00,10 06/11/2026 11:00,10"),
        ("mdy", "", "Bill No,Date,Total", "11/05/2026 10:00,10 11/06/2026 11:00,10"),
        ("mdy", "", "Bill No,Date,Total", "05/12/2026 10:00,10"),
        ("auto", "", "Bill No,Date,Total", "11/11/2026 10:00,10"),
        ("ymd", "", "Bill No,Date,Total", "26/11/14 10:00,10"),
        ("dmy", "", "Printed 13/11/2026\nBill No,Date,Total", "05/11/2026 10:00,10"),
        ("dmy", "", "From 01/11/2026 to 07/11/2026\nBill No,Date,Total", "05/11/2026 10:00,10"),
        ("mdy", "sales-2026-11-05", "Bill No,Date,Total", "11/05/2026 10:00,10"),
        ("dmy", "", "Bill No,Date,Total,Delivered", "05/11/2026 10:00,10,14/11/2026"),
        ("mdy", "", "Bill No,Date,Total,Reference", "11/05/2026 10:00,10,X-20261105-7"),
        ("dmy", "", "Bill No,Date,Total,Weekday", "05/11/2026 10:00,10,Thursday"),
        ("dmy", "", "เลขที่บิล,วันที่,ยอดรวม", "05/11/2026 10:00,10"),
        ("dmy", "", "Belegnr,Datum,Gesamtbetrag", "05.11.26 10:00,10"),
        ("dmy", "", "Ticket,Date,Total TTC,Mode de paiement", "05/11/2026 10:00,10,CB"),
        ("dmy", "", "Bill No,Date,Total", "05/11/2026 10:00,฿10"),
        ("mdy", "", "Bill No,Date,Total,Time Zone", "05/11/2026 10:00,10,America/New_York"),
        (None, "", "Bill No,Date,Total", "05/11/2026 10:00,$10"),
        (None, "", "เลขที่บิล,วันที่,ยอดรวม", "11/5/2026 5:40 PM,10"),
        (None, "", "เลขที่บิล,วันที่,ยอดรวม", "05/12/2026 10:00,10"),
    ],
)
def test_the_date_order_is_that_which_anything_in_the_export_shows(
    order: str | None, name: str, heading: str, row: str, tmp_path: Path
) -> None:
    rows = [f"{number},{cells}\n" for number, cells in enumerate(row.replace(",10 ", ",10|").split("|") * 2)]
    export = written(tmp_path, f"{heading}\n{''.join(rows)}", f"{name or 'export'}.csv")
    proposal, mapping = inferred(export, shop="s")
    assert mapping["dates"].get("order") == order
    assert ("dates.order" in [question.entry for question in proposal.questions]) == (order is None)


def test_lines_and_payments_of_other_files_are_found(tmp_path: Path) -> None:
    bills = written(
        tmp_path, "Receipt No,Date and time,Grand Total\n1,2026-11-14 18:05,240\n2,2026-11-14 18:06,5\n", "b"
    )
    lines = written(tmp_path, "Receipt No,Item,Qty,Amount\n1,Tea,1,50\n1,Rice,2,190\n2,Egg,1,5\n", "l")
    payments = written(tmp_path, "Receipt No,Payment Method,Amount,Change\n1,Cash,300,60\n2,Card,5,\n", "p")
    proposal, _ = inferred(bills, lines, payments, shop="s")
    found = imported("csv", bills, lines=(lines,), payments=(payments,), mapping=proposal.text())
    assert found.rejected == []
    assert found.bills[0]["payments"] == [{"name": "Cash", "amount": "300", "change": "60"}]
    assert [line["name"] for line in found.bills[0]["lines"]] == ["Tea", "Rice"]


def test_dates_without_a_time_of_day_get_noon_and_a_question(tmp_path: Path) -> None:
    proposal, mapping = inferred(written(tmp_path, "Bill No,Date,Total\n1,31/10/2026,5\n"), shop="s")
    assert mapping["dates"]["defaultTime"] == "12:00"
    assert any(one.startswith("the time of day.") for one in proposal.undecided)


def test_one_column_per_payment_method_becomes_payments(tmp_path: Path) -> None:
    rows = "1,31/10/2026 10:00,100,40,60\n2,31/10/2026 11:00,5,5,\n"
    _, mapping = inferred(written(tmp_path, "Bill No,Date,Total,Cash,Credit Card\n" + rows), shop="s")
    assert [one["amount"] for one in mapping["payment"]] == ["Cash", "Credit Card"]


def test_data_missing_from_an_export_is_reported(tmp_path: Path) -> None:
    proposal, _ = inferred(written(tmp_path, "Colour,Shape,Bill No\nred,round,1\n"), shop="s")
    assert [question.entry for question in proposal.questions] == ["bill.closedAt", "bill.amounts.net"]
    assert all(any(text.startswith(what) for text in proposal.missing) for what in ("the lines", "the payments"))
    assert proposal.unused == ["Colour", "Shape"]


@pytest.mark.parametrize(
    ("above", "line"),
    [("Sales report,,\n,,\n", 3), ("Description of the number,Description of the date,Description of the total\n", 2)],
    ids=["a title", "descriptions"],
)
def test_what_is_above_the_headings_is_skipped(tmp_path: Path, above: str, line: int) -> None:
    proposal, mapping = inferred(written(tmp_path, f"{above}Bill No,Date,Total\n1,31/10/2026 10:00,5\n"), shop="s")
    assert mapping["file"]["headingLine"] == line
    assert len(imported("csv", tmp_path / "export.csv", mapping=proposal.text()).bills) == 1


def test_the_time_zone_is_to_decide_only_if_bills_have_a_time(tmp_path: Path) -> None:
    dated, _ = inferred(written(tmp_path, "Bill No,Date,Total\n1,31/10/2026 10:00,5\n"), shop="s")
    undated, _ = inferred(written(tmp_path, "Bill No,Total\n1,5\n"), shop="s")
    assert [any("time zone" in one for one in proposal.undecided) for proposal in (dated, undated)] == [True, False]


def test_the_command_writes_the_mapping_and_shows_five_bills_as_they_would_be_served(tmp_path: Path) -> None:
    out = tmp_path / "mapping.toml"
    told = CliRunner().invoke(program, ["import", "--infer", str(EXAMPLES / "bills.csv"), "-o", str(out)])
    assert told.exit_code == 0, told.output
    assert tomllib.loads(out.read_text("utf-8"))["bill"]["id"] == ["Date", "Bill No"]
    assert told.stdout == ""
    assert told.stderr.count('\n  timestamp: "2026-11-1') == 5
    assert 'timestamp: "2026-11-14T18:05:00.000+07:00"' in told.stderr
    assert 'items: [{"name":"Khao soi","qty":2,"unitPrice":95,"lineTotal":190,' in told.stderr
    assert "To decide: the time zone." in told.stderr
    assert f"counterfoil import --mapping {out}" in told.stderr


def test_a_value_that_names_no_shop_is_rejected(tmp_path: Path) -> None:
    rows = "1,31/10/2026 10:00,Siam,5\n2,31/10/2026 11:00,UNKNOWN,6\n3,31/10/2026 12:00,Ari,7\n"
    export = written(tmp_path, "Bill No,Date,Branch,Total\n" + rows)
    proposal, mapping = inferred(export)
    assert [shop["name"] for shop in mapping["shop"]] == ["Siam", "Ari"]
    assert {shop["franchiseId"] for shop in mapping["shop"]} == {"my-group"}
    assert imported("csv", export, mapping=proposal.text()).reasons == [("export.csv", 3, "unknown_status")]


@pytest.mark.parametrize(
    ("heading", "no", "yes"),
    [
        ("Void?", "No", "Yes"),
        ("Voided", "false", "true"),
        ("Void", "N", "Y"),
        ("ยกเลิก", "ไม่", "ใช่"),
        ("Void?", "None", "Yes"),
    ],
)
def test_a_yes_or_no_on_each_line_cancels_lines_and_voids_no_bill(
    heading: str, no: str, yes: str, tmp_path: Path
) -> None:
    rows = f"1,31/10/2026 10:00,Tea,1,50,{no}\n1,31/10/2026 10:00,Rice,2,190,{yes}\n2,31/10/2026 11:00,Tea,1,50,{no}\n"
    export = written(tmp_path, f"Bill No,Date,Item,Qty,Amount,{heading}\n{rows}")
    found = imported("csv", export, mapping=inferred(export, shop="s")[0].text())
    assert found.rejected == []
    assert [(bill["amounts"]["net"], bool(bill.get("void"))) for bill in found.bills] == [("50", False), ("50", False)]


@pytest.mark.parametrize(
    ("heading", "value"),
    [
        ("Void reason", "Wrong table"),
        ("Motivo de cancelación", "Error"),
        ("Voided by", "Mali"),
        ("Voided by", "12"),
        ("Cancelled at", "31/10/2026 12:30"),
        ("Void?", "Yes"),
    ],
)
def test_only_a_value_that_is_no_placeholder_voids_a_bill(heading: str, value: str, tmp_path: Path) -> None:
    rows = [f"{number},31/10/2026 1{number}:00,5,{text}\n" for number, text in enumerate(("-", "None", "N/A", value))]
    export = written(tmp_path, "".join([f"Bill No,Date,Total,{heading}\n", *rows]))
    found = imported("csv", export, mapping=inferred(export, shop="s")[0].text())
    assert [bool(bill.get("void")) for bill in found.bills] == [False, False, False, True]


@pytest.mark.parametrize(
    "word",
    ["Zurp", "Paid Out", "PAIDOUT", "Paid In", "Success (test)", "Training", "Complimentary", "Refunded", "Devuelto"],
)
def test_a_state_that_may_be_no_sale_rejects_its_bill_and_is_asked_about(word: str, tmp_path: Path) -> None:
    rows = f"1,31/10/2026 10:00,5,Open\n2,31/10/2026 11:00,5,Paid\n3,31/10/2026 11:00,5,{word}\n"
    export = written(tmp_path, "Bill No,Date,Total,Status\n" + rows)
    proposal, mapping = inferred(export, shop="s")
    assert mapping["status"] == [{"column": "Status", "values": {"Open": "skip", "Paid": "sale"}}]
    assert any(f"values of Status mean: {word}." in one and "=sale" not in one for one in proposal.undecided)
    assert imported("csv", export, mapping=proposal.text()).reasons == [("export.csv", 4, "unknown_status")]


@pytest.mark.parametrize("word", ["Paid in full", "Order completed", "Đã thanh toán", "Sudah dibayar", "ชำระเงินแล้ว"])
def test_words_that_change_nothing_about_a_sale_need_no_question(word: str, tmp_path: Path) -> None:
    export = written(tmp_path, f"Bill No,Date,Total,Status\n1,31/10/2026 10:00,5,{word}\n2,31/10/2026 11:00,5,Void\n")
    assert inferred(export, shop="s")[1]["status"][0]["values"] == {word: "sale", "Void": "void"}


@pytest.mark.parametrize("heading", ["Payment", "Order Type"])
def test_a_void_a_refund_or_an_unpaid_bill_that_only_another_column_shows_is_asked_about(
    heading: str, tmp_path: Path
) -> None:
    words = ["Zurp", "VOID", "Cancelled", "Refund", "Unpaid", "ยกเลิก", "ค้างชำระ"]
    rows = [f"{number},31/10/2026 1{number}:00,5,{word}\n" for number, word in enumerate(words)]
    export = written(tmp_path, "".join([f"Bill No,Date,Total,{heading}\n", *rows]))
    proposal, mapping = inferred(export, shop="s")
    assert set(mapping["undecided"]) == {f"status.{word}" for word in words[1:]}
    for word in words[1:]:
        assert any(f"{heading} has {word} on line" in question.text for question in proposal.questions)
    answers = {f"status.{word}": "sale" for word in words}
    assert propose([export], [], [], "s", today=TODAY, answers=answers).questions == []


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("Open", "Close"),
        ("Opened", "Closed"),
        ("Start", "End"),
        ("Fecha apertura", "Fecha cierre"),
        ("Geöffnet", "Geschlossen"),
        ("Order Date", "Closed"),
        ("วันที่เปิดบิล", "วันที่ปิดบิล"),
    ],
)
def test_a_bill_has_the_time_of_its_closing(opening: str, closing: str, tmp_path: Path) -> None:
    rows = "1,31/10/2026 10:00,31/10/2026 11:00,5\n2,31/10/2026 23:00,1/11/2026 01:00,6\n"
    _, mapping = inferred(written(tmp_path, f"Bill No,{opening},{closing},Total\n{rows}"), shop="s")
    assert mapping["bill"]["closedAt"] == closing


@pytest.mark.parametrize(
    ("day", "times"),
    [
        ("31/10/2026", "1105 905"),
        ("31/10/2026", "110500 90500"),
        ("31/10/2026", "11h05 9h05"),
        ("31/10/2026", "0.461806 0.378472"),
        ("31/10/2026", "1899-12-30T11:05:00 1899-12-30T09:05:00"),
        ("31/10/2026", "2026-10-31T11:05:00 2026-10-31T09:05:00"),
        ("2026-10-31 00:00:00", "11:05 09:05"),
    ],
)
def test_the_time_of_day_is_found_beside_the_day(day: str, times: str, tmp_path: Path) -> None:
    rows = [f"{number},{day},{time},5.00\n" for number, time in enumerate(times.split(), start=7)]
    export = written(tmp_path, f"Bill No,Date,Time,Total\n{''.join(rows)}")
    found = imported("csv", export, mapping=inferred(export, shop="s")[0].text())
    assert [bill["closedAt"] for bill in found.bills] == ["2026-10-31T11:05:00", "2026-10-31T09:05:00"]


def test_shops_have_the_time_zone_that_their_rows_name(tmp_path: Path) -> None:
    rows = "1,31/10/2026 10:00,A,5,Singapore\n2,31/10/2026 11:00,B,6,America/New_York\n"
    _, mapping = inferred(written(tmp_path, "Bill No,Date,Branch,Total,Time Zone\n" + rows))
    assert [shop["timezone"] for shop in mapping["shop"]] == ["Asia/Singapore", "America/New_York"]


def test_a_time_zone_without_a_known_name_is_asked_about(tmp_path: Path) -> None:
    export = written(tmp_path, "Bill No,Date,Total,Time Zone\n1,31/10/2026 10:00,5,Zurp\n")
    [question] = inferred(export, shop="s")[0].questions
    assert (question.entry, "Time Zone" in question.text) == ("shop.timezone", True)
    assert propose([export], [], [], "s", today=TODAY, timezone="Asia/Singapore").questions == []


@pytest.mark.parametrize(
    ("headings", "time", "zone", "closed"),
    [
        ("Bill No,Date,Total THB", "2026-10-31T18:00:00Z", "Asia/Bangkok", "2026-10-31T18:00:00+00:00"),
        ("伝票番号,会計日時,合計金額", "2026-10-31 18:00 UTC", "Asia/Tokyo", "2026-10-31T18:00:00+00:00"),
        ("Bill No,Date (UTC),Total THB", "2026-10-31 18:00", "Asia/Bangkok", "2026-10-31T18:00:00+00:00"),
        ("All times in UTC\nBill No,Date,Total THB", "2026-10-31 18:00", "Asia/Bangkok", "2026-10-31T18:00:00+00:00"),
        ("Printed 2026-11-01 8:00 UTC\nBill No,Date,Total", "2026-10-31 18:00", "Asia/Bangkok", "2026-10-31T18:00:00"),
        ("Time zone: Asia/Tokyo\nBill No,Date,Total", "2026-10-31 18:00", "Asia/Tokyo", "2026-10-31T18:00:00"),
        ("Bill No,Date (GMT+7),Total", "2026-10-31 18:00", "Asia/Bangkok", "2026-10-31T18:00:00"),
        ("Bill No,Date,Total", "2026-10-31 18:00 +07:00", "Asia/Bangkok", "2026-10-31T18:00:00+07:00"),
        ("Bill No,Date,Total", "2026-10-31T18:00:00Z", None, "Date has times in UTC"),
        ("Bill No,closed_at_utc,Total", "2026-10-31 18:00", None, "closed_at_utc has times in UTC"),
        ("Bill No,Date,Total", "1793469600", None, "Date has times in UTC"),
        ("Bill No,Date,Total", "2026-11-02 18:00 -05:00", "America/New_York", "2026-11-02T18:00:00-05:00"),
        ("Bill No,Date (EST),Total", "2026-11-02 18:00", None, "Date (EST) has 2026-11-02 18:00"),
    ],
)
def test_the_zone_of_a_shop_whose_days_depend_on_it_is_shown_by_the_export_or_asked_for(
    headings: str, time: str, zone: str | None, closed: str, tmp_path: Path
) -> None:
    export = written(tmp_path, f"{headings}\n1,{time},5.00\n2,{time},6.00\n")
    proposal, mapping = inferred(export, shop="s")
    assert mapping["shop"].get("timezone") == zone
    found = closed in proposal.questions[0].text if proposal.questions else None
    assert found or {bill["closedAt"] for bill in imported("csv", export, mapping=proposal.text()).bills} == {closed}


def test_an_amount_of_the_bill_is_added_once_to_the_sum_of_its_lines(tmp_path: Path) -> None:
    rows = "1,31/10/2026 10:00,Tea,50,20\n1,31/10/2026 10:00,Rice,95,20\n2,31/10/2026 11:00,Tea,50,0\n"
    export = written(tmp_path, "Bill No,Date,Item,Line total,Tip\n" + rows)
    [question] = inferred(export, shop="s")[0].questions
    assert question.choices == ("sum of Line total + Tip", "sum of Line total")
    assert question.examples[0] == "165.00 on line 2, 215.00 in all"
    proposal, _ = inferred(export, shop="s", bill_amounts_net=question.choices[0])
    found = imported("csv", export, mapping=proposal.text())
    assert [bill["amounts"]["net"] for bill in found.bills] == ["165", "50"]


def test_an_amount_that_is_repeated_on_the_lines_of_a_bill_is_not_that_of_a_line(tmp_path: Path) -> None:
    rows = "1,31/10/2026 10:00,Tea,50,145,145\n1,31/10/2026 10:00,Rice,95,145,145\n2,31/10/2026 11:00,Tea,50,50,50\n"
    export = written(tmp_path, "Bill No,Date,Item,Line total,Rounded Total,Paid Amount\n" + rows)
    _, mapping = inferred(export, shop="s")
    assert (mapping["bill"]["amounts"]["net"], mapping["line"]["total"]) == ("Rounded Total", "Line total")


def test_shops_without_a_known_time_zone_are_one_question_that_their_entries_answer(tmp_path: Path) -> None:
    rows = "1,31/10/2026 10:00,A,5,+05:45\n2,31/10/2026 11:00,B,6,+06:30\n"
    export = written(tmp_path, "Bill No,Date,Branch,Total,Time Zone\n" + rows)
    proposal, _ = inferred(export)
    assert [question.entry for question in proposal.questions] == ["shop.timezone"]
    answered = proposal.text().replace('franchiseId = "my-group"', 'timezone = "Asia/Bangkok"')
    assert len(imported("csv", export, mapping=answered).bills) == 2


def test_no_line_of_a_question_is_wider_than_the_terminal(tmp_path: Path) -> None:
    export = written(tmp_path, "Bill No,Date,Total,Tip\n1,31/10/2026 10:00,5,1\n2,31/10/2026 11:00,6,2\n")
    lines = CliRunner().invoke(program, ["import", "--infer", str(export)]).stderr.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("Question: "))
    assert "  --set 'bill.amounts.net=Total + Tip'  6.00 on line 2, 14.00 in all" in lines
    assert max(map(len, lines[first:])) <= 80


@pytest.mark.parametrize(("meaning", "bills", "net"), [("sale", 2, 100), ("skip", 1, 60), ("void", 2, 60)])
def test_a_way_of_paying_that_is_explained_decides_about_its_bills(
    meaning: str, bills: int, net: int, tmp_path: Path
) -> None:
    rows = "1,31/10/2026 10:00,60,Cash\n2,31/10/2026 11:00,40,Staff meal\n"
    export = written(tmp_path, "Bill No,Date,Total,Payment\n" + rows)
    [question] = inferred(export, shop="s")[0].questions
    assert f"--set 'status.Staff meal={meaning}'" in " ".join(question.answers)
    answers = {"status.Staff meal": meaning}
    proposal = propose([export], [], [], "s", today=TODAY, answers=answers)
    found = imported("csv", export, mapping=proposal.text())
    sales = [int(bill["amounts"]["net"]) for bill in found.bills if not bill.get("void")]
    assert (len(found.bills), sum(sales), found.rejected) == (bills, net, [])


@pytest.mark.parametrize(
    ("name", "answer", "problem"),
    [
        ("bill.total", "Total", "only these can be set"),
        ("status.Paid", "sold", "none of sale, void, refund, skip"),
        ("status.paid", "sale", "no column has the value paid"),
        ("dates.order", "dym", "none of dmy, mdy, ymd"),
        ("bill.id", "Bill", "no column Bill"),
        ("bill.amounts.net", "Total + Tips", "no column Tips"),
    ],
)
def test_an_answer_without_effect_is_refused(name: str, answer: str, problem: str, tmp_path: Path) -> None:
    export = written(tmp_path, "Bill No,Date,Total,Status\n1,31/10/2026 10:00,60,Paid\n2,31/10/2026 11:00,40,Paid\n")
    with pytest.raises(ImportFailed, match=problem):
        propose([export], [], [], "s", today=TODAY, answers={name: answer})


def test_negative_bills_without_a_status_are_refunds_that_are_to_be_checked(tmp_path: Path) -> None:
    export = written(tmp_path, "Bill No,Date,Total\n1,31/10/2026 10:00,60\n2,31/10/2026 11:00,-40\n")
    proposal, _ = inferred(export, shop="s")
    assert any("a negative Total, as on line 3," in text for text in proposal.undecided)
    assert [bill["amounts"]["net"] for bill in imported("csv", export, mapping=proposal.text()).bills] == ["60", "-40"]


def test_the_unit_of_amounts_is_asked_for_unless_the_export_shows_it(tmp_path: Path) -> None:
    def bills(heading: str, *amounts: int) -> Path:
        rows = [f"{place},31/10/2026 10:{place:02},{amount},{-amount}" for place, amount in enumerate(amounts, start=1)]
        return written(tmp_path, "\n".join([heading, *rows, ""]))

    in_doubt = [
        bills("Bill No,Date,Total (cents),Discount", 6050, 4000),
        bills("Bill No,Date,Total,Discount", 1037, 1069, 1933, 7668, 2001),
        bills("Bill No,Date,Total,Discount", 1200, 4500),
        bills("Bill No,Date,Total EUR,Discount", 120, 450, 130, 990),
        bills("เลขที่บิล,วันที่,ยอดรวม,ส่วนลด", 12000, 4500, 8900),
    ]
    for export in in_doubt:
        [question] = inferred(export, shop="s", bill_amounts_net=export.read_text().split(",")[2])[0].questions
        assert (question.entry, question.choices) == ("numbers.unit", ("units", "cents", "thousands"))
    for heading, *amounts in (
        ("Bill No,Date,Total,Discount", 1037, 1069, 1933, 7668, 60),
        ("Bill No,Date,Total,Discount", 1037, 280),
        ("Bill No,Date,合計,Discount", 1037, 1069, 1933, 7668, 2001),
        ("Bill No,Date,Total VND,Discount", 103000, 169000, 193000),
        ("Bill No,Date,Total UGX,Discount", 103000, 169000),
        ("No Struk,Tanggal,Total Bayar,Diskon", 103000, 169000, 193000),
        ("Bill No,Date,Total THB,Discount", 1037, 1069, 1933, 7668, 201),
    ):
        questions = inferred(bills(str(heading), *map(int, amounts)), shop="s")[0].questions
        assert not any(one.entry == "numbers.unit" for one in questions)


def test_an_answer_that_a_word_or_a_heading_contradicts_is_to_be_checked(tmp_path: Path) -> None:
    rows = "1,13/11/2026 10:00,10.50,Paid,Mali\n2,13/11/2026 11:00,20.00,Void,Nok\n3,13/11/2026 12:00,5.00,Paid,Nok\n"
    export = written(tmp_path, f"Bill,Date,Total,Status,Cashier\n{rows}")
    for answer in ({"status_Void": "sale"}, {"bill_shopId": "Cashier"}):
        texts = [" ".join(inferred(export, **given)[0].undecided) for given in (answer, {})]
        assert ["says" in text for text in texts] == [True, False]


def test_amounts_in_cents_are_converted(tmp_path: Path) -> None:
    heading = "Bill No,Date,Item,Qty,Price,Amount,Total,Discount\n"
    row = "1,31/10/2026 10:00,Tea,2,300,600,450,-150\n1,31/10/2026 10:00,Egg,1,0,0,450,-150\n"
    export = written(tmp_path, heading + row + "2,31/10/2026 11:00,Rice,3,1201,3603,3600,-3\n")
    proposal, _ = inferred(export, shop="s", numbers_unit="cents")
    first, second = imported("csv", export, mapping=proposal.text()).bills
    assert [bill["amounts"]["net"] for bill in (first, second)] == ["4.50", "36.00"]
    assert second["amounts"]["discountTotal"] == "0.03"
    [line] = second["lines"]
    assert (line["qty"], line["unitPrice"], line["total"]) == ("3", "12.01", "36.03")
    later = written(tmp_path, heading + "3,31/10/2026 11:00,Rice,1,12.01,12.01,12.01,0\n", "later.csv")
    assert imported("csv", later, mapping=proposal.text()).bills == []


ITEM_ROWS = (
    "Order Id,Sent Date,Menu Item,Gross Price,Discount,Net Price,Qty,Tax\n"
    "5740001,1/21/26 1:17 PM,Khao soi,14.75,0.00,14.75,1.0,0.88\n"
    "5740002,1/21/26 1:29 PM,Iced tea,12.50,0.00,12.50,1.0,0.75\n"
)


def test_a_tax_on_top_of_a_price_of_lines_or_bills_is_in_the_first_choices(tmp_path: Path) -> None:
    export = written(tmp_path, ITEM_ROWS)
    [question] = inferred(export, shop="s")[0].questions
    lines, bills = "sum of Net Price", "Net Price"
    assert question.choices == (f"{lines} + sum of Tax", f"{bills} + Tax", lines, bills)
    assert [example.split()[-3] for example in question.examples] == ["28.88", "28.88", "27.25", "27.25"]
    proposal, mapping = inferred(export, shop="s", bill_amounts_net=question.choices[0])
    assert mapping["bill"]["amounts"]["vat"] == {"sum": "Tax"}
    assert not any("Tax into account" in one for one in proposal.undecided)
    later = ITEM_ROWS + "5740002,1/21/26 1:29 PM,Iced tea,12.50,0.00,12.50,1.0,0.75\n"
    found = imported("csv", written(tmp_path, later), mapping=proposal.text())
    assert [bill["amounts"]["net"] for bill in found.bills] == ["15.63", "26.50"]


@pytest.mark.parametrize("answer", ["sum of Net Price", "Net Price"])
def test_an_answer_without_the_tax_is_noted(answer: str, tmp_path: Path) -> None:
    proposal, _ = inferred(written(tmp_path, ITEM_ROWS), shop="s", bill_amounts_net=answer)
    assert proposal.questions == []
    assert [one for one in proposal.undecided if "Tax into account" in one] != []


def test_an_amount_that_an_answer_leaves_out_is_among_the_unused_columns(tmp_path: Path) -> None:
    rows = "1,31/10/2026 10:00,100.50,3.10\n2,31/10/2026 11:00,200.50,9.40\n3,31/10/2026 12:00,50.50,2.20\n"
    export = written(tmp_path, "Bill No,Date,Total,Levied\n" + rows)
    assert [one.entry for one in inferred(export)[0].questions] == ["bill.amounts.net"]
    assert inferred(export, bill_amounts_net="Total")[0].unused == ["Levied"]


def test_a_question_between_totals_offers_each_with_a_tax_that_nothing_relates_to_them(tmp_path: Path) -> None:
    rows = "1,31/10/2026 10:00,100,90,3.10\n2,31/10/2026 11:00,200,170,9.40\n3,31/10/2026 12:00,50,47,2.20\n"
    export = written(tmp_path, "Bill No,Date,Amount,Net Sales,Tax\n" + rows)
    [question] = inferred(export, shop="s")[0].questions
    assert {"Amount + Tax", "Net Sales + Tax"} & set(question.choices)
    proposal, _ = inferred(export, shop="s", bill_amounts_net="Net Sales")
    assert any("Tax into account" in one for one in proposal.undecided)


def test_an_answer_that_includes_the_tax_by_the_amounts_gets_no_note_about_it(tmp_path: Path) -> None:
    rows = "1,31/10/2026 10:00,100,7,107\n2,31/10/2026 11:00,200,14,214\n3,31/10/2026 12:00,50,3.50,53.50\n"
    export = written(tmp_path, "Bill No,Date,Subtotal,Tax,Total\n" + rows)
    proposal, _ = inferred(export, shop="s", bill_amounts_net="Total")
    assert not any("Tax into account" in one for one in proposal.undecided)


def test_an_answer_that_one_bill_of_many_contradicts_is_refused(tmp_path: Path) -> None:
    rows = ["1,2026-11-02 11:16,30,Visa,10,0", "1,2026-11-02 11:16,30,Cash,25,5"]
    rows += [f"{number},2026-11-02 11:16,9,Visa,9,0" for number in range(2, 40)]
    bills = written(tmp_path, "\n".join(["Bill,Closed,Bill Total,Tender,Tendered,Change", *rows, ""]))
    with pytest.raises(ImportFailed, match=r"line 2, .* paid 30.00"):
        inferred(bills, shop="s", bill_amounts_net="sum of Tendered")


@pytest.mark.parametrize("number", ["{}", ""], ids=["on each row", "on the first row"])
def test_a_bill_of_which_the_sample_has_only_a_part_is_left_out(
    number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_profiles, "SAMPLE_ROWS", 8)
    rows = [
        f"{bill if line == 0 else number.format(bill)},13/11/2026 12:0{bill},Tea {line},{line + 3}.00,12.00\n"
        for bill in range(1, 7)
        for line in range(3)
    ]
    _, mapping = inferred(written(tmp_path, "".join(["Receipt,Date,Item,Amount,Total\n", *rows])))
    assert mapping["checks"]["equal"] == [["Total", {"sum": "Amount"}]]
    assert mapping["bill"]["amounts"] == {"net": "Total"}
