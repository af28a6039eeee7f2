"""One service for the short campaign. The full campaign starts its own services."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostile.campaign import UnderAttack
from hostile.checker import Checker, Document
from hostile.scope import Matrix, issued, twins
from hostile.targets import on_sqlite
from hostile.world import World

ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the campaign out of `make test`. `make test-attacks` runs it."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.attacks)


@pytest.fixture(scope="session", autouse=True)
def _importable_in_other_processes() -> Iterator[None]:
    """Make this package importable in the process that runs the ordinary callers."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "tests"), *([before] if before else [])])
    yield
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


@pytest.fixture(scope="session")
def under_attack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnderAttack]:
    """A service on SQLite that all tests of the short campaign share. Both deliveries of the world are loaded."""
    world = World()
    with on_sqlite(tmp_path_factory.mktemp("hostile")) as site:
        site.load(*world.first)
        site.start()
        checker = Checker(Document.served_by(site.ports[0]))
        keys = issued(world, site)
        matrix = Matrix(world, site.ports, keys, checker)
        matrix.learn_tokens()
        site.load(*world.later)
        matrix.learn_cursors(twins(keys, site))
        yield UnderAttack(site, world, checker, matrix)
