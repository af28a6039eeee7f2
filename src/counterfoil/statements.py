"""Reads the SQL statements of a module, which are in the file beside it with the same name and the ending `.sql`."""

import re
from pathlib import Path
from types import SimpleNamespace


def read_statements(module: str, **values: object) -> SimpleNamespace:
    """Return the statements of the module with this file, without their comments.

    A line `-- name: NAME` begins each of them. In a statement, {NAME} stands for one of `values` or for an earlier
    statement. Names in lower case are left for `str.format`.
    """
    # `importlib.resources` would import modules for zip archives and temporary files, which takes 10 ms.
    text = Path(module).with_suffix(".sql").read_text(encoding="utf-8")
    _, *parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    known: dict[str, object] = dict(values)
    for name, statement in zip(parts[::2], parts[1::2], strict=True):
        without_comments = re.sub(r"^ *--.*\n", "", statement, flags=re.MULTILINE).strip()
        known[name] = re.sub(r"\{([A-Z_]+)\}", lambda found: str(known[found[1]]), without_comments)
    return SimpleNamespace(**known)
