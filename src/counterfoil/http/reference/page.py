"""Writes the reference as one HTML page. Only the search and the forms of the demo need a script."""

from collections.abc import Iterable

from msgspec import Struct

from counterfoil.domain.problems import TABLE, Problem
from counterfoil.http.reference.calls import ExampleCall, coloured_code, coloured_json, json_lines, samples
from counterfoil.http.reference.content import (
    FIRST_CALL,
    DescribedObject,
    DescribedRow,
    Endpoint,
    EndpointGroup,
    NamedExample,
    Reference,
    order_of_checks,
)
from counterfoil.web.html import (
    Html,
    HtmlPage,
    Links,
    blocks,
    element,
    inline,
    markup,
    render_html,
    shared_style_sheet,
    style_sheet,
    text_file,
)

# --- forms that send requests, for the demo only ----------------------------
#
# A form cannot set the `Authorization` header, so a script sends the request. The demo serves the script as a
# separate file. Without the script, the forms stay hidden, and the rest of the page still works. The page contains
# the keys, so it must be served only if everybody who can open it may use these keys.

TRY_SCRIPT, PAGE_SCRIPT = "try.js", "reference.js"
# The forms use this as `limit`, so that a response fits on the screen.
FEW_ROWS = "2"


class TryKey(Struct, frozen=True):
    """A key that the forms offer.

    The form of an operation preselects the first key whose `operations` include the operation, or else the first key.
    """

    purpose: str
    text: str
    operations: tuple[str, ...] = ()


class TryOut(Struct, frozen=True):
    keys: tuple[TryKey, ...]

    def default_key(self, operation: str) -> TryKey:
        return next((key for key in self.keys if operation in key.operations), self.keys[0])


def script(name: str) -> bytes:
    """Return a script of the page."""
    return text_file("counterfoil.http.reference", name).encode()


def key_table(try_out: TryOut) -> Html:
    """Return a table of the keys. The script reads the keys from this table."""
    rows = [
        element(
            "tr",
            element("th", key.purpose, scope="row"),
            element("td", element("code", key.text)),
            data_purpose=key.purpose,
            data_key=key.text,
        )
        for key in try_out.keys
    ]
    head = element("tr", element("th", "Purpose", scope="col"), element("th", "Key", scope="col"))
    return element(
        "table",
        element("caption", "Keys of this demo"),
        element("thead", head),
        element("tbody", rows),
        id="demo-keys",
    )


def try_form(reference: Reference, endpoint: Endpoint, try_out: TryOut) -> Html:
    """Return the form for trying out an operation. It is hidden until the script shows it."""
    query = dict(endpoint.calls[0].query)
    inputs = [_input(endpoint, row, query) for row in endpoint.parameters]
    return element(
        "form",
        element("h4", "Try it"),
        None
        if endpoint.public
        else _labelled(f"{endpoint.anchor}-key", "Key", element("select", id=f"{endpoint.anchor}-key")),
        inputs,
        element("button", f"Send GET {endpoint.path}", type="submit"),
        element("div", class_="result", role="status"),
        class_="try",
        data_path=f"{reference.prefix}{endpoint.path}",
        data_purpose=None if endpoint.public else try_out.default_key(endpoint.anchor).purpose,
        hidden=True,
    )


def _input(endpoint: Endpoint, row: DescribedRow, query: dict[str, str]) -> Html:
    in_path = f"{{{row.name}}}" in endpoint.path
    value = endpoint.calls[0].path.rpartition("/")[2] if in_path else query.get(row.name, "")
    if row.name == "limit":
        value = FEW_ROWS
    identifier = f"{endpoint.anchor}-{row.name}"
    field = element(
        "input",
        id=identifier,
        name=row.name,
        value=value,
        data_in="path" if in_path else "query",
        autocomplete="off",
        placeholder=row.note,
        title=row.first_sentence,
    )
    return _labelled(identifier, row.name, field)


def _labelled(identifier: str, label: str, field: Html) -> Html:
    return element("p", element("label", label, for_=identifier), markup(field))


# Example responses longer than this many characters are left out of the page, except for the first one of an
# operation. The Markdown format shows all of them.
MAX_EXTRA_EXAMPLE = 600


def page_style_sheet() -> str:
    return shared_style_sheet() + style_sheet("counterfoil.http.reference", "reference.css")


def render_page(
    reference: Reference,
    *,
    is_served: bool = False,
    try_out: TryOut | None = None,
    home: tuple[str, str] | None = None,
    try_at: str | None = None,
) -> bytes:
    """Return the page. If `is_served` is set, the page has a search field, whose script must be served next to it, and
    links to the other formats and to the OpenAPI document.

    With `try_out`, the page has forms that send requests, and the script `try.js` must be served next to it.
    `home` is the address and the name of a page to link back to; below the address `try_at`, each operation has a page
    where it can be tried.
    """
    links = _links(reference)
    return render_html(
        HtmlPage(
            title="API reference: Counterfoil",
            description=reference.summary,
            style_sheet=page_style_sheet(),
            header=markup(_header(reference, home), _search() if is_served else None),
            navigation=_navigation(reference),
            main=markup(
                _start(reference, links, try_out),
                [_group(reference, group, links, try_out, try_at) for group in reference.groups],
                _section("objects", "Objects", [_object(described, links) for described in reference.objects]),
                _errors(reference, links),
                _headers(reference, links),
            ),
            footer=_footer(reference, is_served),
            scripts=((PAGE_SCRIPT,) if is_served else ()) + ((TRY_SCRIPT,) if try_out else ()),
            sends_requests=try_out is not None,
        )
    )


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


