"""The commands named on the Store page show everything that the page shows, except the console's own sessions."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from console.running_console import RunningConsole
from counterfoil.program.main import program
from records import branch
from running_service import backend_settings

_COMMAND = re.compile(r'<code class="command">counterfoil ([^<]+)</code>')


@pytest.fixture(params=["sqlite", "postgres"])
def console(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningConsole]:
    with backend_settings(request.param) as settings:
        if "store" in settings:
            # The address names the same server twice, so that the page lists servers.
            settings["store"] = re.sub(r"@([^/]+)/", r"@\1,\1/", settings["store"])
        with closing(RunningConsole(tmp_path, **settings)) as running:
            yield running


def test_the_named_commands_show_all_data_of_the_page(console: RunningConsole) -> None:
    console.service.load(branch())
    alice = console.operator("alice")
    page, view = alice.page("/store"), alice.json("/store.json")
    named = _COMMAND.findall(page.partition('class="export"')[2])
    assert named == ["status --deep --json"]
    address = console.settings.database or str(console.settings.store)
    environment = {"COUNTERFOIL_STORE": address, "COUNTERFOIL_ADMIN_PORT": "0"}
    report = CliRunner().invoke(program, named[0].split(), env=environment).stdout
    status = json.loads(report)
    assert status["storeBytes"] > 0 < view["sizeBytes"]
    assert status["logBytes"].keys() == view["logBytes"].keys()
    assert (status["freeBytes"] is None) == (view["freeBytes"] is None)
    for name in ("schema", "software"):
        assert status[name] == view[name]
    assert status["meter"] == (view["meter"] or None)
    listed = [(server["name"], server["role"]) for server in status["servers"]]
    assert listed == [(server["name"], server["role"]) for server in view["servers"]]
    assert len(listed) == (2 if console.settings.database else 0)
    assert all(server["horizon"] for server in status["servers"])
    assert view["address"] in report
    assert (view["login"] or "") in report
    assert {finding["check"] for finding in view["checks"]} <= {finding["check"] for finding in status["checks"]}


def test_the_page_of_a_store_without_keys_names_the_page_that_issues_them(console: RunningConsole) -> None:
    console.service.load(branch())
    page = console.operator("alice").page("/store")
    assert "There are no active keys. Issue one on the page Keys." in page
    assert "counterfoil keys issue" not in page
