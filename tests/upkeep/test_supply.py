"""Package lists pin every package by hash, use the same versions as development, and name no hosts."""

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from upkeep.audit import audited

ROOT = Path(__file__).parents[2]
REQUIREMENTS = (ROOT / "deploy" / "requirements.txt").read_text("utf-8")


BUILD_REQUIREMENTS = (ROOT / "deploy" / "build-requirements.txt").read_text("utf-8")
LISTS = pytest.mark.parametrize("listed", [REQUIREMENTS, BUILD_REQUIREMENTS], ids=["server", "build"])


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(listed: str = REQUIREMENTS) -> dict[str, str]:
    return {normal(name): version for name, version in re.findall(r"^([\w.-]+)==([\w.]+)", listed, re.M)}


@LISTS
def test_every_package_has_the_version_of_the_constraints(listed: str) -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").split()
    constraints = {normal(name): version for name, _, version in (line.partition("==") for line in lines)}
    assert pinned(listed)
    assert {name: constraints.get(name) for name in pinned(listed)} == pinned(listed)


@LISTS
def test_every_package_has_a_hash(listed: str) -> None:
    packages = re.split(r"^(?=[\w.-]+==)", listed, flags=re.M)[1:]
    assert len(packages) == len(pinned(listed))
    assert [package for package in packages if "--hash=sha256:" not in package] == []


@LISTS
def test_the_list_names_no_host_and_no_options_except_hashes(listed: str) -> None:
    assert "://" not in listed
    options = set(re.findall(r"^\s+--([\w-]+)", listed, re.M))
    assert options == {"hash"}
    assert not re.search(r"^-", listed, re.M)


def test_all_direct_dependencies_of_a_server_are_listed() -> None:
    named = set()
    for package in ("client", "importer", "server"):
        text = (ROOT / "packages" / package / "pyproject.toml").read_text("utf-8")
        project = tomllib.loads(text)["project"]
        for requirement in (*project["dependencies"], *project["optional-dependencies"].get("cluster", ())):
            named.add(normal(re.split(r"[^\w.-]", requirement)[0]))
    assert named - {"counterfoil-client", "counterfoil-importer"} <= set(pinned())


def test_npm_packages_have_exact_versions_and_hashes_and_name_no_registry() -> None:
    wanted = json.loads((ROOT / ".ci" / "node" / "package.json").read_text("utf-8"))["devDependencies"]
    locked = json.loads((ROOT / ".ci" / "node" / "package-lock.json").read_text("utf-8"))["packages"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    assert locked.pop("")["devDependencies"] == wanted
    assert {name: locked[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert [name for name, package in locked.items() if not package.get("integrity", "").startswith("sha512-")] == []
    assert [name for name, package in locked.items() if "resolved" in package] == []


@pytest.mark.parametrize(
    ("packages", "status", "told"),
    [
        ([{"name": "a", "version": "1", "vulns": [{"id": "CVE-1"}]}], 1, "a 1: CVE-1"),
        ([{"name": "a", "version": "1", "vulns": []}], 0, "No known vulnerability in 1 packages."),
        ([{"name": "a", "skip_reason": "not found"}], 0, "was skipped"),
        (None, 0, "was skipped"),
    ],
    ids=["vulnerable", "sound", "offline", "no answer"],
)
def test_the_audit_fails_only_on_a_vulnerability(packages: Any, status: int, told: str) -> None:
    answer = json.dumps({"dependencies": packages}) if packages else "no index"
    result = audited([sys.executable, "-c", f"print({answer!r})"])
    assert result[0] == status
    assert told in result[1]
