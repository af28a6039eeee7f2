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


@pytest.mark.parametrize(
    ("machine", "examples", "steps"),
    [
        pytest.param(SyncMachine, 3, 20, id="in-process"),
        pytest.param(LaggingReplicaMachine, 3, 20, id="from lagging replicas"),
        pytest.param(SyncMachineOverHttp, 2, 15, id="over HTTP", marks=pytest.mark.long),
        pytest.param(SyncMachineOnPostgres, 2, 15, id="on PostgreSQL", marks=pytest.mark.long),
        pytest.param(SyncMachine, 250, 50, id="ten thousand steps", marks=pytest.mark.long),
        pytest.param(LaggingReplicaMachine, 250, 50, id="ten thousand, from replicas", marks=pytest.mark.long),
        pytest.param(SyncMachineOnPostgres, 250, 50, id="ten thousand, on PostgreSQL", marks=pytest.mark.long),
        pytest.param(SyncMachineOverHttp, 25, 50, id="many steps over HTTP", marks=pytest.mark.long),
    ],
)
def test_every_copy_equals_the_service_at_each_quiet_point(
    machine: type[SyncMachine], examples: int, steps: int
) -> None:
    search = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=search)
