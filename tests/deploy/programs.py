"""Programs and packages that the tests of deploy/ need. A test is skipped with a message if one is missing."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from console.running_console import signed_in
from counterfoil.machine.addresses import is_listening
from waiting import until

ROOT = Path(__file__).parents[2]
PACKAGES = tuple(ROOT / "packages" / name for name in ("client", "importer", "server"))
SOURCES = tuple(package / "src" for package in PACKAGES)
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


def wheels_of(packages: Iterable[Path], folder: Path) -> list[Path]:
    """Build the wheels of these packages into a folder, with the hatchling of this environment."""
    for package in packages:
        output_of(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=package)
    return sorted(folder.glob("*.whl"))


def script(name: str) -> Path:
    """Return the path of a program that a Python package has installed next to the interpreter."""
    return Path(sys.executable).with_name(name)


def printed_by_console(words: list[str], environment: dict[str, str], folder: Path) -> str:
    """Run a console whose store has a shop, and sign in with a link that another process makes.

    Return what the console has printed, which contains no link.
    """
    log = folder / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(words, env=environment, cwd=folder, stdout=file, stderr=file)
    try:
        port = int(environment["COUNTERFOIL_CONSOLE_PORT"])
        until(lambda: is_listening("127.0.0.1", port), "the console listens")
        link = [*words[:4], "link", "--json"]
        made = subprocess.run(link, env=environment, cwd=folder, capture_output=True, check=True)
        with signed_in(json.loads(made.stdout)["console"]) as client:
            assert client.get("/shops.json").json()["counts"]["empty"] == 1
    finally:
        process.terminate()
        assert process.wait(20) == 0
    printed = log.read_text("utf-8")
    assert not re.search(r"\.localhost|sign-in#", printed)
    return printed
