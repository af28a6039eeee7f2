"""Counterfoil: a restaurant group's shops, bills and loyalty members, read over HTTP."""

API_VERSION = "1.3.0"
"""Version of the published API; the same as `info.version` and the newest entry of the changelog."""
