"""Programs and packages that the tests of deploy/ need. A test is skipped with a message if one is missing."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def needs_program(program: str, package: str) -> pytest.MarkDecorator:
    """Return a mark that skips the test unless this program is on the PATH. The reason names its Debian package."""
    reason = f"{program} is not on the PATH, so this was NOT checked (Debian: apt-get install {package})"
    return pytest.mark.skipif(shutil.which(program) is None, reason=reason)


def needs_package(module: str) -> pytest.MarkDecorator:
    """Return a mark that skips the test unless this package from the `ship` extra is installed."""
    reason = f"the Python package {module} is not installed, so this was NOT checked (make ship-tools)"
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=reason)


def needs_script(name: str) -> pytest.MarkDecorator:
    """Return a mark that skips the test unless the `ship` extra has installed this program."""
    reason = f"{name} is not installed, so this was NOT checked (make ship-tools)"
    return pytest.mark.skipif(not script(name).exists(), reason=reason)


def output_of(*words: object, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run a program that must succeed; return its output on both streams."""
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def script(name: str) -> Path:
    """Return the path of a program that a Python package has installed next to the interpreter."""
    return Path(sys.executable).with_name(name)
