"""Every module of the PostgreSQL back end is listed in exactly one of the import contracts about drivers."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
BACK_END = "counterfoil.backends.postgres"


def test_every_module_of_the_postgresql_back_end_is_in_one_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    drivers = [one for one in contracts if one["type"] == "forbidden" and "on PostgreSQL" in one["name"]]
    listed = [module for contract in drivers for module in contract["source_modules"]]
    files = (ROOT / "src" / "counterfoil" / "backends" / "postgres").glob("*.py")
    assert sorted(name for name in listed if name.startswith(BACK_END)) == sorted(
        f"{BACK_END}.{file.stem}" for file in files if file.stem != "__init__"
    )
