"""docs/operate.md lists exactly the existing settings."""

import re
from pathlib import Path

from counterfoil.settings import TABLE, Settings

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


def test_the_table_of_settings_and_the_settings_have_the_same_names() -> None:
    # `database` is not a separate setting: it is `store` if that names a server.
    assert [setting.name for setting in TABLE] == [name for name in Settings.__struct_fields__ if name != "database"]


def test_every_setting_says_what_it_is_for() -> None:
    for setting in TABLE:
        assert setting.help.endswith("."), setting.name
