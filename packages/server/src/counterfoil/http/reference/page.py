"""Writes the reference as one HTML page. Only the search needs a script."""

from typing import Any

from counterfoil.domain.problems import TABLE, Problem
from counterfoil.http.reference import content
from counterfoil.http.reference.calls import ExampleCall, coloured, json_lines, samples
from counterfoil.http.reference.content import DescribedObject, DescribedRow, Endpoint, Reference
from counterfoil.web import html
from counterfoil.web.html import Child, Html, blocks, element, inline, markup

PAGE_SCRIPT = "reference.js"
# Example responses longer than this many characters are left out of the page, except for the first one of an
# operation. The Markdown format shows all of them.
MAX_EXTRA_EXAMPLE = 600


def page_style_sheet() -> str:
    return html.style_sheet("counterfoil.http.reference", "reference.css")


def render_page(
    reference: Reference, *, is_served: bool = False, home: tuple[str, str] | None = None, try_at: str | None = None
) -> bytes:
    """Return the page, which has a search field and links to the other formats if it `is_served` with its script.

    `home` is the address and name of a page to link back to. Below `try_at`, each operation has a page to try it.
    """
    style = page_style_sheet()
    page = _template(
        "page",
        reference=reference,
        policy=html.content_security_policy(style, runs_scripts=is_served, in_header=False),
        icon=html.icon(),
        style=html.style_element(style),
        script=element("script", src=PAGE_SCRIPT, defer=True) if is_served else None,
        line_break="\n",
        home=element("p", element("a", f"← {home[1]}", href=home[0])) if home else None,
        search=_template("search") if is_served else None,
        navigation=_navigation(reference),
        main=_main(reference, try_at),
        formats=_template("formats") if is_served else None,
    )
    return f"<!DOCTYPE html>\n{page}\n".encode()


def _template(name: str, **values: object) -> Html:
    return html.fill("counterfoil.http.reference", f"templates/{name}.html", **values)


def _navigation(reference: Reference) -> Html:
    entries: dict[str, list[tuple[str, str]]] = {
        "Guide": [("first-call", "First call"), *((guide.anchor, guide.title) for guide in reference.guides)],
        "Endpoints": [(each.anchor, element("code", each.path.removeprefix("/v1"))) for each in reference.endpoints],
        "Details": [("errors", "Error codes"), ("checks", "Order of checks"), ("headers", "Headers")],
        "Objects": [(described.anchor, described.anchor) for described in reference.objects],
    }
    return markup(
        [
            (element("h2", title), element("ul", [element("li", _link(anchor, label)) for anchor, label in linked]))
            for title, linked in entries.items()
        ]
    )


def _main(reference: Reference, try_at: str | None) -> Html:
    first = samples(reference.endpoints[0].calls[0])[0].text
    return _template(
        "main",
        introduction=blocks(reference.introduction),
        first_call=blocks(content.FIRST_CALL),
        authentication=inline(reference.authentication),
        setup=coloured(f"export BASE={reference.base_url}\nexport KEY=cf_live_…\n\n{first}"),
        guides=[
            element("section", _fold(element("h2", guide.title), blocks(guide.text)), id=guide.anchor)
            for guide in reference.guides
        ],
        groups=[
            _section(
                group.anchor,
                group.title,
                element("p", inline(group.text), class_="muted"),
                [_endpoint(endpoint, try_at) for endpoint in group.endpoints],
            )
            for group in reference.groups
        ],
        objects=map(_object, reference.objects),
        common_errors=[(_code_link(code), " ") for code in reference.common_errors],
        errors=map(_error, TABLE),
        error_body=_table("Body of an error response", reference.error_body),
        checks=blocks(content.order_of_checks()),
        request_headers=_table("Request headers of every endpoint", reference.request_headers),
        response_headers=_table("Response headers", reference.response_headers),
        envelope=_table("Fields of a successful response besides data", reference.envelope),
    )


