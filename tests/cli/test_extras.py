"""A command that needs a missing package names the extra that installs it."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cli.command import PYTHON
from counterfoil.client.sinks import SQLITE_MAGIC
from counterfoil.program.main import EXTRAS

pytestmark = pytest.mark.programs

PROJECTS = sorted((Path(__file__).parents[2] / "packages").glob("*/pyproject.toml"))

WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0].removeprefix("_") == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""


def without(package: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command as if this package were not installed, also in the processes that it starts."""
    with TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text(WITHOUT.format(package=package), "utf-8")
        words = [*PYTHON, *arguments]
        environment = os.environ | {"PYTHONPATH": folder}
        return subprocess.run(words, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize(
    ("package", "extra", "words"),
    [
        ("duckdb", "counterfoil-client[pull]", "pull --url http://127.0.0.1:1 --to copy.duckdb"),
        ("duckdb", "counterfoil-client[pull]", "pull --url http://127.0.0.1:1 --to new.sqlite"),
        ("psycopg", "counterfoil-client[pull]", "pull --url http://127.0.0.1:1 --to postgresql://127.0.0.1/copy"),
        ("mcp", "counterfoil-client[mcp]", "mcp --copy copy.sqlite"),
        ("mcp_types", "counterfoil-client[mcp]", "mcp --copy copy.sqlite"),
        (
            "pymysql",
            "counterfoil-importer[mysql]",
            "import --format database --url mysql://127.0.0.1/pos --mapping mapping.toml",
        ),
    ],
)
def test_a_command_without_its_packages_names_the_extra_that_installs_them(
    package: str, extra: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COUNTERFOIL_KEY", "cf_live_invented")
    Path("copy.sqlite").write_bytes(SQLITE_MAGIC)
    mapping = '[bill]\nid = "no"\n[database]\nbills = "SELECT 1"\nwatermark = "no"\n'
    Path("mapping.toml").write_text(mapping, "utf-8")
    done = without(package, *words.split())
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"counterfoil: the package {package} is not installed")
    assert f"{sys.executable} -m pip install './packages/" in done.stderr
    assert f"--find-links DIR '{extra}'" in done.stderr


@pytest.mark.parametrize("package", ["duckdb", "asyncpg", "psycopg", "pymysql", "redis"])
def test_help_and_the_keys_need_no_extra(package: str, tmp_path: Path) -> None:
    assert without(package, "--help").returncode == 0
    assert (
        without(
            package, "keys", "issue", "--not-loaded-yet", "--shop", "sh_1", "--store", str(tmp_path / "store")
        ).returncode
        == 0
    )


def test_every_package_of_an_extra_is_known_to_belong_to_it() -> None:
    extras = {}
    for file in PROJECTS:
        project = tomllib.loads(file.read_text("utf-8"))["project"]
        for extra, requirements in project.get("optional-dependencies", {}).items():
            extras[f"{project['name']}[{extra}]"] = [re.split(r"[^\w-]", one)[0] for one in requirements]
    for package, extra in EXTRAS.items():
        assert any(package.replace("_", "-").startswith(one) for one in extras[extra]), package
    named = {one for requirements in extras.values() for one in requirements if not one.startswith("counterfoil")}
    assert {one.replace("-", "_") for one in named} <= EXTRAS.keys()
