"""Commands that print documents: `counterfoil schema` and `completion`. They import little, so that they are quick."""

import json
from importlib import resources

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from counterfoil.program.main import Command
from counterfoil.program.terminal import print_document

KINDS = ("shop", "base", "member", "bill")
FORM = "form"


@click.command(cls=Command)
@click.argument("kind", type=click.Choice((*KINDS, FORM)))
def schema(kind: str) -> None:
    """Print the JSON Schema of a kind of source record (docs/source-records.md), or of the form of an import
    (docs/import-form.md).
    """
    if kind == FORM:
        # Reading JSON Schemas of types takes longer than printing a file.
        from counterfoil.importer.form import json_schema  # noqa: PLC0415

        print_document(json.dumps(json_schema(), indent=2) + "\n")
        return
    document = resources.files("counterfoil.ingest") / "schemas" / f"{kind}.json"
    print_document(document.read_text(encoding="utf-8").rstrip("\n") + "\n")


VARIABLE = "_COUNTERFOIL_COMPLETE"
SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    bash   counterfoil completion bash > ~/.local/share/bash-completion/completions/counterfoil
    zsh    counterfoil completion zsh > ~/.zfunc/_counterfoil   (~/.zfunc must be in your fpath)
    fish   counterfoil completion fish > ~/.config/fish/completions/counterfoil.fish

    Then start a new shell.
    """
    script = SHELLS[shell](ctx.find_root().command, {}, "counterfoil", VARIABLE)
    # Not `source()`, which runs bash to check its version: a machine that builds packages may have no bash.
    print_document((script.source_template % script.source_vars()).strip() + "\n")
