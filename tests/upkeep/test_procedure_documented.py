"""The eight steps for keeping a copy stand in two places, in the same words, and after the change feed."""

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


def test_the_steps_stand_in_sync_md_and_in_the_openapi_description_in_the_same_words() -> None:
    sync = steps((DOCS / "sync.md").read_text("utf-8"), "## The procedure\n", "\n### ")
    described = json.loads(document("/ext"))["info"]["description"]
    assert len(sync) == 8
    assert steps(described, "**Keeping a copy.**", "\n**") == sync


def test_readers_find_the_change_feed_before_the_steps() -> None:
    described = json.loads(document("/ext"))["info"]["description"]
    sync = (DOCS / "sync.md").read_text("utf-8")
    assert described.index("/v1/changes") < described.index("1. Call `GET /v1/shops`")
    assert sync.index("feed.md") < sync.index("1. Call `GET /v1/shops`")
