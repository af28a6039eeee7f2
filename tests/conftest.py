import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from empty_copy import connection_to_shared_database
from forked_workers import ForkedWorkers
from running_service import DEPLOYMENTS, RunningService, backend_settings
from slowest_files import SLOWEST_FIRST

IN_MEMORY = Path("/dev/shm")  # noqa: S108 - new folders are created in it
ENOUGH_BYTES = 2_000_000_000
# With Python's default threshold of 700 objects, garbage collection took a fifth of the tests' processor time.
OBJECTS_BETWEEN_COLLECTIONS = 10_000


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=1, help="number of processes that run the tests")


def pytest_configure(config: pytest.Config) -> None:
    if _is_test_process(config):
        # Registered first, so it runs after the servers of the tests were stopped.
        atexit.register(_end_at_once)
    elif config.option.workers > 1:
        config.pluginmanager.register(ForkedWorkers(config, config.option.workers))
    # Nearly all objects created while tests are collected are needed until the end, so there is little garbage to find.
    gc.disable()
    # These health checks would fail: a busy machine generates examples slowly, and all examples of a test share one
    # store.
    tolerated = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    # The daily suite tries the same examples each time, so that it fails only for a change; make test-long explores.
    same = "COUNTERFOIL_TEST_EXPLORE" not in os.environ
    examples = 60 if same else 200
    settings.register_profile(
        "counterfoil", suppress_health_check=tolerated, deadline=None, derandomize=same, max_examples=examples
    )
    settings.load_profile("counterfoil")
    # Hypothesis also tries constants that it reads from the source of all imported modules. Its examples would change
    # with any module and with the order of the tests, and in a new clone, each process would read for two seconds.
    if same:
        providers._get_local_constants = Constants
    # A shell without job control starts background jobs with SIGINT ignored, and the commands that a test interrupts
    # would inherit that setting.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # A client takes longer to load all certificate authorities than to send its requests. Tests do not connect over
    # HTTPS, so clients get a folder without certificates.
    os.environ.pop("SSL_CERT_FILE", None)
    os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)
    # Creating and filling a store waits for the disk about thirty times, and tests create thousands of stores, so keep
    # them in memory if possible. So does the importer with its temporary files, and PostgreSQL with its databases.
    if _can_keep_files_in_memory():
        os.environ.setdefault("TMPDIR", str(IN_MEMORY))
        tempfile.tempdir = None


def _can_keep_files_in_memory() -> bool:
    if not IN_MEMORY.is_dir() or shutil.disk_usage(IN_MEMORY).free <= ENOUGH_BYTES:
        return False
    # Valkey is started from its temporary folder, and containers may forbid that.
    return not os.statvfs(IN_MEMORY).f_flag & os.ST_NOEXEC


def _is_test_process(config: pytest.Config) -> bool:
    """Return whether pytest-xdist started this process to run tests. Its exit status is not used."""
    return hasattr(config, "workerinput")


def _end_at_once() -> None:
    """End the process without releasing all of its objects, which takes more than a second of processor time."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests = Path(__file__).parent
    places = {tests / name: place for place, name in enumerate(SLOWEST_FIRST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_collection_finish(session: pytest.Session) -> None:
    # Frozen objects are not examined again, so a garbage collection looks only at objects that are created later.
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    gc.enable()

    # Otherwise DuckDB would report at exit that its objects were never released. Not earlier, because pytest collects
    # garbage twice after the last test, and each time would examine all objects.
    if not _is_test_process(session.config):
        atexit.register(gc.unfreeze)


@pytest.fixture(scope="session", autouse=True)
def _one_core() -> Iterator[None]:
    """Let commands in this process load as on one core, because a fork of it takes longer than a small load."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("counterfoil.cli.load_run.free_cores", lambda: 0)
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_converter() -> Iterator[None]:
    """Let copies in SQLite and PostgreSQL parse responses with one DuckDB. Programs that tests start open their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("counterfoil.client.sinks.json_rows.in_memory_database", connection_to_shared_database)
        yield


@pytest.fixture(params=DEPLOYMENTS)
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningService]:
    """An empty deployment on each back end in turn."""
    with backend_settings(request.param) as place:
        service = RunningService(tmp_path, **place)
        yield service
        service.close()
