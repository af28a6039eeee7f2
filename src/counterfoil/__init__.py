"""Counterfoil: a restaurant group's shops, bills and loyalty members, read over HTTP."""

__version__ = "0.9.0"
"""Version of this package: the program, its client and its commands. Set here only; the build reads it."""

API_VERSION = "1.4.0"
"""Version of the published API; the same as `info.version` and the newest entry of the changelog."""
