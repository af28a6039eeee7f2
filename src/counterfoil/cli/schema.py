"""`counterfoil schema`: print the JSON Schema of a kind of source record."""

from importlib import resources

import click

from counterfoil.cli.terminal import print_document

KINDS = ("shop", "base", "member", "bill")


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
def command(kind: str) -> None:
    """Print the JSON Schema of a kind of source record. See docs/source-records.md."""
    schema = resources.files("counterfoil.ingest") / "schemas" / f"{kind}.json"
    print_document(schema.read_text(encoding="utf-8").rstrip("\n") + "\n")
