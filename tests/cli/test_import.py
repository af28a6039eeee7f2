"""Tests for `counterfoil import`: from exports to the store, with summaries, rejects and exit statuses."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cli.command import SHOPS, Command, file_size_limit

pytestmark = pytest.mark.usefixtures("empty_store")

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
MAPPING = """
[dates]
order = "dmy"
[shop]
id = "riverside"
name = "Riverside"
[bill]
id = "Bill"
closedAt = "Date"
amounts.net = "Total"
"""
# The number of lines, and by how many MiB the import's peak memory may exceed that of a small import. An import that
# kept all lines in memory would exceed this limit.
LARGE = [(60_000, 10), pytest.param(300_000, 60, marks=pytest.mark.long)]


MAPPING_FILE = Path("mapping.toml")
MAPPED = ("import", "--mapping", MAPPING_FILE, "export.csv")
BILL = "A1,14/11/2026 18:05,240.00"


@pytest.fixture(autouse=True)
def _folder_with_a_mapping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    MAPPING_FILE.write_text(MAPPING, "utf-8")


def export(*rows: str) -> None:
    """Write `export.csv` with these bills."""
    Path("export.csv").write_text("\n".join(["Bill,Date,Total", *rows, ""]), "utf-8")


@pytest.mark.parametrize(
    ("files", "added"),
    [
        (("loyverse-receipts.csv", "loyverse-receipts-by-item.csv"), 4),
        (("loyverse-receipts.json",), 4),
        (("square-orders.json",), 4),
        (("square-transactions.csv", "square-items.csv"), 4),
        (("foodics-orders.json",), 4),
        (("toast-items.csv",), 4),
        (("toast-payments.csv",), 3),
        (("clover-orders.json",), 4),
        (("foodstory-orders.csv",), 5),
        (("grabfood-transactions.csv",), 4),
        (("shopify-orders.csv",), 4),
        (("odoo-orders.csv",), 5),
    ],
)
def test_every_example_loads_without_unknown_or_unreadable_fields_and_again_without_changes(
    counterfoil: Command, files: tuple[str, ...], added: int
) -> None:
    options = ["--with-shops", "--currency", "USD" if files == ("clover-orders.json",) else "THB"]
    options += ["--timezone", "Asia/Bangkok", "-o", "records.ndjson"]
    for outcome in ("added", "unchanged"):
        counterfoil.bare("import", *(EXAMPLES / name for name in files), *options)
        loaded = counterfoil.json("load", "records.ndjson", "--strict")
        assert (loaded[outcome], loaded["rejected"], loaded["unknownFields"]) == (added, 0, [])


def test_a_new_shop_whose_times_are_of_another_zone_needs_its_name(counterfoil: Command) -> None:
    load = ("import", EXAMPLES / "shopify-orders.csv", "--load", "--with-shops")
    assert "--timezone" in counterfoil(*load, status=1).stderr
    for options in (("--timezone", "America/New_York"), ()):
        assert counterfoil.json(*load, *options)["totals"]["firstDay"] == "2026-11-14"
    assert "that of Bangkok" in counterfoil("import", EXAMPLES / "toast-items.csv", "--with-shops", "--check").stderr


def test_an_import_says_what_it_recognised(counterfoil: Command) -> None:
    items = EXAMPLES / "square-items.csv"
    shown = counterfoil("import", items, "--check")
    assert "Recognised: Square item details" in shown.stderr
    assert "note: Item details do not show tips" in shown.stderr
    named = counterfoil("import", "--format", "square", items, "--check")
    assert "Recognised" not in named.stderr
    assert counterfoil.json("import", items, "--check")["recognised"] == {"square-items.csv": "Square item details"}


def test_a_folder_of_the_operator_s_mappings_recognises_files(
    counterfoil: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    MAPPING_FILE.write_text(f'[recognise]\nname = "Our till"\ncolumns = ["Bill"]\n{MAPPING}', "utf-8")
    export(BILL)
    checking = ("import", "export.csv", "--check")
    assert "Recognised: Our till" in counterfoil(*checking, "--mappings", ".").stderr
    assert "Recognised" not in counterfoil(*checking).stderr
    monkeypatch.setenv("COUNTERFOIL_IMPORT_MAPPINGS", ".")
    assert counterfoil.json(*checking)["bills"] == 1


def test_an_output_named_toml_gets_the_built_in_mapping_of_a_known_table(counterfoil: Command) -> None:
    out, export = Path("built-in.toml"), EXAMPLES / "toast-payments.csv"
    assert "Recognised: Toast payments" in counterfoil.bare("import", export, "-o", out).stderr
    known, mapped = (counterfoil.json("import", *more, export, "--check") for more in ((), ("--mapping", out)))
    assert (mapped["bills"], mapped["totals"]) == (known["bills"], known["totals"])


@pytest.mark.parametrize("options", [("--check",), ("--check", "--json")])
def test_a_mapping_without_checks_is_noted_at_each_import(counterfoil: Command, options: tuple[str, ...]) -> None:
    export(BILL)
    assert "[checks]" in counterfoil(*MAPPED, *options).stderr
    MAPPING_FILE.write_text(f'{MAPPING}\n[checks]\nfilled = ["Bill"]\n', "utf-8")
    assert "[checks]" not in counterfoil(*MAPPED, *options).stderr


def test_amounts_in_cents_are_a_sudden_change_without_checks_too(counterfoil: Command) -> None:
    def daily(first: int, amount: str, *options: str, status: int = 0) -> Any:
        export(*(f"{first + number},14/11/2026 18:{number:02},{amount}" for number in range(12)))
        return counterfoil.json(*MAPPED, "--load", *options, status=status)

    daily(100, "45.50")
    assert [alarm["measure"] for alarm in daily(200, "4550", status=6)["alarms"]] == ["average"]
    daily(300, "120.00")
    assert daily(200, "4550", "--accept-change")["added"] == 12
    assert daily(400, "4560")["alarms"] == []


def test_columns_that_may_change_the_money_are_named_if_the_mapping_does_not_use_them(counterfoil: Command) -> None:
    rows = "Bill,Date,Total,Tip,Void?,Table\n1,14/11/2026 18:05,45.50,5.00,no,T4\n"
    Path("export.csv").write_text(rows, "utf-8")
    shown = counterfoil(*MAPPED, "--load").stderr
    assert shown.count("Tip, Void?.") == 1
    assert "Table" not in shown


def test_a_shop_that_the_store_knows_keeps_its_settings(counterfoil: Command) -> None:
    counterfoil("load", "-", stdin=b'{"kind":"shop","id":"Riverside","name":"By the river","closingTime":"02:00"}')
    receipts = EXAMPLES / "loyverse-receipts.csv"
    told = counterfoil.json("import", "--format", "loyverse", receipts, "--with-shops", "--load")
    assert (told["added"], told["changed"], told["import"]["shops"]) == (3, 0, 0)
    assert "By the river" in counterfoil("shops").output


def test_answers_leave_the_options_for_new_shops_as_they_are(counterfoil: Command) -> None:
    text = (EXAMPLES / "loyverse-receipts.csv").read_text("utf-8")
    Path("receipts.csv").write_text(text.replace("11/14/26", "11/12/26"), "utf-8")
    Path("answers.toml").write_text('order = "mdy"\n', "utf-8")
    new_shops = ("--with-shops", "--franchise", "noodles", "--closing-time", "04:00")
    shown = counterfoil("import", "receipts.csv", *new_shops, "--load", "--answers", "answers.toml").stdout
    assert "belongs to the franchise noodles" in " ".join(shown.split())
    [shop] = counterfoil.json("shops")
    assert (shop["franchiseId"], shop["closingTime"]) == ("noodles", "04:00")


def test_a_shop_that_joins_a_franchise_is_named_because_its_keys_read_it(counterfoil: Command) -> None:
    load = ("import", EXAMPLES / "loyverse-receipts.csv", "--load", "--with-shops", "--franchise", "noodles")
    joined = "The shop Riverside is new. It belongs to the franchise noodles, so the keys of this franchise read it."
    assert joined in " ".join(counterfoil(*load).stdout.split())
    assert "is new" not in counterfoil(*load).stdout


def test_records_on_standard_output_can_be_piped_into_a_load(counterfoil: Command) -> None:
    export(BILL, "A2,14/11/2026,80.00")
    imported = counterfoil.bare(*MAPPED, status=3)
    assert "export.csv line 3, bill A2: closedAt:" in imported.stderr
    assert counterfoil.json("load", "-", stdin=imported.stdout_bytes)["added"] == 2


def test_rejected_rows_are_reported_and_written_to_a_private_file(counterfoil: Command) -> None:
    export(*(f"A{number},nonsense,1" for number in range(30)), "B1,14/11/2026 18:05,1")
    rejects = Path("rejects.ndjson")
    result = counterfoil(*MAPPED, "--load", "--rejects", rejects, status=3)
    assert "rejected    30: the row has a value that is not in the expected format" in result.stdout
    assert 'export.csv line 2, bill A0: closedAt: "nonsense" is not a date' in result.stdout
    assert "… and 10 more" in result.stdout
    rows = [json.loads(line) for line in rejects.read_text("utf-8").splitlines()]
    assert [(row["line"], row["bill"]) for row in rows] == [(number + 2, f"A{number}") for number in range(30)]
    assert rejects.stat().st_mode & 0o777 == 0o600
    again = counterfoil.bare(*MAPPED, "--rejects", rejects, status=2)
    assert "already exists" in again.output


def test_what_to_do_about_rejected_rows_is_said_once(counterfoil: Command) -> None:
    row = BILL
    export(row, row, row.replace("A1", "A2"), row.replace("A1", "A2"))
    shown = counterfoil(*MAPPED, "--check", status=3).stdout
    assert (shown.count("is the same bill as line"), shown.count("add a column to bill.id")) == (2, 1)


def test_the_rejects_file_of_two_exports_has_a_name_that_can_be_pasted_into_a_command(counterfoil: Command) -> None:
    files = [EXAMPLES / "loyverse-receipts.csv", EXAMPLES / "loyverse-receipts-by-item.csv"]
    counterfoil("import", *files, "--load", status=3)
    (load,) = counterfoil.json("loads")
    assert load["rejected"] == 3
    assert load["rejectsFile"].endswith("-loyverse-receipts.csv.ndjson")


def test_rejected_rows_are_listed_with_the_load_without_their_values(counterfoil: Command) -> None:
    export("A1,nonsense,1", "B1,14/11/2026 18:05,1", ",14/11/2026 18:05,1")
    counterfoil(*MAPPED, "--load", "--batch", "1", status=3)
    (load,) = counterfoil.json("loads")
    assert (load["lines"], load["changed"], load["rejected"], load["rejectsFile"]) == (4, 2, 2, None)
    assert load["reasons"] == {"import_unreadable_value": 1, "import_no_id": 1}
    printed = counterfoil("loads", load["number"]).stdout
    assert {tuple(line.split()[:2]) for line in printed.splitlines()} >= {
        ("2", "import_unreadable_value"),
        ("4", "import_no_id"),
    }
    assert "nonsense" not in printed
    assert counterfoil.json("status", status=1)["latestLoad"]["rejected"] == 2


def test_an_import_that_rejects_every_row_is_listed_with_the_first_thousand(counterfoil: Command) -> None:
    export(*(f"A{number},nonsense,1" for number in range(1_200)))
    told = counterfoil.json(*MAPPED, "--load", status=3)
    assert (told["import"]["rejected"], len(told["import"]["rejects"])) == (1_200, 20)
    (load,) = counterfoil.json("loads")
    # The record of the shop, which the mapping describes, is a line too.
    assert (load["lines"], load["changed"], load["rejected"]) == (1_201, 1, 1_200)
    assert len(counterfoil.json("loads", load["number"])["rejects"]) == 1_000


def test_an_output_file_is_written_completely_or_not_at_all(counterfoil: Command) -> None:
    out = Path("records.ndjson")
    out.write_text("before\n", "utf-8")
    export("A1,01/02/2026 18:05,1")
    MAPPING_FILE.write_text(MAPPING.replace('order = "dmy"', ""), "utf-8")
    failed = counterfoil.bare(*MAPPED, "-o", out, status=1)
    assert "Use --date-order dmy" in failed.output
    assert out.read_text("utf-8") == "before\n"
    assert not list(Path().glob("*.partial"))
    counterfoil.bare(*MAPPED, "-o", out, "--date-order", "mdy")
    assert '"closedAt":"2026-01-02T18:05:00"' in out.read_text("utf-8")


def test_an_output_file_that_cannot_be_written_is_named_and_does_not_remain(counterfoil: Command) -> None:
    out, rejects = Path("records.ndjson"), Path("rejects.ndjson")
    export("B1,nonsense,1", *(f"A{number},14/11/2026 18:05,1" for number in range(1_000)))
    arguments = (*MAPPED, "-o", out, "--rejects", rejects)
    before = set(Path().iterdir())
    with file_size_limit(100_000):
        error = counterfoil.bare(*arguments, status=1).stderr
    assert error.endswith(f"counterfoil: File too large: {out}\n")
    assert set(Path().iterdir()) == before
    assert "1,000 converted" in counterfoil.bare(*arguments, status=3).output
    full = counterfoil.bare(*MAPPED, "-o", "/dev/full", status=1)
    assert full.stderr.endswith("counterfoil: No space left on device: /dev/full\n")


def test_rejects_that_cannot_be_written_are_named_and_do_not_remain(counterfoil: Command) -> None:
    export(*(f"A{number},nonsense,1" for number in range(1_000)))
    with file_size_limit(80_000):
        error = counterfoil.bare(
            "import", "export.csv", "--mapping", "mapping.toml", "--rejects", "new", status=1
        ).stderr
    assert error.endswith("counterfoil: File too large: new\n")
    assert not Path("new").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument 'FILE...'"),
        (("--format", "csv", "bills.csv"), "`counterfoil import FILE -o mapping.toml` asks for one"),
        (("--format", "square", "bills.csv", "--load", "-o", "x"), "Use --load or --output, not both."),
        (("--format", "square", "bills.csv", "--json"), "--json needs --load, --check or --output"),
        (("--format", "square", "bills.csv", "--state", "x"), "are for a database"),
        (("--format", "database"), "An import from a database needs --url and --mapping"),
        (("--url", "postgresql://127.0.0.1/pos", "bills.csv"), "are for a database, which takes no files"),
        (("--format", "square", "bills.csv", "./bills.csv"), "The same file was given twice"),
        (("--format", "square", "bills.csv", "--timezone", "Mars"), "'Mars' is not a valid time zone"),
        (("--format", "square", "bills.csv", "-o", ""), "--output needs a file name"),
    ],
)
def test_conflicting_options_are_refused(
    counterfoil: Command, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(EXAMPLES)
    assert message in counterfoil.bare("import", *arguments, status=2).output


def test_an_output_that_is_a_pipe_is_written_to_and_not_replaced(counterfoil: Command) -> None:
    pipe = Path("pipe")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)
    try:
        export(BILL)
        counterfoil(*MAPPED, "-o", pipe)
        assert pipe.is_fifo()
        assert [json.loads(line)["kind"] for line in os.read(reader, 10_000).splitlines()] == ["shop", "bill"]
    finally:
        os.close(reader)


@pytest.mark.parametrize(
    "text", ["x=" + "[" * 5_000, f"[numbers]\ndecimal = {'9' * 200_000}\n"], ids=["brackets", "an absurd number"]
)
def test_a_mapping_or_settings_file_that_no_parser_should_read_is_refused_with_a_sentence(
    counterfoil: Command, text: str
) -> None:
    MAPPING_FILE.write_text(text, "utf-8")
    export()
    assert "the mapping mapping.toml is not valid TOML" in counterfoil(*MAPPED, status=1).stderr
    assert "is not valid TOML" in counterfoil.bare("--config", MAPPING_FILE, "settings", status=1).stderr


def test_a_binary_file_is_refused(counterfoil: Command) -> None:
    Path("binary").write_bytes(bytes(range(256)) * 40)
    said = counterfoil("import", "binary", "--check", status=1).stderr
    assert "is not a CSV file, because it contains NUL bytes" in said


@pytest.mark.long
def test_a_check_converts_everything_and_writes_nothing(counterfoil: Command) -> None:
    export(BILL, "A2,14/11/2026 18:06,many")
    before = set(Path().iterdir())
    arguments = (*MAPPED, "--check")
    text = counterfoil(*arguments, status=3).stdout
    assert "bills       1 converted" in text
    assert "export.csv line 3" in text
    assert text.endswith("Nothing was written.\n"), "it does not advise to write what has rejected rows"
    assert "without --check" not in counterfoil(*arguments, "--load", "--with-shops", status=3).stdout
    told = counterfoil.json(*arguments, "--load", "--with-shops", status=3)
    assert (told["check"], told["wouldLoad"], told["import"]["rejected"]) == (True, 2, 1)
    assert set(Path().iterdir()) == before
    assert not counterfoil.store.exists()
    assert "--check writes no files" in counterfoil(*arguments, "-o", Path("new"), status=2).stderr


@pytest.mark.programs
@pytest.mark.parametrize(("many", "memory_mib"), LARGE)
def test_a_large_export_is_joined_in_bounded_memory(tmp_path: Path, many: int, memory_mib: int) -> None:
    """Each bill has three lines, and the file with the lines is in reverse order."""
    MAPPING_FILE.write_text(MAPPING + '[line]\nkey = "Bill"\nname = "Item"\ntotal = "Amount"\n', "utf-8")
    lines = Path("lines.csv")
    lines.write_text("Bill,Item,Amount\nA1,Tea,240\n", "utf-8")
    export(BILL)
    before = peak_mib(*MAPPED, "--lines", lines, folder=tmp_path)
    with lines.open("w") as file:
        file.write("Bill,Item,Amount\n")
        file.writelines(f"A{number // 3},{'Khao soi ' * 6},{number}.25\n" for number in reversed(range(many)))
    export(*(f"A{number},14/11/2026 18:05,{9 * number + 3}.75" for number in range(many // 3)))
    after = peak_mib(*MAPPED, "--lines", lines, "-o", "records.ndjson", folder=tmp_path)
    assert after - before < memory_mib
    with Path("records.ndjson").open("rb") as written:
        assert sum(line.count(b'"total"') for line in written) == many


PEAK = """
import resource, sys
from counterfoil.program.main import program
try:
    program.main(sys.argv[1:], prog_name="counterfoil")
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def peak_mib(*arguments: object, folder: Path) -> float:
    """Run an import; return its peak memory use in MiB."""
    words = [sys.executable, "-c", PEAK, *map(str, arguments)]
    environment = os.environ | {"TMPDIR": str(folder)}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    unit = 1 if sys.platform == "darwin" else 1024
    return int(done.stderr.split()[-1]) * unit / 1024 / 1024


