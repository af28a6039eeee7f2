"""The form of `counterfoil import`: questions on a terminal, answers from a file, and mappings that are remembered."""

import json
import tomllib
from pathlib import Path

import pytest

from cli.command import Command, on_terminal

pytestmark = pytest.mark.programs

ANSWERED = {"state.Payout Status": "sale", "net": "Total + Tip"}
EXPORT = """\
Receipt No,Date,Time,Branch,Item,Qty,Amount,Subtotal,Service,VAT,Total,Tip,Payout Status
1001,13/04/2026,18:05,Riverside,Khao soi,2,190.00,200.00,20.00,15.40,235.40,0.00,Paid
1001,13/04/2026,18:05,Riverside,Tea,1,10.00,200.00,20.00,15.40,235.40,0.00,Paid
1002,13/04/2026,18:40,Riverside,Set menu,1,500.00,500.00,50.00,38.50,588.50,40.00,Pending
1003,14/04/2026,19:10,Old Town,Tea,2,100.00,100.00,10.00,7.70,117.70,0.00,Paid
1004,14/04/2026,19:30,Old Town,Curry,1,160.00,160.00,16.00,12.32,188.32,20.00,Pending
1005,15/04/2026,18:10,Riverside,Tea,1,70.10,70.10,7.01,5.40,82.51,0.00,Paid
1006,15/04/2026,20:10,Riverside,Noodles,2,130.00,130.00,13.00,10.01,153.01,10.00,Pending
"""


@pytest.fixture
def export(tmp_path: Path) -> Path:
    path = tmp_path / "sales-2026-04.csv"
    path.write_text(EXPORT, "utf-8")
    return path


def answers_file(folder: Path, answers: dict[str, str]) -> Path:
    path = folder / "answers.json"
    path.write_text(json.dumps(answers), "utf-8")
    return path


def test_without_a_terminal_open_questions_end_with_7_and_nothing_is_written(
    counterfoil: Command, export: Path, store: Path
) -> None:
    done = counterfoil("import", export, "--load", status=7)
    assert not store.exists()
    # The lines of the options can be copied into the file of the answers.
    (line,) = [line.strip() for line in done.stderr.splitlines() if '= "sale"' in line]
    assert tomllib.loads(line.partition("  ")[0]) == {"state.Payout Status": "sale"}


def test_an_answer_that_is_no_text_says_how_answers_are_written(
    counterfoil: Command, export: Path, tmp_path: Path
) -> None:
    answers = tmp_path / "answers.toml"
    answers.write_text('state."Payout Status" = "sale"', "utf-8")
    done = counterfoil("import", export, "--answers", answers, status=2)
    assert 'Write each answer in a line, as "ID" = "answer".' in " ".join(done.stderr.split())


def test_json_prints_the_form_with_the_money_of_each_option(counterfoil: Command, export: Path) -> None:
    form = json.loads(counterfoil("import", export, "--json", status=7).stdout)
    (question,) = [one for one in form["questions"] if one["id"] == "state.Payout Status"]
    assert {(one["answer"], one["bills"], one["net"]) for one in question["options"]} >= {
        ("sale", 6, "1435.44"),
        ("skip", 3, "435.61"),
    }
    assert form["totals"] is None


def test_answers_from_a_file_load_the_export_and_are_remembered(
    counterfoil: Command, export: Path, store: Path, tmp_path: Path
) -> None:
    counterfoil("import", export, "--answers", answers_file(tmp_path, ANSWERED), "--load")
    (mapping,) = (store / "mappings").glob("*.toml")
    assert mapping.name == "sales.toml"
    assert tomllib.loads(mapping.read_text("utf-8"))["answers"]["state.Payout Status"] == "sale"
    assert "mapping accepted" in counterfoil("audit").stdout
    export.write_text(EXPORT.replace("/04/2026", "/05/2026"), "utf-8")
    assert "1,435.44" in counterfoil("import", export, "--load").stdout


