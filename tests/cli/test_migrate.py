"""Tests for `counterfoil migrate`, for other commands on PostgreSQL, and for hiding passwords in addresses."""

from pathlib import Path

import pytest

import servers
from cli.command import Command
from counterfoil.backends.postgres.administration import ROLES
from counterfoil.backends.postgres.schema import scripts
from counterfoil.settings import SettingsError, load
from counterfoil.text import without_password


@pytest.fixture
def bare() -> Command:
    """A command on an empty database."""
    server = servers.postgres(18)
    server.command("DROP DATABASE IF EXISTS bare_of_all")
    server.command("CREATE DATABASE bare_of_all")
    return Command(server.url("bare_of_all"))


def test_migrate_creates_the_schema_and_on_request_the_roles_and_reports_what_it_ran(bare: Command) -> None:
    assert "counterfoil migrate" in bare("keys", "list", status=1).output
    assert bare.json("migrate")["migrations"] == [script.file for script in scripts()]
    assert bare.json("migrate")["migrations"] == []
    assert "up to date" in bare("migrate").stdout
    assert bare.json("migrate", "--roles")["roles"] == list(ROLES)


def test_keys_usage_and_doctor_work_on_postgresql(
    bare: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    bare("migrate")
    bare("keys", "issue", "--shop", "sh_1", "--label", "till")
    assert "till" in bare("keys", "list").stdout
    bare("usage")
    bare("prune")
    assert "no problems" in bare("doctor", status=None).output


@pytest.mark.parametrize(
    ("address", "seen"),
    [
        ("postgresql://api:pa%2Fs@db:5432/x?sslmode=require", "postgresql://api:***@db:5432/x?sslmode=require"),
        # If the password is not percent-encoded, its end is unknown, so everything after the scheme is hidden.
        ("postgresql://api:pa:s@s/w@db:5432/x?sslmode=require", "postgresql://***"),
        ("postgresql://api@db/x?password=hush&sslpassword=hush", "postgresql://api@db/x?password=***&sslpassword=***"),
        ("rediss://:hush@meter:6379/0", "rediss://:***@meter:6379/0"),
        ("redis+cluster://u:hush@a:1,b:2", "redis+cluster://u:***@a:1,b:2"),
        ("postgresql://db/x", "postgresql://db/x"),
        ("/var/lib/counterfoil", "/var/lib/counterfoil"),
    ],
)
def test_a_password_in_an_address_is_never_shown(address: str, seen: str) -> None:
    assert without_password(address) == seen


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"store": "mysql://u:hush@db/x"}, "store must be"),
        ({"meter": "memcached://u:hush@m"}, "meter must start"),
        ({"meter": "redis://u:hush@m"}, "requires a shared store"),
    ],
)
def test_an_address_of_an_unknown_kind_is_refused_without_showing_its_password(
    flags: dict[str, str], complaint: str
) -> None:
    with pytest.raises(SettingsError, match=complaint) as told:
        load(flags, environment={})
    assert "hush" not in str(told.value)
