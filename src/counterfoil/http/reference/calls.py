"""Example requests for an operation: with curl, with `counterfoil.client`, and with httpx.

The address and the key come from the environment variables BASE and KEY, so that an example can be copied and run.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from msgspec import Struct, json

from counterfoil.web.html import Html, element, markup

Values = Mapping[str, str]


class ExampleCall(Struct, frozen=True, kw_only=True):
    """One request. `title` distinguishes the modes of an operation; `path` is relative to the base URL."""

    operation: str
    title: str
    path: str
    query: tuple[tuple[str, str], ...]
    paged: bool
    public: bool


class CodeSample(Struct, frozen=True):
    label: str
    language: str
    text: str


# The parameters of the examples, by operation and mode. An operation that is not listed here has one example, with its
# required parameters.
MODES: dict[str, dict[str, tuple[str, ...]]] = {
    "listTransactions": {
        "By change": ("shopId", "updatedSince", "limit"),
        "By day": ("shopId", "from", "to", "limit"),
    },
    "listMembers": {"": ("providerId", "limit")},
}


def samples(call: ExampleCall) -> list[CodeSample]:
    return [
        CodeSample("curl", "sh", _curl(call)),
        CodeSample("counterfoil.client", "python", _client(call)),
        CodeSample("httpx", "python", _httpx(call)),
    ]


# Characters that are valid in a query without encoding, and are easier to read that way.
_PLAIN_IN_QUERIES = ":"


def _curl(call: ExampleCall) -> str:
    lines = [f'curl -s{"G" if call.query else ""} "$BASE/{call.path}"']
    if not call.public:
        lines.append('-H "Authorization: Bearer $KEY"')
    lines += [f"-d {shlex.quote(f'{name}={quote(value, safe=_PLAIN_IN_QUERIES)}')}" for name, value in call.query]
    return " \\\n  ".join(lines)


# --- counterfoil.client ------------------------------------------------------------


def _client(call: ExampleCall) -> str:
    imports, lines = _CLIENT_CALLS.get(call.operation, _any_call)(call)
    return "\n".join(
        [
            *imports,
            "import os",
            "from counterfoil.client import Client",
            *(["from counterfoil.client.connection import Call"] if "Call(" in lines[0] else []),
            "",
            'with Client(os.environ["BASE"], os.environ["KEY"]) as api:',
            *(f"    {line}" for line in lines),
        ]
    )


ClientLines = tuple[list[str], list[str]]


def _any_call(call: ExampleCall) -> ClientLines:
    query = "".join(f'("{name}", {_text(value)}), ' for name, value in call.query)
    arguments = f'"{call.path}"' + (f", ({query.rstrip()})" if query else "")
    return [], [f"response = api.send(Call({arguments}))", "print(response.body)"]


def _bills(call: ExampleCall) -> ClientLines:
    query = dict(call.query)
    if "updatedSince" in query:
        imports, selection = [], [f"updated_since={_text(query['updatedSince'])}"]
    else:
        imports = ["from datetime import date"]
        selection = [f"first={_day(query['from'])}", f"last={_day(query['to'])}"]
    arguments = ", ".join([_text(query["shopId"]), *selection])
    return imports, [f"for bill in api.bills({arguments}):", '    print(bill["id"], bill["amounts"]["net"])']


def _last_part(call: ExampleCall) -> str:
    return _text(call.path.rpartition("/")[2])


_CLIENT_CALLS: dict[str, Callable[[ExampleCall], ClientLines]] = {
    "listShops": lambda _: (
        [],
        [
            "page = api.shop_page()",
            "for shop in page.data:",
            '    print(shop["shopId"], shop["providerId"])',
            "print(page.server_time)",
        ],
    ),
    "listTransactions": _bills,
    "getTransaction": lambda call: (
        [],
        [f"bill = api.bill({_last_part(call)})", 'print(bill["status"], bill["amounts"]["net"])'],
    ),
    "listChanges": lambda _: (
        [],
        [
            "for page in api.change_pages():  # in later passes: since=mark",
            "    for change in page.data:",
            '        print(change["type"], change["shopId"])',
            "print(page.mark)  # store the mark after you have stored all changes",
        ],
    ),
    "listDigests": lambda _: (
        [],
        [
            "for page in api.digest_pages():",
            "    for digest in page.data:",
            '        print(digest["shopId"], digest["day"], digest["bills"], digest["net"])',
        ],
    ),
    "listMembers": lambda call: (
        [],
        [
            f"for member in api.members({_text(dict(call.query)['providerId'])}):",
            '    print(member["memberId"], member["points"])',
        ],
    ),
    "getMember": lambda call: (
        [],
        [f"member = api.member({_last_part(call)})", 'print(member["rankName"], member["points"])'],
    ),
    "lookupMember": lambda call: (
        [],
        [
            "token = api.lookup(",
            *(f"    {_text(value)}," for _, value in call.query),
            ")",
            "print(token)",
        ],
    ),
    "getUsage": lambda _: ([], ['print(api.usage()["today"])']),
}


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _day(value: str) -> str:
    return f"date({int(value[:4])}, {int(value[4:6])}, {int(value[6:])})"


# --- httpx -------------------------------------------------------------------------


def _httpx(call: ExampleCall) -> str:
    return "\n".join(["import os", "import httpx", "", *(_httpx_pages(call) if call.paged else _httpx_once(call))])


_HTTPX_KEY = 'headers={"Authorization": f"Bearer {os.environ[\'KEY\']}"},'


def _httpx_once(call: ExampleCall) -> list[str]:
    body = "response.json()" if call.public else 'response.json()["data"]'
    return [
        "response = httpx.get(",
        f"    f\"{{os.environ['BASE']}}/{call.path}\",",
        *([f"    params={_dictionary(call)},"] if call.query else []),
        *([] if call.public else [f"    {_HTTPX_KEY}"]),
        ")",
        "response.raise_for_status()",
        f"print({body})",
    ]


def _httpx_pages(call: ExampleCall) -> list[str]:
    return [
        f"query = {_dictionary(call)}",
        "http = httpx.Client(",
        '    base_url=os.environ["BASE"],',
        f"    {_HTTPX_KEY}",
        ")",
        "with http:",
        "    while True:",
        f'        response = http.get("{call.path}", params=query)',
        "        page = response.raise_for_status().json()",
        '        for row in page["data"]:',
        "            print(row)",
        '        if page["nextCursor"] is None:',
        "            break",
        '        query["cursor"] = page["nextCursor"]',
    ]


def _dictionary(call: ExampleCall) -> str:
    return "{" + ", ".join(f'"{name}": {_text(value)}' for name, value in call.query) + "}"


# --- layout: short values on one line, names and strings in colour ----------

WIDTH = 58
_STRING = re.compile(r'("(?:[^"\\]|\\.)*"|\'[^\']*\')')


def json_lines(value: Any, indent: str = "", before: int = 0) -> str:
    """Return JSON, with lists and objects on one line if they fit. `before` characters precede it on its first line."""
    short = _on_one_line(value)
    if not isinstance(value, dict | list) or len(indent) + before + len(short) <= WIDTH:
        return short
    deeper = indent + "  "
    if isinstance(value, dict):
        parts = [f"{_quoted(key)}: {json_lines(item, deeper, len(key) + 4)}" for key, item in value.items()]
        opening, closing = "{", "}"
    else:
        parts = [json_lines(item, deeper) for item in value]
        opening, closing = "[", "]"
    inner = ",\n".join(f"{deeper}{part}" for part in _filled(parts, len(deeper)))
    return f"{opening}\n{inner}\n{indent}{closing}"


def _filled(parts: list[str], indent: int) -> list[str]:
    """Join short neighbouring parts into lines of at most WIDTH characters."""
    lines: list[str] = []
    for part in parts:
        joined = f"{lines[-1]}, {part}" if lines else ""
        if lines and "\n" not in joined and indent + len(joined) <= WIDTH:
            lines[-1] = joined
        else:
            lines.append(part)
    return lines


def _on_one_line(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)}: {_on_one_line(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_on_one_line(item) for item in value) + "]"
    return json.encode(value).decode()


def _quoted(text: str) -> str:
    return json.encode(text).decode()


def coloured_json(text: str) -> Html:
    """Return formatted JSON as markup: names in <b>, strings in <i>."""
    parts = _STRING.split(text)
    coloured: list[str] = []
    for number, part in enumerate(parts):
        if number % 2 == 0:
            coloured.append(part)
        else:
            coloured.append(element("b" if parts[number + 1].startswith(":") else "i", part))
    return element("pre", markup(*coloured), class_="code")


def coloured_code(text: str) -> Html:
    """Return a code sample as markup, with strings in <i>."""
    parts = [element("i", part) if number % 2 else part for number, part in enumerate(_STRING.split(text))]
    return element("pre", markup(*parts), class_="code")
