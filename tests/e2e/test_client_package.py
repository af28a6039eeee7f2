"""The distribution `counterfoil-client` contains what it imports, and copies the demo in an environment of its own."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import grimp
import pytest

from counterfoil.model.version import __version__
from counterfoil.program.main import USAGE_ERROR
from deploy.programs import ROOT, needs_package, output_of
from e2e.served_demo import Demo

pytestmark = [pytest.mark.programs, needs_package("hatchling")]

CLIENT = ROOT / "packages" / "client"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a source archive, and the wheel from it, as `python -m build` does."""
    folder = tmp_path_factory.mktemp("client")
    output_of(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=CLIENT)
    name = f"counterfoil_client-{__version__}"
    with tarfile.open(folder / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    output_of(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=folder / name)
    return folder / f"{name}-py3-none-any.whl"


def test_every_module_that_the_wheel_imports_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        files = [name for name in opened.namelist() if name.startswith("counterfoil/")]
    assert {"counterfoil/client/py.typed", "counterfoil/client/models.pyi"} <= set(files)
    names = (name.removesuffix(".py").removesuffix("/__init__") for name in files if name.endswith(".py"))
    modules = {name.replace("/", ".") for name in names}
    graph = grimp.build_graph("counterfoil", cache_dir=None)
    imported = {found for module in modules for found in graph.find_modules_directly_imported_by(module)}
    assert imported - modules <= {"counterfoil"}, "the namespace alone belongs to no distribution"
    assert [module for module in modules if module.startswith(("counterfoil.http", "counterfoil.backends"))] == []


def test_the_wheel_copies_the_demo_and_has_no_server(wheel: Path, demo: Demo, tmp_path: Path) -> None:
    python, command = tmp_path / "venv" / "bin" / "python", tmp_path / "venv" / "bin" / "counterfoil"
    output_of(sys.executable, "-m", "venv", tmp_path / "venv")
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    output_of(*pip, "--constraint", ROOT / "constraints.txt", f"{wheel}[pull]")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    environment |= {"COUNTERFOIL_URL": demo.url, "COUNTERFOIL_KEY": demo.key("franchise")}

    def run(*words: str, status: int = 0) -> str:
        done = subprocess.run(
            [command, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    pulled = json.loads(run("pull", "--to", "copy.sqlite", "--json"))
    assert pulled["billsAdded"] == len(demo.held(set(demo.shown.samples.shop_ids)))
    run("reconcile", "--to", "copy.sqlite")
    program = (CLIENT / "README.md").read_text("utf-8").split("```python\n")[1].split("```")[0]
    assert output_of(python, "-c", program, cwd=tmp_path, env=environment) == f"{pulled['billsAdded']} bills\n"
    assert "serve" not in run("--help")
    assert "_COUNTERFOIL_COMPLETE" in run("completion", "bash")
    refused = subprocess.run([command, "serve"], env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == USAGE_ERROR
    assert "come with the package `counterfoil`" in refused.stderr
