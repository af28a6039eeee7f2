"""`counterfoil demo`: create the data of an invented restaurant group, serve it, and print its addresses and keys."""

import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import NoReturn
from urllib.parse import quote

import click
from msgspec.structs import replace

from counterfoil import bootstrap
from counterfoil.cli.generate import MAX_BILLS, DayInRange, today_in_thailand
from counterfoil.cli.options import settings_from
from counterfoil.cli.terminal import echo, print_fields, print_json, print_note, progress, style
from counterfoil.console.sessions import link_command
from counterfoil.demo import showcase
from counterfoil.demo.cluster import HOST as CLUSTER_HOST
from counterfoil.demo.cluster import LocalCluster
from counterfoil.demo.console import (
    CONSOLE_HOST,
    LAST_PORT,
    DemoPorts,
    chosen_ports,
    running_console,
    with_console_port,
)
from counterfoil.demo.history import write_history
from counterfoil.demo.showcase import DemoKey, Showcase, demo_pages, reference_url
from counterfoil.demo.worldgen.plan import WorldPlan
from counterfoil.domain.access import permissions
from counterfoil.key_issuing import Randomness
from counterfoil.machine.addresses import is_loopback, url
from counterfoil.machine.clock import SystemClock
from counterfoil.machine.files import create_secret
from counterfoil.machine.process import stop_signals
from counterfoil.serving import supervisor
from counterfoil.serving.supervisor import require_free_ports
from counterfoil.settings import MAX_WORKERS, Settings
from counterfoil.views.columns import json_row
from counterfoil.views.keys import columns

POLL_SEC = 0.2


@click.command()
@click.option("--host", default="127.0.0.1")
@click.option("--port", type=click.IntRange(0, LAST_PORT), default=8000)
@click.option("--admin-port", type=click.IntRange(1, LAST_PORT))
@click.option("--console-port", type=click.IntRange(1, LAST_PORT))
@click.option("--workers", type=click.IntRange(1, MAX_WORKERS))
@click.option("--seed", type=int, default=7)
@click.option("--until", type=DayInRange(), metavar="YYYY-MM-DD")
@click.option("--bills", type=click.IntRange(500, MAX_BILLS), default=13_500)
@click.option("--store", type=click.Path(file_okay=False), metavar="DIR")
@click.option("--cluster", is_flag=True)
@click.option("--empty", is_flag=True)
@click.option("--json", "as_json", is_flag=True)
@click.pass_context
def command(
    ctx: click.Context,
    host: str,
    port: int,
    admin_port: int | None,
    console_port: int | None,
    workers: int | None,
    seed: int,
    until: datetime | None,
    bills: int,
    store: str | None,
    cluster: bool,
    empty: bool,
    as_json: bool,
) -> None:
    plan = WorldPlan(until=until.date() if until else today_in_thailand(), seed=seed, bills=bills)
    if plan.until > today_in_thailand():
        raise click.BadParameter("the demo has no future bills. Choose today or an earlier day.", param_hint="--until")
    if empty and not cluster:
        raise click.UsageError("--empty requires --cluster.")
    if cluster:
        if store or workers or admin_port or host not in ("127.0.0.1", "localhost"):
            raise click.UsageError(
                "--cluster cannot be used with --store, --workers or --admin-port, and --host must be 127.0.0.1."
            )
        with chosen_ports(CLUSTER_HOST, port, None, console_port) as ports:
            require_free_ports(CLUSTER_HOST, ports.api, "", 0)
            _serve_cluster(ports, None if empty else plan, seed, as_json)
        return
    if port and port == admin_port:
        raise click.UsageError("--port and --admin-port must be different.")
    with (
        chosen_ports(host, port, admin_port, console_port) as ports,
        stop_signals_as_interrupt(),
        _store_folder(store) as folder,
    ):
        # Check the ports first, because creating the data takes a while.
        require_free_ports(host, ports.api, "127.0.0.1", ports.admin)
        if ports.console is not None:
            require_free_ports(host, ports.api, CONSOLE_HOST, ports.console)
        settings = settings_from(
            ctx,
            store=folder,
            host=host,
            port=ports.api,
            admin_port=ports.admin,
            workers=workers,
            secret=showcase.demo_secret(seed),
        )
        if settings.log == "stdout":
            # Standard output is reserved for the text or JSON that the demo prints when it is ready.
            settings = replace(settings, log="stderr")
        demo = _fill_store(settings, plan)
        # Other commands on the same store, such as `console link`, need the secret that the store was built with.
        create_secret(Path(folder) / "secret", settings.secret)
        bootstrap.prepare(settings)
        settings = with_console_port(settings, ports.console, ports.admin)
        with running_console(settings) as console:
            write_history(settings, demo, seed)
            link = console.link()
            console.watch(print_note)
            supervisor.serve(
                settings, lambda: _print_ready(ctx, settings, demo, link, as_json), demo_pages(settings, demo)
            )


