"""The procedure for keeping a copy is documented in three places with the same words."""

import json
import re
from pathlib import Path

from counterfoil.http.openapi import document

DOCS = Path(__file__).parents[2] / "docs"


def steps(text: str, after: str, before: str) -> list[str]:
    """Return the numbered steps between two headings, each on one line."""
    section = text.partition(after)[2].partition(before)[0]
    items = re.findall(r"^\d+\. (?:.+\n)(?: +.+\n)*", section, re.MULTILINE)
    return [" ".join(item.split()) for item in items]


def test_every_document_gives_the_procedure_in_the_same_words() -> None:
    sync = steps((DOCS / "sync.md").read_text("utf-8"), "## The procedure\n", "\n### ")
    integrate = steps((DOCS / "integrate.md").read_text("utf-8"), "## Keeping a copy\n", "\n## ")
    described = json.loads(document("/ext"))["info"]["description"]
    assert len(sync) > 1
    assert integrate == sync
    assert steps(described, "**Keeping a copy.**\n", "\n**") == sync
