"""Generates the table of settings in docs/run.md from the declarations of the settings."""

import re

from counterfoil.settings import TABLE, Setting
from upkeep.fields import ROOT, with_part

PAGE = ROOT / "docs/run.md"
# What readers of the page learn beyond the help text of the setting.
MORE = {
    "store": "See [more-machines.md](more-machines.md).",
    "reference": "See [reference page](generated-clients.md#reference-page).",
    "console_host": "See [console.md](console.md).",
    "console_names": "See [the name of the console](console-setup.md#the-name-of-the-console).",
    "console_proxy": "See [behind a proxy](console-setup.md#behind-a-proxy).",
    "console_idle_min": "See [devices and roles](console-setup.md#devices-and-roles).",
    "console_deliveries": "See [bring in a file](console.md#bring-in-a-file).",
    "silent_folder_min": "See [a watched folder](deliveries.md#a-watched-folder).",
    "backup_max_hours": "See [backup and restore](backup.md#backup-and-restore).",
    "kept": "See [a watched folder](deliveries.md#a-watched-folder).",
    "converters": "A load is large from 4 MiB.",
    "import_memory_mb": "See [converters.md](converters.md).",
    "notify_url": "See [being told](watch.md#being-told).",
}
# What is set as code in a help text: what is marked already, addresses, placeholders, paths, options and names.
CODE = re.compile(
    r"""`[^`]+`
    | [a-z+]+://(?:\.\.\.|[\w@:,/.-]*\w)?
    | \{\w+\}[\w/]*
    | (?<!\S)\(?/\w+
    | --[a-z]+
    | \b[A-Za-z]+_[A-Za-z_]+\b""",
    re.VERBOSE,
)


def page() -> str:
    """Return docs/run.md with the table of settings as it must be."""
    rows = "".join(_row(setting) for setting in TABLE)
    return with_part(
        PAGE, "| name | variable | default | meaning |", "Lists show times as", f"|---|---|---|---|\n{rows}\n"
    )


def _row(setting: Setting) -> str:
    default = "empty" if setting.default == "" else f"`{setting.default}`"
    return f"| `{setting.name}` | `{setting.variable}` | {default} | {_meaning(setting)} |\n"


def _meaning(setting: Setting) -> str:
    sentences = [CODE.sub(_as_code, setting.help)]
    if isinstance(setting.default, int):
        minimum, maximum = setting.range
        sentences.append(f"From {minimum:,} to {maximum:,}.")
    if setting.is_secret:
        sentences.append("Printed as `***`.")
    if setting.name in MORE:
        sentences.append(MORE[setting.name])
    return " ".join(sentences)


def _as_code(found: re.Match[str]) -> str:
    text = found[0]
    if text.startswith("`"):
        return text
    bracket = "(" if text.startswith("(") else ""
    return f"{bracket}`{text.removeprefix(bracket)}`"
