"""The Dockerfile passes hadolint, the Compose files are valid and hardened, and all are consistent with the package."""

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
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert set(service.get("environment", {})) <= known
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@pytest.mark.parametrize("file", COMPOSE, ids=lambda file: file.name)
def test_the_service_starts_after_init_because_it_never_creates_a_store(file: Path) -> None:
    found = services(file)
    assert found["init"]["command"] == ["init"]
    assert found["serve"]["depends_on"]["init"] == {"condition": "service_completed_successfully"}


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
