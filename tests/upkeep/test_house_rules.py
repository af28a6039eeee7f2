"""Project rules that no linter checks."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from slowest_files import SLOWEST_FIRST
from upkeep.pauses import pauses

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LONGEST = 700
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "manager", "service", "services", "common", "base", "misc"}
SENTENCE = 3
# Functions that always read the wall clock.
WALL_CLOCK = {
    "time.time",
    "time.time_ns",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
}
# A file that imports neither `time` nor `datetime` cannot read the wall clock. Such files are not parsed, to save time.
IMPORTS_A_CLOCK = re.compile(r"^ *(from|import)\b.*\b(time|datetime)\b", re.MULTILINE)
# Functions that read the wall clock unless they are given a time to convert, each with the position of that argument.
WITHOUT_A_TIME = {"time.localtime": 0, "time.gmtime": 0, "time.ctime": 0, "time.asctime": 0, "time.strftime": 1}


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def calls_and_imports(path: Path) -> set[str]:
    """Return the dotted names that a file imports or calls, and the names of its functions' arguments."""
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


def wall_clock_reads(source: str) -> list[str]:
    """Return the qualified names of the wall-clock functions that this source calls or refers to."""
    if not IMPORTS_A_CLOCK.search(source):
        return []
    tree = ast.parse(source)
    full_names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            full_names |= {alias.asname or alias.name: alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            full_names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}

    def full_name(node: ast.AST) -> str:
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        first = node.id if isinstance(node, ast.Name) else ""
        return ".".join([full_names.get(first, first), *reversed(names)])

    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and (name := full_name(node)) in WALL_CLOCK:
            found.append(name)
        if isinstance(node, ast.Call) and len(node.args) <= WITHOUT_A_TIME.get(name := full_name(node.func), -1):
            found.append(name)
    return found


@cache
def written_in(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    text = path.read_text("utf-8")
    if "def test_" not in text:
        return []
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [function for function in functions if function.name.startswith("test_")]


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_a_source_file_has_at_most_700_lines(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= LONGEST


def test_no_module_has_a_meaningless_name() -> None:
    modules = [*SOURCES, *TESTS, *(path.parent for path in SOURCES)]
    assert [named(path) for path in modules if path.stem.strip("_") in EMPTY_NAMES] == []


def test_the_files_that_run_first_exist() -> None:
    assert {ROOT / "tests" / name for name in SLOWEST_FIRST} <= set(TESTS)


def test_no_test_sleeps() -> None:
    """Tests wait for conditions with `waiting.until`. Only a simulated network may be slow on purpose."""
    slow = {ROOT / "tests" / "waiting.py", ROOT / "tests" / "faults" / "proxy.py"}
    tests = [path for path in TESTS if path not in slow]
    assert {named(path): found for path in tests if (found := pauses(path.read_text("utf-8")))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "time.sleep(1)",
        "time.sleep(delay)",
        "from time import sleep",
        "await asyncio.sleep(0.01)",
        "await asyncio.sleep(delay)",
        "threading.Event().wait(0.1)",
        "await asyncio.wait({asyncio.ensure_future(asyncio.Event().wait())}, timeout=0.2)",
        "await asyncio.wait_for(asyncio.Event().wait(), 1)",
        "never = Event()\nnever.wait(timeout=1)",
        "select.select([], [], [], 0.5)",
        "signal.sigtimedwait([signal.SIGUSR1], 1)",
        "subprocess.run(['sleep', '1'])",
        "os.system('sleep 1')",
        "with suppress(subprocess.TimeoutExpired):\n    process.wait(1)",
        "await latency(1)",
    ],
)
def test_a_pause_in_any_form_is_found(source: str) -> None:
    assert pauses(source) != []


@pytest.mark.parametrize(
    "source",
    [
        "await asyncio.sleep(0)",
        "until(lambda: process.poll() == 0, 'it ended')",
        "assert process.wait(10) == 0",
        "started = Event()\nassert started.wait(5)",
        "stop = Event()\nwhile not stop.wait(0.1):\n    ask()",
        "select.select([caller], [], [], 0)",
        "subprocess.run(['counterfoil', 'load'])",
    ],
)
def test_waiting_for_a_condition_is_not_a_pause(source: str) -> None:
    assert pauses(source) == []


def test_the_wall_clock_is_read_in_one_module() -> None:
    """The client does not import the service, so it has its own default clock, `time.time`."""
    readers = {named(path): found for path in SOURCES if (found := wall_clock_reads(path.read_text("utf-8")))}
    assert readers.pop("src/counterfoil/machine/clock.py") != []
    assert readers.pop("src/counterfoil/client/api.py") == ["time.time"]
    assert readers == {}


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "import time\nrun(clock=time.time)",
        "from time import time_ns\ntime_ns()",
        "from datetime import datetime\ndatetime.now(UTC)",
        "import datetime\ndatetime.datetime.utcnow()",
        "from datetime import date\ndate.today()",
        "import time as t\nt.localtime()",
        "import time\ntime.gmtime()",
        "import time\ntime.strftime('%Y')",
        "from time import gmtime as utc\nutc()",
    ],
)
def test_every_way_to_read_the_wall_clock_is_found(source: str) -> None:
    assert wall_clock_reads(source) != []


@pytest.mark.parametrize("source", ["import time\ntime.monotonic()", "import time\ntime.gmtime(0)", "clock.now_ms()"])
def test_other_clocks_and_conversions_are_allowed(source: str) -> None:
    assert wall_clock_reads(source) == []


def test_each_class_name_is_defined_once() -> None:
    """The client's models may share the names of the resources that they represent."""
    defined: dict[str, list[str]] = {}
    for path in SOURCES:
        for name in re.findall(r"^ *class (\w+)", path.read_text("utf-8"), re.MULTILINE):
            defined.setdefault(name, []).append(named(path))
    allowed = ["src/counterfoil/client/models.py", "src/counterfoil/domain/resources.py"]
    assert {name: paths for name, paths in defined.items() if len(paths) > 1 and paths != allowed} == {}


def test_no_test_mocks() -> None:
    mocking = {"unittest.mock", "mock", "pytest_mock", "argument mocker"}
    suspects = [path for path in TESTS if "mock" in path.read_text("utf-8")]
    assert [named(path) for path in suspects if mocking & calls_and_imports(path)] == []


@pytest.mark.parametrize("path", [path for path in TESTS if path.name.startswith("test_")], ids=named)
def test_the_name_of_a_test_is_a_sentence(path: Path) -> None:
    short = [test.name for test in written_in(path) if len(test.name.removeprefix("test_").split("_")) < SENTENCE]
    assert short == []


def test_test_names_are_unique_in_their_file() -> None:
    """Otherwise a later test would silently replace an earlier test with the same name."""
    for path in TESTS:
        names = [test.name for test in written_in(path)]
        assert sorted(set(names)) == sorted(names), named(path)


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "ports").glob("test_*.py")), ids=named)
def test_no_back_end_may_opt_out_of_the_port_suite(path: Path) -> None:
    """Every test in the port suite uses the `store` fixture or a fixture that depends on it. No test is skipped."""
    for test in written_in(path):
        assert {argument.arg for argument in test.args.args} & {"store", "open_store", "cursors"}, test.name
    text = path.read_text("utf-8")
    assert not re.search(r"\bskip|\bxfail|importorskip", text)
    assert "sqlite" not in text.lower(), "a port test names a back end"
