"""The OpenAPI 3.1 description of the service.

Schemas come from the response types, error schemas from the error table, and examples from the functions that write
responses. `document.toml` and `examples.json` add only the information that types cannot express.
"""

from functools import cache

from msgspec import json

from counterfoil.domain.credentials import PATTERN
from counterfoil.http.openapi.components import PARAMETERS, components, headers, responses
from counterfoil.http.openapi.operations import DOCUMENT, OPERATIONS, PARTS, TAGS, Json, Operation
from counterfoil.model.version import API_VERSION


@cache
def document(prefix: str) -> bytes:
    """Return the document served at `{prefix}/v1/openapi.json`. It depends only on the prefix."""
    info = DOCUMENT["info"]
    api_key = DOCUMENT["api_key"]
    parts = [f"**{part.title}.** {part.text}" for part in PARTS]
    return json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": info["title"],
                "summary": info["summary"],
                "description": "\n".join([info["introduction"], *parts]),
                "version": API_VERSION,
                "contact": DOCUMENT["contact"],
                "license": DOCUMENT["license"],
            },
            "servers": [{"url": prefix or "/", "description": "The host that served this document."}],
            "security": [{"apiKey": []}],
            "tags": [{"name": name, "description": description} for name, description in TAGS.items()],
            "paths": {f"/v1/{operation.path}": {"get": _describe(operation)} for operation in OPERATIONS},
            "components": {
                "securitySchemes": {
                    "apiKey": api_key | {"description": api_key["description"].format(pattern=PATTERN)}
                },
                "parameters": PARAMETERS,
                "headers": headers(),
                "schemas": components(OPERATIONS),
            },
        }
    )


def _describe(operation: Operation) -> Json:
    return {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
        "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in operation.parameters],
        "responses": responses(operation),
        **({"security": []} if operation.public else {}),
    }
