"""Writes the documents that are generated from the code: `make docs` runs it.

A test compares the committed documents with what it would write.
"""

import re
from pathlib import Path

from counterfoil.http.openapi.operations import STEPS_WITHOUT_THE_FEED
from upkeep import command_page, fields, finding_page, setting_table
from upkeep.fields import ROOT, with_part

OWN_CLIENT = ROOT / "docs/own-client.md"


def files() -> dict[Path, str]:
    """Return every generated document with its text."""
    return fields.files() | {
        setting_table.PAGE: setting_table.page(),
        command_page.PAGE: command_page.page(),
        finding_page.PAGE: finding_page.page(),
        OWN_CLIENT: with_part(OWN_CLIENT, "## Without the feed", "### Notes on the steps", _steps_without_the_feed()),
    }


def _steps_without_the_feed() -> str:
    """Return the steps that the OpenAPI document describes, each on one line as in all documents."""
    steps = re.sub(r"\n +", " ", STEPS_WITHOUT_THE_FEED)
    return f"\n{steps}\n"


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, "utf-8")
