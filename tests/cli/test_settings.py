"""Tests for `counterfoil settings`."""

import json
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from cli.command import Command
from counterfoil.serving.supervisor import hold_port
from counterfoil.settings import TABLE, SettingsError, bound, load
from counterfoil.unknown_variables import unknown_variables

SECRET = "a-secret-that-nobody-should-ever-see-in-a-listing"
NO_FOLDER = "store must be a folder or a URL that starts with postgresql://"


def settings(counterfoil: Command, *before: object, after: tuple[str, ...] = ()) -> dict[str, Any]:
    rows = json.loads(counterfoil.bare(*before, "settings", "--json", *after).stdout)
    return {row["name"]: row for row in rows}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "counterfoil.toml"


def test_the_table_names_every_setting_with_its_origin_and_help(counterfoil: Command) -> None:
    rows = settings(counterfoil)
    assert list(rows) == [setting.name for setting in TABLE]
    assert all(row["origin"] == "default" and row["help"] for row in rows.values())


def test_the_origin_of_an_empty_setting_does_not_stand_where_its_value_belongs(counterfoil: Command) -> None:
    (line,) = [line for line in counterfoil.bare("settings").stdout.splitlines() if line.startswith("meter ")]
    assert line.split() == ["meter", "(empty)", "default"]


def test_flags_override_the_environment_which_overrides_the_file(
    counterfoil: Command, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('store = "from-file"\nport = 9000\nworkers = 3\n')
    monkeypatch.setenv("COUNTERFOIL_STORE", "from-environment")
    monkeypatch.setenv("COUNTERFOIL_PORT", "9001")
    rows = settings(counterfoil, "--config", file, after=("--store", "from-flag"))
    assert (rows["store"]["value"], rows["store"]["origin"]) == ("from-flag", "flag")
    assert (rows["port"]["value"], rows["port"]["origin"]) == ("9001", "COUNTERFOIL_PORT")
    assert (rows["workers"]["value"], rows["workers"]["origin"]) == ("3", str(file))
    monkeypatch.setenv("COUNTERFOIL_CONFIG", str(file))
    assert settings(counterfoil)["workers"]["value"] == "3"


def test_secrets_are_masked_whatever_their_origin(
    counterfoil: Command, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(f'secret = "{SECRET}"\n')
    from_file = counterfoil.bare("--config", file, "settings")
    monkeypatch.setenv("COUNTERFOIL_SECRET", SECRET)
    for result in (from_file, counterfoil.bare("settings", "--json")):
        assert SECRET not in result.output
        assert "***" in result.output


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("nonsense = 1\n", "contains unknown settings: nonsense"),
        ("[[[\n", "is not valid TOML"),
        (None, "cannot read the settings file"),
    ],
)
def test_an_unusable_settings_file_is_reported(
    counterfoil: Command, file: Path, content: str | None, says: str
) -> None:
    if content:
        file.write_text(content)
    assert says in counterfoil.bare("--config", file, "settings", status=1).stderr


