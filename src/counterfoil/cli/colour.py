"""Decides whether output may use colours."""

import os


def wants_colour() -> bool:
    """Return False if NO_COLOR is set; see no-color.org."""
    return not os.environ.get("NO_COLOR")
