"""The versions of the program and of the API."""

__version__ = "1.0.0"
"""Version of the three packages. Each pyproject.toml has it too, and a test compares them."""

API_VERSION = "1.4.0"
"""Version of the published API: `info.version` in the OpenAPI document, and the newest in CHANGELOG.md."""
