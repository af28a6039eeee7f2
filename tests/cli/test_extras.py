"""A command that needs a missing package names the extra that installs it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from counterfoil.cli.main import EXTRAS
from counterfoil.mcp.sources import SQLITE_MAGIC

pytestmark = pytest.mark.programs

PROJECT = Path(__file__).parents[2] / "pyproject.toml"

WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0].removeprefix("_") == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
from counterfoil.cli.main import program
program.main({arguments!r}, prog_name="counterfoil")
"""


def without(package: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command as if this package were not installed."""
    source = WITHOUT.format(package=package, arguments=list(arguments))
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("package", "command"), [("granian", "serve"), ("prometheus_client", "demo"), ("waitress", "console")]
)
def test_a_command_without_its_packages_names_the_extra_that_installs_them(package: str, command: str) -> None:
    done = without(package, command)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"counterfoil: the package {package} is not installed")
    assert f"{sys.executable} -m pip install '.[server]'" in done.stderr


@pytest.mark.parametrize(("package", "to"), [("duckdb", "copy.duckdb"), ("psycopg", "postgresql://127.0.0.1/copy")])
def test_a_copy_without_its_packages_names_the_extra_that_installs_them(
    package: str, to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_KEY", "cf_live_invented")
    done = without(package, "pull", "--url", "http://127.0.0.1:1", "--to", to)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"counterfoil: the package {package} is not installed")
    assert f"{sys.executable} -m pip install '.[pull]'" in done.stderr


@pytest.mark.parametrize("package", ["mcp", "mcp_types"])
def test_the_mcp_server_without_its_packages_names_the_extra_that_installs_them(package: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(SQLITE_MAGIC)
    done = without(package, "mcp", "--copy", str(copy))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"counterfoil: the package {package} is not installed")
    assert "[mcp]'" in done.stderr


def test_a_mysql_source_without_its_package_names_the_extra_that_brings_it(tmp_path: Path) -> None:
    mapping = tmp_path / "mapping.toml"
    mapping.write_text('[bill]\nid = "no"\n[database]\nbills = "SELECT 1"\nwatermark = "no"\n', "utf-8")
    done = without(
        "pymysql", "import", "--format", "database", "--url", "mysql://127.0.0.1/pos", "--mapping", str(mapping)
    )
    assert done.returncode == 1
    assert done.stderr.startswith("counterfoil: the package pymysql is not installed")
    assert "[mysql]'" in done.stderr


@pytest.mark.parametrize("package", ["granian", "prometheus_client", "uvloop", "duckdb", "asyncpg", "psycopg", "redis"])
def test_help_and_the_keys_need_no_extra(package: str, tmp_path: Path) -> None:
    assert without(package, "--help").returncode == 0
    assert without(package, "keys", "issue", "--shop", "sh_1", "--store", str(tmp_path / "store")).returncode == 0


def test_every_package_of_an_extra_is_known_to_belong_to_it() -> None:
    extras = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["optional-dependencies"]
    for extra in ("server", "pull", "mysql", "cluster"):
        for requirement in extras[extra]:
            package = re.split(r"[^\w-]", requirement)[0].replace("-", "_")
            assert EXTRAS[package] in extras, package
            assert any(one.replace("-", "_").startswith(package) for one in extras[EXTRAS[package]]), package
