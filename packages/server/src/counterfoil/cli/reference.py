"""`counterfoil reference`: write the API reference to a file or to standard output."""

import re
from pathlib import Path

import click

from counterfoil.cli.options import settings_from
from counterfoil.http.reference import FORMATS, example_base_url, render
from counterfoil.program.main import Command
from counterfoil.program.paths import UserPath
from counterfoil.program.terminal import echo, print_document

# A URL without a query, a fragment, a password, or characters that must be quoted in a shell or escaped in HTML.
_HOST = r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[1-9][0-9]{0,4})?"
_PLAIN_URL = re.compile(rf"https?://{_HOST}(?:/[A-Za-z0-9._~/%-]*)?")


@click.command(cls=Command)
@click.option(
    "--out",
    type=UserPath(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File to write to. Its suffix (.html, .md, .txt or .json) determines the format. [default: standard output]",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(FORMATS),
    help="Output format; `txt` is the llms.txt format, `json` a Postman collection. [default: the suffix of "
    "--out, or html]",
)
@click.option("--base-url", metavar="URL", help="Base URL for the examples, such as https://pos.example.com/ext/v1.")
def command(out: Path | None, kind: str | None, base_url: str | None) -> None:
    """Write the API reference: every endpoint, parameter, field and error, with examples.

    The HTML file is self-contained: it has no scripts and does not load other files, so it can be sent by email or
    put on any web server. The command does not read the store.
    """
    prefix = settings_from().prefix
    if base_url is not None and not _PLAIN_URL.fullmatch(base_url):
        # The examples show it without quotes.
        raise click.BadParameter(
            f"{base_url!r} is not a valid base URL. Use a URL such as https://pos.example.com/ext/v1.",
            param_hint="--base-url",
        )
    text = render(kind or _kind_of(out), prefix, base_url or example_base_url(prefix))
    if out is None:
        print_document(text)
        return
    out.write_bytes(text)
    echo(f"Wrote {out} ({len(text):,} bytes).")


def _kind_of(out: Path | None) -> str:
    if out is None:
        return "html"
    kind = out.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise click.UsageError(
            f"The suffix of {out.name} is not .html, .md, .txt or .json. Choose a format with --format."
        )
    return kind
