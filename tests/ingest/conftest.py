"""Loading runs over every back end, like the port suite."""

from ports.conftest import clock, desk, run, store

__all__ = ["clock", "desk", "run", "store"]
