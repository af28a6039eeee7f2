"""`counterfoil schema`: the JSON Schema of a kind of source record."""

from importlib import resources

import click

KINDS = ("shop", "base", "member", "bill")


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
def command(kind: str) -> None:
    """Print the JSON Schema of KIND, as docs/source-records.md describes it."""
    schema = resources.files("counterfoil.ingest") / "schemas" / f"{kind}.json"
    click.echo(schema.read_text(encoding="utf-8").rstrip("\n"))