def _serve_cluster(ports: DemoPorts, plan: WorldPlan | None, seed: int, as_json: bool) -> None:
    """Serve from a local cluster.

    The data is loaded before the nodes start, because they would advance the horizon to the present, and the demo
    loads its records with stamps in the past.
    """
    with stop_signals_as_interrupt(), _store_folder(None) as folder:
        cluster = LocalCluster(Path(folder), showcase.demo_secret(seed), ports.api)
        with closing(cluster), suppress(KeyboardInterrupt):
            print_note("starting PostgreSQL, its replica and Valkey.")
            cluster.start_stores()
            demo = _fill_store(cluster.settings(), plan) if plan else None
            print_note("starting the nodes.")
            cluster.start_nodes()
            with running_console(with_console_port(cluster.settings(), ports.console, ports.api)) as console:
                with suppress(OSError):
                    _print_cluster_ready(cluster, demo, console.link(), as_json)
                    sys.stdout.flush()
                console.watch(print_note)
                _report_exits(cluster)


def _print_cluster_ready(cluster: LocalCluster, demo: Showcase | None, console: str | None, as_json: bool) -> None:
    settings, addresses, environment = cluster.settings(), cluster.addresses(), cluster.environment()
    if as_json and demo:
        print_json_line(settings, demo, console, cluster=dict(addresses), environment=environment)
    elif as_json:
        print_json({"cluster": dict(addresses), "environment": environment, "console": console})
    elif demo:
        print_page(settings, demo, console, addresses)
        print_environment(
            "To run commands such as `counterfoil doctor` in another terminal, first set these variables there:",
            environment,
        )
        print_end()
    else:
        print_addresses(addresses)
        print_console(console)
        print_environment(
            "To run commands such as `counterfoil load` and `counterfoil keys issue` in another terminal, "
            "first set these variables there:",
            environment,
        )
        print_end()


def _report_exits(cluster: LocalCluster) -> NoReturn:
    """Report processes that exit. The other processes keep running, so that users can observe the effect."""
    while True:
        for name, status in cluster.exited():
            print_note(f"{name} exited with status {status}.")
        time.sleep(POLL_SEC)


def _fill_store(settings: Settings, plan: WorldPlan) -> Showcase:
    def randomness(purpose: str) -> Randomness:
        # Anyone who knows the seed can derive these keys, which is acceptable
        # on loopback only.
        return showcase.seeded_randomness(plan.seed, purpose) if is_loopback(settings.host) else secrets.token_bytes

    if not is_loopback(settings.host):
        print_note(
            "this demo can be reached from other machines, so its keys are random and not derived from the seed."
        )
    with progress("Creating a restaurant group", plan.bills, "bills") as show_progress:
        return showcase.build(settings, plan, randomness, lambda bills: show_progress(bills, bills))


def _print_ready(ctx: click.Context, settings: Settings, demo: Showcase, console: str | None, as_json: bool) -> None:
    """Print addresses and keys, as text or JSON. Ignore a closed standard output.

    This is called in another thread when the service is ready. The thread must enter the click context to use its
    colour setting.
    """
    with suppress(OSError), ctx.scope(cleanup=False):
        if as_json:
            print_json_line(settings, demo, console)
        else:
            print_page(settings, demo, console)
            print_end("The log follows.")
        sys.stdout.flush()


@contextmanager
def _store_folder(store: str | None) -> Iterator[str]:
    if store is not None:
        yield store
        return
    with tempfile.TemporaryDirectory(prefix="counterfoil-demo-", ignore_cleanup_errors=True) as folder:
        yield folder


