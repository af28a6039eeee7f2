"""`counterfoil console`: run the operator's console, make sign-in links, and list and revoke devices."""

import sys
from urllib.parse import urlsplit

import click

from counterfoil import bootstrap, devices
from counterfoil.cli import options
from counterfoil.cli.keys import duration
from counterfoil.console.app import serve
from counterfoil.console.sign_in import MAX_VALIDITY_MS, lifetimes, link_command, new_device, sign_in_link
from counterfoil.domain.devices import ROLES, Device, Role, state_of
from counterfoil.machine.addresses import is_listening, is_loopback, url
from counterfoil.machine.operator import operator
from counterfoil.model.text import counted
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.program.clock import SystemClock
from counterfoil.program.main import CommandGroup
from counterfoil.program.terminal import echo, print_json, print_note, print_rows
from counterfoil.settings import Settings, bound
from counterfoil.views.devices import columns

# The addresses that browsers try for a name below `localhost`.
BROWSERS_FIND = ("127.0.0.1", "localhost", "::1")
MAX_NAME = 100


def validity(value: str) -> int:
    found = duration(value)
    if found > MAX_VALIDITY_MS:
        raise click.BadParameter("a link can be valid for at most 24h.")
    return found


def device_name(value: str) -> str:
    name = value.strip()
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise click.BadParameter(f"a name has 1 to {MAX_NAME} characters, without line breaks.")
    return name


valid_for = click.option(
    "--valid-for",
    type=validity,
    metavar="DURATION",
    default=None,
    help="How long the link is valid, at most 24h. [default: 15m]",
)


@click.group(invoke_without_command=True, cls=CommandGroup)
@options.setting_options("console_host", "console_port", "console_names")
@valid_for
@click.option(
    "--no-link",
    is_flag=True,
    help="Print no sign-in link, for a console whose output is kept in a log. Run `counterfoil console "
    "link` to get one.",
)
@options.store_options
@click.pass_context
def command(ctx: click.Context, /, valid_for: int | None, no_link: bool, as_json: bool, **flags: object) -> None:
    """Run the operator's console until stopped with Ctrl-C or SIGTERM.

    The console is a web site that shows how the service is used and whether it has problems. Operators can also
    issue, change and revoke keys there. The console runs in its own process, and the service does not need it. When
    it is ready, it prints a link that signs you in once. By default, it listens on loopback only.
    """
    if ctx.invoked_subcommand:
        return
    if no_link:
        options.refuse_without_effect("no link is made.", "--valid-for", "--json")
    settings = options.settings_from(**flags)
    bootstrap.store(settings).require_exists()
    bound(settings.console_host, settings.console_port, "console-").close()
    if not is_loopback(settings.console_host):
        print_note(
            "the console can be reached from other machines over plain HTTP. Put an HTTPS reverse proxy in front of it."
        )

    def announce() -> None:
        if no_link:
            # A log may keep this, so it has neither a link nor the console's own name.
            print_note(f"the console is ready. For a sign-in link, run `{link_command(settings)}` as the same user.")
        else:
            _print_link(settings, new_device(operator(), SystemClock().now_ms(), valid_for), as_json)

    serve(settings, announce)


@command.command()
@click.option(
    "--for",
    "name",
    type=device_name,
    metavar="NAME",
    help='Name of the device, such as "kitchen phone", for lists and the audit log. [default: your name]',
)
@click.option("--role", type=click.Choice(ROLES), default="operator", help="What the device may do.")
@click.option(
    "--days",
    type=click.IntRange(1),
    help="Keep the device signed in for this many days, unless it is not used for console_idle_days.",
)
@options.setting_options("console_host", "console_port")
@click.option(
    "--url", "base_url", metavar="URL", help="URL at which your browser reaches a console that is behind a proxy."
)
@valid_for
@options.store_options
def link(
    name: str | None,
    role: Role,
    days: int | None,
    base_url: str | None,
    valid_for: int | None,
    as_json: bool,
    **flags: object,
) -> None:
    """Print a link that signs one device in to a running console.

    The link works once. A reader sees everything except personal data and secrets, and changes nothing. Without
    --days, the device is signed in for a working session: see the settings console_idle_min and console_max_hours.
    The audit log records who made the link, and every change that the device makes.
    """
    settings = options.existing_store(**flags)
    if days and days > settings.console_max_days:
        raise click.BadParameter(
            f"a device can be signed in for at most {settings.console_max_days:,} days (console_max_days).",
            param_hint="--days",
        )
    if not is_listening(settings.console_host, settings.console_port):
        address = url(settings.console_host, settings.console_port)
        raise click.ClickException(f"no console is running at {address}. Run `counterfoil console` to start one.")
    device = new_device(operator(), SystemClock().now_ms(), valid_for, name or "", role, days)
    _print_link(settings, device, as_json, base_url)


def _print_link(settings: Settings, device: Device, as_json: bool, base_url: str | None = None) -> None:
    try:
        devices.record_link(bootstrap.store(settings).devices(), device, operator())
    except (StoreUnavailable, StoreMismatch) as error:
        print_note(f"the store cannot be written, so this link is not in the audit log: {error}")
    made = sign_in_link(settings, device, base_url)
    host = settings.console_host
    if not base_url and is_loopback(host) and host not in BROWSERS_FIND:
        name = urlsplit(made).hostname or ""
        print_note(f"browsers look for the console at 127.0.0.1. Add this line to /etc/hosts: {host} {name}")
    if as_json:
        print_json({"console": made, "deviceId": device.device_id})
    else:
        echo(made)
        print_note(
            f"open this link in the browser of the device. It works once, as device {device.device_id} with the "
            f"role {device.role}; run `{link_command(settings)}` to get another one."
        )
    sys.stdout.flush()


@command.command("devices")
@click.option(
    "--all",
    "with_ended",
    is_flag=True,
    help="Also list devices that are expired or revoked. They are kept for 90 days.",
)
@options.utc_option
@options.store_options
def list_devices(with_ended: bool, as_json: bool) -> None:
    """List the devices that are signed in to the console, and links that were not used yet, newest first.

    The time of the last use is stored once a minute at most.
    """
    settings = options.existing_store()
    now, lasting = SystemClock().now_ms(), lifetimes(settings)
    found = bootstrap.store(settings).reads().devices()
    shown = [device for device in found if with_ended or state_of(device, lasting, now) in ("signed_in", "link")]
    nothing = "no device is signed in. Run `counterfoil console link` to sign one in."
    print_rows(columns(lasting, now), shown, as_json, nothing=nothing)


@command.command()
@click.argument("device_id", metavar="DEVICEID", required=False)
@click.option("--all", "is_all", is_flag=True, help="Revoke all devices and unused links.")
@options.store_option
def revoke(device_id: str | None, is_all: bool) -> None:
    """Sign a device out of the console, or make a link that was not used yet useless.

    The next request of the device is refused. `counterfoil console devices` lists the IDs.
    """
    if bool(device_id) == is_all:
        raise click.UsageError("give the ID of a device, or --all.")
    settings = options.existing_store()
    now = SystemClock().now_ms()
    found = [
        device.device_id
        for device in bootstrap.store(settings).reads().devices()
        if state_of(device, lifetimes(settings), now) in ("signed_in", "link")
    ]
    chosen = found if device_id is None else [device_id]
    for chosen_id in chosen:
        devices.revoke(bootstrap.store(settings).devices(), chosen_id, now, operator())
    print_note(f"{counted(len(chosen), 'device is', 'devices are')} signed out.")
