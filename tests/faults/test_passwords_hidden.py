"""A password in an address appears nowhere: not in a log, a metric, a response, an error message or a traceback."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from counterfoil.program.main import program
from e2e.serve_process import Deployment, ServeProcess
from faults.multi_node import MultiNodeDeployment
from running_service import SECRET, free_port
from waiting import until

CANARY = "canary-bird"
CLOSED = "127.0.0.1:1"
STORE = f"postgresql://u@{CLOSED}/db"
# Valid addresses, addresses whose password is not percent-encoded, and addresses with other mistakes.
ADDRESSES = json.loads(Path(__file__).with_name("mistyped_addresses.json").read_text("utf-8"))
SLIPS, METER_SLIPS = (
    [address.replace("{canary}", CANARY).replace("{closed}", CLOSED) for address in ADDRESSES[kind]]
    for kind in ("stores", "meters")
)


def assert_hidden(text: str) -> None:
    assert CANARY not in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("store", "meter"), [*((store, "") for store in SLIPS), *((STORE, meter) for meter in METER_SLIPS)]
)
def test_an_address_that_does_not_work_is_reported_without_its_password(
    monkeypatch: pytest.MonkeyPatch, store: str, meter: str
) -> None:
    for name, value in (("STORE", store), ("METER", meter), ("SECRET", SECRET), ("PORT", str(free_port()))):
        monkeypatch.setenv(f"COUNTERFOIL_{name}", value)
    for command in ("doctor", "settings", "migrate", "keys list", "usage", "serve"):
        result = CliRunner().invoke(program, command.split())
        assert_hidden(result.output)
        assert result.exception is None or isinstance(result.exception, SystemExit)


# Every third address runs in `make test`, the others in `make test-long`.
@pytest.mark.parametrize(
    "address", [*SLIPS[::3], *(pytest.param(slip, marks=pytest.mark.long) for slip in (*SLIPS[1::3], *SLIPS[2::3]))]
)
def test_no_command_that_takes_an_address_shows_its_password(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str
) -> None:
    monkeypatch.setenv("COUNTERFOIL_DEBUG", "1")
    monkeypatch.setenv("COUNTERFOIL_KEY", "cf_live_invented")
    monkeypatch.chdir(tmp_path)
    mapping = tmp_path / "mapping.toml"
    mapping.write_text('[bill]\nid = "id"\n[database]\nbills = "SELECT 1 AS id"\n')
    service = ("--url", f"http://{CLOSED}")
    for words in (
        ("import", "--format", "database", "--url", address, "--mapping", str(mapping), "--check"),
        ("reconcile", *service, "--to", address),
        ("pull", "--url", address),
        ("pull", "--url", address.replace("postgresql", "https")),
        ("copy", "--to", address),
        # A shell splits an address that contains a space and is not quoted.
        ("reconcile", *service, "--to", *address.split()),
    ):
        result = CliRunner().invoke(program, list(words))
        assert result.exit_code != 0
        assert CANARY not in result.output, (words[0], result.output)
        assert "unexpected error" not in result.output


@pytest.mark.long
def test_a_service_whose_servers_fail_shows_the_password_nowhere(
    multi_node: MultiNodeDeployment, tmp_path: Path
) -> None:
    """Covers correct passwords, servers that become unavailable, and a password that is no longer valid."""
    multi_node.valkey.command(f"CONFIG SET requirepass {CANARY}")
    deployment = Deployment(
        tmp_path / "node",
        store=f"postgresql://postgres:{CANARY}@127.0.0.1:{multi_node.postgres.port}/{multi_node.database}",
        meter=f"redis://:{CANARY}@127.0.0.1:{multi_node.valkey.port}/0",
    )
    running = deployment.start()
    heard = ask_all(running, multi_node.key())
    assert '"ok":true' in heard
    multi_node.valkey.kill()
    heard += ask_all(running, multi_node.key())
    multi_node.valkey.start()
    multi_node.valkey.command("CONFIG SET requirepass another")
    heard += ask_all(running, multi_node.key())
    multi_node.postgres.kill()
    heard += ask_all(running, multi_node.key())
    until(lambda: "horizon_failing" in deployment.log.read_text("utf-8"), "the outage was logged")
    multi_node.postgres.start()
    assert running.stop() == 0
    assert "auth_unavailable" in heard
    assert_hidden(heard + deployment.log.read_text("utf-8"))


def ask_all(running: ServeProcess, key: str) -> str:
    pages = [running.admin(page).text for page in ("live", "ready", "metrics")]
    return "".join([running.get("shops", key).text, running.get("shops", key).text, *pages])
