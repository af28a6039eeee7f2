"""Forms on the reference page that send requests, for the demo only.

A form cannot set the `Authorization` header, so a script sends the request. The demo serves the script as a separate
file. Without the script, the forms stay hidden, and the rest of the page still works. The page contains the keys, so it
must be served only if everybody who can open it may use these keys.
"""

from importlib import resources

from msgspec import Struct

from counterfoil.http.reference.content import DescribedRow, Endpoint, Reference
from counterfoil.web.html import Html, element, markup

SCRIPT = "try.js"
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


def script() -> bytes:
    """Return the script that the forms need."""
    return (resources.files("counterfoil.http.reference") / SCRIPT).read_bytes()


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


def form(reference: Reference, endpoint: Endpoint, try_out: TryOut) -> Html:
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
        "input", id=identifier, name=row.name, value=value, data_in="path" if in_path else "query", autocomplete="off"
    )
    return _labelled(identifier, row.name, field)


def _labelled(identifier: str, label: str, field: Html) -> Html:
    return element("p", element("label", label, for_=identifier), markup(field))
