"""`counterfoil schema`: print the JSON Schema of what Counterfoil reads. It imports little, so that it is quick."""

import json
from importlib import resources

import click

from counterfoil.program.main import Command
from counterfoil.program.terminal import print_document

KINDS = ("shop", "base", "member", "bill")
FORM = "form"


@click.command(cls=Command)
@click.argument("kind", type=click.Choice((*KINDS, FORM)))
def command(kind: str) -> None:
    """Print the JSON Schema of a kind of source record (docs/source-records.md), or of the form of an import
    (docs/import-form.md).
    """
    if kind == FORM:
        # Reading JSON Schemas of types takes longer than printing a file.
        from counterfoil.importer.form import json_schema  # noqa: PLC0415

        print_document(json.dumps(json_schema(), indent=2) + "\n")
        return
    document = resources.files("counterfoil.ingest") / "schemas" / f"{kind}.json"
    print_document(document.read_text(encoding="utf-8").rstrip("\n") + "\n")
