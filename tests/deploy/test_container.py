"""The Dockerfile passes hadolint, the Compose files are valid and hardened, and all are consistent with the package."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.command import PYTHON, SHOPS, Command
from counterfoil.model.version import __version__
from counterfoil.settings import TABLE
from deploy.programs import DEPLOY, ROOT, needs_script, output_of, printed_by_console, script
from running_service import free_port

pytestmark = pytest.mark.programs

CONTAINER = DEPLOY / "container"
DOCKERFILE = CONTAINER / "Dockerfile"
COMPOSE = sorted(CONTAINER.glob("compose*.yaml"))
of_each_file = pytest.mark.parametrize("file", COMPOSE, ids=lambda file: file.name)


def services(file: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(file.read_text("utf-8"))["services"]
    return found


@needs_script("hadolint")
def test_hadolint_finds_nothing_wrong_with_the_dockerfile() -> None:
    assert output_of(script("hadolint"), DOCKERFILE) == ""


@needs_script("check-jsonschema")
def test_the_compose_files_are_valid_according_to_the_schema_of_compose() -> None:
    output_of(script("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", *COMPOSE)


@of_each_file
def test_our_services_are_hardened_and_published_on_loopback_only(file: Path) -> None:
    ours = [service for service in services(file).values() if service["image"].startswith("counterfoil:")]
    known = {setting.variable for setting in TABLE}
    assert ours
    for service in ours:
        assert service["image"] == f"counterfoil:{__version__}"
        # Compose copies secrets and configs into the container, which a read-only file system would refuse.
        assert service["read_only"] is not ("secrets" in service or "configs" in service)
        assert service["cap_drop"] == ["ALL"]
        assert set(service.get("environment", {})) <= known
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@of_each_file
def test_the_service_starts_after_init_because_it_never_creates_a_store(file: Path) -> None:
    found = services(file)
    assert found["init"]["command"][0] == "init"
    assert found["serve"]["depends_on"]["init"] == {"condition": "service_completed_successfully"}


@of_each_file
def test_what_reads_deliveries_has_a_user_of_its_own_and_no_secret_in_its_environment(file: Path) -> None:
    found = [service for service in services(file).values() if service.get("command", [""])[0] == "load"]
    assert found
    for service in found:
        assert service["user"] == "10002:10002"
        # A variable that is replaced from .env would be a secret.
        assert not [value for value in service["environment"].values() if "$" in value]
        volumes = dict(reversed(volume.split(":")) for volume in service["volumes"])
        assert volumes["/var/spool/counterfoil/incoming"] != volumes[service["environment"]["COUNTERFOIL_KEPT"]]


@of_each_file
def test_the_console_of_compose_prints_no_link_and_a_link_made_in_its_container_signs_in_on_this_machine(
    file: Path, tmp_path: Path
) -> None:
    console = services(file)["console"]
    assert console["ports"] == ["127.0.0.1:8002:8002"]
    assert console["command"] == ["console", "--no-link"]
    Command(tmp_path / "store")("load", "-", stdin=SHOPS[0])
    settings = {name: value for name, value in console["environment"].items() if "$" not in value}
    settings |= {"COUNTERFOIL_CONSOLE_PORT": str(free_port()), "COUNTERFOIL_STORE": str(tmp_path / "store")}
    printed_by_console([*PYTHON, *console["command"]], os.environ | settings, tmp_path)


def test_the_backup_of_compose_waits_until_the_night_then_backs_up_again_and_again(tmp_path: Path) -> None:
    backup = services(CONTAINER / "compose.yaml")["backup"]
    (script,) = backup["command"]
    volumes = dict(reversed(volume.split(":")) for volume in backup["volumes"])
    assert volumes["/var/lib/counterfoil-backups"] != volumes["/var/lib/counterfoil"]
    programs = tmp_path / "bin"
    programs.mkdir()
    # `sleep` notes how long it would wait, and ends the loop at the third call.
    for name, body in {
        "sleep": 'echo "$1" >>waits; [ $(wc -l <waits) -lt 3 ]',
        "date": "echo 1794945600",  # 2026-11-17T20:00:00Z
        "counterfoil": f'echo "$*" >>commands; exec {" ".join(PYTHON)} "$@"',
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    store, backups = tmp_path / "store", tmp_path / "backups"
    Command(store)("load", "-", stdin=SHOPS[0])
    script = script.replace("$$", "$").replace("/var/lib/counterfoil-backups", str(backups))
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "COUNTERFOIL_STORE": str(store)}
    subprocess.run([*backup["entrypoint"], script], env=environment, cwd=tmp_path, check=False)
    assert (tmp_path / "waits").read_text().split() == ["86400"] * 3
    assert (tmp_path / "commands").read_text().splitlines() == [f"backup --keep 14 {backups}"] * 2
    # The second one fails if both are made in the same second, and the loop goes on.
    assert [path for path in backups.iterdir() if (path / "backup.json").exists()]


def test_pip_installs_only_files_whose_hashes_are_known() -> None:
    text = DOCKERFILE.read_text("utf-8").replace("\\\n", "")
    installs = re.findall(r"pip (?:--python \S+ )?install ([^&\n]*)", text)
    assert len(installs) == 3
    assert all("--require-hashes" in words or "--no-index dist/" in words for words in installs)


def test_the_dockerfile_names_the_version_and_only_the_files_that_the_image_needs_reach_the_builder() -> None:
    assert f"ARG VERSION={__version__}\n" in DOCKERFILE.read_text("utf-8")
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    copied = {
        word
        for line in DOCKERFILE.read_text("utf-8").splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    }
    assert rules[0] == "*"
    assert {rule.removeprefix("!") for rule in rules if rule.startswith("!")} == copied