# --- header and navigation -----------------------------------------------------------


def _header(reference: Reference, home: tuple[str, str] | None) -> Html:
    facts = [f"Version {reference.version}", "Read-only", "JSON over HTTPS", "OpenAPI 3.1"]
    return markup(
        element("h1", element("span", "Counterfoil", class_="brand"), " API reference"),
        element("p", [element("span", fact) for fact in facts], class_="facts"),
        element("p", element("a", f"← {home[1]}", href=home[0])) if home else None,
    )


def _search() -> Html:
    """Return the search field. It is hidden until the script shows it."""
    return element(
        "p",
        element("label", "Search", for_="search"),
        " ",
        element("input", id="search", type="search", autocomplete="off", spellcheck="false"),
        " ",
        element("span", id="search-count", role="status", class_="muted"),
        role="search",
        hidden=True,
    )


def _footer(reference: Reference, is_served: bool) -> Html:
    made = f"Counterfoil API {reference.version}. This page is generated from the same tables as the OpenAPI document."
    formats = {"reference.md": "Markdown", "llms.txt": "llms.txt", "v1/openapi.json": "OpenAPI"}
    others = [[" ", element("a", label, href=address)] for address, label in formats.items()]
    return element("p", made, [" Other formats:", others] if is_served else None)


def _navigation(reference: Reference) -> Html:
    first_steps = [("first-call", "First call"), *((guide.anchor, guide.title) for guide in reference.guides)]
    details = [("errors", "Error codes"), ("checks", "Order of checks"), ("headers", "Headers")]
    endpoints = [
        element(
            "li",
            element("a", element("code", endpoint.path.removeprefix("/v1")), href=f"#{endpoint.anchor}"),
        )
        for endpoint in reference.endpoints
    ]
    objects = [(described.anchor, described.anchor) for described in reference.objects]
    return markup(
        element("h2", "Guide"),
        _nav_list(first_steps),
        element("h2", "Endpoints"),
        element("ul", endpoints),
        element("h2", "Details"),
        _nav_list(details),
        element("h2", "Objects"),
        _nav_list(objects),
    )


def _nav_list(entries: Iterable[tuple[str, str]]) -> Html:
    return element("ul", [element("li", element("a", label, href=f"#{anchor}")) for anchor, label in entries])


# --- sections ------------------------------------------------------------------------


def _section(anchor: str, title: str, *children: Html | list[Html]) -> Html:
    return element("section", element("h2", element("a", title, href=f"#{anchor}")), *children, id=anchor)


def _start(reference: Reference, links: Links, try_out: TryOut | None) -> Html:
    key = try_out.keys[0].text if try_out else "cf_live_…"
    setup = f"export BASE={reference.base_url}\nexport KEY={key}\n\n" + samples(reference.endpoints[0].calls[0])[0].text
    return markup(
        element("div", blocks(reference.introduction, links), class_="lead"),
        element(
            "section",
            element(
                "div",
                element("h2", element("a", "First call", href="#first-call")),
                blocks(FIRST_CALL, links),
                element("p", inline(reference.authentication, links)),
                key_table(try_out) if try_out else None,
            ),
            element("div", coloured_code(setup), class_="samples"),
            id="first-call",
            class_="split",
        ),
        [_section(guide.anchor, guide.title, blocks(guide.text, links)) for guide in reference.guides],
    )


def _group(
    reference: Reference, group: EndpointGroup, links: Links, try_out: TryOut | None, try_at: str | None
) -> Html:
    return _section(
        group.anchor,
        group.title,
        element("p", inline(group.text, links), class_="muted"),
        [_endpoint(reference, endpoint, links, try_out, try_at) for endpoint in group.endpoints],
    )


def _endpoint(
    reference: Reference, endpoint: Endpoint, links: Links, try_out: TryOut | None, try_at: str | None
) -> Html:
    title = element("a", element("code", endpoint.path), href=f"#{endpoint.anchor}")
    examples = [_example(endpoint, example, is_first=number == 0) for number, example in enumerate(endpoint.examples)]
    return element(
        "article",
        element(
            "div",
            element("h3", element("span", "GET", class_="badge"), " ", title),
            element("p", element("strong", endpoint.summary)),
            element("p", inline(endpoint.text, links)),
            _table("Parameters", endpoint.parameters, links) if endpoint.parameters else None,
            element("h4", "Response"),
            element("p", _returns(endpoint)),
            _table("Fields of the response", endpoint.rows, links) if endpoint.rows else None,
            _error_line(endpoint),
            try_form(reference, endpoint, try_out) if try_out else None,
            element("p", element("a", "Try it", href=f"{try_at}/{endpoint.anchor}"))
            if try_at and not endpoint.public
            else None,
        ),
        element("div", [_samples(call) for call in endpoint.calls], examples, class_="samples"),
        id=endpoint.anchor,
        class_="split",
    )