@pytest.mark.parametrize("number", ["9" * 30, "9" * 200_000, "9" * 200_000 + ".5", "1e99999999", "1e-99999999"])
def test_an_absurd_number_rejects_its_bill_with_a_sentence(counterfoil: Command, number: str) -> None:
    example = json.loads((EXAMPLES / "foodics-orders.json").read_text("utf-8"))
    text = json.dumps(example).replace(json.dumps(example["data"][0]["total_price"]), number)
    Path("orders.json").write_text(text, "utf-8")
    said = counterfoil.bare("import", "--format", "foodics", "orders.json", status=3).stderr
    assert "rejected" in said
    assert "unexpected" not in said
    if "e" not in number:
        export(f"A1,14/11/2026 18:05,{number}")
        assert "has more than 28 digits" in counterfoil.bare(*MAPPED, status=3).stderr


@pytest.mark.parametrize("names", [("toast-orders.csv", "toast-payments.csv"), ("toast-items.csv", "toast-orders.csv")])
def test_the_same_sales_of_toast_are_not_loaded_under_other_ids(counterfoil: Command, names: tuple[str, ...]) -> None:
    first, second = (("import", EXAMPLES / name, "--load", "--with-shops") for name in names)
    for _ in range(2):
        counterfoil(*first)
    refused = counterfoil(*second, status=1).stderr
    assert "of shop Riverside on 2026-11-14: " in refused
    assert ", but none of this export" in refused
    counterfoil(*second, "--accept-change")


