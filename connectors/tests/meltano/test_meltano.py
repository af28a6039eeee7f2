"""Meltano runs the tap with the meltano.yml of connectors/singer/README.md, and keeps the state between runs."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import records as r
from connectors.tests.connector import CONNECTORS, ROOT, TIMEOUT_SEC, proxy
from connectors.tests.shared_tests import FRANCHISE, World, feed_requests
from connectors.tests.test_singer import Singer

MELTANO = Path(__file__).parent / ".venv" / "bin" / "meltano"
README = CONNECTORS / "singer" / "README.md"
PROGRAM = CONNECTORS / "singer" / "copy_to_postgres.py"


class Meltano(Singer):
    """The tap and the target of the Singer connector, started by Meltano in a project of its own."""

    def prepare(self, url: str) -> None:  # noqa: ARG002 - the URL is in the environment
        [project] = re.findall(r"```yaml\n(# meltano\.yml\n.*?)```", README.read_text("utf-8"), re.DOTALL)
        (self.folder / "meltano.yml").write_text(project.replace("/path/to/", f"{ROOT}/"))

    def command(self) -> list[str]:
        return [str(MELTANO), "run", "tap-counterfoil", "target-postgres"]

    def environment(self, url: str) -> dict[str, str]:
        database = self.server.url(self.database).replace("postgresql://", "postgresql+psycopg://", 1)
        return {
            "TAP_COUNTERFOIL_URL": url,
            "TAP_COUNTERFOIL_KEY": self.key,
            "TARGET_POSTGRES_SQLALCHEMY_URL": database,
            # The project defines its own plugins, so Meltano must not need its hub. Nothing listens at this address.
            "MELTANO_HUB_URL": "http://127.0.0.1:9",
            "MELTANO_SEND_ANONYMOUS_USAGE_STATS": "false",
        }

    def create_views(self) -> None:
        [views] = re.findall(r'VIEWS = """(.*?)"""', PROGRAM.read_text("utf-8"), re.DOTALL)
        with psycopg.connect(self.server.url(self.database)) as connection:
            connection.execute(views)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "world", Meltano)
    try:
        yield world
    finally:
        world.service.close()


def test_meltano_keeps_an_exact_copy_and_its_state(world: World) -> None:
    assert isinstance(world.copy, Meltano)
    world.copy.run()
    world.copy.create_views()
    world.assert_equal()
    joining = r.branch(franchiseId=FRANCHISE, providerId="base-1")
    kept, removed = world.sell(6)[:2]
    world.load(kept | {"cashier": "Ying"}, r.removal(removed), r.removal(world.sold[0]), joining, r.bill(joining))
    paths: list[str] = []
    with proxy(world.service, paths.append) as url:
        world.copy.run(url)
    assert len(feed_requests(paths)) == 1, "Meltano has not kept the state of the first run"
    world.assert_equal()


def test_the_meltano_of_the_readme_is_the_installed_version() -> None:
    done = subprocess.run(
        [str(MELTANO), "--version"],
        env=os.environ | {"MELTANO_SEND_ANONYMOUS_USAGE_STATS": "false"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SEC,
        check=True,
    )
    version = done.stdout.split()[-1]
    assert f"Meltano {version}" in README.read_text("utf-8")
