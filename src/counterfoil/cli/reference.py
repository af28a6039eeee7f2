"""`counterfoil reference`: write the API reference to a file or to standard output."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import click

from counterfoil.cli.options import settings_from
from counterfoil.cli.terminal import echo, message, print_document
from counterfoil.http.reference import FORMATS, example_base_url, render

# A URL without a query, a fragment, a password, or characters that must be quoted in a shell or escaped in HTML.
_PLAIN_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]/_~%-]+")


@click.command()
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@click.option("--format", "kind", type=click.Choice(FORMATS))
@click.option("--base-url", metavar="URL")
@click.pass_context
def command(ctx: click.Context, out: Path | None, kind: str | None, base_url: str | None) -> None:
    prefix = settings_from(ctx).prefix
    if base_url is not None:
        _check_base_url(base_url)
    text = render(kind or _kind_of(out), prefix, base_url or example_base_url(prefix))
    if out is None:
        print_document(text)
        return
    out.write_bytes(text)
    echo(f"Wrote {out} ({len(text):,} bytes).")


def _check_base_url(base_url: str) -> None:
    """Raise BadParameter unless this is a complete URL that the examples can use without quoting it."""
    try:
        parts = urlsplit(base_url)
        is_complete = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_complete = False
    if not is_complete or not _PLAIN_URL.fullmatch(base_url):
        raise click.BadParameter(message("base_url", url=repr(base_url)), param_hint="--base-url")


def _kind_of(out: Path | None) -> str:
    if out is None:
        return "html"
    kind = out.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise click.UsageError(message("reference_suffix", file=out.name))
    return kind