def test_an_export_of_shops_that_are_not_loaded_says_how_to_create_them(counterfoil: Command) -> None:
    export = EXAMPLES / "square-transactions.csv"
    checked = counterfoil("import", export, "--check")
    assert "--with-shops" in checked.stdout
    assert counterfoil.json("import", export, "--check")["unknownShops"] == ["Riverside"]
    assert "--with-shops" in counterfoil("import", export, "--load", status=3).stdout
    # With the shop, the days are in the time zone that the export names.
    loaded = counterfoil.json("import", export, "--load", "--with-shops")
    assert [day["day"] for day in loaded["totals"]["days"]] == ["2026-11-14", "2026-11-15"]


def test_members_of_a_file_are_loaded_once_and_their_bills_have_their_tokens(counterfoil: Command) -> None:
    customers = (EXAMPLES / "loyverse-customers.csv").read_text("utf-8")
    Path("customers.csv").write_text(customers.replace("c-0001", "CUST1"), "utf-8")
    importing = ("import", "customers.csv", "--load")
    assert "--base" in counterfoil(*importing, status=1).stderr
    assert "no key can read its members" in counterfoil(*importing, "--base", "club").stderr
    assert counterfoil.json(*importing)["unchanged"] == 3
    bill = {"kind": "bill", "id": "1", "shopId": "sh_1", "closedAt": "2026-11-14T18:05", "memberId": "CUST1"}
    counterfoil("load", "-", stdin=b"\n".join([SHOPS[0], json.dumps(bill).encode()]))
    with closing(sqlite3.connect(counterfoil.store / "books.sqlite3")) as books:
        [(body,)] = books.execute("SELECT body FROM bills")
        tokens = {token for (token,) in books.execute("SELECT token FROM members")}
        stored = b"".join(bytes(form) for (form,) in books.execute("SELECT form FROM members"))
    assert json.loads(body)["memberId"] in tokens
    assert b"Example" not in stored


