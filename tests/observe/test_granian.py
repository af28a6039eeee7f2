"""Tests that Granian still has the private attributes that `serving/server.py` uses."""

import inspect

from granian import Granian

from counterfoil.serving.server import _PersistentServer


def test_workers_are_replaced_through_the_same_method_as_in_granian() -> None:
    ours, theirs = (inspect.signature(server._respawn_workers) for server in (_PersistentServer, Granian))
    assert list(ours.parameters) == list(theirs.parameters)


def test_granian_still_has_the_attributes_that_report_a_dead_worker() -> None:
    server = Granian("x", workers=1)
    assert (server.interrupt_children, server.respawned_wrks, server.interrupt_signal) == ([], {}, False)
    assert not server.main_loop_interrupt.is_set()
