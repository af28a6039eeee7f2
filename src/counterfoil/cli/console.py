"""`counterfoil console`: run the operator's console, or make a sign-in link for a running console."""

import errno
import os
import sys
import threading
from urllib.parse import urlsplit

import click

from counterfoil import bootstrap
from counterfoil.cli.keys import duration
from counterfoil.cli.options import existing_store, setting_option, settings_from, store_options
from counterfoil.cli.terminal import echo, print_json, print_note
from counterfoil.console.app import serve, sign_in_link
from counterfoil.console.sessions import DEFAULT_VALIDITY_MS, MAX_VALIDITY_MS, link_command
from counterfoil.machine.addresses import is_listening, is_loopback, listening_problem, url
from counterfoil.machine.operator import operator
from counterfoil.machine.process import SignalSafeEvent
from counterfoil.settings import Settings, SettingsError

# The addresses that browsers try for a name below `localhost`.
BROWSERS_FIND = ("127.0.0.1", "localhost", "::1")


def validity(value: str) -> int:
    """Parse the time for which a link is valid, and return it in milliseconds."""
    found = duration(value)
    if found > MAX_VALIDITY_MS:
        raise click.BadParameter("a link can be valid for at most 24h.")
    return found


valid_for = click.option("--valid-for", type=validity, metavar="DURATION")


@click.group(invoke_without_command=True)
@setting_option("console_host")
@setting_option("console_port")
@setting_option("console_names")
@valid_for
@click.option("--no-link", is_flag=True)
@click.option("--until-end-of-input", is_flag=True, hidden=True)
@store_options
def command(
    ctx: click.Context, valid_for: int | None, no_link: bool, until_end_of_input: bool, as_json: bool, **flags: object
) -> None:
    if ctx.invoked_subcommand:
        return
    settings = settings_from(ctx, **flags)
    bootstrap.store(settings).require_exists()
    _require_free_port(settings)
    if not is_loopback(settings.console_host):
        print_note(
            "the console can be reached from other machines over plain HTTP. Put an HTTPS reverse proxy in front of it."
        )
    stop = SignalSafeEvent()
    if until_end_of_input:
        threading.Thread(target=_wait_for_end_of_input, args=(stop,), daemon=True).start()
    serve(settings, lambda: _print_address(settings) if no_link else _print_link(settings, valid_for, as_json), stop)


@command.command()
@setting_option("console_host")
@setting_option("console_port")
@click.option("--url", "base_url", metavar="URL")
@valid_for
@store_options
def link(
    ctx: click.Context, base_url: str | None, valid_for: int | None, store: str | None, as_json: bool, **flags: object
) -> None:
    settings = existing_store(ctx, store, **flags)
    if not is_listening(settings.console_host, settings.console_port):
        address = url(settings.console_host, settings.console_port)
        raise click.ClickException(f"no console is running at {address}. Run `counterfoil console` to start one.")
    _print_link(settings, valid_for, as_json, base_url)


def _print_link(settings: Settings, valid_for: int | None, as_json: bool, base_url: str | None = None) -> None:
    made = sign_in_link(settings, operator(), valid_for or DEFAULT_VALIDITY_MS, base_url)
    host = settings.console_host
    if not base_url and is_loopback(host) and host not in BROWSERS_FIND:
        name = urlsplit(made).hostname
        print_note(f"browsers look for the console at 127.0.0.1. Add this line to /etc/hosts: {host} {name}")
    if as_json:
        print_json({"console": made})
    else:
        echo(made)
        print_note(f"open this link in your browser. It works once; run `{link_command(settings)}` to get another one.")
    sys.stdout.flush()


def _print_address(settings: Settings) -> None:
    """Say that the console is ready, without its own name and without a link, because a log may keep this."""
    print_note(f"the console is ready. For a sign-in link, run `{link_command(settings)}` as the same user.")


def _require_free_port(settings: Settings) -> None:
    problem = listening_problem(settings.console_host, settings.console_port)
    if problem is None:
        return
    reason = "the port is in use" if problem.errno == errno.EADDRINUSE else problem.strerror or str(problem)
    address = f"{settings.console_host}:{settings.console_port}"
    raise SettingsError(f"cannot listen on {address}: {reason}. Choose another --console-port or check --console-host.")


def _wait_for_end_of_input(stop: SignalSafeEvent) -> None:
    """Stop the console when its standard input ends, which happens even if the parent process is killed."""
    # Read the descriptor, because a thread blocked in a read of `sys.stdin` holds a lock that Python needs at exit.
    while os.read(sys.stdin.fileno(), 1024):
        pass
    stop.set()
