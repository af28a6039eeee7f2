"""Checks responses that tests receive over HTTP against the OpenAPI document.

`RunningService.get` calls `OpenApiDocument.check`, so a test fails if it gets a
response that the document does not describe. Validators are compiled once per
process. We use a Rust library, because a pure-Python one takes 90 ms to check
200 rows.
"""

from functools import cache
from typing import Any

import httpx
from backports import zstd
from jsonschema_rs import Draft202012Validator
from msgspec import json

from counterfoil.http.openapi import document

Json = dict[str, Any]

METHODS = ("GET", "HEAD")
# Any HTTP server sends these headers. OpenAPI describes Content-Type together with the body.
PLAIN_HTTP = {"content-type", "content-length", "date", "server"}


class OpenApiDocument:
    """Checks responses against the document that a deployment with this prefix serves."""

    def __init__(self, prefix: str) -> None:
        self._document: Json = json.decode(document(prefix))
        self._validators: dict[tuple[str, ...], Draft202012Validator] = {}

    def check(self, path: str, method: str, answer: httpx.Response) -> None:
        """Fail unless the document describes this response to `method` on `/v1/{path}`.

        If the document does not contain the path, the status must be 403 or 404.
        """
        template = self._template(path)
        if template is None:
            assert answer.status_code in (403, 404), f"{path} is not a route, but got {answer.status_code}"
            return
        if method not in METHODS:
            assert answer.status_code in (403, 405), f"{method} is not allowed, but got {answer.status_code}"
        where = ("paths", template, "get", "responses", str(answer.status_code))
        described = self._at(where)
        assert described is not None, f"{method} {template} answered {answer.status_code}, which is not documented"
        self._check_headers(described.get("headers", {}), answer.headers)
        self._check_body(where, described, method, answer)

    def _template(self, path: str) -> str | None:
        asked = "/v1/" + path.partition("?")[0]
        templates = self._document["paths"]
        if asked in templates:
            return asked
        for template in templates:
            collection, parameter, _ = template.partition("{")
            if parameter and asked.startswith(collection) and asked != collection:
                return str(template)
        return None

    def _check_headers(self, described: Json, sent: httpx.Headers) -> None:
        known = {}
        for name, header in described.items():
            steps = tuple(header["$ref"].removeprefix("#/").split("/")) if "$ref" in header else ()
            known[name.lower()] = self._at(steps) if steps else header
        for name, header in known.items():
            assert name in sent or not header["required"], f"the documented header {name} is missing"
            if name in sent and header["schema"]["type"] == "integer":
                assert sent[name].isdigit(), f"the header {name} is documented as a number, but is {sent[name]!r}"
        undocumented = set(sent) - set(known) - PLAIN_HTTP
        assert not undocumented, f"headers that are not documented: {undocumented}"

    def _check_body(self, where: tuple[str, ...], described: Json, method: str, answer: httpx.Response) -> None:
        content = described.get("content")
        if method == "HEAD" or content is None:
            assert answer.content == b"", "a response that must not have a body has one"
            return
        content_type = answer.headers["content-type"]
        assert content_type in content, f"the content type {content_type} is not documented"
        schema = (*where, "content", content_type, "schema")
        faults = [
            f"{fault.instance_path}: {fault.message}" for fault in self._validator(schema).iter_errors(_body(answer))
        ]
        assert not faults, "the body is not as documented: " + "; ".join(faults)

    def _validator(self, where: tuple[str, ...]) -> Draft202012Validator:
        if where not in self._validators:
            schema = {**self._at(where), "components": self._document["components"]}
            self._validators[where] = Draft202012Validator(schema, validate_formats=True)
        return self._validators[where]

    def _at(self, steps: tuple[str, ...]) -> Any:
        node: Any = self._document
        for step in steps:
            node = node.get(step)
            if node is None:
                return None
        return node


def _body(answer: httpx.Response) -> Any:
    # httpx decompresses zstd only if the package `zstandard` is installed.
    packed = answer.headers.get("content-encoding") == "zstd" and answer.content[:4] == b"\x28\xb5\x2f\xfd"
    return json.decode(zstd.decompress(answer.content) if packed else answer.content)


@cache
def openapi_document(prefix: str) -> OpenApiDocument:
    return OpenApiDocument(prefix)
