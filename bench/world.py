"""The data for a run: a generated restaurant group, loaded by our loader, and keys with practically no limits."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from counterfoil import bootstrap, key_issuing, settings
from counterfoil.domain.access import Scope
from counterfoil.machine.operator import operator
from counterfoil.settings import Settings

COUNTERFOIL = (sys.executable, "-m", "counterfoil")
UNLIMITED = key_issuing.MAX_LIMIT
# All generated shops belong to this franchise, so that one key can read them all.
GROUP = "bench"
# A second franchise has no bills, but many branches, each with a long list of categories.
LARGE, BRANCHES, CATEGORIES = "bench-large", 300, 200
LOADED = (0, 3)


class World(Struct, frozen=True):
    """The locations of the source records and the store. `database` is empty for the embedded store."""

    folder: Path
    database: str = ""

    @property
    def source(self) -> Path:
        return self.folder / "source"

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def books(self) -> Path:
        return self.store / "books.sqlite3"

    @property
    def peers(self) -> Path:
        """Return the path of the contestants' SQLite file."""
        return self.folder / "peers.sqlite3"

    @property
    def limits(self) -> Path:
        """Return the folder of stored responses, for the contestants that measure the upper limit."""
        return self.folder / "limits"

    @property
    def settings(self) -> Settings:
        return settings.load({"store": self.database or str(self.store)}, self.environment)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment for a `counterfoil` command: the store, and a secret that all commands share."""
        found = {name: value for name, value in os.environ.items() if not name.startswith("COUNTERFOIL_")}
        secret = {"COUNTERFOIL_SECRET_FILE": str(self.folder / "secret")}
        return found | secret | {"COUNTERFOIL_STORE": self.database or str(self.store)}


def made(folder: Path, bills: int, days: int) -> World:
    """Return the world in this folder. Generate and load it if it does not exist."""
    world = World(folder)
    if not (folder / "loaded").exists():
        generate(world.source, bills, days)
        load(world)
        (folder / "loaded").touch()
    return world


def copied(world: World, name: str) -> World:
    """Return a world with a copy of the store, for experiments that write to it."""
    copy = World(world.folder / name)
    shutil.rmtree(copy.folder, ignore_errors=True)
    shutil.copytree(world.store, copy.store)
    shutil.copy(world.folder / "secret", copy.folder)
    copy.source.symlink_to(world.source)
    copy.peers.symlink_to(world.peers)
    return copy


def generate(source: Path, bills: int, days: int) -> None:
    subprocess.run(
        [*COUNTERFOIL, "generate", "--bills", str(bills), "--days", str(days), "--out", str(source)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    shops = source / "shops.ndjson"
    shops.write_text("".join(_one_franchise(shops.read_text("utf-8").splitlines())) + large_franchise(), "utf-8")


def load(world: World, *source: str) -> None:
    words = [*COUNTERFOIL, "load", *(source or (str(world.source),)), "--batch", "2000"]
    done = subprocess.run(words, env=world.environment, stdout=subprocess.DEVNULL, check=False)
    if done.returncode not in LOADED:
        raise SystemExit("the load failed")


def _one_franchise(lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield json.dumps(json.loads(line) | {"franchiseId": GROUP}, ensure_ascii=False) + "\n"


def large_franchise() -> str:
    """Return the records of branches without bills. Only requests for the list of shops use them."""
    return "".join(json.dumps(_branch(number), ensure_ascii=False) + "\n" for number in range(BRANCHES))


def _branch(number: int) -> dict[str, object]:
    def category(place: int) -> dict[str, object]:
        above = {"parentId": f"b{number}c{place // 10}", "level": 2} if place >= 20 else {"level": 1}
        return {"id": f"b{number}c{place}", "name": f"หมวด Category {place}", **above}

    return {
        "kind": "shop",
        "id": f"branch-{number}",
        "name": f"สาขา Branch {number}",
        "franchiseId": LARGE,
        "timezone": "Asia/Bangkok",
        "closingTime": "22:00",
        "categories": [category(place) for place in range(CATEGORIES)],
    }


def issue_keys(world: World, franchise: str, count: int) -> list[str]:
    grant = key_issuing.Grant(
        scope=Scope("franchise", franchise), per_min=UNLIMITED, per_day=UNLIMITED, messaging_lookup=True, label="bench"
    )
    with closing(bootstrap.store(world.settings).key_store()) as key_store:
        return [key_issuing.issue(key_store, grant, os.urandom, 0, operator()).text for _ in range(count)]
