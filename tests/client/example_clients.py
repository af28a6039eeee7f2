"""The example clients of docs/own-client.md."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from client.copy_contents import Json, plain
from client.forked_program import run_forked

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
# With this first day, a full read has three windows per shop instead of thirteen. That saves time, because the curl
# client starts curl and jq for every page.
FIRST_DAY = "2025-12-01"
PATIENCE_SEC = 120


class Client:
    """One example client with its own folder and the copy that it keeps there."""

    program: str
    command: tuple[str, ...]

    def __init__(self, folder: Path, url: str, key: str) -> None:
        self.folder = folder
        self.url = url
        self.key = key
        self.first_day = FIRST_DAY
        folder.mkdir()
        shutil.copyfile(EXAMPLES / self.program, folder / "example")

    def start(self, *arguments: str, url: str = "") -> "subprocess.CompletedProcess[str]":
        """Run the client once; return the finished process."""
        environment = {"COUNTERFOIL_URL": url or self.url, "COUNTERFOIL_KEY": self.key, "FIRST_DAY": self.first_day}
        return self._started(["example", *arguments], environment)

    def _started(self, words: list[str], environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self.command, *words],
            cwd=self.folder,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SEC,
            check=False,
        )

    def run(self, *arguments: str, url: str = "") -> None:
        """Run the client once; it must succeed."""
        done = self.start(*arguments, url=url)
        assert done.returncode == 0, done.stderr

    def bills(self) -> dict[tuple[str, str], Json]:
        return {(bill["shopId"], bill["id"]): plain(bill) for bill in self._read("bills")}

    def members(self) -> dict[str, Json]:
        return {member["memberId"]: plain(member) for member in self._read("members")}

    def marks(self) -> dict[str, str]:
        """Return the marks, keyed by shop."""
        raise NotImplementedError

    def _read(self, kind: str) -> list[Json]:
        raise NotImplementedError


class PythonClient(Client):
    """Runs in a fork of a process that has already imported `requests`, because the import is slower than most runs."""

    program = "sync_client.py"
    command = (sys.executable,)

    def _started(self, words: list[str], environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
        return run_forked(self.folder, words, environment, PATIENCE_SEC)

    def marks(self) -> dict[str, str]:
        return dict(self._rows("SELECT id, mark FROM shops WHERE mark IS NOT NULL"))

    def _read(self, kind: str) -> list[Json]:
        return [json.loads(body) for [body] in self._rows(f"SELECT body FROM {kind}")]  # noqa: S608 - the client's tables

    def _rows(self, statement: str) -> list[Any]:
        with closing(sqlite3.connect(self.folder / "copy.sqlite3")) as db:
            return db.execute(statement).fetchall()


class CurlClient(Client):
    program = "sync_client.sh"
    command = ("bash",)

    def marks(self) -> dict[str, str]:
        kept = json.loads((self.folder / "marks.json").read_text())
        return {shop: mark for shop, mark in kept.items() if mark}

    def _read(self, kind: str) -> list[Json]:
        files = sorted((self.folder / kind).glob("*.json"))
        return [row for file in files for row in json.loads(file.read_text())["data"]]
