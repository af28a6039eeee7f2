"""Output on a terminal, and in a pipe."""

import asyncio
import os
import pty
import re
import subprocess
from contextlib import closing
from pathlib import Path

from cli.command import PYTHON, SHOPS, Command
from counterfoil.backends.sqlite.usage import SqliteUsage
from counterfoil.domain.access import Key, Scope
from counterfoil.machine.clock import SystemClock

ESCAPE = "\x1b["


def on_terminal(*arguments: object, columns: int = 80, typed: bytes = b"", **variables: str) -> str:
    """Return the output of the command on its own terminal. `typed` is input that was typed ahead."""
    mine, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "40"} | variables
    os.write(mine, typed)
    process = subprocess.Popen(
        [*PYTHON, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    shown = _everything(mine)
    process.wait()
    os.close(mine)
    return shown.decode()


def _everything(terminal: int) -> bytes:
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # Linux reports in this way that the other side has closed the terminal
            return shown
        if not piece:
            return shown
        shown += piece


def test_a_terminal_gets_colours_and_a_pipe_does_not(counterfoil: Command, store: Path) -> None:
    counterfoil("keys", "issue", "--shop", "sh_1", "--label", "[red]ERP[/red] ไทย")
    drawn = on_terminal("keys", "list", "--store", store)
    assert ESCAPE in drawn
    assert "[red]ERP[/red] ไทย" in drawn
    assert ESCAPE not in counterfoil("keys", "list").stdout
    assert ESCAPE not in counterfoil("settings").stdout


def test_no_color_removes_every_colour_and_style(counterfoil: Command, store: Path) -> None:
    counterfoil("keys", "issue", "--shop", "sh_1", "--label", "ERP")
    for command in ("keys list", "settings", "doctor", "usage", "usage --disclosures"):
        assert ESCAPE not in on_terminal(*command.split(), "--store", store, NO_COLOR="1"), command


def test_tables_fit_a_narrow_terminal(store: Path) -> None:
    shown = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal("settings", "--store", store, columns=80))
    assert "grace_sec" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_progress_bars_are_shown_on_terminals_only(counterfoil: Command, store: Path) -> None:
    key_id = counterfoil.json("keys", "issue", "--shop", "sh_1", "--label", "ERP", "--per-day", "2")["keyId"]
    with closing(SqliteUsage(store, SystemClock())) as usage:
        asyncio.run(usage.admit(Key(key_id=key_id, scope=Scope("shop", "sh_1"))))
    drawn = on_terminal("usage", "--store", store)
    assert "ERP" in drawn
    assert "2 requests per day (Thailand time)" in drawn
    assert "████" in drawn
    assert "█" not in counterfoil("usage").stdout


def test_a_load_shows_its_progress_on_a_terminal_and_only_a_summary_in_a_pipe(
    counterfoil: Command, store: Path, tmp_path: Path
) -> None:
    file = tmp_path / "shops.ndjson"
    file.write_bytes(b"\n".join(SHOPS))
    assert "Loading" in on_terminal("load", file, "--store", store)
    result = counterfoil("load", file)
    assert result.stderr == ""
    assert "Loading" not in result.stdout


def test_a_revocation_is_confirmed_on_a_terminal_and_no_keeps_the_key(counterfoil: Command, store: Path) -> None:
    key_id = counterfoil.json("keys", "issue", "--shop", "sh_1")["keyId"]
    asked = on_terminal("keys", "revoke", key_id, "--store", store, typed=b"n\n")
    assert "This cannot be undone" in asked
    assert not counterfoil.json("keys", "show", key_id)["revoked"]
    on_terminal("keys", "revoke", key_id, "--store", store, typed=b"y\n")
    assert counterfoil.json("keys", "show", key_id)["revoked"]


def test_yes_skips_the_confirmation_of_a_revocation(counterfoil: Command, store: Path) -> None:
    key_id = counterfoil.json("keys", "issue", "--shop", "sh_1")["keyId"]
    assert "undone" not in on_terminal("keys", "revoke", key_id, "--yes", "--store", store)
    assert counterfoil.json("keys", "show", key_id)["revoked"]


def test_compressed_records_are_not_written_to_a_terminal() -> None:
    assert "compressed records cannot be shown on a terminal" in on_terminal("generate", "--bills", "1", "--gzip")
