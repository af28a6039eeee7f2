"""The promise, under whatever hypothesis can think of."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from house import site
from sync.machine import Machine
from sync.premises import OpenPremises, Premises, SharedPremises
from sync.replicas import LaggingMachine


class MachineOverHttp(Machine):
    def open_premises(self) -> Premises:
        return OpenPremises(self.folder, self.parts)


class MachineOnPostgres(Machine):
    """The same on a real server, with a database for each example."""

    def open_premises(self) -> Premises:
        self.site = site("postgres")
        return SharedPremises(self.folder, self.parts, **self.site.__enter__())

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.site.__exit__(None, None, None)


def run(machine: type[Machine], examples: int, steps: int) -> None:
    search = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=search)


def test_every_copy_is_what_the_service_holds_after_each_quiet_point() -> None:
    run(Machine, examples=8, steps=25)


def test_the_same_holds_over_http() -> None:
    run(MachineOverHttp, examples=2, steps=15)


def test_the_same_holds_with_replicas_that_lag() -> None:
    run(LaggingMachine, examples=4, steps=25)


@pytest.mark.long
def test_the_same_holds_with_replicas_that_lag_over_ten_thousand_steps() -> None:
    run(LaggingMachine, examples=250, steps=50)


@pytest.mark.long
def test_every_copy_is_what_the_service_holds_over_ten_thousand_steps() -> None:
    run(Machine, examples=250, steps=50)


def test_the_same_holds_on_postgresql() -> None:
    run(MachineOnPostgres, examples=2, steps=15)


@pytest.mark.long
def test_the_same_holds_on_postgresql_over_ten_thousand_steps() -> None:
    run(MachineOnPostgres, examples=250, steps=50)


@pytest.mark.long
def test_the_same_holds_over_http_at_length() -> None:
    run(MachineOverHttp, examples=25, steps=50)
