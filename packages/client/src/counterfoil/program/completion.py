"""`counterfoil completion`: print a script with which a shell completes commands. It imports little."""

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from counterfoil.program.main import Command
from counterfoil.program.terminal import print_document

VARIABLE = "_COUNTERFOIL_COMPLETE"
SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
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
