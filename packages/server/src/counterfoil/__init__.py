"""Counterfoil: a read-only HTTP API for a restaurant group's shops, bills and loyalty members."""

__version__ = "1.0.0"
"""Version of this package: the program, its client and its commands. It is set only here; the build reads it."""

API_VERSION = "1.4.0"
"""Version of the published API: `info.version` in the OpenAPI document, and the newest in CHANGELOG.md."""
