"""Generates the manual pages from the commands while a wheel is built, as a build hook of Hatchling.

There is a page for the program and one for each command and subcommand, with names like counterfoil-keys-issue(1), as
in git. `python packages/server/manual_pages.py FOLDER` writes them to a folder.
"""

import re
import sys
import tempfile
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:
    # Hatchling is installed only where wheels are built.
    BuildHookInterface = object

# The pages are those of the sources beside this file, whatever is installed.
sys.path.insert(0, str(Path(__file__).parent / "src"))

import click

from counterfoil.model.version import API_VERSION, __version__
from counterfoil.program.main import EXIT_STATUSES, Command, program
from counterfoil.program.registry import registered
from counterfoil.settings import TABLE

INSTALLED_IN = "share/man/man1"
# Commands, file names and values that a help text quotes are shown in bold.
QUOTED = re.compile(r"`([^`]+)`")


class ManualPages(BuildHookInterface):  # type: ignore[misc]
    """Adds the pages to a wheel. An editable installation gets none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            self._folder = tempfile.TemporaryDirectory()
            write(Path(self._folder.name))
            build_data["shared_data"][self._folder.name] = INSTALLED_IN

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if version != "editable":
            self._folder.cleanup()


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in pages().items():
        (folder / name).write_text(page, "utf-8")


def pages() -> dict[str, str]:
    """Return every page, keyed by file name."""
    return {f"{ctx.command_path.replace(' ', '-')}.1": _page(ctx) for ctx in _contexts(program, "counterfoil", None)}


def _contexts(command: click.Command, name: str, parent: click.Context | None) -> Iterator[click.Context]:
    ctx = click.Context(command, info_name=name, parent=parent, **command.context_settings)
    yield ctx
    if isinstance(command, click.Group):
        for child in command.list_commands(ctx):
            if found := command.get_command(ctx, child):
                yield from _contexts(found, child, ctx)


def _page(ctx: click.Context) -> str:
    name = ctx.command_path.replace(" ", "-")
    brief = _brief(ctx).rstrip(".")
    lines = [
        '.\\" Generated from the help texts of the commands. Do not edit.',
        f'.TH "{name.upper()}" "1" "" "counterfoil {__version__} (API {API_VERSION})" "Counterfoil"',
        ".SH NAME",
        f"{_plain(name)} \\- {_plain(brief[0].lower() + brief[1:])}",
        ".SH SYNOPSIS",
        f"\\fB{_plain(ctx.command_path)}\\fR {_plain(' '.join(ctx.command.collect_usage_pieces(ctx)))}",
        ".SH DESCRIPTION",
        *_text(cleandoc(ctx.command.help or "")),
        *_options(ctx),
    ]
    if isinstance(ctx.command, click.Group):
        lines += _subcommands(ctx, ctx.command)
    if ctx.parent is None:
        lines += [".SH ENVIRONMENT", "A flag overrides an environment variable, which overrides the settings file."]
        lines += _terms({setting.variable: setting.help for setting in TABLE})
        lines += [".SH EXIT STATUS", *_terms(EXIT_STATUSES)]
    else:
        lines += [".SH SEE ALSO", f"\\fB{_plain(ctx.parent.command_path.replace(' ', '-'))}\\fR(1)"]
    return "\n".join(lines) + "\n"


def _brief(ctx: click.Context) -> str:
    if ctx.parent is None:
        return "read-only API for a restaurant group's shops, bills and members"
    return (
        registered()[ctx.info_name or ""].summary if ctx.parent.parent is None else ctx.command.get_short_help_str(200)
    )


def _options(ctx: click.Context) -> list[str]:
    lines = [".SH OPTIONS"]
    command = ctx.command
    if not isinstance(command, Command):
        raise TypeError(f"{ctx.command_path} is not a command of Counterfoil.")
    for number, (heading, records) in enumerate(command.options_by_heading(ctx).items()):
        if number:
            lines.append(f".SS {_plain(heading)}")
        lines += _terms(dict(records))
    return lines


def _subcommands(ctx: click.Context, group: click.Group) -> list[str]:
    named = {}
    for name in group.list_commands(ctx):
        if child := group.get_command(ctx, name):
            path = f"{ctx.command_path}-{name}".replace(" ", "-")
            named[f"{path}(1)"] = registered()[name].summary if ctx.parent is None else child.get_short_help_str(200)
    return [".SH COMMANDS", *_terms(named)]


def _terms(texts: dict[str, str]) -> list[str]:
    return [line for term, text in texts.items() for line in (".TP", f"\\fB{_plain(term)}\\fR", _quoted(text))]


def _text(text: str) -> list[str]:
    """Return paragraphs as roff. A paragraph that begins with click's marker `\\b` keeps its line breaks."""
    lines: list[str] = []
    for number, paragraph in enumerate(text.split("\n\n")):
        lines += [".PP"] if number else []
        if paragraph.startswith("\b"):
            kept = paragraph.removeprefix("\b").strip("\n").splitlines()
            lines += [".nf", *(_quoted(line) for line in kept), ".fi"]
        else:
            lines.append(_quoted(" ".join(paragraph.split())))
    return lines


def _quoted(text: str) -> str:
    return QUOTED.sub(r"\\fB\1\\fR", _plain(text))


def _plain(text: str) -> str:
    """Escape characters that roff would interpret."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    write(Path(sys.argv[1]))
