"""Imports httpx without its command line, which needs rich and pygments and takes as long to import as httpx itself."""

import sys

COMMAND_LINE = "httpx._main"

# With None in `sys.modules`, importing the module fails, and httpx then works without it.
_is_first_import = "httpx" not in sys.modules
if _is_first_import:
    sys.modules[COMMAND_LINE] = None  # type: ignore[assignment]  # Python allows None, but its type stubs do not.
import httpx  # noqa: E402 - must follow the statement above

if _is_first_import:
    del sys.modules[COMMAND_LINE]

__all__ = ["httpx"]
