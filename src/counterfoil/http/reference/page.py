"""Writes the reference as one HTML page. Only the search and the forms of the demo need a script."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from counterfoil.domain.problems import TABLE, Problem
from counterfoil.http.reference.calls import ExampleCall, coloured, json_lines, samples
from counterfoil.http.reference.content import (
    FIRST_CALL,
    DescribedObject,
    DescribedRow,
    Endpoint,
    Reference,
    order_of_checks,
)
from counterfoil.web.html import (
    Child,
    Html,
    blocks,
    content_security_policy,
    element,
    fill,
    icon,
    inline,
    markup,
    style_element,
    style_sheet,
)

TRY_SCRIPT, PAGE_SCRIPT = "try.js", "reference.js"
# The forms use this as `limit`, so that a response fits on the screen.
FEW_ROWS = "2"
# Example responses longer than this many characters are left out of the page, except for the first one of an
# operation. The Markdown format shows all of them.
MAX_EXTRA_EXAMPLE = 600


class TryKey(Struct, frozen=True):
    """A key that the forms offer. The forms of its `operations` preselect it; the others preselect the first key."""

    purpose: str
    text: str
    operations: tuple[str, ...] = ()


def page_style_sheet() -> str:
    return style_sheet("counterfoil.http.reference", "reference.css")


def render_page(
    reference: Reference,
    *,
    is_served: bool = False,
    keys: Sequence[TryKey] = (),
    home: tuple[str, str] | None = None,
    try_at: str | None = None,
) -> bytes:
    """Return the page. If `is_served` is set, the page has a search field, whose script must be served next to it, and
    links to the other formats and to the OpenAPI document.

    With `keys`, the page shows them and has forms that send requests, and the script `try.js` must be served next to
    it. Everybody who can open the page may then use these keys. `home` is the address and the name of a page to link
    back to; below the address `try_at`, each operation has a page where it can be tried.
    """
    scripts = ((PAGE_SCRIPT,) if is_served else ()) + ((TRY_SCRIPT,) if keys else ())
    style = page_style_sheet()
    page = _template(
        "page",
        reference=reference,
        policy=content_security_policy(style, runs_scripts=bool(scripts), sends_requests=bool(keys), in_header=False),
        icon=icon(),
        style=style_element(style),
        scripts=[element("script", src=address, defer=True) for address in scripts],
        line_break="\n",
        home=element("p", element("a", f"← {home[1]}", href=home[0])) if home else None,
        search=_template("search") if is_served else None,
        navigation=_navigation(reference),
        main=_Main(reference, keys, try_at).html(),
        formats=_template("formats") if is_served else None,
    )
    return f"<!DOCTYPE html>\n{page}\n".encode()


def _template(name: str, **values: object) -> Html:
    return fill("counterfoil.http.reference", f"templates/{name}.html", **values)


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


class _Main:
    """The main part of the page. `_links` has the addresses of names that occur in descriptions."""

    def __init__(self, reference: Reference, keys: Sequence[TryKey], try_at: str | None) -> None:
        self._reference = reference
        self._keys = keys
        self._try_at = try_at
        self._links = _links(reference)

    def html(self) -> Html:
        reference, links = self._reference, self._links
        key = self._keys[0].text if self._keys else "cf_live_…"
        first = samples(reference.endpoints[0].calls[0])[0].text
        return _template(
            "main",
            introduction=blocks(reference.introduction, links),
            first_call=blocks(FIRST_CALL, links),
            authentication=inline(reference.authentication, links),
            keys=_template("keys", rows=[_template("key", key=key) for key in self._keys]) if self._keys else None,
            setup=coloured(f"export BASE={reference.base_url}\nexport KEY={key}\n\n{first}"),
            guides=[_section(guide.anchor, guide.title, blocks(guide.text, links)) for guide in reference.guides],
            groups=[
                _section(
                    group.anchor,
                    group.title,
                    element("p", inline(group.text, links), class_="muted"),
                    map(self._endpoint, group.endpoints),
                )
                for group in reference.groups
            ],
            objects=map(self._object, reference.objects),
            common_errors=[(_code_link(code), " ") for code in reference.common_errors],
            errors=map(self._error, TABLE),
            error_body=self._table("Body of an error response", reference.error_body),
            checks=blocks(order_of_checks(), links),
            request_headers=self._table("Request headers of every endpoint", reference.request_headers),
            response_headers=self._table("Response headers", reference.response_headers),
            envelope=self._table("Fields of a successful response besides data", reference.envelope),
        )

    def _endpoint(self, endpoint: Endpoint) -> Html:
        can_be_tried = self._try_at and not endpoint.public
        return _template(
            "endpoint",
            endpoint=endpoint,
            link=f"#{endpoint.anchor}",
            text=inline(endpoint.text, self._links),
            parameters=self._table("Parameters", endpoint.parameters),
            returns=_returns(endpoint),
            rows=self._table("Fields of the response", endpoint.rows),
            errors=_error_line(endpoint),
            form=self._form(endpoint) if self._keys else None,
            try_link=element("p", element("a", "Try it", href=f"{self._try_at}/{endpoint.anchor}"))
            if can_be_tried
            else None,
            samples=map(_samples, endpoint.calls),
            # A list shows the same object as the response for one ID.
            examples=None
            if endpoint.path.endswith("}")
            else [_example(*each, is_first=not place) for place, each in enumerate(endpoint.examples.items())],
        )

    def _form(self, endpoint: Endpoint) -> Html:
        """Return the form for trying out an operation. A script shows it, and sends the request with a key."""
        default = next((key for key in self._keys if endpoint.anchor in key.operations), self._keys[0])
        identifier = f"{endpoint.anchor}-key"
        key = element("p", element("label", "Key", for_=identifier), element("select", id=identifier))
        return _template(
            "form",
            endpoint=endpoint,
            path=f"{self._reference.prefix}{endpoint.path}",
            purpose=None if endpoint.public else default.purpose,
            key=None if endpoint.public else key,
            inputs=[_input(endpoint, row) for row in endpoint.parameters],
        )

    def _table(self, caption: str, rows: list[DescribedRow]) -> Html | None:
        body = element("tbody", map(self._row, rows))
        return element("table", element("caption", caption), body) if rows else None

    def _row(self, row: DescribedRow) -> Html:
        others = {name: address for name, address in self._links.items() if address != f"#{row.anchor}"}
        note = f", {row.note}" if row.note else ""
        return _row(row.anchor, row.name, markup(inline(row.type), note), inline(row.text, others))

    def _object(self, described: DescribedObject) -> Html:
        return element(
            "article",
            element("h3", _link(described.anchor, described.anchor)),
            element("p", inline(described.text, self._links)),
            self._table(f"Fields of {described.anchor}", described.rows),
            id=described.anchor,
        )

    def _error(self, problem: Problem) -> Html:
        # On narrow screens, a line may break after each underscore.
        first, *others = problem.code.split("_")
        name = markup(first, [("_", element("wbr"), other) for other in others])
        action = (element("br"), element("strong", "What to do:"), " ", inline(problem.action, self._links))
        return _row(f"error-{problem.code}", name, f"status {problem.status}", markup(problem.message, action))


def _links(reference: Reference) -> dict[str, str]:
    """Return links for names in descriptions: paths, error codes, and unique names of parameters, fields or headers."""
    rows = [
        *reference.envelope,
        *reference.request_headers,
        *reference.response_headers,
        *(row for endpoint in reference.endpoints for row in (*endpoint.parameters, *endpoint.rows)),
        *(row for described in reference.objects for row in described.rows),
    ]
    names = [row.name for row in rows]
    links = {row.name: f"#{row.anchor}" for row in rows if names.count(row.name) == 1}
    links |= {f"GET {endpoint.path}": f"#{endpoint.anchor}" for endpoint in reference.endpoints}
    return links | {problem.code: f"#error-{problem.code}" for problem in TABLE}


def _link(anchor: str, label: str) -> Html:
    return element("a", label, href=f"#{anchor}")


def _code_link(code: str) -> Html:
    return _link(f"error-{code}", element("code", code))


def _section(anchor: str, title: str, *children: Child) -> Html:
    return element("section", element("h2", _link(anchor, title)), *children, id=anchor)


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


def _input(endpoint: Endpoint, row: DescribedRow) -> Html:
    in_path = f"{{{row.name}}}" in endpoint.path
    call = endpoint.calls[0]
    value = call.path.rpartition("/")[2] if in_path else dict(call.query).get(row.name, "")
    return _template(
        "input",
        row=row,
        identifier=f"{endpoint.anchor}-{row.name}",
        value=FEW_ROWS if row.name == "limit" else value,
        place="path" if in_path else "query",
    )


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
