"""Tests that the internals of Granian that `serving/server.py` depends on have not changed."""

import inspect

from granian import Granian
from granian._signals import set_loop_signals
from granian.server.mp import MPServer

from counterfoil.serving.server import _PersistentServer


def test_workers_are_replaced_through_the_same_method_as_in_granian() -> None:
    ours, theirs = (inspect.signature(server._respawn_workers) for server in (_PersistentServer, Granian))
    assert list(ours.parameters) == list(theirs.parameters)


def test_granian_still_has_the_attributes_that_report_a_dead_worker() -> None:
    server = Granian("x", workers=1)
    assert (server.interrupt_children, server.respawned_wrks, server.interrupt_signal) == ([], {}, False)
    assert not server.main_loop_interrupt.is_set()


def test_granian_still_takes_the_stop_signal_of_a_worker_from_the_same_function() -> None:
    assert "from granian._signals import set_loop_signals" in inspect.getsource(MPServer._spawn_rsgi_worker)
    assert list(inspect.signature(set_loop_signals).parameters) == ["loop"]


def test_granian_still_stops_its_workers_through_the_same_method() -> None:
    ours, theirs = (inspect.signature(server._stop_workers) for server in (_PersistentServer, Granian))
    assert list(ours.parameters) == list(theirs.parameters)
