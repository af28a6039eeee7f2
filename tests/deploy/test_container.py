"""The Dockerfile passes hadolint, the Compose files are valid and hardened, and all are consistent with the package."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from counterfoil import __version__
from counterfoil.settings import TABLE
from deploy.programs import DEPLOY, ROOT, needs_script, output_of, script

pytestmark = pytest.mark.programs

CONTAINER = DEPLOY / "container"
DOCKERFILE = CONTAINER / "Dockerfile"
COMPOSE = sorted(CONTAINER.glob("compose*.yaml"))


def services(file: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(file.read_text("utf-8"))["services"]
    return found


@needs_script("hadolint")
def test_hadolint_finds_nothing_wrong_with_the_dockerfile() -> None:
    assert output_of(script("hadolint"), DOCKERFILE) == ""


@needs_script("check-jsonschema")
def test_the_compose_files_are_valid_according_to_the_schema_of_compose() -> None:
    output_of(script("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", *COMPOSE)


@pytest.mark.parametrize("file", COMPOSE, ids=lambda file: file.name)
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


@pytest.mark.parametrize("file", COMPOSE, ids=lambda file: file.name)
def test_the_service_starts_after_init_because_it_never_creates_a_store(file: Path) -> None:
    found = services(file)
    assert found["init"]["command"][0] == "init"
    assert found["serve"]["depends_on"]["init"] == {"condition": "service_completed_successfully"}


@pytest.mark.parametrize("file", COMPOSE, ids=lambda file: file.name)
def test_what_reads_deliveries_has_a_user_of_its_own_and_no_secret_in_its_environment(file: Path) -> None:
    found = [service for service in services(file).values() if service.get("command", [""])[0] == "load"]
    assert found
    for service in found:
        assert service["user"] == "10002:10002"
        # A variable that is replaced from .env would be a secret.
        assert not [value for value in service["environment"].values() if "$" in value]
        volumes = dict(reversed(volume.split(":")) for volume in service["volumes"])
        assert volumes["/var/spool/counterfoil/incoming"] != volumes[service["environment"]["COUNTERFOIL_KEPT"]]


def test_pip_installs_only_files_whose_hashes_are_known() -> None:
    text = DOCKERFILE.read_text("utf-8").replace("\\\n", "")
    installs = re.findall(r"pip (?:--python \S+ )?install ([^&\n]*)", text)
    assert len(installs) == 3
    assert all("--require-hashes" in words or "--no-index dist/" in words for words in installs)


def test_the_dockerfile_names_the_version_of_the_package() -> None:
    assert f"ARG VERSION={__version__}\n" in DOCKERFILE.read_text("utf-8")


def test_only_the_files_that_the_image_needs_reach_the_builder() -> None:
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
