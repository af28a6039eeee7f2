"""Reference: the API, generated from the same tables as the OpenAPI document."""

from functools import cache
from typing import Final

from counterfoil.console.pages.try_it import TRY_PATH
from counterfoil.console.visit import JSON, ConsoleResponse, Visit
from counterfoil.http.openapi import document
from counterfoil.http.reference import PATH, build, example_base_url, served_pages
from counterfoil.http.reference.page import PAGE_SCRIPT
from counterfoil.http.wire import StaticPage

JSON_PATH = f"{PATH}.json"
PATHS: Final = (PATH, JSON_PATH, f"{PATH}.md", "/llms.txt", f"/{PAGE_SCRIPT}")


def answer(visit: Visit, path: str) -> ConsoleResponse:
    """Return the reference in the requested format. In JSON, it is the OpenAPI document."""
    prefix = visit.settings.prefix
    if path == JSON_PATH:
        return ConsoleResponse(content_type=JSON, body=document(prefix))
    base_url = visit.settings.api_url.rstrip("/") or example_base_url(prefix)
    found = _pages(prefix, base_url, TRY_PATH if visit.is_operator else None)[prefix + path]
    return ConsoleResponse(content_type=found.content_type, body=found.body, policy=found.policy)


@cache
def _pages(prefix: str, base_url: str, try_at: str | None) -> dict[str, StaticPage]:
    return served_pages(build(prefix, base_url, {}), home=("/", "Counterfoil console"), try_at=try_at)