def test_members_with_the_ids_of_another_base_are_rejected_unless_the_change_is_accepted(counterfoil: Command) -> None:
    importing = ("import", EXAMPLES / "loyverse-customers.csv", "--load", "--base")
    counterfoil(*importing, "club")
    found = counterfoil.json(*importing, "guests", status=3)
    assert (found["changed"], found["reasons"]) == (0, {"other_base": 3})
    assert counterfoil.json(*importing, "guests", "--accept-change")["changed"] == 3


def test_new_shops_of_an_import_belong_to_the_base_that_is_named(counterfoil: Command) -> None:
    sales = ("import", EXAMPLES / "loyverse-receipts.csv", "--with-shops", "--base", "club", "--load")
    assert "--with-shops" in counterfoil(*(option for option in sales if option != "--with-shops"), status=2).stderr
    counterfoil(*sales)
    loaded = counterfoil("import", EXAMPLES / "loyverse-customers.csv", "--load", "--base", "club")
    assert "no key can read" not in loaded.stderr
    MAPPING_FILE.write_text(MAPPING, "utf-8")
    export(BILL)
    refused = counterfoil(*MAPPED, "--with-shops", "--base", "club", "--load", status=2)
    assert "providerId" in refused.stderr


def test_an_unknown_table_of_members_is_asked_about_once(counterfoil: Command) -> None:
    importing = ("import", EXAMPLES / "members.csv", "--load")
    asked = counterfoil(*importing, status=7)
    assert "Which column has the points" in asked.stderr
    Path("answers.toml").write_text('points = "Points left"\n', "utf-8")
    assert counterfoil.json(*importing, "--answers", "answers.toml", "--base", "club")["added"] == 4
    assert counterfoil.json(*importing)["unchanged"] == 3