def test_a_restored_store_knows_the_exports_that_were_known_when_it_was_backed_up(
    counterfoil: Command, export: Path, tmp_path: Path
) -> None:
    counterfoil("import", export, "--answers", answers_file(tmp_path, ANSWERED), "--load")
    counterfoil("backup", tmp_path / "backup")
    restored = Command(tmp_path / "restored")
    restored("restore", tmp_path / "backup")
    export.write_text(EXPORT.replace("/04/2026", "/05/2026"), "utf-8")
    assert "1,435.44" in restored("import", export, "--load").stdout


def test_a_file_that_lacks_one_heading_of_a_remembered_mapping_is_named_and_asked_about(
    counterfoil: Command, export: Path, tmp_path: Path
) -> None:
    counterfoil("import", export, "--answers", answers_file(tmp_path, ANSWERED), "--load")
    export.write_text(EXPORT.replace("Payout Status", "State of payout", 1), "utf-8")
    shown = on_terminal("import", export, "--store", counterfoil.store, typed=b"q\n", columns=300, NO_COLOR="1")
    near_miss = "nearly fits the mapping sales.toml, but has no column Payout Status"
    assert near_miss in shown
    assert near_miss in " ".join(counterfoil("import", export, "--load", status=7).stderr.split())
    assert "Stopped. Nothing was written." in shown


def test_files_of_one_export_are_remembered_together(counterfoil: Command, tmp_path: Path) -> None:
    contents = {
        "bills": "Bill No,Closed,Branch,Total\nB-1,2026-11-13 12:04,Inn,107.00\nB-2,2026-11-13 13:04,Old,214.00\n",
        "items": "Bill,Item,Qty,Amount\nB-1,Tea,1,37.00\nB-1,Soup,2,70.00\nB-2,Rice,2,214.00\n",
        "payments": "Bill,Method,Paid\nB-1,Cash,107.00\nB-2,Card,214.00\n",
    }
    paths = {name: tmp_path / f"{name}.csv" for name in contents}
    for name, content in contents.items():
        paths[name].write_text(content, "utf-8")
    bills, items, payments = paths.values()
    answers = answers_file(tmp_path, {"closing": "04:00"})
    named = ("--lines", items, "--payments", payments)
    assert "no column" not in counterfoil("import", bills, *named, "--answers", answers, "--load").stderr
    # The headings say what each file has, and a file without the others is not one of these exports.
    for files in ((bills, *named), (payments, bills, items)):
        assert "Proven" not in counterfoil("import", *files, "--load").stderr
    said = " ".join(counterfoil("import", bills, items, status=1).stderr.split())
    assert "bills.toml reads it with the other files of its export: name all of them" in said
    (mapping,) = tmp_path.rglob("mappings/*.toml")
    assert tomllib.loads(mapping.read_text("utf-8"))["recognise"]["payments"] == ["Bill", "Method", "Paid"]


@pytest.mark.parametrize(
    ("answers", "said"),
    [({**ANSWERED, "unasked": "yes"}, "Nothing asks this"), ({**ANSWERED, "net": "Subtotal"}, "net")],
)
def test_an_answer_that_nothing_asks_or_the_sums_refute_is_wrong_usage(
    counterfoil: Command, export: Path, store: Path, tmp_path: Path, answers: dict[str, str], said: str
) -> None:
    done = counterfoil("import", export, "--answers", answers_file(tmp_path, answers), "--load", status=2)
    assert said in done.stderr
    assert not store.exists()


def test_bills_that_an_answer_leaves_out_are_named_with_their_money(
    counterfoil: Command, export: Path, tmp_path: Path
) -> None:
    answers = answers_file(tmp_path, {"state.Payout Status": "skip"})
    done = counterfoil("import", export, "--answers", answers, "--check")
    assert "left out    3 bills, 929.83: Payout Status is Pending" in done.stdout