def _returns(endpoint: Endpoint) -> Html:
    if endpoint.public:
        return inline(endpoint.returns)
    return markup(inline(f"`data`: {endpoint.returns}"), ", in the ", element("a", "envelope", href="#headers"), ".")


def _error_line(endpoint: Endpoint) -> Html | None:
    if endpoint.public:
        return None
    every = element("a", "every endpoint", href="#errors")
    if not endpoint.errors:
        return element("p", "Errors: only those of ", every, ".")
    codes = [[_code_link(code), " "] for code in endpoint.errors]
    return element("p", "Errors: ", codes, "and those of ", every, ".")


def _code_link(code: str) -> Html:
    return element("a", element("code", code), href=f"#error-{code}")


def _samples(call: ExampleCall) -> Html:
    """Return the code samples of a call. The browser shows one sample at a time, without a script."""
    tabs = [
        element(
            "details", element("summary", sample.label), coloured_code(sample.text), name=call.name, open=number == 0
        )
        for number, sample in enumerate(samples(call))
    ]
    heading = element("h4", f"Request: {call.title.lower()}" if call.title else "Request")
    return markup(heading, element("div", tabs, class_="tabs"))


def _example(endpoint: Endpoint, example: NamedExample, is_first: bool) -> Html | None:
    label = f"Response: {_words(example.name)}"
    if example.shown_at:
        if not is_first or example.shown_at == endpoint.anchor:
            return None
        shown = element("a", element("code", example.shown_at), href=f"#{example.shown_at}")
        return element("p", "The object is shown in the response of ", shown, ".", class_="muted")
    text = json_lines(example.body)
    if not is_first and len(text) > MAX_EXTRA_EXAMPLE:
        return None
    return element("details", element("summary", label), coloured_json(text), open=is_first)


def _words(name: str) -> str:
    """Split a camelCase name into words: `fullPage` becomes `full page`."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)


# --- tables --------------------------------------------------------------------------


def _table(caption: str, rows: list[DescribedRow], links: Links) -> Html:
    return element("table", element("caption", caption), element("tbody", [_row(row, links) for row in rows]))


def _row(row: DescribedRow, links: Links) -> Html:
    own = {name: address for name, address in links.items() if address != f"#{row.anchor}"}
    note = f", {row.note}" if row.note else ""
    return element(
        "tr",
        element(
            "th",
            element("a", row.name, href=f"#{row.anchor}"),
            element("small", inline(row.type), note),
            scope="row",
        ),
        element("td", inline(row.text, own)),
        id=row.anchor,
    )


def _object(described: DescribedObject, links: Links) -> Html:
    return element(
        "article",
        element("h3", element("a", described.anchor, href=f"#{described.anchor}")),
        element("p", inline(described.text, links)),
        _table(f"Fields of {described.anchor}", described.rows, links) if described.rows else None,
        id=described.anchor,
    )


def _errors(reference: Reference, links: Links) -> Html:
    every = [_code_link(code) for code in reference.common_errors]
    return markup(
        _section(
            "errors",
            "Error codes",
            element("p", "Every endpoint that needs a key can return ", [markup(code, " ") for code in every]),
            element(
                "table",
                element("caption", "Error codes"),
                element("tbody", [_error(problem, links) for problem in TABLE]),
            ),
            _table("Body of an error response", reference.error_body, links),
        ),
        _section(
            "checks",
            "Order of checks",
            element("p", "If several errors apply, the first in this order is returned."),
            blocks(order_of_checks(), links),
        ),
    )


def _error(problem: Problem, links: Links) -> Html:
    anchor = f"error-{problem.code}"
    return element(
        "tr",
        element(
            "th",
            element("a", _breakable(problem.code), href=f"#{anchor}"),
            element("small", f"status {problem.status}"),
            scope="row",
        ),
        element(
            "td",
            problem.message,
            element("br"),
            element("strong", "What to do:"),
            " ",
            inline(problem.action, links),
        ),
        id=anchor,
    )


def _breakable(code: str) -> Html:
    """Allow a line break after each underscore, for narrow screens."""
    first, *others = code.split("_")
    return markup(first, [["_", element("wbr"), other] for other in others])


def _headers(reference: Reference, links: Links) -> Html:
    return _section(
        "headers",
        "Headers and envelope",
        _table("Request headers of every endpoint", reference.request_headers, links),
        _table("Response headers", reference.response_headers, links),
        _table("Fields of a successful response besides data", reference.envelope, links),
    )
