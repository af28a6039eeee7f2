"""`counterfoil demo`: create the data of an invented restaurant group, serve it, and print its addresses and keys."""

import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import date
from pathlib import Path
from shlex import quote
from shutil import which
from typing import Literal
from urllib.parse import urlencode

import click
from msgspec.structs import replace

from counterfoil import bootstrap, devices
from counterfoil.cli.generate import MAX_BILLS, day_in_range, today_in_thailand
from counterfoil.cli.options import settings_from
from counterfoil.console.app import running
from counterfoil.console.sign_in import MAX_VALIDITY_MS, link_command, new_device, sign_in_link
from counterfoil.demo import showcase
from counterfoil.demo.history import write_history
from counterfoil.demo.ports import CONSOLE_HOST, LAST_PORT, chosen_ports
from counterfoil.demo.showcase import Showcase, demo_reference, reference_url
from counterfoil.demo.worldgen.plan import WorldPlan
from counterfoil.http.reference import served_pages
from counterfoil.http.reference.calls import ExampleCall
from counterfoil.key_issuing import Randomness
from counterfoil.machine.addresses import is_loopback, url
from counterfoil.machine.files import create_secret
from counterfoil.machine.operator import operator
from counterfoil.program.clock import SystemClock
from counterfoil.program.columns import json_row
from counterfoil.program.main import Command
from counterfoil.program.paths import UserPath
from counterfoil.program.process import stop_signals_as_interrupt
from counterfoil.program.terminal import echo, print_fields, print_json, print_note, progress, style
from counterfoil.serving import supervisor
from counterfoil.settings import MAX_WORKERS, Settings, bound
from counterfoil.views.keys import columns

# What is printed when the demo is ready: the first things to do, also all keys and requests, or JSON.
Output = Literal["short", "all", "json"]


@click.command(cls=Command)
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, LAST_PORT), default=8000, help="Port to listen on; 0 picks a free port.")
@click.option(
    "--bills", type=click.IntRange(500, MAX_BILLS), default=13_500, help="Number of bills by the end of the last day."
)
@click.option(
    "--store",
    type=UserPath(file_okay=False),
    metavar="DIR",
    help="Folder to keep the store in. [default: a temporary folder]",
)
@click.option(
    "--all", "shows_all", is_flag=True, help="Also print a key of every kind, and a request to each endpoint."
)
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON with URLs, keys and sample IDs.")
@click.option(
    "--admin-port",
    type=click.IntRange(1, LAST_PORT),
    help="Port of the admin listener. [default: --port + 1, or a free port if --port is 0]",
)
@click.option(
    "--console-port",
    type=click.IntRange(1, LAST_PORT),
    help="Port of the console. [default: --admin-port + 1, or another free port]",
)
@click.option("--workers", type=click.IntRange(1, MAX_WORKERS), help="Number of worker processes.")
@click.option(
    "--seed",
    type=int,
    default=7,
    help="The same seed gives the same data and, on loopback, the same keys, if --until and --bills are the same too.",
)
@click.option(
    "--until", type=day_in_range, metavar="YYYY-MM-DD", help="Last day with bills. [default: today, up to now]"
)
@click.pass_context
def command(
    ctx: click.Context,
    host: str,
    port: int,
    admin_port: int | None,
    console_port: int | None,
    workers: int | None,
    seed: int,
    until: date | None,
    bills: int,
    store: str | None,
    shows_all: bool,
    as_json: bool,
) -> None:
    """Create a realistic restaurant group with months of bills, issue a key of every kind, and serve the API."""
    output: Output = "all" if shows_all else "short"
    if as_json:
        output = "json"
    plan = WorldPlan(until=until or today_in_thailand(), seed=seed, bills=bills)
    if plan.until > today_in_thailand():
        raise click.BadParameter("the demo has no future bills. Choose today or an earlier day.", param_hint="--until")
    if port and port == admin_port:
        raise click.UsageError("--port and --admin-port must be different.")
    with (
        chosen_ports(host, port, admin_port, console_port) as ports,
        # So that the temporary folder is deleted.
        stop_signals_as_interrupt(),
        nullcontext(store)
        if store
        else tempfile.TemporaryDirectory(prefix="counterfoil-demo-", ignore_cleanup_errors=True) as folder,
    ):
        # Check the ports first, because creating the data takes a while.
        bound(host, ports.api).close()
        bound(CONSOLE_HOST, ports.console, "console-").close()
        bound("127.0.0.1", ports.admin, "admin-").close()
        flags = {"store": folder, "host": host, "port": ports.api, "admin_port": ports.admin, "workers": workers}
        flags |= {"console_host": CONSOLE_HOST, "console_port": ports.console}
        _serve(ctx, settings_from(secret=showcase.demo_secret(seed), **flags), plan, output)


def _serve(ctx: click.Context, settings: Settings, plan: WorldPlan, output: Output) -> None:
    # Standard output is reserved for the text or JSON that the demo prints when it is ready.
    log = "stderr" if settings.log == "stdout" else settings.log
    # What happens in the demo is nothing that the operator's receivers should hear of.
    settings = replace(settings, log=log, notify_url="", heartbeat_url="")
    demo = _fill_store(settings, plan)
    # Other commands on the same store, such as `console link`, need the secret that the store was built with.
    create_secret(settings.store / "secret", settings.secret)
    bootstrap.store(settings).prepare()
    write_history(settings, demo, plan.seed)
    with _console(settings) as link:

        def on_ready() -> None:
            # This runs in another thread, which must enter the click context to use its colour setting.
            with ctx.scope(cleanup=False):
                _print_ready(settings, demo, link, output)

        supervisor.serve(settings, on_ready, served_pages(demo_reference(settings, demo)))


