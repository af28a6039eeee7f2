"""docs/operate.md lists exactly the existing settings."""

import re
from pathlib import Path

from counterfoil.backends.postgres.addresses import ConnectionLimits
from counterfoil.settings import BY_NAME, TABLE, Settings

PAGE = Path(__file__).parents[2] / "docs" / "operate.md"
ROW = re.compile(r"^\| `([a-z_]+)` \| `(COUNTERFOIL_[A-Z_]+)` \| ([^|]*)\|", re.MULTILINE)


def rows() -> dict[str, tuple[str, str]]:
    return {name: (variable, default.strip()) for name, variable, default in ROW.findall(PAGE.read_text("utf-8"))}


def test_every_setting_is_in_the_operator_s_table_with_its_variable_and_default() -> None:
    expected = {
        setting.name: (setting.variable, f"`{setting.default}`" if setting.default != "" else "empty")
        for setting in TABLE
    }
    assert rows() == expected


def test_every_setting_is_declared_with_its_help_and_a_default_that_it_allows() -> None:
    # `database` is not a separate setting: it is derived from `store` if that names a server.
    assert {setting.name for setting in TABLE} == set(Settings.__struct_fields__) - {"database"}
    for setting in TABLE:
        assert setting.help.endswith("."), setting.name
        if isinstance(setting.default, int):
            minimum, maximum = setting.range
            assert minimum <= setting.default <= maximum > 0, setting.name
        assert not setting.choices or setting.default in setting.choices, setting.name


def test_the_limits_of_connections_have_the_defaults_of_their_settings() -> None:
    limits = ConnectionLimits()
    for name in ConnectionLimits.__struct_fields__:
        assert getattr(limits, name) == BY_NAME[name].default, name
