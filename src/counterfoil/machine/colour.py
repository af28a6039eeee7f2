"""Decides whether output may use colours."""

import os


def wants_colour() -> bool:
    """Return whether output may use colours. It may not if NO_COLOR is set (see no-color.org)."""
    return not os.environ.get("NO_COLOR")


def is_colourful(descriptor: int) -> bool:
    """Return whether a descriptor is a terminal that shows colours, and the user has not turned them off."""
    return os.isatty(descriptor) and wants_colour() and os.environ.get("TERM") != "dumb"
