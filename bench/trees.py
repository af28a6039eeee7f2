"""The sources of this release and of others, which are laid out in one folder or in three packages."""

import os
from pathlib import Path

THIS = Path(__file__).parents[1]


def python_path(tree: Path) -> str:
    """Return the value of PYTHONPATH with which Python imports the sources of a clone."""
    folders = sorted((tree / "packages").glob("*/src")) or [tree / "src"]
    return os.pathsep.join(map(str, folders))
