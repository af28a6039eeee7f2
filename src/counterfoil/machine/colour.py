"""Decides whether output may use colours."""

import os


def wants_colour() -> bool:
    """Return whether to use colours. The environment variable NO_COLOR turns them off (see no-color.org)."""
    return not os.environ.get("NO_COLOR")


def is_colourful(descriptor: int) -> bool:
    """Return whether a descriptor is a terminal that supports colours, and the user has not turned them off."""
    return os.isatty(descriptor) and wants_colour() and os.environ.get("TERM") != "dumb"
