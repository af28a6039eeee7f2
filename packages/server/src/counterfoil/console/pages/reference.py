"""Reference: the API, generated like the OpenAPI document, and a form that sends a request to it.

The console sends the request, because the API refuses browsers. It is made with a key that is issued for it and ends
soon. The key stays in the memory of the console.
"""

import http.client
import json
from functools import cache
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from msgspec import Struct

from counterfoil.checks.running import why_no_answer
from counterfoil.console.pages.keys import IssueView, issue_as_json, read_scopes
from counterfoil.console.visit import JSON, ConsolePage, ConsoleResponse, NotFound, Visit
from counterfoil.domain.access import Key
from counterfoil.http.openapi import document
from counterfoil.http.reference import PATH, Reference, build, example_base_url, served_pages
from counterfoil.http.reference.content import Endpoint
from counterfoil.http.reference.page import PAGE_SCRIPT
from counterfoil.http.wire import StaticPage
from counterfoil.key_issuing import Issued
from counterfoil.machine.addresses import reachable_host, url
from counterfoil.settings import Settings

TRY_PATH, JSON_PATH = f"{PATH}/try", f"{PATH}.json"
PATHS: Final = (PATH, JSON_PATH, f"{PATH}.md", "/llms.txt", f"/{PAGE_SCRIPT}")
ANSWER_SEC = 5
MAX_BYTES = 200_000
# With this limit, a response fits on the screen.
FEW_ROWS = "2"


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


class TryView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A request that can be sent.

    `values` has the initial values of its parameters, and `hints` what each is. `chosen` is the scope of the key that
    is used, if there is one yet. After the form was sent, there is an answer or a problem.
    """

    operation: str
    path: str
    values: dict[str, str]
    scopes: IssueView
    hints: dict[str, str]
    chosen: str
    key: Key | None
    answer: "ApiAnswer | None" = None
    problem: str | None = None


class ApiAnswer(Struct, frozen=True):
    """What the API answered, or why it did not."""

    target: str
    status: int = 0
    headers: list[tuple[str, str]] = []
    body: str = ""
    problem: str = ""

    @property
    def readable(self) -> str:
        """Return the body with a line for each value, if it is JSON."""
        try:
            return json.dumps(json.loads(self.body), indent=2, ensure_ascii=False)
        except ValueError:
            return self.body

    @property
    def header_lines(self) -> str:
        return "\n".join(f"{name}: {value}" for name, value in self.headers)


@cache
def _reference(prefix: str) -> Reference:
    return build(prefix, example_base_url(prefix), {})


def _endpoint(visit: Visit) -> Endpoint:
    name = visit.values["operation"]
    endpoints = _reference(visit.settings.prefix).endpoints
    found = next((endpoint for endpoint in endpoints if endpoint.anchor == name and not endpoint.public), None)
    if found is None:
        raise NotFound(visit.t.gettext("There is no such page."))
    return found


def read(visit: Visit) -> TryView:
    endpoint, scopes = _endpoint(visit), read_scopes(visit)
    examples = dict(endpoint.calls[0].query)
    known = {"shopId": next((scope.id for scope in scopes.scopes if scope.kind == "shop"), ""), "limit": FEW_ROWS}
    names = [row.name for row in endpoint.parameters]
    entered = visit.request.form
    values = {name: entered.get(name, known.get(name, examples.get(name, ""))) for name in names}
    issued = current_key(visit)
    key = issued.key if issued else None
    return TryView(
        operation=endpoint.anchor,
        path=endpoint.path,
        values=values,
        scopes=scopes,
        hints={row.name: row.first_sentence for row in endpoint.parameters},
        chosen=entered.get("scope", f"{key.scope.kind}:{key.scope.id}" if key else ""),
        key=key,
    )


def as_json(_: Visit, view: TryView) -> dict[str, object]:
    scopes = issue_as_json(_, view.scopes)
    return {"operation": view.operation, "path": view.path, "values": view.values, "scopes": scopes}


def current_key(visit: Visit) -> Issued | None:
    key = visit.session.try_key
    return None if key is None or key.key.is_revoked(visit.now) else key


def base_url(settings: Settings) -> str:
    """Return the address of the API: that for integrators, or else that of the service beside the console."""
    beside = url(reachable_host(settings.host), settings.port, f"{settings.prefix}/v1")
    return settings.api_url.rstrip("/") or beside


def send(visit: Visit, view: TryView, key: Issued) -> ApiAnswer:
    """Send the request with the values that the operator entered. Only parameters of the endpoint are sent."""
    path = view.path.removeprefix("/v1")
    query = {}
    for name, value in view.values.items():
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        elif value:
            query[name] = value
    address = urlsplit(base_url(visit.settings))
    target = f"{address.path}{path}" + (f"?{urlencode(query)}" if query else "")
    connect = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = connect(address.hostname or "", address.port, timeout=ANSWER_SEC)
    try:
        connection.request("GET", target, headers={"Authorization": f"Bearer {key.text}"})
        response = connection.getresponse()
        body = response.read(MAX_BYTES).decode("utf-8", "replace")
        return ApiAnswer(target, response.status, response.getheaders(), body)
    except (OSError, http.client.HTTPException) as error:
        return ApiAnswer(target, problem=f"{address.netloc}: {visit.t.message(why_no_answer(error))}")
    finally:
        connection.close()


PAGE = ConsolePage(name="reference", template="try", role="operator", read=read, as_json=as_json)
