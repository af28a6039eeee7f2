"""`counterfoil completion`: print a shell completion script for commands, options and their values.

Each time Tab is pressed, the script runs `counterfoil` to get the completions,
so it never goes out of date. Completion does not need a store.
"""

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from counterfoil.cli.terminal import print_document

VARIABLE = "_COUNTERFOIL_COMPLETE"
SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command()
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
    # Do not call `source()`: for bash, it runs bash to check the version, and a machine that builds packages may not
    # have bash.
    print_document((script.source_template % script.source_vars()).strip() + "\n")
