"""Commands that print documents: `counterfoil schema` and `completion`. They import little, so that they are quick."""

from importlib import resources

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from counterfoil.cli.main import Command
from counterfoil.cli.terminal import print_document

KINDS = ("shop", "base", "member", "bill")


@click.command(cls=Command)
@click.argument("kind", type=click.Choice(KINDS))
def schema(kind: str) -> None:
    document = resources.files("counterfoil.ingest") / "schemas" / f"{kind}.json"
    print_document(document.read_text(encoding="utf-8").rstrip("\n") + "\n")


VARIABLE = "_COUNTERFOIL_COMPLETE"
SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    script = SHELLS[shell](ctx.find_root().command, {}, "counterfoil", VARIABLE)
    # Not `source()`, which runs bash to check its version: a machine that builds packages may have no bash.
    print_document((script.source_template % script.source_vars()).strip() + "\n")
