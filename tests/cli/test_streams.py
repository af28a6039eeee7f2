"""Tests with standard streams that are closed or cannot encode a character, and with undecodable file names."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cli.command import PYTHON, SHOPS, Command

pytestmark = pytest.mark.programs

THAI = "สาขาริมน้ำ"
ODD_NAME = b"odd-\xff.ndjson"


def in_a_shell(*arguments: object, closing: str = "", encoding: str = "utf-8") -> "subprocess.CompletedProcess[bytes]":
    words = shlex.join([*PYTHON, *map(str, arguments)])
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    return subprocess.run(["sh", "-c", f"{words} {closing}"], env=environment, capture_output=True, check=False)


@pytest.mark.parametrize(
    "arguments", [("--help",), ("settings",), ("generate", "--bills", "1"), ("schema", "bill"), ("keys", "list")]
)
def test_a_closed_standard_output_is_reported_in_one_sentence(arguments: tuple[str, ...]) -> None:
    done = in_a_shell(*arguments, closing=">&-")
    assert done.returncode == 1
    assert done.stderr.decode().startswith("counterfoil: standard output is closed")
    assert done.stderr.count(b"\n") == 1


def test_no_key_is_issued_if_standard_output_is_closed(store: Path) -> None:
    assert in_a_shell("keys", "issue", "--shop", "sh_1", "--store", store, closing=">&-").returncode == 1
    assert not store.exists()


def test_every_command_works_with_a_closed_standard_error(counterfoil: Command, store: Path) -> None:
    assert in_a_shell("keys", "issue", "--shop", "sh_1", "--store", store, closing="2>&-").returncode == 0
    assert in_a_shell("nonsense", closing="2>&-").returncode == 2
    assert len(counterfoil.json("keys", "list")) == 1


def test_a_closed_standard_input_fails_only_a_load_that_reads_from_it(counterfoil: Command, store: Path) -> None:
    done = in_a_shell("load", "-", "--store", store, closing="<&-")
    assert (done.returncode, done.stderr) == (
        1,
        b"counterfoil: cannot read source records: standard input is closed.\n",
    )
    key_id = counterfoil.json("keys", "issue", "--shop", "sh_1")["keyId"]
    assert in_a_shell("keys", "revoke", key_id, "--yes", "--store", store, closing="<&-").returncode == 0


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_characters_that_the_output_cannot_encode_are_escaped(counterfoil: Command, store: Path, encoding: str) -> None:
    counterfoil("keys", "issue", "--shop", "sh_1", "--label", THAI)
    done = in_a_shell("keys", "list", "--store", store, encoding=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert THAI.encode("ascii", "backslashreplace") in done.stdout


@pytest.mark.parametrize(
    "encoding",
    ["latin-1", "utf-8", *(pytest.param(encoding, marks=pytest.mark.long) for encoding in ("cp1252", "ascii"))],
)
def test_json_output_is_the_same_in_every_encoding(counterfoil: Command, store: Path, encoding: str) -> None:
    label = f"{THAI} café 🍜"
    counterfoil("keys", "issue", "--shop", "sh_1", "--label", label)
    done = in_a_shell("keys", "list", "--json", "--store", store, encoding=encoding)
    assert json.loads(done.stdout.decode(encoding))[0]["label"] == label


def test_an_error_with_characters_that_standard_error_cannot_encode_is_one_sentence(store: Path) -> None:
    done = in_a_shell("load", THAI, "--store", store, encoding="latin-1")
    assert done.returncode == 1
    assert done.stderr.startswith(b"counterfoil: there is no file or folder \\u0e2a")


def test_a_source_with_an_undecodable_name_is_loaded(counterfoil: Command, store: Path, tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + ODD_NAME))
    odd.write_bytes(b"\n".join([*SHOPS, b"not a record"]))
    told = counterfoil.json("load", odd, status=3)
    assert (told["source"], told["added"], told["rejected"]) == ("odd-\\xff.ndjson", 2, 1)
    assert Path(told["rejectsFile"]).exists()
    assert "odd-" in counterfoil("load", odd, status=3).stdout


def test_a_store_with_an_undecodable_name_is_shown_and_used(tmp_path: Path) -> None:
    store = os.fsdecode(os.fsencode(tmp_path) + b"/store-\xff")
    assert in_a_shell("keys", "issue", "--shop", "sh_1", "--store", store).returncode == 0
    for arguments in (("settings",), ("settings", "--json"), ("doctor",), ("doctor", "--json"), ("keys", "list")):
        done = in_a_shell(*arguments, "--store", store)
        assert (done.returncode, done.stderr) == (0, b""), arguments


def test_a_null_device_that_cannot_be_opened_is_reported_in_one_sentence() -> None:
    code = "import os; os.devnull = '/no/such/device'; from counterfoil.cli.main import run; run()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "counterfoil: cannot open /no/such/device: No such file or directory. Every Counterfoil command needs it.\n"
    )