@pytest.mark.parametrize(
    ("host", "admin_host"),
    [("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "0.0.0.0"), ("::", "127.0.0.1"), ("localhost", "127.0.0.1")],  # noqa: S104
)
def test_two_listeners_on_one_port_of_one_host_are_refused(host: str, admin_host: str) -> None:
    with hold_port(host, 0) as held, pytest.raises(SettingsError, match="Choose another with --admin-port"):
        bound(admin_host, held.getsockname()[1], "admin-")


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"store": "postgresql:/u@h/db"}, NO_FOLDER),
        ({"store": "sqlite:/var/lib/counterfoil"}, NO_FOLDER),
        ({"store": "u:hush@h/db"}, NO_FOLDER),
        ({"store": "mysql://u:hush@db/x"}, NO_FOLDER),
        ({"store": " "}, "`store` is blank"),
        ({"meter": "memcached://u:hush@m"}, "meter must start"),
        ({"meter": "redis://u:hush@m"}, "requires a shared store"),
    ],
)
def test_an_address_of_an_unknown_kind_is_refused_without_showing_its_password(
    flags: dict[str, str], complaint: str
) -> None:
    with pytest.raises(SettingsError, match=complaint) as refused:
        load(flags, {})
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("pool_size", 0, "pool_size must be between 1 and 100, not 0."),
        ("pool_size", 101, "pool_size must be between 1 and 100, not 101."),
        ("pool_size", "many", "pool_size must be a whole number, not 'many' (flag)."),
        ("timezone", "Bangkok time", "timezone must be an IANA name"),
    ],
)
def test_a_value_outside_its_range_is_refused_with_the_range(name: str, value: object, says: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        load({name: value}, {})
    assert str(refusal.value).startswith(says)
    assert refusal.value.names == (name,)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("COUNTERFOIL_NOTIFY_ULR", "COUNTERFOIL_NOTIFY_URL"),
        ("COUNTERFOIL_STOER", "COUNTERFOIL_STORE"),
        ("COUNTERFOIL_PROT", "COUNTERFOIL_PORT"),
        ("COUNTERFOIL_admin_port", "COUNTERFOIL_ADMIN_PORT"),
        ("COUNTERFOIL_CONFG", "COUNTERFOIL_CONFIG"),
        ("COUNTERFOIL_COLOUR", ""),
    ],
)
def test_a_variable_that_nothing_reads_is_found_with_the_one_that_was_meant(name: str, meant: str) -> None:
    assert [(found.name, found.meant) for found in unknown_variables({name: "x"})] == [(name, meant)]


def test_variables_of_container_links_and_all_that_the_project_names_are_known() -> None:
    links = {
        **dict.fromkeys(
            ("COUNTERFOIL_PORT", "COUNTERFOIL_API_PORT", "COUNTERFOIL_PORT_8000_TCP"), "tcp://10.0.0.9:8000"
        ),
        **dict.fromkeys(("COUNTERFOIL_SERVICE_HOST", "COUNTERFOIL_PORT_8000_TCP_ADDR"), "10.0.0.9"),
        **dict.fromkeys(("COUNTERFOIL_SERVICE_PORT", "COUNTERFOIL_ADMIN_SERVICE_PORT_HTTP"), "8000"),
        "COUNTERFOIL_NAME": "/shop/counterfoil",
    }
    assert unknown_variables(links) == []
    root = Path(__file__).parents[2]
    found = [file for folder in ("packages", "deploy", "connectors") for file in (root / folder).rglob("*")]
    files = [file for file in found if file.is_file() and not {".venv", "__pycache__"} & {*file.parts}]
    texts = [file.read_text("utf-8", errors="ignore") for file in files]
    named = {name for text in texts for name in re.findall(r"(?<!_)\bCOUNTERFOIL_[A-Z_]*[A-Z]\b(?!_)", text)}
    assert len(named) > len(TABLE) / 2
    assert unknown_variables(dict.fromkeys(named, "x")) == []


@pytest.mark.parametrize("name", ["notify_url", "heartbeat_url"])
@pytest.mark.parametrize("address", ["http://", "https://", "https:///hook", "http://:80/", "https://user@/hook"])
def test_an_address_of_notifications_without_a_host_is_refused(name: str, address: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} must be a URL with a host"):
        load({name: address}, environment={})


def test_a_pipe_is_read_as_a_settings_file_and_one_that_nobody_writes_to_is_refused(
    counterfoil: Command, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    refused = counterfoil.bare("--config", pipe, "settings", status=1)
    assert "nothing was written to this pipe within 2 s" in refused.output
    writer = threading.Thread(target=pipe.write_text, args=("workers = 3",))
    writer.start()
    assert settings(counterfoil, "--config", pipe)["workers"]["value"] == "3"
    writer.join(20)
    assert settings(counterfoil, "--config", "/dev/null")["workers"]["value"] == "1"
