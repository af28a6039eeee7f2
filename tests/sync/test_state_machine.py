"""Every copy stays correct under any sequence of events that Hypothesis generates."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from running_service import backend_settings
from sync.in_process import InProcessService, InProcessServiceOnPostgres, InProcessServiceOverHttp
from sync.replicas import LaggingReplicaMachine
from sync.state_machine import SyncMachine


class SyncMachineOverHttp(SyncMachine):
    def open_service(self) -> InProcessService:
        return InProcessServiceOverHttp(self.folder, self.parts)


class SyncMachineOnPostgres(SyncMachine):
    """The same state machine, with a service on PostgreSQL. Each example gets an empty database."""

    def open_service(self) -> InProcessService:
        self.backend_settings = backend_settings("postgres")
        return InProcessServiceOnPostgres(self.folder, self.parts, **self.backend_settings.__enter__())

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.backend_settings.__exit__(None, None, None)


def run(machine: type[SyncMachine], examples: int, steps: int) -> None:
    search = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=search)


def test_every_copy_equals_the_service_at_each_quiet_point() -> None:
    run(SyncMachine, examples=3, steps=25)


@pytest.mark.long
def test_every_copy_over_http_equals_the_service() -> None:
    run(SyncMachineOverHttp, examples=2, steps=15)


def test_every_copy_from_lagging_replicas_equals_the_service() -> None:
    run(LaggingReplicaMachine, examples=3, steps=25)


@pytest.mark.long
def test_every_copy_from_lagging_replicas_equals_the_service_over_ten_thousand_steps() -> None:
    run(LaggingReplicaMachine, examples=250, steps=50)


@pytest.mark.long
def test_every_copy_equals_the_service_over_ten_thousand_steps() -> None:
    run(SyncMachine, examples=250, steps=50)


@pytest.mark.long
def test_every_copy_on_postgresql_equals_the_service() -> None:
    run(SyncMachineOnPostgres, examples=2, steps=15)


@pytest.mark.long
def test_every_copy_on_postgresql_equals_the_service_over_ten_thousand_steps() -> None:
    run(SyncMachineOnPostgres, examples=250, steps=50)


@pytest.mark.long
def test_every_copy_over_http_equals_the_service_over_many_steps() -> None:
    run(SyncMachineOverHttp, examples=25, steps=50)
