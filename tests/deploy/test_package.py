"""Tests for the wheel and the source archive: contents, reproducible builds, and a working installation."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from counterfoil.model.version import API_VERSION, __version__
from deploy.programs import PACKAGES, ROOT, needs_package, output_of, script, wheels_of
from waiting import until

BUILT_FROM = ("packages", "deploy", "docs", "CHANGELOG.md", "constraints.txt")
NEVER = re.compile(r"(^|/)(tests?|bench|__pycache__|\.git[^/]*|\.venv|secrets?)(/|$)|\.(pyc|sqlite3|env)$")
STAMP = "1790000000"
# mypy --strict accepts this program only if the types are exact: it reports a `type: ignore` that suppresses no error.
TYPED_PROGRAM = """
from decimal import Decimal
from typing import assert_type

from counterfoil.client import Bill, Client, Member, Page, QuotaSpent, Refusal, Shop


def revenue(api: Client, shop: Shop) -> Decimal:
    total = Decimal(0)
    for bill in api.bills(shop["shopId"], updated_since="1970-01-01T00:00:00Z"):
        assert_type(bill, Bill)
        assert_type(bill["amounts"]["net"], Decimal | None)
        bill["amounts"]["net"] + 1  # type: ignore[operator]
        total += (bill["amounts"]["net"] or Decimal(0)) - (bill["amounts"]["tip"] or Decimal(0))
        for payment in bill["payments"]:
            assert_type(payment["change"], Decimal | None)
        for item in bill["items"]:
            assert_type(item["qty"], Decimal | None)
            item["cost"]  # type: ignore[typeddict-item]
    return total


def read(url: str, key: str) -> Decimal:
    with Client(url, key) as api:
        page = api.shop_page()
        assert_type(page, Page[Shop])
        api.bills(page)  # type: ignore[arg-type]
        try:
            return sum((revenue(api, shop) for shop in page.data), Decimal(0))
        except QuotaSpent:
            return Decimal(0)
        except Refusal as refusal:
            assert_type(refusal.code, str)
            raise


def points(api: Client, provider_id: str) -> Decimal:
    total = Decimal(0)
    for member in api.members(provider_id):
        assert_type(member, Member)
        assert_type(member["points"], Decimal)
        member["points"] * 0.5  # type: ignore[operator]
        total += member["points"]
    return total
