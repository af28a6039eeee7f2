"""The type of options and arguments that are paths: a path that may not be looked up is never called missing."""

import os
from pathlib import Path
from typing import Any

import click


class UserPath(click.Path):
    """A path. If a folder in it may not be entered, click would say that the path does not exist."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not (self.allow_dash and value == "-"):
            try:
                Path(value).stat()
            except PermissionError:
                self.fail(refusal(os.fspath(value)), param, ctx)
            except (OSError, ValueError):
                # It does not exist yet, or click says what is wrong with it.
                pass
        return super().convert(value, param, ctx)


def refusal(path: str) -> str:
    """Return why a path may not be looked up."""
    # `access` follows the permissions of the folders above.
    where = "a folder in it"
    for folder in reversed(Path(path).absolute().parents):
        if not os.access(folder, os.X_OK):
            where = f"the folder {folder}"
            break
    return f"{path} cannot be read: the user {os.geteuid()} may not enter {where}."
