"""`counterfoil demo`: a restaurant group that never was, served."""

import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click
from msgspec.structs import replace

from counterfoil import showcase, supervise
from counterfoil.addresses import free_port, is_free, is_loopback
from counterfoil.cli.demopage import print_environment, print_line, print_page, print_places
from counterfoil.cli.generate import last_whole_day
from counterfoil.cli.options import settings_from
from counterfoil.cli.progress import progress
from counterfoil.cli.terminal import note, print_json
from counterfoil.keydesk import Randomness
from counterfoil.localcluster import LocalCluster
from counterfoil.observe.logs import FLUSH_SEC
from counterfoil.settings import Settings, SettingsError
from counterfoil.showcase import Showcase
from counterfoil.worldgen.plan import WorldPlan

LAST_PORT = 65_535
WATCH_SEC = 0.2
LOG_SETTLES_SEC = 4 * FLUSH_SEC


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, LAST_PORT), default=8000, show_default=True, help="0 takes a free one.")
@click.option("--admin-port", type=click.IntRange(1, LAST_PORT), help="Admin listener. [default: the next port]")
@click.option("--workers", type=click.IntRange(1), help="Worker processes.")
@click.option("--seed", type=int, default=7, show_default=True, help="The same seed gives the same group and keys.")
@click.option("--until", type=click.DateTime(["%Y-%m-%d"]), metavar="YYYY-MM-DD", help="Last day. [default: yesterday]")
@click.option("--bills", type=click.IntRange(500), default=13_500, show_default=True, help="How many bills.")
@click.option(
    "--store", type=click.Path(file_okay=False), metavar="DIR", help="Keep it there. [default: a temporary folder]"
)
@click.option("--cluster", is_flag=True, help="On PostgreSQL with a replica, Valkey and two nodes behind HAProxy.")
@click.option("--empty", is_flag=True, help="With --cluster: nothing in it, to be filled with `counterfoil load`.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON with URLs, keys and sample ids.")
@click.pass_context
def command(
    ctx: click.Context,
    host: str,
    port: int,
    admin_port: int | None,
    workers: int | None,
    seed: int,
    until: datetime | None,
    bills: int,
    store: str | None,
    cluster: bool,
    empty: bool,
    as_json: bool,
) -> None:
    """Make a believable restaurant group with months of bills, issue a key of every kind, and serve it."""
    plan = WorldPlan(until=until.date() if until else last_whole_day(), seed=seed, bills=bills)
    if empty and not cluster:
        raise click.UsageError("--empty goes with --cluster only.")
    if cluster:
        if store or workers or admin_port or not is_loopback(host):
            raise click.UsageError("--cluster goes without --store, --workers and --admin-port, and on loopback only.")
        _serve_cluster(_ports(host, port, None)[0], None if empty else plan, seed, as_json)
        return
    if port and port == admin_port:
        raise click.UsageError("--port and --admin-port must be different.")
    port, admin_port = _ports(host, port, admin_port)
    with _stopped_cleanly(), _folder(store) as folder:
        settings = settings_from(
            ctx,
            store=folder,
            host=host,
            port=port,
            admin_port=admin_port,
            workers=workers,
            secret=showcase.secret_of(seed),
        )
        if settings.log == "stdout":
            # Standard output belongs to the page and to the line that callers read first.
            settings = replace(settings, log="stderr")
        shown = _build(settings, plan)
        supervise.serve(settings, on_ready=lambda: _present(settings, shown, as_json))


def _serve_cluster(port: int, plan: WorldPlan | None, seed: int, as_json: bool) -> None:
    """The same on the whole cluster: filled before the nodes start, so that its months have their own stamps."""
    with _stopped_cleanly(), _folder(None) as folder:
        cluster = LocalCluster(Path(folder), showcase.secret_of(seed), port)
        with closing(cluster), suppress(KeyboardInterrupt):
            note("starting PostgreSQL, its replica and Valkey.")
            cluster.start_stores()
            shown = _build(cluster.settings(), plan) if plan else None
            note("starting the nodes.")
            cluster.start_nodes()
            with suppress(OSError):
                _present_cluster(cluster, shown, as_json)
                sys.stdout.flush()
            _watch(cluster)


def _present_cluster(cluster: LocalCluster, shown: Showcase | None, as_json: bool) -> None:
    settings, places, environment = cluster.settings(), cluster.places(), cluster.environment()
    if as_json and shown:
        print_line(settings, shown, cluster=dict(places), environment=environment)
    elif as_json:
        print_json({"cluster": dict(places), "environment": environment})
    elif shown:
        print_page(settings, shown, places)
        print_environment("For commands of your own, such as `counterfoil doctor`, in another terminal:", environment)
    else:
        print_places(places)
        print_environment(
            "Fill it from another terminal: `counterfoil load`, `counterfoil keys issue`, with", environment
        )


def _watch(cluster: LocalCluster) -> NoReturn:
    """Says which part has ended, and leaves the others to show what that does."""
    while True:
        for name, status in cluster.ended():
            note(f"{name} has ended with status {status}.")
        time.sleep(WATCH_SEC)


def _build(settings: Settings, plan: WorldPlan) -> Showcase:
    def randomness(purpose: str) -> Randomness:
        # Whoever knows the seed can work these keys out. That is fit for a
        # listener on loopback and for no other.
        return showcase.drawn_from(plan.seed, purpose) if is_loopback(settings.host) else secrets.token_bytes

    if not is_loopback(settings.host):
        note("this demo can be reached from other machines; its keys are random instead of following from the seed.")
    with progress("Making a restaurant group", plan.bills, "bills") as meter:
        return showcase.build(settings, plan, randomness, lambda bills: meter(bills, bills))


def _present(settings: Settings, shown: Showcase, as_json: bool) -> None:
    """Called when the service answers. If nobody reads it, the service goes on."""
    if not as_json:
        # The page is to stand last: the log has yet to say that the service was asked whether it answers.
        time.sleep(LOG_SETTLES_SEC)
    with suppress(OSError):
        (print_line if as_json else print_page)(settings, shown)
        sys.stdout.flush()


def _ports(host: str, port: int, admin_port: int | None) -> tuple[int, int]:
    """Checked before the work of making the group, not after."""
    chosen = port or free_port(host)
    if not is_free(host, chosen):
        raise SettingsError(f"cannot listen on {host}:{chosen}: the port is in use; give another with --port.")
    if admin_port is None:
        admin_port = free_port("127.0.0.1") if port == 0 else chosen + 1 if chosen < LAST_PORT else chosen - 1
    return chosen, admin_port


@contextmanager
def _folder(store: str | None) -> Iterator[str]:
    if store is not None:
        yield store
        return
    with tempfile.TemporaryDirectory(prefix="counterfoil-demo-", ignore_cleanup_errors=True) as folder:
        yield folder


@contextmanager
def _stopped_cleanly() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does, so that the temporary folder goes too."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - a signal handler's signature
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
