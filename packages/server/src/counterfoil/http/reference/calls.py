"""Example requests in several languages. BASE and KEY come from the environment, so each can be copied and run."""

import json
import re
import shlex
from collections.abc import Mapping
from functools import partial
from string import Template
from textwrap import indent
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup
from msgspec import Struct

from counterfoil.http.reference.sample_texts import ANY_OPERATION, CLIENT, LANGUAGES, SampleLanguage
from counterfoil.web.prose import escaped

Values = Mapping[str, str]
# Returns a value as JSON, which is also how the languages of the samples write text.
_text = partial(json.dumps, ensure_ascii=False)


class ExampleCall(Struct, frozen=True, kw_only=True):
    """One request. `title` distinguishes the modes of an operation; `path` is relative to the base URL."""

    operation: str
    title: str
    path: str
    query: tuple[tuple[str, str], ...]
    paged: bool
    public: bool

    @property
    def name(self) -> str:
        return f"{self.operation} {self.title}".strip()


class CodeSample(Struct, frozen=True):
    label: str
    language: str
    text: str


def samples(call: ExampleCall) -> list[CodeSample]:
    return [
        CodeSample("curl", "sh", _curl(call)),
        CodeSample("counterfoil.client", "python", _client(call)),
        *(CodeSample(language.label, language.language, _in_language(call, language)) for language in LANGUAGES),
    ]


# Characters that are valid in a query without encoding, and are easier to read that way.
_PLAIN_IN_QUERIES = ":"


def _curl(call: ExampleCall) -> str:
    lines = [f'curl -s{"G" if call.query else ""} "$BASE/{call.path}"']
    if not call.public:
        lines.append('-H "Authorization: Bearer $KEY"')
    lines += [f"-d {shlex.quote(f'{name}={quote(value, safe=_PLAIN_IN_QUERIES)}')}" for name, value in call.query]
    return " \\\n  ".join(lines)


class _Template(Template):
    delimiter = "%"


# The client's names for days.
_DAYS = {"from": "first", "to": "last"}


def _client(call: ExampleCall) -> str:
    values = {name: _text(value) for name, value in call.query} | {"id": _text(call.path.rpartition("/")[2])}
    values |= {_DAYS[name]: _day(value) for name, value in call.query if name in _DAYS}
    query = "".join(f'("{name}", {_text(value)}), ' for name, value in call.query)
    values["arguments"] = f'"{call.path}"' + (f", ({query.rstrip()})" if query else "")
    lines = _Template(CLIENT.get(call.name, ANY_OPERATION)).substitute(values)
    return "\n".join(
        [
            *(["from datetime import date"] if "date(" in lines else []),
            "import os",
            "from counterfoil.client import Client",
            *(["from counterfoil.client.connection import Call"] if "Call(" in lines else []),
            "",
            'with Client(os.environ["BASE"], os.environ["KEY"]) as api:',
            indent(lines, "    "),
        ]
    )


def _day(value: str) -> str:
    return f"date({int(value[:4])}, {int(value[4:6])}, {int(value[6:])})"


def _in_language(call: ExampleCall, language: SampleLanguage) -> str:
    """Return the sample in one of the languages. It leaves out parameters and a key that the call does not have."""
    template = language.pages if call.paged else language.one_response
    lines = template.splitlines()
    if not call.query and not call.paged:
        lines = [line for line in lines if "%query" not in line]
    if call.public:
        lines = [line for line in lines if "Bearer" not in line]
    pairs = []
    for name, value in call.query:
        pairs.append(_Template(language.pair).substitute(name=name, value=_text(value)))
    return _Template("\n".join(lines)).substitute(
        path=call.path,
        query=", ".join(pairs),
        query_string=urlencode(call.query, safe=_PLAIN_IN_QUERIES),
        data="" if call.public else language.data,
    )


# --- layout: names and strings in colour -------------------------------------

_STRING = re.compile(r'("(?:[^"\\]|\\.)*"|\'[^\']*\')')


def json_lines(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def coloured(text: str) -> Markup:
    """Return JSON or a code sample as markup: names in <b>, other strings in <i>."""
    parts = _STRING.split(text)
    shown = []
    for number, part in enumerate(parts):
        is_string = number % 2 == 1
        if not is_string:
            shown.append(escaped(part))
        elif parts[number + 1].startswith(":"):
            shown.append(f"<b>{escaped(part)}</b>")
        else:
            shown.append(f"<i>{escaped(part)}</i>")
    return Markup(f'<pre class="code">{"".join(shown)}</pre>')  # noqa: S704 - all parts are escaped
