"""Writes llms.txt: a short, complete summary for language models, in the format of llmstxt.org."""

from collections.abc import Iterator

from counterfoil.http.reference import guides
from counterfoil.http.reference.content import DescribedRow, Endpoint, Reference
from counterfoil.http.reference.markdown import plain


def render_llms(reference: Reference) -> bytes:
    return ("\n".join(_lines(reference)) + "\n").encode()


def _lines(reference: Reference) -> Iterator[str]:
    yield from ("# Counterfoil API", "", f"> {reference.summary} Version {reference.version}.", "")
    yield from (" ".join(reference.introduction.split()), "")
    yield from (f"Base URL: {reference.base_url}. {plain(reference.authentication)}", "")
    for guide in reference.guides:
        yield from (f"**{guide.title}.** {guide.text.strip()}", "")
    yield from ("## Endpoints", "")
    yield from (_endpoint(endpoint) for endpoint in reference.endpoints)
    yield from ("", "## Objects", "")
    yield from (f"- {one.anchor}: {_fields(one.rows)}" for one in reference.objects)
    yield f"- Fields of responses besides `data`: {_fields(reference.envelope)}"
    yield f"- Error body: {_fields(reference.error_body)}"
    yield f"- Request headers: {_fields(reference.request_headers)}"
    yield f"- Response headers: {', '.join(row.name for row in reference.response_headers)}"
    yield from ("", "## Errors", "")
    for error in reference.errors:
        yield f"- {error.problem.status} `{error.problem.code}`: {error.problem.message} {error.action}".rstrip()
    yield from ("", "The first error in this order is returned:", "", guides.order_of_checks(), "")
    yield from ("## Optional", "")
    yield "- [Reference as Markdown](reference.md): every parameter, field and error in full, with examples"
    yield "- [Reference as HTML](reference): the same content for people"
    yield "- [OpenAPI document](v1/openapi.json): the same content for tools"


def _endpoint(endpoint: Endpoint) -> str:
    parameters = f" Parameters: {_fields(endpoint.parameters)}." if endpoint.parameters else ""
    rows = f" Other fields of the response: {_fields(endpoint.rows)}." if endpoint.rows else ""
    errors = f" Errors: {', '.join(endpoint.errors)}." if endpoint.errors else ""
    returns = f" Returns {plain(endpoint.returns)}."
    link = f"[GET {endpoint.path}](reference#{endpoint.anchor})"
    return f"- {link}: {endpoint.summary} {endpoint.text}{parameters}{returns}{rows}{errors}"


def _fields(rows: list[DescribedRow]) -> str:
    return ", ".join(f"`{row.name}` ({plain(row.type)}{f', {row.note}' if row.note else ''})" for row in rows)
