"""Project rules that no linter checks."""

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from slowest_files import SLOWEST_FIRST

ROOT = Path(__file__).parents[2]
SOURCE_FOLDERS = sorted((ROOT / "packages").glob("*/src"))
SOURCES = sorted(path for folder in SOURCE_FOLDERS for path in folder.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LONGEST = 700
# Lets time pass. `asyncio.sleep(0)` only lets other tasks run.
PAUSE = re.compile(r"\b(time|asyncio)\.sleep\((?!0\))|from time import .*\bsleep\b|\blatency\(|[\"']sleep [0-9]")
WALL_CLOCK = re.compile(r"\btime\.(time|time_ns|localtime|gmtime)\b|\bdatetime\.(now|utcnow|today)\(|\bdate\.today\(")
MOCK = re.compile(r"\b(import|from) (unittest\.)?mock\b|\bmocker\b")
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "manager", "service", "services", "common", "base", "misc"}
SENTENCE = 3
BACK_END = "counterfoil.backends.postgres"


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_a_source_file_has_at_most_700_lines() -> None:
    assert [named(path) for path in SOURCES if len(path.read_text("utf-8").splitlines()) > LONGEST] == []


def test_no_module_has_a_meaningless_name() -> None:
    modules = [*SOURCES, *TESTS, *(path.parent for path in SOURCES)]
    assert [named(path) for path in modules if path.stem.strip("_") in EMPTY_NAMES] == []


def test_the_files_that_run_first_exist() -> None:
    assert {ROOT / "tests" / name for name in SLOWEST_FIRST} <= set(TESTS)


def test_no_test_sleeps() -> None:
    """Tests wait for conditions with `waiting.until`. Only a simulated network may be slow on purpose."""
    slow = {ROOT / "tests" / "waiting.py", ROOT / "tests" / "faults" / "proxy.py", Path(__file__)}
    assert [named(path) for path in TESTS if path not in slow and PAUSE.search(path.read_text("utf-8"))] == []


def test_the_wall_clock_is_read_in_one_module() -> None:
    """The client does not import the service, so it has its own default clock, `time.time`."""
    readers = [named(path) for path in SOURCES if WALL_CLOCK.search(path.read_text("utf-8"))]
    assert readers == [
        "packages/client/src/counterfoil/client/api.py",
        "packages/client/src/counterfoil/program/clock.py",
    ]


def test_each_class_name_is_defined_once() -> None:
    defined: dict[str, list[str]] = {}
    for path in SOURCES:
        for name in re.findall(r"^ *class (\w+)", path.read_text("utf-8"), re.MULTILINE):
            defined.setdefault(name, []).append(named(path))
    assert {name: paths for name, paths in defined.items() if len(paths) > 1} == {}


def test_no_test_mocks() -> None:
    assert [named(path) for path in TESTS if path != Path(__file__) and MOCK.search(path.read_text("utf-8"))] == []


def test_the_name_of_a_test_is_a_sentence() -> None:
    names = re.compile(r"^ *(?:async )?def test_(\w+)", re.MULTILINE)
    tests = [name for path in TESTS for name in names.findall(path.read_text("utf-8"))]
    assert len(tests) > 1_000
    assert [name for name in tests if len(name.split("_")) < SENTENCE] == []


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "ports").glob("test_*.py")), ids=named)
def test_no_back_end_may_opt_out_of_the_port_suite(path: Path) -> None:
    """Every test in the port suite uses the `store` fixture or a fixture that depends on it. No test is skipped."""
    on_a_store = re.compile("(open_|shop_|key_)?store|cursors|holding|usage|meter|reads|log|ring")
    text = path.read_text("utf-8")
    tests = [node for node in ast.parse(text).body if getattr(node, "name", "").startswith("test_")]
    for test in tests:
        assert isinstance(test, ast.FunctionDef)
        assert any(on_a_store.fullmatch(argument.arg) for argument in test.args.args), test.name
    assert not re.search(r"\bskip|\bxfail|importorskip", text)
    assert "sqlite" not in text.lower(), "a port test names a back end"


def forbidden_imports() -> list[dict[str, Any]]:
    """Return the contracts that forbid imports."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    return [contract for contract in contracts if contract["type"] == "forbidden"]


def modules_of(package: str) -> set[str]:
    """Return the modules and packages that a distribution has in the namespace."""
    entries = (ROOT / "packages" / package / "src" / "counterfoil").iterdir()
    return {f"counterfoil.{entry.stem}" for entry in entries if entry.stem not in ("__main__", "__pycache__")}


@pytest.mark.parametrize("package", ["client", "importer", "server"])
def test_the_contract_of_a_package_names_all_its_modules(package: str) -> None:
    (contract,) = [found for found in forbidden_imports() if found["name"].startswith(f"The package of the {package} ")]
    assert set(contract["source_modules"]) == modules_of(package)


def test_the_importer_and_the_client_may_import_no_module_of_the_server() -> None:
    for package in ("client", "importer"):
        contracts = [
            found for found in forbidden_imports() if found["name"].startswith(f"The package of the {package} ")
        ]
        assert modules_of("server") - set(contracts[0]["forbidden_modules"]) == set()


def test_every_module_of_the_postgresql_back_end_is_in_one_contract() -> None:
    drivers = [contract for contract in forbidden_imports() if "on PostgreSQL" in contract["name"]]
    listed = [module for contract in drivers for module in contract["source_modules"]]
    files = (ROOT / "packages" / "server" / "src" / "counterfoil" / "backends" / "postgres").glob("*.py")
    assert sorted(name for name in listed if name.startswith(BACK_END)) == sorted(
        f"{BACK_END}.{file.stem}" for file in files if file.stem != "__init__"
    )
