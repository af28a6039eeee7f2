"""Output to a terminal, a pipe or a closed stream, in several encodings, and file names that cannot be decoded."""

import gzip
import json
import os
import random
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import IO

import pytest

from cli.command import PYTHON, SHOPS, Command, on_terminal
from counterfoil import settings
from counterfoil.demo import showcase
from counterfoil.demo.history import write_history
from counterfoil.demo.worldgen.plan import WorldPlan
from counterfoil.model.calendar import thai_day
from counterfoil.program.clock import SystemClock
from counterfoil.program.terminal import display_width

pytestmark = pytest.mark.programs

ESCAPE = "\x1b["


def test_a_terminal_gets_colours_and_a_pipe_does_not(counterfoil: Command, store: Path) -> None:
    counterfoil("init")
    assert "no keys found" in on_terminal("usage", "--store", store)
    counterfoil("keys", "issue", "--not-loaded-yet", "--shop", "sh_1", "--label", "[red]ERP[/red] ไทย")
    drawn = on_terminal("keys", "list", "--store", store)
    assert ESCAPE in drawn
    assert "[red]ERP[/red] ไทย" in drawn
    assert ESCAPE not in counterfoil("keys", "list").stdout
    assert ESCAPE not in counterfoil("settings").stdout


def test_no_color_removes_every_colour_and_style(counterfoil: Command, store: Path) -> None:
    counterfoil("keys", "issue", "--not-loaded-yet", "--shop", "sh_1", "--label", "ERP")
    for command in ("keys list", "settings", "doctor", "usage", "usage --disclosures"):
        assert ESCAPE not in on_terminal(*command.split(), "--store", store, NO_COLOR="1"), command


@pytest.mark.parametrize("columns", [36, 30])
def test_a_terminal_that_is_too_narrow_for_a_table_shows_blocks_with_every_column(
    counterfoil: Command, store: Path, columns: int
) -> None:
    counterfoil("load", "-", stdin=b'{"kind":"shop","id":"sh_1"}\n')
    title, *details = on_terminal("loads", "--store", store, columns=columns, NO_COLOR="1").splitlines()
    assert title.startswith("1  20")
    assert " ".join(" ".join(details).split()) == "state finished · lines 1 · changed 1 · rejected 0 · files stdin"


def test_blocks_show_long_names_whole_and_no_key_where_there_is_none(counterfoil: Command, tmp_path: Path) -> None:
    delivery = tmp_path / f"bills-{'x' * 60}-17.ndjson"
    delivery.write_bytes(b'{"kind":"shop","id":"sh_1"}\n')
    counterfoil("load", delivery)
    assert delivery.name in on_terminal("loads", "--store", counterfoil.store, columns=80, NO_COLOR="1")
    (entry,) = counterfoil.json("audit")
    assert entry["keyId"] is None
    shown = on_terminal("audit", "--store", counterfoil.store, columns=60, NO_COLOR="1")
    assert "store created" in shown
    assert not re.search("key ID|label", shown)


