"""`counterfoil serve`: serve the API until stopped."""

import sys

import click

from counterfoil.cli.options import setting_options, settings_from, store_option
from counterfoil.machine.addresses import url
from counterfoil.program.main import Command
from counterfoil.program.terminal import echo, is_terminal
from counterfoil.serving import supervisor
from counterfoil.settings import Settings, display_value


@click.command(
    cls=Command,
    groups={
        "For integrators": ("--prefix", "--reference"),
        "For the operator": ("--admin-host", "--admin-port", "--log", "--log-format"),
    },
)
@setting_options("host", "port", "workers")
@store_option
@setting_options("prefix", "reference", "admin_host", "admin_port", "log", "log_format")
@click.pass_context
def command(ctx: click.Context, /, **flags: object) -> None:
    """Serve the API until stopped with Ctrl-C or SIGTERM, or until its terminal is closed.

    When it stops, the service waits up to grace_sec seconds for requests in progress. The admin listener answers
    /live, /serving, /ready and /metrics.
    """
    settings = settings_from(**flags)
    supervisor.serve(settings, on_ready=lambda: _print_ready(ctx, settings))


def _print_ready(ctx: click.Context, settings: Settings) -> None:
    """Print the addresses on a terminal. This runs in another thread, so it enters the context for its colours."""
    if not is_terminal(sys.stderr):
        return
    address, store = url(settings.host, settings.port, settings.prefix + "/v1"), display_value(settings, "store")
    admin = "off"
    if settings.admin_port:
        admin = f"{url(settings.admin_host, settings.admin_port)} (/live, /serving, /ready, /metrics)"
    with ctx.scope(cleanup=False):
        echo(f"Serving {address} from {store}. Press Ctrl-C to stop.", err=True, bold=True)
        echo(f"Admin listener: {admin}", err=True)
