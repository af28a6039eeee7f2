"""Options shared by `pull` and `reconcile`: the service, the key and the target."""

import os
from collections.abc import Callable
from datetime import UTC, date, timedelta
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from msgspec import Struct

from counterfoil.client import Client
from counterfoil.client.connection import checked_url, request_headers
from counterfoil.client.sinks import TARGET_KINDS, Destination, parse_destination
from counterfoil.domain.calendar import from_ms
from counterfoil.machine.clock import SystemClock
from counterfoil.text import parse_duration

KEY_VARIABLE = "COUNTERFOIL_KEY"
API_PATH = "/ext/v1"
# A run with at most this many requests does not ask the service for the rate limit.
UNPACED_REQUESTS = 6


class Remote(Struct, frozen=True):
    """The service to read from and the target to write to."""

    url: str
    key: str
    destination: Destination

    def client(self) -> Client:
        return Client(self.url, self.key, unpaced=UNPACED_REQUESTS)


def duration(text: str) -> float:
    """Parse a duration such as `30s`, `5m`, `12h` or `1d`, and return it in seconds."""
    span_ms = parse_duration(text, "smhd")
    if span_ms is None:
        raise click.BadParameter(f"{text!r} is not a valid duration. Use a value such as 30s, 5m, 12h or 1d.")
    return span_ms / 1000


def past_day(text: str) -> date:
    """Parse a date that is not in the future. Tomorrow in UTC is accepted, because it may be today at the shop."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a valid date. Use the format YYYY-MM-DD, for example 2026-01-31."
        ) from None
    if day > from_ms(SystemClock().now_ms(), UTC).date() + timedelta(days=1):
        raise click.BadParameter(f"{text} is in the future. Use an earlier date.")
    return day


def since_option(help_text: str) -> Callable[[Any], Any]:
    return click.option("--since", type=past_day, metavar="DATE", help=help_text)


def remote_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options `--url`, `--key-file` and `--to`, and pass them to the command as `remote`."""

    @click.option(
        "--url", required=True, envvar="COUNTERFOIL_URL", show_envvar=True, metavar="URL", help="Base URL of the API."
    )
    @click.option(
        "--key-file",
        type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
        metavar="FILE",
        help=f"File with the API key, or - for standard input. [default: the environment variable {KEY_VARIABLE}]",
    )
    @click.option("--key", "bare_key", hidden=True)
    @click.option(
        "--to",
        "target_name",
        default="counterfoil.duckdb",
        show_default=True,
        metavar="TARGET",
        help=f"Where the copy is kept: {TARGET_KINDS}",
    )
    @wraps(command)
    def with_remote(url: str, key_file: Path | None, bare_key: str | None, target_name: str, **others: Any) -> None:
        command(remote=_remote(url, _key(key_file, bare_key), target_name), **others)

    return with_remote


def _remote(url: str, key: str, target_name: str) -> Remote:
    try:
        base_url = checked_url(_with_api_path(url))
        request_headers(key)  # This raises ValueError for an invalid key.
        return Remote(base_url, key, parse_destination(target_name))
    except ValueError as error:
        message = str(error)
        raise click.UsageError(message if message.endswith(".") else f"{message}.") from error


def _with_api_path(url: str) -> str:
    """Add the default API path to a URL without a path."""
    return url if urlsplit(url).path.strip("/") else url.rstrip("/") + API_PATH


def _key(file: Path | None, bare: str | None) -> str:
    if bare is not None:
        raise click.UsageError(
            "A key on the command line is visible to all users of this machine. "
            f"Use --key-file or the environment variable {KEY_VARIABLE}."
        )
    if file is not None:
        with click.open_file(str(file), encoding="utf-8", errors="replace") as opened:
            key = str(opened.read(10_000)).strip()
    else:
        key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        raise click.UsageError(f"No API key. Use --key-file or set the environment variable {KEY_VARIABLE}.")
    return key