def _endpoint(endpoint: Endpoint, try_at: str | None) -> Html:
    can_be_tried = try_at and not endpoint.public
    return _template(
        "endpoint",
        endpoint=endpoint,
        text=inline(endpoint.text),
        parameters=_table("Parameters", endpoint.parameters),
        returns=_returns(endpoint),
        rows=_table("Fields of the response", endpoint.rows),
        errors=_error_line(endpoint),
        try_link=element("p", element("a", "Try it", href=f"{try_at}/{endpoint.anchor}")) if can_be_tried else None,
        samples=map(_samples, endpoint.calls),
        # A list shows the same object as the response for one ID.
        examples=None
        if endpoint.path.endswith("}")
        else [_example(*each, is_first=not place) for place, each in enumerate(endpoint.examples.items())],
    )


def _table(caption: str, rows: list[DescribedRow]) -> Html | None:
    return element("table", element("caption", caption), element("tbody", map(_described, rows))) if rows else None


def _described(row: DescribedRow) -> Html:
    note = f", {row.note}" if row.note else ""
    return _row(row.anchor, row.name, markup(inline(row.type), note), inline(row.text))


def _object(described: DescribedObject) -> Html:
    fields = _table(f"Fields of {described.anchor}", described.rows)
    folded = _fold(element("h3", described.anchor), element("p", inline(described.text)), fields)
    return element("article", folded, id=described.anchor)


def _error(problem: Problem) -> Html:
    # On narrow screens, a line may break after each underscore.
    first, *others = problem.code.split("_")
    name = markup(first, [("_", element("wbr"), other) for other in others])
    action = (element("br"), element("strong", "What to do:"), " ", inline(problem.action))
    return _row(f"error-{problem.code}", name, f"status {problem.status}", markup(problem.message, action))


def _link(anchor: str, label: str) -> Html:
    return element("a", label, href=f"#{anchor}")


def _code_link(code: str) -> Html:
    return _link(f"error-{code}", element("code", code))


def _section(anchor: str, title: str, *children: Child) -> Html:
    return element("section", element("h2", _link(anchor, title)), *children, id=anchor)


def _fold(heading: Html, *children: Child) -> Html:
    """Return a part that is folded on a phone. On a wide screen, the style sheet shows it."""
    return element("details", element("summary", heading), *children, class_="fold")


def _row(anchor: str, label: str, about: str, text: Html) -> Html:
    return _template("row", anchor=anchor, link=f"#{anchor}", label=label, about=about, text=text)


def _returns(endpoint: Endpoint) -> Html:
    if endpoint.public:
        return inline(endpoint.returns)
    return markup(inline(f"`data`: {endpoint.returns}"), ", in the ", _link("headers", "envelope"), ".")


def _error_line(endpoint: Endpoint) -> Html | None:
    if endpoint.public:
        return None
    every = _link("errors", "every endpoint")
    if not endpoint.errors:
        return element("p", "Errors: only those of ", every, ".")
    codes = [(_code_link(code), " ") for code in endpoint.errors]
    return element("p", "Errors: ", codes, "and those of ", every, ".")


def _samples(call: ExampleCall) -> Html:
    """Return the code samples of a call. The browser shows one sample at a time, without a script."""
    tabs = [
        element("details", element("summary", sample.label), coloured(sample.text), name=call.name, open=number == 0)
        for number, sample in enumerate(samples(call))
    ]
    heading = element("h4", f"Request: {call.title.lower()}" if call.title else "Request")
    return markup(heading, element("div", tabs, class_="tabs"))


def _example(name: str, body: Any, is_first: bool) -> Html | None:
    text = json_lines(body)
    if not is_first and len(text) > MAX_EXTRA_EXAMPLE:
        return None
    # `fullPage` becomes `full page`.
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return element("details", element("summary", f"Response: {words}"), coloured(text), open=is_first)
