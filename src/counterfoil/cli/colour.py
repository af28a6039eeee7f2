"""Decides whether output may use colours."""

import os


def wants_colour() -> bool:
    """Return whether output may use colours. It may not if NO_COLOR is set (see no-color.org)."""
    return not os.environ.get("NO_COLOR")