"""

pytestmark = [pytest.mark.programs, needs_package("hatchling")]


def clone(folder: Path) -> Path:
    """Copy the files that the package is built from, with new modification times; return the folder."""
    folder.mkdir()
    for name in BUILT_FROM:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, copy_function=shutil.copy, ignore=shutil.ignore_patterns("*.pyc"))
        else:
            shutil.copy(source, folder / name)
    return folder


def build(source: Path, *builder: str) -> tuple[Path, Path]:
    """Build the server's package with this builder; return the source archive and the wheel."""
    environment = os.environ | {"SOURCE_DATE_EPOCH": STAMP, "HATCH_BUILD_HOOK_ENABLE_CUSTOM": "1"}
    server = source / "packages" / "server"
    output_of(sys.executable, "-m", *builder, cwd=server, env=environment)
    (archive,), (wheel,) = (server / "dist").glob("*.tar.gz"), (server / "dist").glob("*.whl")
    return archive, wheel


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source archive and the wheel."""
    source = clone(tmp_path_factory.mktemp("package") / "clone")
    return build(source, "hatchling", "build", "-t", "sdist", "-t", "wheel")


@pytest.fixture
def wheel(built: tuple[Path, Path]) -> Path:
    return built[1]


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as opened:
        return set(opened.namelist())


def test_the_wheel_contains_all_files_that_the_package_reads_and_the_manual_pages_where_man_finds_them(
    wheel: Path,
) -> None:
    folder = ROOT / "packages" / "server" / "src"
    files = [file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    sources = {str(file.relative_to(folder)) for file in files}
    names = names_in(wheel)
    assert sources <= names
    manual = f"counterfoil-{__version__}.data/data/share/man/man1"
    assert {f"{manual}/counterfoil.1", f"{manual}/counterfoil-keys-issue.1"} <= names
    assert {Path(name).suffix for name in sources} >= {".py", ".sql", ".lua", ".json"}


def test_neither_archive_contains_tests_benchmarks_or_a_store(built: tuple[Path, Path]) -> None:
    archive, wheel = built
    with tarfile.open(archive) as opened:
        held = opened.getnames()
    assert [name for name in [*held, *names_in(wheel)] if NEVER.search(name)] == []
    assert any(name.endswith("/deploy/systemd/counterfoil.service") for name in held)


def test_the_wheel_declares_its_version_its_licence_and_its_types(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Metadata.from_email(opened.read(name), validate=True)
    assert str(metadata.version) == __version__
    assert str(metadata.version) != API_VERSION
    assert metadata.license_expression == "Apache-2.0"
    assert "Typing :: Typed" in (metadata.classifiers or [])
    assert metadata.description_content_type == "text/markdown"
    assert set(metadata.provides_extra or []) == {"cluster", "mcp", "mysql", "pull"}


def test_no_file_belongs_to_two_of_the_packages_and_their_versions_are_the_same(tmp_path: Path) -> None:
    wheels = wheels_of(PACKAGES, tmp_path)
    owners = Counter(name for wheel in wheels for name in names_in(wheel))
    assert [name for name, count in owners.items() if count > 1] == []
    projects = [tomllib.loads((package / "pyproject.toml").read_text("utf-8"))["project"] for package in PACKAGES]
    assert {project["version"] for project in projects} == {__version__}
    pins = {text for project in projects for text in project["dependencies"] if text.startswith("counterfoil")}
    assert pins == {f"counterfoil-client=={__version__}", f"counterfoil-importer=={__version__}"}
    licences = {(package / "LICENSE").read_bytes() for package in PACKAGES}
    assert licences == {(ROOT / "LICENSE").read_bytes()}


@pytest.mark.long
@needs_package("check_wheel_contents")
@needs_package("twine")
def test_the_checks_of_the_package_index_accept_both_archives(built: tuple[Path, Path]) -> None:
    archive, wheel = built
    output_of(script("check-wheel-contents"), wheel)
    said = output_of(script("twine"), "--no-color", "check", "--strict", archive, wheel)
    assert said.count("PASSED") == 2


@pytest.mark.long
@needs_package("build")
def test_another_builder_at_another_time_and_place_produces_the_same_bytes(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    again = clone(tmp_path / "another-place")
    for file in again.rglob("*"):
        os.utime(file, (1_000_000_000, 1_000_000_000))
    rebuilt = build(again, "build", "--no-isolation", "--sdist", "--wheel")
    assert [file.read_bytes() for file in rebuilt] == [file.read_bytes() for file in built]


def test_a_typed_program_passes_mypy_strict_against_the_installed_wheel(tmp_path: Path) -> None:
    output_of(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    [packages] = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (client,) = wheels_of(PACKAGES[:1], tmp_path / "wheels")
    shutil.unpack_archive(client, packages, "zip")
    # Use the dependencies of this environment. mypy does not follow .pth files in their folder, so it does not find our
    # source folder.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    (tmp_path / "program.py").write_text(TYPED_PROGRAM)
    checked = output_of(
        *(sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", tmp_path / "cache"),
        *("--python-executable", tmp_path / "venv" / "bin" / "python", "program.py"),
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name not in ("MYPYPATH", "PYTHONPATH")},
    )
    assert "no issues found" in checked


@pytest.mark.long
def test_the_demo_works_from_the_wheels_in_an_empty_environment(tmp_path: Path) -> None:
    programs = tmp_path / "venv" / "bin"
    output_of(sys.executable, "-m", "venv", programs.parent)
    command = programs / "counterfoil"
    pip = (programs / "pip", "install", "--quiet", "--disable-pip-version-check")
    clean = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    wheels_of(PACKAGES, tmp_path / "wheels")
    constraint = ("--constraint", ROOT / "constraints.txt")
    output_of(*pip, *constraint, "--find-links", tmp_path / "wheels", "counterfoil")
    version = output_of(command, "--version", cwd=tmp_path, env=clean)
    assert version == f"counterfoil {__version__} (API {API_VERSION})\n"

    words = [str(command), "demo", "--json", "--port", "0", "--bills", "500"]
    quiet = subprocess.DEVNULL
    demo = subprocess.Popen(words, cwd=tmp_path, env=clean, stdout=subprocess.PIPE, stderr=quiet, text=True)
    try:
        assert demo.stdout
        told = json.loads(demo.stdout.readline())
        key = told["keys"][0]["key"]
        curl = ("curl", "--silent", "--fail", "--header", f"Authorization: Bearer {key}", f"{told['baseUrl']}/shops")
        answer = json.loads(until(lambda: subprocess.run(curl, capture_output=True, check=False).stdout, "it answered"))
        assert answer["ok"]
        assert answer["data"]
    finally:
        demo.terminate()
        demo.communicate(timeout=30)


def test_an_earlier_release_in_the_same_environment_is_named(tmp_path: Path) -> None:
    packages = tmp_path / "site-packages"
    shutil.copytree(PACKAGES[0] / "src", packages)
    (packages / "counterfoil" / "__init__.py").write_text('__version__ = "0.9.0"\n', "utf-8")
    command = [sys.executable, "-m", "counterfoil", "--version"]
    environment = os.environ | {"PYTHONPATH": str(packages)}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "an earlier release is installed beside this one" in done.stderr
