"""The commands in the pages that bring in data, run in order in one shell, print the output that the pages show."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import servers
from counterfoil.importing.mapping import parse_mapping
from importing.pos_database import TABLES
from waiting import until

ROOT = Path(__file__).parents[2]
PAGES = ("bring-in-your-data.md", "tills.md", "mappings.md", "pos-database.md")
PAGE = "\n".join((ROOT / "docs" / page).read_text("utf-8") for page in PAGES)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIMING = re.compile(r"in [\d.]+ s \([\d,]+/s\)")
SERVE = "counterfoil serve"
MARK = "--- end of a command ---"

pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(
        shutil.which("jq") is None or shutil.which("curl") is None,
        reason="jq or curl is not on the PATH, so the commands in docs/bring-in-your-data.md were NOT run",
    ),
]


class Shell:
    """A single bash process for the whole page, started in a folder that contains the examples."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._bash = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: str) -> str:
        assert self._bash.stdin
        assert self._bash.stdout
        self._bash.stdin.write(f"{command}\necho '{MARK}'\n")
        self._bash.stdin.flush()
        printed = []
        while (line := self._bash.stdout.readline()) != f"{MARK}\n":
            assert line, "the shell ended"
            printed.append(line)
        return "".join(printed)

    def close(self) -> None:
        self._bash.communicate(timeout=20)


def commands(block: str) -> list[tuple[str, str]]:
    """Return the commands in a code block, each with the output shown below it."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


def matches(shown: str, printed: str) -> bool:
    """Return whether the output is as shown. `…` matches any text, including line breaks; durations may differ."""
    pattern = re.escape(TIMING.sub("TIMING", shown)).replace("…", "(?s:.*)")
    return re.fullmatch(pattern, TIMING.sub("TIMING", printed)) is not None


@contextmanager
def pos_database() -> Iterator[str]:
    """Create the tables for the queries on the page, with two bills; yield the database's URL."""
    server = servers.postgres(18)
    server.command("DROP DATABASE IF EXISTS pos_guide WITH (FORCE)")
    server.command("CREATE DATABASE pos_guide")
    for table in TABLES:
        server.command(table.format(time="timestamptz"), "pos_guide")
    server.command(
        "INSERT INTO bills VALUES (1, now(), 240.10, 'paid', now()), (2, now(), 9, 'void', now())", "pos_guide"
    )
    server.command("INSERT INTO bill_lines VALUES (1, 'Khao soi', 2, 240.10), (2, 'Tea', 1, 9)", "pos_guide")
    yield server.url("pos_guide")
    server.command("DROP DATABASE pos_guide WITH (FORCE)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    program = tmp_path / "bin" / "counterfoil"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m counterfoil "$@"\n', "utf-8")
    program.chmod(0o755)
    for name, section in (("database.toml", "[database]"), ("members.toml", "[member]")):
        [mapping] = [text for kind, text in BLOCK.findall(PAGE) if kind == "toml" and section in text]
        (tmp_path / name).write_text(mapping, "utf-8")
    return tmp_path


def test_every_command_of_the_guide_prints_what_the_page_says(folder: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COUNTERFOIL_")}
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    with pos_database() as url:
        environment = {**kept, "PATH": path, "COUNTERFOIL_PORT": str(port), "COUNTERFOIL_IMPORT_URL": url}
        environment |= {"COUNTERFOIL_ADMIN_PORT": "0", "LC_ALL": "C.UTF-8"}
        shell = Shell(folder, environment)
        serving: subprocess.Popen[bytes] | None = None
        try:
            ran = 0
            for kind, block in BLOCK.findall(PAGE):
                if kind == "sh":
                    assert block.strip() == SERVE
                    serving = subprocess.Popen(
                        [str(folder / "bin" / "counterfoil"), "serve"],
                        cwd=folder,
                        env=environment,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                    )
                    until(lambda: is_open(port), "the service listens")
                for command, shown in commands(block) if kind == "console" else ():
                    printed = shell.run(command.replace(":8000", f":{port}"))
                    assert matches(shown, printed), f"$ {command}\n{printed}"
                    ran += 1
            assert ran > 10
            assert serving is not None
        finally:
            shell.close()
            if serving is not None:
                serving.send_signal(signal.SIGTERM)
                serving.wait(20)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_toml_of_the_guide_has_only_entries_that_are_known() -> None:
    for kind, text in BLOCK.findall(PAGE):
        if kind == "toml":
            parse_mapping(tomllib.loads(text), "the guide")


def test_the_command_in_the_readme_of_the_importer_converts_an_export(folder: Path) -> None:
    readme = (ROOT / "packages" / "importer" / "README.md").read_text("utf-8")
    [block] = [block for kind, block in BLOCK.findall(readme) if kind == "sh"]
    _, _, typed = block.partition("\n")
    program = folder / "bin" / "python"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', "utf-8")
    program.chmod(0o755)
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", typed], cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=True
    )
    *_, last = done.stdout.splitlines()
    assert json.loads(last) | {"net": ""} == {
        "type": "end",
        "v": 1,
        "records": 4,
        "rejects": 0,
        "leftOut": 0,
        "totals": 0,
        "net": "",
    }
