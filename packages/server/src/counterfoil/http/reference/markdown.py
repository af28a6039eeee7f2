"""Writes the reference as Markdown, for readers and tools that prefer text, and as llms.txt."""

import re
from collections.abc import Iterable, Iterator

from counterfoil.domain.problems import TABLE
from counterfoil.http.reference.calls import json_lines, samples
from counterfoil.http.reference.content import FIRST_CALL, DescribedRow, Endpoint, Reference, order_of_checks

_LINK = re.compile(r"\[([^\]]+)\]\(#[^)]+\)")


def render_markdown(reference: Reference) -> bytes:
    return ("\n".join(_lines(reference, with_examples=True)) + "\n").encode()


def render_llms(reference: Reference) -> bytes:
    """Return a complete text without examples, for language models. Its form is that of llmstxt.org."""
    lines = [
        *_lines(reference, with_examples=False),
        *("## Optional", ""),
        "- [Reference as Markdown](reference.md): the same content with examples",
        "- [Reference as HTML](reference): the same content for people",
        "- [OpenAPI document](v1/openapi.json): the same content for tools",
    ]
    return ("\n".join(lines) + "\n").encode()


def _lines(reference: Reference, *, with_examples: bool) -> Iterator[str]:
    yield from (f"# Counterfoil API reference, version {reference.version}", "", f"> {reference.summary}", "")
    yield from (reference.introduction.strip(), "", "## First call", "", FIRST_CALL, reference.authentication, "")
    first = samples(reference.endpoints[0].calls[0])[0].text
    yield from _fenced("sh", f"export BASE={reference.base_url}\nexport KEY=cf_live_…\n\n{first}")
    for guide in reference.guides:
        yield from (f"## {guide.title}", "", guide.text.strip(), "")
    for group in reference.groups:
        yield from (f"## {group.title}", "", group.text, "")
        for endpoint in group.endpoints:
            yield from _endpoint(endpoint)
            if with_examples:
                yield from _examples(endpoint)
    yield from ("## Objects", "")
    for described in reference.objects:
        yield from (f"### {described.anchor}", "", plain(described.text), "", *_table(described.rows))
    every = f"Every endpoint that needs a key can return {_codes(reference.common_errors)}."
    yield from ("## Error codes", "", every, "", "| status | code | meaning | what to do |", "|---|---|---|---|")
    for problem in TABLE:
        yield f"| {problem.status} | `{problem.code}` | {problem.message} | {problem.action} |"
    yield from ("", "Body of an error response:", "", *_table(reference.error_body))
    yield from ("## Order of checks", "", order_of_checks(), "")
    yield from ("## Headers and envelope", "", "Request headers of every endpoint:", "")
    yield from _table(reference.request_headers)
    yield from ("Response headers:", "", *_table(reference.response_headers))
    yield from ("Fields of a successful response besides `data`:", "", *_table(reference.envelope))


def _endpoint(endpoint: Endpoint) -> Iterator[str]:
    yield from (f"### GET {endpoint.path}", "", f"`{endpoint.anchor}`: {endpoint.summary}", "", endpoint.text, "")
    if endpoint.parameters:
        yield from ("Parameters:", "", *_table(endpoint.parameters))
    where = "" if endpoint.public else "`data`: "
    yield from (f"Response: {where}{plain(endpoint.returns)}", "")
    if endpoint.rows:
        yield from _table(endpoint.rows)
    if endpoint.errors:
        yield from (f"Errors, in addition to those of every endpoint: {_codes(endpoint.errors)}", "")


def _examples(endpoint: Endpoint) -> Iterator[str]:
    for call in endpoint.calls:
        for sample in samples(call):
            yield from (f"{f'{call.title}, ' if call.title else ''}{sample.label}:", "")
            yield from _fenced(sample.language, sample.text)
    for name, body in endpoint.examples.items():
        yield from (f"Response example `{name}`:", "")
        yield from _fenced("json", json_lines(body))


def _table(rows: Iterable[DescribedRow]) -> Iterator[str]:
    yield from ("| name | type | meaning |", "|---|---|---|")
    for row in rows:
        note = f", {row.note}" if row.note else ""
        yield f"| `{row.name}` | {plain(row.type)}{note} | {plain(row.text)} |"
    yield ""


def _fenced(language: str, text: str) -> Iterator[str]:
    yield from (f"```{language}", text, "```", "")


def _codes(codes: Iterable[str]) -> str:
    return ", ".join(f"`{code}`" for code in codes)


def plain(text: str) -> str:
    """Return the text with links to anchors on the same page replaced by their labels."""
    return _LINK.sub(r"\1", text)
