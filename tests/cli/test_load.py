"""Tests for `counterfoil load`: sources, summaries, rejects and exit statuses."""

import gzip
import json
import re
import signal
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from backports import zstd

from cli.command import PYTHON, SHOPS, Command, run_sql
from cli.watched_folder import MOVED
from counterfoil.backends.sqlite import schema
from second_migration import add_second_migration


def bill(number: int, shop: str = "sh_1") -> bytes:
    record: dict[str, Any] = {"kind": "bill", "id": f"b_{number}", "shopId": shop, "closedAt": 1_760_000_000 + number}
    return json.dumps(record | {"amounts": {"net": number}}).encode()


def lines(*records: bytes) -> bytes:
    return b"".join(record + b"\n" for record in records)


BILLS = tuple(bill(number) for number in range(20))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose files are named so that the bills come first in alphabetical order."""
    folder = tmp_path / "records"
    folder.mkdir()
    (folder / "a-bills.ndjson").write_bytes(lines(*BILLS))
    (folder / "z-shops.ndjson").write_bytes(lines(*SHOPS))
    return folder


def test_several_sources_are_one_load_in_the_order_given(counterfoil: Command, folder: Path) -> None:
    told = counterfoil.json("load", folder / "z-shops.ndjson", folder / "a-bills.ndjson", "--batch", 3)
    assert (told["lines"], told["added"]) == (22, 22)
    assert (told["source"], told["rejectsFile"]) == ("z-shops.ndjson, a-bills.ndjson", None)
    assert not (counterfoil.store / "rejects").exists()


def test_a_missing_source_is_reported_in_one_sentence(counterfoil: Command, tmp_path: Path) -> None:
    assert "there is no file or folder" in counterfoil("load", tmp_path / "missing.ndjson", status=1).stderr


def test_a_line_that_is_not_a_record_is_written_to_a_private_file_and_the_rest_is_loaded(counterfoil: Command) -> None:
    told = counterfoil.json("load", "-", stdin=lines(*SHOPS, b"***", b'{"kind":"bill","id":"x"}', bill(1)), status=3)
    assert (told["added"], told["rejected"]) == (3, 2)
    assert told["reasons"] == {"not_json": 1, "no_shop": 1}
    rejects = Path(told["rejectsFile"])
    assert [stat.S_IMODE(path.stat().st_mode) for path in (rejects, rejects.parent)] == [0o600, 0o700]
    rejected = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert [(one["line"], one["reason"], one["record"]) for one in rejected] == [
        (3, "not_json", "***"),
        (4, "no_shop", '{"kind":"bill","id":"x"}'),
    ]


def test_the_summary_says_why_lines_were_rejected(counterfoil: Command, store: Path) -> None:
    text = counterfoil("load", "-", stdin=lines(bill(1)), status=3).stdout
    assert "rejected      1: the line is a bill of a shop that is not loaded yet" in text
    (file,) = (store / "rejects").iterdir()
    assert f"rejects file  {file}" in text


def test_loads_within_a_second_keep_their_rejects_apart(counterfoil: Command) -> None:
    files = {counterfoil.json("load", "-", stdin=lines(b"***"), status=3)["rejectsFile"] for _ in range(3)}
    assert len(files) == 3


def test_a_named_rejects_file_is_used_and_never_written_over(counterfoil: Command, tmp_path: Path) -> None:
    rejects = tmp_path / "rejects.ndjson"
    told = counterfoil.json("load", "-", "--rejects", rejects, stdin=lines(b"***"), status=3)
    assert told["rejectsFile"] == str(rejects)
    before = rejects.read_bytes()
    assert "already exists" in counterfoil("load", rejects, "--rejects", rejects, status=2).stderr
    assert rejects.read_bytes() == before


def test_a_load_of_csv_files_points_to_import(counterfoil: Command, tmp_path: Path) -> None:
    export = tmp_path / "sales.csv"
    export.write_text("Bill,Total\n1,90\n")
    error = counterfoil("load", tmp_path, status=1).stderr
    assert "contains no file whose name ends in .ndjson, .jsonl or .json" in error
    assert "use `counterfoil import`" in error
    assert "use `counterfoil import`" in counterfoil("load", export, status=1).stderr
    assert "counterfoil import" not in counterfoil("load", "-", stdin=lines(*SHOPS, b"***"), status=3).stdout


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "cp874"])
def test_a_load_says_that_a_file_has_another_encoding(counterfoil: Command, encoding: str) -> None:
    sent = '{"kind":"shop","id":"sh_1","name":"ครัว"}\n{"kind":"shop","id":"sh_2","name":"ครัว"}\n'.encode(encoding)
    text = counterfoil("load", "-", stdin=sent, status=3).stdout
    assert "the line is not valid UTF-8\n" in text
    assert "convert it, for example with `iconv -f UTF-16 -t UTF-8`" in text
    assert "is not a JSON object" not in text


def test_a_check_of_a_damaged_source_says_that_the_rest_was_checked(counterfoil: Command) -> None:
    unclosed = b"[" + b",".join(SHOPS)
    checked = counterfoil("load", "--check", "-", stdin=unclosed, status=1).stderr
    assert "All lines that could be read were checked." in checked


@pytest.mark.parametrize("options", [(), ("--check",), ("--quarantine", "q")])
def test_a_store_with_another_secret_is_refused_and_no_file_is_moved(
    counterfoil: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.chdir(folder.parent)
    counterfoil("load", folder)
    (folder / "notes.txt").write_text("hello")
    monkeypatch.setenv("COUNTERFOIL_SECRET", "x" * 32)
    assert "not the one this store was built with" in counterfoil("load", folder, *options, status=1).stderr
    assert (folder / "notes.txt").exists()


@pytest.mark.programs
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_load_keeps_what_was_written_and_says_how_to_resume(counterfoil: Command, number: int) -> None:
    words, pipe = [*PYTHON, "load", "-", "--batch", "50", "--store", str(counterfoil.store)], subprocess.PIPE
    load = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe)
    assert load.stdin
    # These lines exceed the buffer of a pipe, so once all of them are written, the command has read most of them.
    load.stdin.write(lines(*SHOPS, *(bill(n) for n in range(4_000))))
    load.stdin.flush()
    load.send_signal(number)
    out, errors = load.communicate()
    assert load.returncode == 130
    assert b"Run the same command to resume." in out
    assert b"Traceback" not in errors
    assert counterfoil.json("loads")[0]["state"] == "stopped"
    assert counterfoil.json("load", "-", stdin=lines(*SHOPS, bill(0)))["unchanged"] == 3


MISNAMED = b'{"kind":"bill","id":"b_1","shopId":"sh_1","closed_at":1760000000,"amount":{"net":1}}'
UNREADABLE = b'{"kind":"bill","id":"b_2","shopId":"sh_1","closedAt":"14/11/2026 19:05","lines":[{"qty":"two"}]}'


def test_the_summary_names_fields_that_are_unknown_or_cannot_be_read(counterfoil: Command) -> None:
    text = counterfoil("load", "-", stdin=lines(*SHOPS, MISNAMED, UNREADABLE)).stdout
    assert "unknown field  bill: closed_at  in 1 record (did you mean closedAt?)" in text
    assert "unknown field  bill: amount     in 1 record (did you mean amounts?)" in text
    assert "unreadable     bill: closedAt   in 1 record\n" in text
    assert "unreadable     bill: lines.qty  in 1 record\n" in text
    assert "bills          2 read, 2 without a date (100.0%), 1 without items (50.0%), 2 without amounts" in text


def test_the_json_summary_counts_records_by_kind_and_field(counterfoil: Command) -> None:
    again = MISNAMED.replace(b"b_1", b"b_3")
    told = counterfoil.json("load", "-", stdin=lines(*SHOPS, MISNAMED, again, UNREADABLE))
    first = {"firstSource": "stdin", "firstLine": 3}
    assert {"kind": "bill", "field": "amount", "records": 2, **first, "didYouMean": "amounts"} in told["unknownFields"]
    first = {"firstSource": "stdin", "firstLine": 5}
    assert {"kind": "bill", "field": "closedAt", "records": 1, **first} in told["unreadableValues"]
    assert told["bills"] == {"read": 3, "withoutDate": 3, "withoutItems": 2, "withoutAmounts": 3}


def test_the_summary_of_a_clean_delivery_does_not_mention_fields(counterfoil: Command) -> None:
    item = b',"lines":[{"qty":1}]}'
    text = counterfoil("load", "-", stdin=lines(*SHOPS, *(one[:-1] + item for one in BILLS))).stdout
    assert [line.split()[0] for line in text.splitlines()][:3] == ["lines", "added", "day"]
    assert not {"unknown", "unreadable"} & {line.split()[0] for line in text.splitlines()}


def test_many_unknown_fields_are_summed_up(counterfoil: Command) -> None:
    wide = bill(1)[:-1] + b"".join(b',"zz%d":1' % n for n in range(40)) + b"}"
    text = counterfoil("load", "-", stdin=lines(*SHOPS, wide)).stdout
    assert "28 more; --json lists them" in text
    assert text.count("unknown field") == 13


def test_a_strict_load_rejects_such_records_and_names_their_fields(counterfoil: Command) -> None:
    told = counterfoil.json("load", "-", "--strict", stdin=lines(*SHOPS, MISNAMED, UNREADABLE, bill(7)), status=3)
    assert (told["added"], told["reasons"]) == (3, {"unknown_field": 1, "unreadable_value": 1})
    assert told["bills"]["read"] == 1
    assert {one["field"] for one in told["unknownFields"]} == {"closed_at", "amount"}
    rejected = [json.loads(line) for line in Path(told["rejectsFile"]).read_text().splitlines()]
    assert [(one["reason"], one["fields"]) for one in rejected] == [
        ("unknown_field", ["amount", "closed_at"]),
        ("unreadable_value", ["closedAt", "lines.qty"]),
    ]
    # They can be loaded only without --strict.
    assert counterfoil.json("load", told["rejectsFile"], "--strict", status=3)["reasons"] == told["reasons"]
    assert counterfoil.json("load", told["rejectsFile"])["added"] == 2


def test_a_check_of_a_delivery_creates_no_store_and_knows_the_shops_in_the_delivery(
    counterfoil: Command, store: Path, folder: Path
) -> None:
    told = counterfoil.json("load", folder, "--check")
    assert (told["lines"], told["wouldLoad"], told["rejected"], told["added"]) == (22, 22, 0, None)
    assert not store.exists()


def test_a_check_writes_nothing_and_has_the_exit_status_of_the_load(counterfoil: Command, store: Path) -> None:
    counterfoil("load", "-", stdin=lines(*SHOPS))
    sent = lines(bill(1), bill(2, "sh_9"), b"***", MISNAMED)
    told = counterfoil.json("load", "-", "--check", "--strict", stdin=sent, status=3)
    assert told["reasons"] == {"unknown_shop": 1, "not_json": 1, "unknown_field": 1}
    assert told["wouldLoad"] == 1
    example = {"source": "stdin", "line": 4, "reason": "unknown_field", "fields": ["amount", "closed_at"]}
    assert told["rejectExamples"][2] == example
    assert told["rejectsFile"] is None
    assert not (store / "rejects").exists()
    assert counterfoil.json("load", "-", stdin=lines(bill(1)))["added"] == 1


def test_a_check_reads_each_bill_with_the_settings_that_its_shop_has_by_then(
    counterfoil: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The bills on three lines are converted together. The shop changes between two of them.
    monkeypatch.setenv("COUNTERFOIL_BATCH", "3")
    delivery = lines(*[closing_at("05:00"), bill(1), bill(2)], *[bill(3), closing_at("11:00"), bill(4)])
    checked = counterfoil.json("load", "--check", "-", stdin=delivery)["totals"]
    assert len(checked["days"]) == 2
    assert counterfoil.json("load", "-", stdin=delivery)["totals"] == checked


def closing_at(time: str) -> bytes:
    return json.dumps({"kind": "shop", "id": "sh_1", "timezone": "Europe/London", "closingTime": time}).encode()


def test_a_check_says_what_would_happen(counterfoil: Command) -> None:
    text = counterfoil("load", "-", "--check", stdin=lines(*SHOPS, MISNAMED, bill(1, "sh_9")), status=3).stdout
    assert "would load     3\n" in text
    assert "for example    stdin line 4: unknown_shop\n" in text
    assert "did you mean closedAt?" in text
    assert text.endswith("Nothing was written. Run the same command without --check to load the records.\n")


def test_a_check_does_not_migrate_a_store(
    counterfoil: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counterfoil("load", "-", stdin=lines(*SHOPS))
    newest = schema.scripts("books")[-1]
    add_second_migration(tmp_path / "migrations", monkeypatch)
    told = counterfoil("load", "-", "--check", stdin=lines(*BILLS), status=1).stderr
    assert f"the books database has schema {newest.number}" in told
    assert run_sql(counterfoil.store, "books", "PRAGMA user_version") == newest.number


def test_the_summary_names_files_that_were_not_read_and_files_that_are_empty(
    counterfoil: Command, folder: Path
) -> None:
    (folder / "notes.txt").write_text("hello")
    (folder / "m-empty.ndjson").touch()
    text = counterfoil("load", folder).stdout
    assert "not loaded  notes.txt (not a source record file)\n" in text
    assert "empty       m-empty.ndjson\n" in text
    told = counterfoil.json("load", folder)
    assert (told["ignoredFiles"], told["emptyFiles"]) == (["notes.txt"], ["m-empty.ndjson"])


def test_an_unreadable_file_is_named_or_quarantined_and_the_others_are_loaded(
    counterfoil: Command, folder: Path
) -> None:
    (folder / "b.ndjson.gz").write_bytes(gzip.compress(lines(*SHOPS)) + gzip.compress(lines(*BILLS))[:-1])
    result = counterfoil("load", folder, "--json", status=1)
    assert "b.ndjson.gz cannot be read, so it is not loaded: the compressed data ends too early." in result.stderr
    told = json.loads(result.stdout)
    assert (told["added"], told["unreadableFiles"]) == (22, ["b.ndjson.gz"])
    assert (folder / "b.ndjson.gz").exists()
    quarantine = folder.with_name("quarantine")
    (moved,) = counterfoil.json("load", folder, "--quarantine", quarantine, status=3)["quarantined"]
    assert re.fullmatch(f"{quarantine}/{MOVED.pattern}b.ndjson.gz", moved)
    assert stat.S_IMODE(quarantine.stat().st_mode) == 0o700
    assert counterfoil.json("load", folder, "--quarantine", quarantine)["quarantined"] == []


@pytest.mark.parametrize("option", ["--quarantine", "--rejects"])
def test_a_check_refuses_options_that_it_would_ignore(counterfoil: Command, folder: Path, option: str) -> None:
    told = counterfoil("load", folder, "--check", option, folder / "new", status=2).stderr
    assert "--check changes nothing" in told


def test_an_empty_delivery_is_reported_as_empty(counterfoil: Command) -> None:
    result = counterfoil("load", "-", stdin=b"\n")
    assert "empty       stdin\n" in result.stdout
    assert result.stdout.endswith("No records were found in the delivery.\n")
    assert counterfoil.json("load", "-", stdin=b"[]")["emptyFiles"] == ["stdin"]
    assert counterfoil.json("load", "/dev/null")["emptyFiles"] == ["null"]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd.compress])
def test_compressed_and_indented_records_are_recognised_on_standard_input(counterfoil: Command, pack: Any) -> None:
    records = [json.loads(record) for record in (*SHOPS, *BILLS)]
    assert counterfoil.json("load", "-", stdin=pack(lines(*SHOPS, *BILLS)))["added"] == 22
    assert counterfoil.json("load", "-", stdin=pack(json.dumps(records, indent=2).encode()))["unchanged"] == 22


def test_a_truncated_compressed_standard_input_fails_even_with_a_quarantine(
    counterfoil: Command, tmp_path: Path
) -> None:
    cut = gzip.compress(lines(*SHOPS))[:-12]
    refused = counterfoil("load", "-", "--quarantine", tmp_path / "q", stdin=cut, status=1)
    assert "stdin cannot be read" in refused.stderr