@pytest.fixture(scope="module")
def demo_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with long names and IDs, nine keys, and requests of the last days."""
    store = tmp_path_factory.mktemp("demo") / "store"
    effective = settings.load({"store": str(store), "secret": showcase.demo_secret(7)}, {})
    plan = WorldPlan(until=thai_day(SystemClock().now_ms()), seed=7, bills=500, members=60, days=30)
    shown = showcase.build(effective, plan, lambda purpose: showcase.seeded_randomness(7, purpose))
    write_history(effective, shown, 7)
    return store


def test_a_narrow_list_of_keys_says_when_a_key_that_is_used_ends(demo_store: Path, tmp_path: Path) -> None:
    copytree(demo_store, tmp_path / "store")
    own = Command(tmp_path / "store")
    used = next(key for key in own.json("keys", "list") if key["lastUsed"])
    own("keys", "revoke", used["keyId"], "--at", "2096-12-01", "--yes")
    shown = on_terminal("keys", "list", "--store", own.store, columns=80, NO_COLOR="1")
    assert "active until 2096-12-01 00:00 +07" in shown


LISTS = (
    "loads",
    "loads LOAD",
    "loads open",
    "shops",
    "keys list",
    "keys show KEY",
    "usage",
    "usage --disclosures",
    "requests",
    "requests REQUEST",
    "audit",
    "status",
    "doctor",
    "settings",
)


@pytest.mark.parametrize("columns", [80, 60])
@pytest.mark.parametrize("command", LISTS)
def test_no_list_breaks_a_word_or_an_id(demo_store: Path, command: str, columns: int) -> None:
    own = Command(demo_store)
    request = own.json("requests", "--limit", 1)[0]
    known = {"LOAD": str(own.json("loads")[0]["number"]), "KEY": request["keyId"], "REQUEST": request["requestId"]}
    words = [known.get(word, word) for word in command.split()]
    text = on_terminal(*words, "--store", demo_store, columns=columns, NO_COLOR="1").replace("\r", "")
    # A message to standard error is one line, which others may search for.
    lines = [line for line in text.splitlines() if not line.startswith("counterfoil: ")]
    assert lines
    # A path may be longer than the terminal, and is not broken either.
    assert max(display_width(line) for line in lines if str(demo_store) not in line) <= columns
    rows = own.json(*words) if words[0] not in ("status", "doctor") else []
    names = ("keyId", "shopId", "requestId") if words[0] == "requests" else ("keyId", "shopId")
    found = {row.get(name) for row in rows if isinstance(row, dict) for name in names}
    assert [one for one in found if one and one not in text] == []


@pytest.mark.parametrize("command", ["loads", "shops", "keys list", "requests", "audit"])
def test_a_terminal_of_80_columns_shows_a_table_and_names_the_columns_that_it_lacks(
    demo_store: Path, command: str
) -> None:
    text = on_terminal(*command.split(), "--store", demo_store, columns=80, NO_COLOR="1").replace("\r", "")
    assert re.match(r"(load|shop ID|key ID|time)  ", text)
    assert "A wider terminal also shows" in " ".join(text.split())


def test_a_narrow_list_of_requests_has_long_request_ids_whole_below_their_rows(demo_store: Path) -> None:
    text = on_terminal("requests", "--store", demo_store, columns=70, NO_COLOR="1").replace("\r", "")
    shown = Command(demo_store).json("requests", "--limit", 50)
    assert re.findall("^    request ID ([^ \n]+)", text, re.MULTILINE) == [request["requestId"] for request in shown]


def test_labels_are_beside_the_ids_of_keys_in_every_list(demo_store: Path) -> None:
    own = Command(demo_store)
    labels = {key["keyId"]: key["label"] for key in own.json("keys", "list")}
    for command in ("keys list", "usage", "usage --disclosures", "requests", "audit"):
        shown = on_terminal(*command.split(), "--store", demo_store, columns=200, NO_COLOR="1")
        for text in (shown, own(*command.split()).stdout):
            for line in text.splitlines():
                for key_id, label in labels.items():
                    assert key_id not in line or label in line, line


def test_keys_are_listed_with_when_they_were_issued_and_last_used(demo_store: Path) -> None:
    own = Command(demo_store)
    used, unused = (
        next(key for key in own.json("keys", "list") if bool(key["lastUsed"]) is is_used) for is_used in (True, False)
    )
    assert used["lastUsed"] > used["createdAt"]
    heading = own("keys", "list").stdout.splitlines()[0]
    assert "issued" in heading
    assert "last used" in heading
    drawn = on_terminal("keys", "list", "--store", demo_store, NO_COLOR="1").replace("\r", "")
    rows = {line.split()[0]: line for line in drawn.splitlines() if line}
    assert re.search(r" 20\d\d-\d\d-\d\d \d\d:\d\d  active", rows[used["keyId"]])
    assert re.search(r" -  +active", rows[unused["keyId"]])
    assert "Times are +07." in " ".join(drawn.split())


def delivery(file: Path, pack: Callable[[bytes], bytes]) -> int:
    """Pack two megabytes of shop records with `pack` and write them to a file; return the size of the file."""
    noise = random.Random(1)  # noqa: S311 - random data, because other text would compress too well
    shops = ({"kind": "shop", "id": f"s{n}", "name": noise.randbytes(500).hex()} for n in range(2_000))
    return file.write_bytes(pack(b"".join(json.dumps(shop).encode() + b"\n" for shop in shops)))


def progress_shown(*arguments: object, stdin: IO[bytes] | None = None) -> tuple[list[str], list[str]]:
    """Run a load; return the byte counts and the percentages that the progress bar showed."""
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", on_terminal("load", *arguments, columns=120, stdin=stdin))
    return re.findall(r"([\d.]+ MB(?: of [\d.]+ MB)?), [\d,]+ lines", shown), re.findall(r"(\d+)%", shown)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_the_progress_of_a_load_is_in_bytes_of_the_file_as_it_is(
    store: Path, tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    file = tmp_path / ("a.ndjson" if pack is bytes else "a.ndjson.gz")
    size = delivery(file, pack)
    sizes, percentages = progress_shown(file, "--store", store, "--batch", 100)
    assert {shown.partition(" of ")[2] for shown in sizes} == {f"{size / 1e6:.1f} MB"}
    assert sizes[-1].startswith(f"{size / 1e6:.1f} MB of")
    assert percentages[-1] == "100"
    assert sorted(percentages, key=int) == percentages


def test_a_pipe_shows_neither_bytes_nor_a_percentage_and_a_redirected_file_both(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson"
    size = f"{delivery(file, bytes) / 1e6:.1f} MB"
    with subprocess.Popen(["cat", file], stdout=subprocess.PIPE) as pipe:
        sizes, percentages = progress_shown("-", "--store", store, stdin=pipe.stdout)
    assert (sizes, percentages) == ([], [])
    packed = tmp_path / "a.ndjson.gz"
    delivery(packed, gzip.compress)
    with packed.open("rb") as redirected:
        _, percentages = progress_shown("-", "--store", store, "--batch", 100, stdin=redirected)
    assert (int(percentages[0]) < 50, percentages[-1]) == (True, "100"), "the percentage must count loaded data"
    with file.open("rb") as redirected:
        sizes, percentages = progress_shown("-", "--store", store, stdin=redirected)
    assert (sizes[-1], percentages[-1]) == (f"{size} of {size}", "100")


@pytest.mark.parametrize(
    ("typed", "options", "is_revoked"), [(b"n\n", (), False), (b"y\n", (), True), (b"", ("--yes",), True)]
)
def test_a_revocation_is_confirmed_on_a_terminal_unless_yes_is_given(
    counterfoil: Command, store: Path, typed: bytes, options: tuple[str, ...], is_revoked: bool
) -> None:
    key_id = counterfoil.json("keys", "issue", "--not-loaded-yet", "--shop", "sh_1")["keyId"]
    asked = on_terminal("keys", "revoke", key_id, *options, "--store", store, typed=typed)
    assert ("This cannot be undone" in asked) is not bool(options)
    assert counterfoil.json("keys", "show", key_id)["revoked"] is is_revoked


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
    assert (
        in_a_shell("keys", "issue", "--not-loaded-yet", "--shop", "sh_1", "--store", store, closing=">&-").returncode
        == 1
    )
    assert not store.exists()


def test_every_command_works_with_a_closed_standard_error(counterfoil: Command, store: Path) -> None:
    assert (
        in_a_shell("keys", "issue", "--not-loaded-yet", "--shop", "sh_1", "--store", store, closing="2>&-").returncode
        == 0
    )
    assert in_a_shell("nonsense", closing="2>&-").returncode == 2
    assert len(counterfoil.json("keys", "list")) == 1


def test_a_closed_standard_input_fails_only_a_load_that_reads_from_it(counterfoil: Command, store: Path) -> None:
    done = in_a_shell("load", "-", "--store", store, closing="<&-")
    assert (done.returncode, done.stderr) == (
        1,
        b"counterfoil: cannot read source records: standard input is closed.\n",
    )
    key_id = counterfoil.json("keys", "issue", "--not-loaded-yet", "--shop", "sh_1")["keyId"]
    assert in_a_shell("keys", "revoke", key_id, "--yes", "--store", store, closing="<&-").returncode == 0


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_characters_that_the_output_cannot_encode_are_escaped(counterfoil: Command, store: Path, encoding: str) -> None:
    counterfoil("keys", "issue", "--not-loaded-yet", "--shop", "sh_1", "--label", THAI)
    done = in_a_shell("keys", "list", "--store", store, encoding=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert THAI.encode("ascii", "backslashreplace") in done.stdout


@pytest.mark.parametrize(
    "encoding",
    ["latin-1", "utf-8", *(pytest.param(encoding, marks=pytest.mark.long) for encoding in ("cp1252", "ascii"))],
)
def test_json_output_is_the_same_in_every_encoding(counterfoil: Command, store: Path, encoding: str) -> None:
    label = f"{THAI} café 🍜"
    counterfoil("keys", "issue", "--not-loaded-yet", "--shop", "sh_1", "--label", label)
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
    assert in_a_shell("keys", "issue", "--not-loaded-yet", "--shop", "sh_1", "--store", store).returncode == 0
    for arguments in (("settings",), ("settings", "--json"), ("doctor",), ("doctor", "--json"), ("keys", "list")):
        done = in_a_shell(*arguments, "--store", store)
        assert (done.returncode, done.stderr) == (0, b""), arguments


def test_a_null_device_that_cannot_be_opened_is_reported_in_one_sentence() -> None:
    code = "import os; os.devnull = '/no/such/device'; from counterfoil.program.main import run; run()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "counterfoil: cannot open /no/such/device: No such file or directory. Every Counterfoil command needs it.\n"
    )