def test_a_mapping_that_only_names_its_shop_keeps_what_is_loaded_of_it(counterfoil: Command) -> None:
    export(BILL)
    MAPPING_FILE.write_text(MAPPING.replace('name = "Riverside"\n', ""), "utf-8")
    counterfoil.json(*MAPPED, "--load")
    shop = {"kind": "shop", "id": "riverside", "name": "Riverside", "franchiseId": "f1", "closingTime": "04:00"}
    counterfoil("load", "-", stdin=json.dumps(shop).encode())
    assert counterfoil.json(*MAPPED, "--load")["unchanged"] == 1
    (loaded,) = counterfoil.json("shops")
    assert (loaded["franchiseId"], loaded["closingTime"]) == ("f1", "04:00")


def test_options_for_new_shops_that_differ_from_loaded_ones_are_named(counterfoil: Command) -> None:
    load = ("import", EXAMPLES / "loyverse-receipts.csv", "--load", "--with-shops", "--closing-time", "04:00")
    assert "loaded" not in counterfoil(*load, "--franchise", "f1").stderr
    assert "loaded" not in counterfoil(*load, "--franchise", "f1").stderr
    told = counterfoil(*load, "--franchise", "f2").stderr
    assert "franchiseId f2 is for new shops, so loaded ones stay as they are: " in told
    assert "closingTime" not in told
