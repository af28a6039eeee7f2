"""Every connector pins its packages, has a README that docs/connect.md links to, and is tested by CI."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONNECTORS = sorted(path.parent for path in (ROOT / "connectors").glob("*/requirements.txt"))
TESTED_WITH = [ROOT / "connectors" / "tests" / name for name in ("meltano", "dbt")]


@pytest.mark.parametrize("folder", [*CONNECTORS, *TESTED_WITH], ids=lambda folder: folder.name)
def test_every_package_of_a_connector_has_an_exact_version_and_no_host(folder: Path) -> None:
    lines = (folder / "requirements.txt").read_text("utf-8").splitlines()
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


@pytest.mark.parametrize("folder", CONNECTORS, ids=lambda folder: folder.name)
def test_every_connector_has_a_description_the_shared_tests_and_a_command(folder: Path) -> None:
    assert (folder / "README.md").exists()
    assert "(ConnectorTests)" in (ROOT / "connectors" / "tests" / f"test_{folder.name}.py").read_text("utf-8")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert re.search(rf"^CONNECTORS := .*\b{folder.name}\b", makefile, re.MULTILINE)
    assert re.search(rf"^connect-{folder.name}:", makefile, re.MULTILINE)
    assert f"../connectors/{folder.name}/README.md" in (ROOT / "docs" / "connect.md").read_text("utf-8")


def test_ci_runs_the_connectors_and_the_test_suite_says_that_it_does_not() -> None:
    assert "make test-connectors" in (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    assert "tests of the connectors (make test-connectors)" in (ROOT / "Makefile").read_text("utf-8")
