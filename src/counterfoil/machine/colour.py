"""Decides whether output may use colours."""

import os


def wants_colour() -> bool:
    """Return whether the user allows colours, which NO_COLOR turns off (see no-color.org)."""
    return not os.environ.get("NO_COLOR")


def is_colourful(descriptor: int) -> bool:
    """Return whether a descriptor is a terminal that supports colours, and the user has not turned them off."""
    return os.isatty(descriptor) and wants_colour() and os.environ.get("TERM") != "dumb"