@contextmanager
def _console(settings: Settings) -> Iterator[str]:
    """Run the console in threads of this process, and yield a sign-in link."""
    api_url = settings.api_url or _base_url(settings)
    # Some users do not open the console until hours after they start the demo.
    device = new_device(operator(), SystemClock().now_ms(), MAX_VALIDITY_MS)
    devices.record_link(bootstrap.store(settings).devices(), device, operator())
    with running(replace(settings, api_url=api_url)):
        yield sign_in_link(settings, device)


def _fill_store(settings: Settings, plan: WorldPlan) -> Showcase:
    def randomness(purpose: str) -> Randomness:
        # Anyone who knows the seed can derive these keys, which is acceptable on loopback only.
        return showcase.seeded_randomness(plan.seed, purpose) if is_loopback(settings.host) else secrets.token_bytes

    if not is_loopback(settings.host):
        print_note(
            "this demo can be reached from other machines, so its keys are random and not derived from the seed."
        )
    with progress("Creating a restaurant group", plan.bills, "bills") as show_progress:
        return showcase.build(settings, plan, randomness, lambda bills: show_progress(bills, bills))


def _print_ready(settings: Settings, demo: Showcase, console: str, output: Output) -> None:
    """Print addresses and keys. Nobody may read them any more."""
    with suppress(OSError):
        if output == "json":
            print_json({**_demo_json(settings, demo), "console": console})
        else:
            print_page(settings, demo, console, output)
            echo("Press Ctrl-C to stop the demo. The log follows.", bold=True)
        sys.stdout.flush()


def _demo_json(settings: Settings, demo: Showcase) -> dict[str, object]:
    base = _base_url(settings)
    return {
        "baseUrl": base,
        "openapi": f"{base}/openapi.json",
        "reference": reference_url(settings),
        "admin": url(settings.admin_host, settings.admin_port),
        "store": str(settings.store),
        "keys": [
            {
                "purpose": key.purpose,
                "key": key.text,
                **json_row(columns(SystemClock().now_ms()), key.key),
                "shopId": key.shop_ids[0],
                "shopIds": key.shop_ids,
                "providerId": key.provider_ids[0] if key.provider_ids else None,
                "providerIds": key.provider_ids,
            }
            for key in demo.keys
        ],
        "samples": demo.samples,
    }


def print_page(settings: Settings, demo: Showcase, console: str, output: Output) -> None:
    base = _base_url(settings)
    _heading("Counterfoil demo", base)
    echo(f"An invented restaurant group: {demo.franchises} franchises, {demo.shops} shops, {demo.members:,} members")
    echo(f"and {demo.bills:,} bills from {demo.first_day} to {demo.last_day}.")
    echo()
    _heading("1. Open the console, where an operator sees how the service is used")
    echo(console)
    echo(f"This link works once. For another link, run: {link_command(settings, _program())}", dim=True)
    echo()
    _heading("2. Read bills of a shop")
    first = next(call for _, call in _requests(settings, demo) if call.name == _FIRST_REQUEST)
    echo(f"KEY={demo.key('franchise').text}", bold=True)
    echo(f'curl -s -H "Authorization: Bearer $KEY" {_quoted_address(settings, first)}')
    echo()
    _heading("3. Keep a copy of everything that the key can read, up to date")
    echo(f"COUNTERFOIL_KEY=$KEY {_program()} pull --url {base} --to copy.sqlite")
    echo()
    _heading("API reference", reference_url(settings))
    if output == "all":
        _print_rest(settings, demo)
    else:
        echo("With --all, the demo prints a key of every kind and a request to each endpoint.", dim=True)
    echo()


def _program() -> str:
    """Return what to type in another terminal to run this program: its path, if the shell does not find its name."""
    if which("counterfoil"):
        return "counterfoil"
    is_script = Path(sys.argv[0]).name == "counterfoil"
    return quote(sys.argv[0]) if is_script else f"{quote(sys.executable)} -m counterfoil"


def _print_rest(settings: Settings, demo: Showcase) -> None:
    echo(f"The source also had {demo.rejected:,} deliberately invalid lines, which were rejected.")
    echo()
    _heading("Keys")
    print_fields([(demo_key.purpose, style(demo_key.text, bold=True)) for demo_key in demo.keys])
    echo()
    _heading("Requests")
    for what, call in _requests(settings, demo):
        echo(f"# {what}", dim=True)
        key = demo.key(_KEY_PURPOSES.get(call.operation, "franchise")).text
        authorization = "" if call.public else f"-H 'Authorization: Bearer {key}' "
        echo(f"curl -s {authorization}{_quoted_address(settings, call)}")


# The purposes of the keys that requests are made with. The others are made with the franchise's key.
_KEY_PURPOSES = {"listMembers": "personal data", "lookupMember": "lookup"}
# The request that a reader should try first.
_FIRST_REQUEST = "listTransactions By day"


def _requests(settings: Settings, demo: Showcase) -> Iterator[tuple[str, ExampleCall]]:
    for endpoint in demo_reference(settings, demo).endpoints:
        for call in endpoint.calls:
            yield (
                f"{endpoint.summary.removesuffix('.')}: {call.title.lower()}" if call.title else endpoint.summary,
                call,
            )


def _quoted_address(settings: Settings, call: ExampleCall) -> str:
    query = f"?{urlencode(call.query)}" if call.query else ""
    return f"'{_base_url(settings)}/{call.path.removeprefix('/')}{query}'"


def _heading(text: str, more: str = "") -> None:
    echo(f"{style(text, bold=True, fg='green')}  {more}".rstrip())


def _base_url(settings: Settings) -> str:
    return url(settings.host, settings.port, f"{settings.prefix}/v1")