def test_a_wrong_net_of_the_day_report_loads_and_remembers_nothing(
    counterfoil: Command, export: Path, store: Path, tmp_path: Path
) -> None:
    answers = answers_file(tmp_path, ANSWERED)
    counterfoil("import", export, "--answers", answers, "--load", "--expect-net", "1400.00", status=1)
    assert not (store / "mappings").exists()


def test_an_output_named_toml_gets_the_mapping(counterfoil: Command, export: Path, tmp_path: Path) -> None:
    mapping = tmp_path / "mapping.toml"
    counterfoil("import", export, "--answers", answers_file(tmp_path, ANSWERED), "-o", mapping)
    assert '"1435.44"' in mapping.read_text("utf-8")
    assert "1,435.44" in counterfoil("import", export, "--mapping", mapping, "--check").stdout


def test_a_folder_of_mappings_that_others_can_write_to_is_refused(
    counterfoil: Command, export: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "mappings"
    folder.mkdir()
    folder.chmod(0o777)
    assert "every user" in counterfoil("import", export, "--mappings", folder, "--check", status=1).stderr


# --- on a terminal -----------------------------------------------------------------------


def test_a_person_answers_accepts_the_totals_and_loads(export: Path, store: Path) -> None:
    # `?` shows examples, `<` goes back; the tip was paid on top; the facts of shops have defaults.
    typed = b"?\n2\n<\n2\n1\n" + b"\n" * 3 + b"1\n"
    shown = on_terminal("import", export, "--store", store, typed=typed, columns=100, NO_COLOR="1")
    assert "Payout Status" in shown
    assert "1,435.44" in shown
    assert "Left out: 0 bills" in shown
    assert (store / "mappings" / "sales.toml").exists()


def test_a_question_is_aligned_with_its_money_and_a_slip_is_no_answer(export: Path, store: Path) -> None:
    typed = b"1\n9\n?\nMars\n\n\n4:30\nx\n3\n\n4\n"
    shown = on_terminal("import", export, "--store", store, typed=typed, columns=80, NO_COLOR="1").replace("\r", "")
    assert (
        "1/4  What does “Payout Status” say about a bill?\n"
        "       Paid     3 bills  435.61  1001, 1003, 1005\n"
        "       Pending  3 bills  929.83  1002, 1004, 1006\n"
        "     1  Pending was not sold: leave out  3 bills    435.61\n"
        "     2  Nothing: all were sold           6 bills  1,435.44\n"
    ) in shown
    assert "     1  Asia/Bangkok\n     Enter: Asia/Bangkok   or type another time zone" in shown
    assert "There is no answer 9." in shown
    assert "First bill 2026-04-13 18:05, last bill 2026-04-15 18:10" in shown
    assert "Not possible: Mars is not a time zone such as Asia/Bangkok." in shown
    assert "4  closing: 4:30\n" in shown
    questions = shown.partition("Proven")[2].replace("> ", "").splitlines()
    assert max(map(len, questions)) <= 80
    assert shown.endswith("Stopped. Nothing was written.\n")


def test_each_value_for_itself_has_no_money_and_amounts_have_separators(tmp_path: Path, store: Path) -> None:
    rows = ["Receipt,Date,Total,State"]
    for place, state in enumerate((1, 1, 1, 1, 3, 1)):
        rows.append(f"{1001 + place},2026-11-13 1{place}:04,{place + 1}500.00,{state}")
    export = tmp_path / "states.csv"
    export.write_text("\n".join([*rows, ""]), "utf-8")
    shown = on_terminal("import", export, "--store", store, typed=b"q\n", columns=80, NO_COLOR="1").replace("\r", "")
    assert (
        "       1  5 bills  18,500.00\n"
        "       3   1 bill   5,500.00  1005\n"
        "     1  Nothing: all were sold     6 bills  24,000.00\n"
        "     2  3 was not sold: leave out  5 bills  18,500.00\n"
    ) in shown
    assert "     4  Each value for itself\n" in shown


def test_the_end_of_the_input_stops(export: Path, store: Path) -> None:
    shown = on_terminal("import", export, "--store", store, typed=b"1\n", NO_COLOR="1").replace("\r", "")
    assert shown.endswith("\nStopped. Nothing was written.\n")
    assert not store.exists()


def test_stopping_writes_nothing(export: Path, store: Path) -> None:
    shown = on_terminal("import", export, "--store", store, typed=b"q\n", NO_COLOR="1")
    assert "Stopped. Nothing was written." in shown
    assert not store.exists()


def test_a_known_till_is_asked_about_its_new_shops_only(store: Path) -> None:
    receipts = Path(__file__).parents[2] / "docs" / "examples" / "loyverse-receipts.csv"
    shown = on_terminal("import", receipts, "--store", store, typed=b"\n\n\n1\n", columns=100, NO_COLOR="1")
    assert "In which time zone are the shops?" in shown
    assert "When does the business day end?" in shown
    assert "135.00" in shown
    assert store.exists()


def test_a_shop_is_known_by_its_name_and_a_new_one_joins_the_group(counterfoil: Command, export: Path) -> None:
    record = {"kind": "shop", "id": "b1", "name": "Riverside", "franchiseId": "thai-house", "closingTime": "03:00"}
    counterfoil("load", "-", stdin=json.dumps(record).encode())
    form = json.loads(counterfoil("import", export, "--json", status=7).stdout)
    defaults = {question["id"]: question["default"] for question in form["questions"]}
    assert (defaults["franchise"], defaults["closing"]) == ("thai-house", "03:00")
    answers = answers_file(export.parent, ANSWERED)
    counterfoil("import", export, "--answers", answers, "--load")
    shops = {shop["shopId"]: shop["franchiseId"] for shop in json.loads(counterfoil("shops", "--json").stdout)}
    assert shops == {"b1": "thai-house", "old-town": "thai-house"}


def test_the_order_of_day_and_month_is_asked_if_no_date_shows_it(counterfoil: Command, export: Path) -> None:
    heading, *rows = EXPORT.splitlines()
    export.write_text("\n".join([heading, *(row.replace("13/04", "03/04") for row in rows[:3]), ""]), "utf-8")
    form = json.loads(counterfoil("import", export, "--json", status=7).stdout)
    (question,) = [one for one in form["questions"] if one["id"] == "order"]
    assert [one["text"] for one in question["options"]] == ["3 April 2026", "4 March 2026"]


def test_shops_of_the_store_are_not_asked_about_again_and_keep_their_settings(
    counterfoil: Command, store: Path
) -> None:
    receipts = Path(__file__).parents[2] / "docs" / "examples" / "loyverse-receipts.csv"
    facts = ("--with-shops", "--franchise", "thai-house", "--closing-time", "03:00", "--timezone", "Asia/Tokyo")
    counterfoil("import", receipts, *facts, "--load")
    shown = on_terminal("import", receipts, "--store", store, typed=b"1\n", columns=100, NO_COLOR="1")
    assert "unchanged   3" in shown
    assert "new shop" not in shown
    (shop,) = json.loads(counterfoil("shops", "--json").stdout)
    assert (shop["franchiseId"], shop["closingTime"]) == ("thai-house", "03:00")


def test_the_zone_of_new_shops_is_that_of_the_setting_unless_the_export_shows_another(
    counterfoil: Command, export: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_TIMEZONE", "Asia/Tokyo")
    form = json.loads(counterfoil("import", export, "--json", status=7).stdout)
    (question,) = [one for one in form["questions"] if one["id"] == "timezone"]
    assert (question["default"], question["options"][0]["answer"]) == ("Asia/Tokyo", "Asia/Tokyo")
    export.write_text(EXPORT.replace("Total", "Total (฿)"), "utf-8")
    form = json.loads(counterfoil("import", export, "--json", status=7).stdout)
    (question,) = [one for one in form["questions"] if one["id"] == "timezone"]
    assert question["default"] == "Asia/Bangkok"
