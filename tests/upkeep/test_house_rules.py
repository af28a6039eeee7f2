"""Rules of the project that a linter does not check."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LONGEST = 450
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "manager", "service", "services", "common", "base", "misc"}
SENTENCE = 3


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def calls_and_imports(path: Path) -> set[str]:
    """Every dotted name that a file imports or calls, as written."""
    tree = ast.parse(path.read_text("utf-8"))
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                names |= {alias.name for alias in aliases}
            case ast.ImportFrom(module=module, names=aliases):
                names |= {f"{module}.{alias.name}" for alias in aliases} | {str(module)}
            case ast.Call(func=function):
                names.add(ast.unparse(function))
            case ast.FunctionDef(args=arguments) | ast.AsyncFunctionDef(args=arguments):
                names |= {f"argument {argument.arg}" for argument in arguments.args}
    return names


def written_in(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(path.read_text("utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [function for function in functions if function.name.startswith("test_")]


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_a_source_file_has_at_most_450_lines(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= LONGEST


def test_no_module_has_a_name_that_says_nothing() -> None:
    modules = [*SOURCES, *TESTS, *(path.parent for path in SOURCES)]
    assert [named(path) for path in modules if path.stem.strip("_") in EMPTY_NAMES] == []


def test_no_test_sleeps() -> None:
    sleeping = {"time.sleep", "sleep"}
    tests = [path for path in TESTS if path.name != "waiting.py"]
    assert [named(path) for path in tests if sleeping & calls_and_imports(path)] == []


def test_no_test_mocks() -> None:
    mocking = {"unittest.mock", "mock", "pytest_mock", "argument mocker"}
    assert [named(path) for path in TESTS if mocking & calls_and_imports(path)] == []


@pytest.mark.parametrize("path", [path for path in TESTS if path.name.startswith("test_")], ids=named)
def test_the_name_of_a_test_is_a_sentence(path: Path) -> None:
    short = [test.name for test in written_in(path) if len(test.name.removeprefix("test_").split("_")) < SENTENCE]
    assert short == []


def test_test_names_are_unique_in_their_file() -> None:
    """The later one would silently replace the earlier."""
    for path in TESTS:
        names = [test.name for test in written_in(path)]
        assert sorted(set(names)) == sorted(names), named(path)


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "ports").glob("test_*.py")), ids=named)
def test_no_back_end_may_opt_out_of_the_port_suite(path: Path) -> None:
    """Every test there takes the store, or something that is opened on it, and none is skipped or bound to fail."""
    for test in written_in(path):
        assert {argument.arg for argument in test.args.args} & {"store", "open_store", "cursors"}, test.name
    text = path.read_text("utf-8")
    assert not re.search(r"\bskip|\bxfail|importorskip", text)
    assert "sqlite" not in text.lower(), "a test of the ports names a back end"