@contextmanager
def stop_signals_as_interrupt() -> Iterator[None]:
    """Handle SIGTERM and a closed terminal like Ctrl-C, so that the temporary folder is deleted."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - a signal handler's signature
        raise KeyboardInterrupt

    previous_handlers = {number: signal.signal(number, stop) for number in stop_signals()}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


# --- what is printed when the demo is ready -------------------------------------------


# The name and the address of each process in the demo's cluster.
Addresses = Sequence[tuple[str, str]]


def print_json_line(settings: Settings, demo: Showcase, console: str | None, **more: object) -> None:
    base = _base_url(settings)
    print_json(
        {
            "baseUrl": base,
            "openapi": f"{base}/openapi.json",
            "reference": reference_url(settings),
            "admin": url(settings.admin_host, settings.admin_port),
            "console": console,
            "store": str(settings.store),
            "keys": [_key_view(key) for key in demo.keys],
            "samples": demo.samples,
            **more,
        }
    )


def _key_view(demo_key: DemoKey) -> dict[str, object]:
    role = demo_key.role
    return {
        "purpose": role.purpose,
        "key": demo_key.text,
        **json_row(columns(SystemClock().now_ms()), demo_key.key),
        "shopId": role.shop_ids[0],
        "shopIds": role.shop_ids,
        "providerId": role.provider_ids[0] if role.provider_ids else None,
        "providerIds": role.provider_ids,
    }


def print_page(settings: Settings, demo: Showcase, console: str | None, addresses: Addresses = ()) -> None:
    base = _base_url(settings)
    _heading("Counterfoil demo", base)
    _heading("API reference", reference_url(settings))
    print_console(console, None if settings.database else settings)
    echo(f"An invented restaurant group: {demo.franchises} franchises, {demo.shops} shops, {demo.members:,} members")
    echo(f"and {demo.bills:,} bills from {demo.first_day} to {demo.last_day}.")
    echo(f"The source also had {demo.rejected:,} deliberately invalid lines, which were rejected.")
    echo()
    if addresses:
        print_addresses(addresses)
    _heading("Keys")
    for demo_key in demo.keys:
        _print_key(demo_key)
    echo()
    _heading("Try it")
    for what, line in curl_lines(base, demo):
        echo(f"# {what}", dim=True)
        echo(line)
    echo()


def print_console(console: str | None, settings: Settings | None = None) -> None:
    """Print the console's sign-in link, which works only once. If `settings` is given, say how to get another link."""
    _heading("Console", console or "could not be started")
    if console and settings:
        echo(f"  This link works once. For another link, run: {link_command(settings)}", dim=True)


def print_addresses(addresses: Addresses) -> None:
    _heading("Cluster")
    print_fields(addresses)
    echo()


def print_environment(what_for: str, environment: Mapping[str, str]) -> None:
    echo(what_for)
    echo()
    for name, value in environment.items():
        echo(f"export {name}={value}")
    echo()


def print_end(more: str = "") -> None:
    echo(f"Press Ctrl-C to stop the demo. {more}".rstrip(), bold=True)


def _print_key(demo_key: DemoKey) -> None:
    """Print a description of the key, and below it the key itself, so that both fit a narrow terminal."""
    key = demo_key.key
    about = [
        key.label,
        key.scope.kind,
        *permissions(key),
        f"{_format_limit(key.per_min)}/min, {_format_limit(key.per_day)}/day",
    ]
    state = style("  revoked", fg="red") if key.revoked_at is not None else ""
    echo(f"{style(f'{demo_key.role.purpose:<14}', fg='cyan')}  {' · '.join(about)}{state}")
    echo(f"  {demo_key.text}", bold=True)


def _format_limit(limit: int) -> str:
    return f"{limit // 1_000_000}M" if limit and limit % 1_000_000 == 0 else f"{limit:,}"


def curl_lines(base: str, demo: Showcase) -> list[tuple[str, str]]:
    """Return a description and a curl command for each endpoint."""
    ids = demo.samples
    chain, personal, lookup = (demo.key(purpose).text for purpose in ("franchise", "personal data", "lookup"))
    days = f"shopId={ids.shop_id}&from={ids.from_}&to={ids.to}"
    by_day = f"{days}&limit=2"
    by_change = f"shopId={ids.shop_id}&updatedSince={ids.updated_since}&limit=2"
    who = f"providerId={ids.provider_id}&messagingUserId={ids.messaging_user_id}"
    bill = quote(ids.transaction_id, safe="")
    return [
        ("the shops a key can read", _curl(chain, f"{base}/shops")),
        ("bills by calendar day", _curl(chain, f"{base}/transactions?{by_day}")),
        ("bills by last change", _curl(chain, f"{base}/transactions?{by_change}")),
        ("everything that the key can read, then only changes", _curl(chain, f"{base}/changes?limit=2")),
        ("totals per shop and day, to check a copy", _curl(chain, f"{base}/digests?{days}")),
        ("one bill", _curl(chain, f"{base}/transactions/{bill}")),
        ("members, with tel and email", _curl(personal, f"{base}/members?providerId={ids.provider_id}&limit=2")),
        ("a member by messaging user ID", _curl(lookup, f"{base}/members/lookup?{who}")),
        ("one member", _curl(chain, f"{base}/members/{ids.member_id}")),
        ("requests made with the key", _curl(chain, f"{base}/usage")),
        ("the OpenAPI document, no key needed", f"curl -s '{base}/openapi.json'"),
    ]


def _curl(key: str, address: str) -> str:
    return f"curl -s -H 'Authorization: Bearer {key}' '{address}'"


def _heading(text: str, more: str = "") -> None:
    echo(f"{style(text, bold=True, fg='green')}  {more}".rstrip())


def _base_url(settings: Settings) -> str:
    return url(settings.host, settings.port, f"{settings.prefix}/v1")
