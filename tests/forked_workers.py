"""Runs the tests in several processes, which are forked from one that has collected all of them: `--workers 3`.

pytest-xdist starts processes that each import and collect everything, and sends six
messages for a test. Together that took a tenth of the suite's processor time. Here, a
process takes one file after the other, and sends the reports of a test in one message.
A test that no process has reported makes the run fail.
"""

import atexit
import itertools
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

# A process that runs tests sends this when it wants the number of the next file.
NEXT_FILE = "next file"


class ForkedWorkers:
    """A plugin that runs the collected tests in this number of processes."""

    def __init__(self, config: pytest.Config, count: int) -> None:
        self._config = config
        self._count = count
        self._session: pytest.Session | None = None
        # Registered early, so it runs after the servers of the tests were stopped.
        atexit.register(self._end_at_once)

    def _end_at_once(self) -> None:
        """End the process without releasing all of its objects, which takes more than a second of processor time."""
        if self._session:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self._session.exitstatus)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None
        self._session = session
        files = [list(items) for _, items in itertools.groupby(session.items, lambda item: item.path)]
        unreported = {item.nodeid: item for item in session.items}
        numbers = iter(range(len(files)))
        processes = self._fork(files)
        try:
            while processes:
                for connection in wait([*processes]):
                    assert isinstance(connection, Connection)
                    try:
                        message = connection.recv()
                    except EOFError:
                        processes.pop(connection).join()
                        continue
                    if message == NEXT_FILE:
                        connection.send(next(numbers, None))
                    else:
                        self._report(message, unreported)
                self._stop_early(session)
        finally:
            # A process whose reports nobody reads ends after its test.
            for connection, process in processes.items():
                connection.close()
                process.join()
        if unreported:
            raise session.Interrupted(f"{len(unreported)} tests were not run, because a process ended: {[*unreported]}")
        return True

    def _fork(self, files: list[list[pytest.Item]]) -> dict[Any, ForkProcess]:
        context = get_context("fork")
        folder = self._config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        processes: dict[Any, ForkProcess] = {}
        sys.stdout.flush()
        for number in range(min(self._count, len(files))):
            ours, theirs = context.Pipe()
            others = [*processes, ours]
            arguments = (self._config, files, theirs, others, folder / f"worker{number}")
            process = context.Process(target=_run_files, args=arguments)
            process.start()
            theirs.close()
            processes[ours] = process
        return processes

    def _report(self, reports: list[dict[str, Any]], unreported: dict[str, pytest.Item]) -> None:
        hook = self._config.hook
        first = reports[0]
        test = {"nodeid": first["nodeid"], "location": tuple(first["location"])}
        del unreported[first["nodeid"]]
        hook.pytest_runtest_logstart(**test)
        for data in reports:
            report = hook.pytest_report_from_serializable(config=self._config, data=data)
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(**test)

    def _stop_early(self, session: pytest.Session) -> None:
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)


class _Reporter:
    """A plugin of a forked process, which sends the reports of each test."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        to_data = item.config.hook.pytest_report_to_serializable
        self._connection.send([to_data(config=item.config, report=report) for report in reports])
        return True


def _run_files(
    config: pytest.Config, files: list[list[pytest.Item]], connection: Connection, others: list[Connection], folder: Any
) -> None:
    """Run the tests of one file after the other in this process.

    `others` are ends of connections that the run reads. If this process kept them, it would never learn of its end.
    """
    for other in others:
        other.close()
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    atexit.unregister(factory._exit_stack.close)
    folder.mkdir(mode=0o700)
    factory._basetemp = folder
    # What a test prints must not be captured in a file that is shared with other processes.
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    config.pluginmanager.register(_Reporter(connection))
    # The run has ended early if nobody reads the reports.
    with suppress(KeyboardInterrupt, EOFError, ConnectionError):
        for item, following in itertools.pairwise(itertools.chain(_items(files, connection), [None])):
            assert item is not None
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    connection.close()
    # A forked process would not run them.
    atexit._run_exitfuncs()


def _items(files: list[list[pytest.Item]], connection: Connection) -> Iterator[pytest.Item | None]:
    while True:
        connection.send(NEXT_FILE)
        number = connection.recv()
        if number is None:
            return
        yield from files[number]
