"""`counterfoil completion`: the script that lets a shell complete commands, options and their values.

The script asks `counterfoil` itself at each press of Tab, so it does not go stale. Neither the script nor the
answers need a store.
"""

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

VARIABLE = "_COUNTERFOIL_COMPLETE"
SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands in SHELL.

    \b
    bash   counterfoil completion bash > ~/.local/share/bash-completion/completions/counterfoil
    zsh    counterfoil completion zsh > ~/.zfunc/_counterfoil   (a folder of your fpath)
    fish   counterfoil completion fish > ~/.config/fish/completions/counterfoil.fish

    Then start a new shell.
    """
    script = SHELLS[shell](ctx.find_root().command, {}, "counterfoil", VARIABLE)
    # `source()` would also run the shell to check its version, which matters to nobody who is building a package.
    click.echo((script.source_template % script.source_vars()).strip())
