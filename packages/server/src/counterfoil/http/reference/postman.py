"""Writes the example requests as a Postman collection (2.1), also for Bruno. A reader sets each variable once."""

from msgspec import json

from counterfoil.http.openapi.components import PARAMETERS
from counterfoil.http.openapi.operations import Json
from counterfoil.http.reference.calls import ExampleCall
from counterfoil.http.reference.content import Endpoint, EndpointGroup, build

_SCHEMA = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
_HOW = "Set the variables of the collection: `baseUrl`, `key`, and the IDs and days, which are examples."
# The parameters that are variables, by their names in the OpenAPI document.
_VARIABLES = ("shopId", "providerId", "billId", "memberToken", "messagingUserId", "from", "to", "updatedSince")


def render_postman(prefix: str, base_url: str) -> bytes:
    reference = build(prefix, base_url, {name: f"{{{{{name}}}}}" for name in _VARIABLES})
    variables = {"baseUrl": base_url, "key": "", **{name: PARAMETERS[name]["example"] for name in _VARIABLES}}
    collection = {
        "info": {
            "name": f"Counterfoil API {reference.version}",
            "description": f"{reference.summary}\n\n{_HOW}",
            "schema": _SCHEMA,
        },
        "auth": {"type": "bearer", "bearer": [{"key": "token", "value": "{{key}}", "type": "string"}]},
        "variable": [{"key": name, "value": value, "type": "string"} for name, value in variables.items()],
        "item": [_folder(group) for group in reference.groups],
    }
    return json.format(json.encode(collection), indent=2) + b"\n"


def _folder(group: EndpointGroup) -> Json:
    requests = []
    for endpoint in group.endpoints:
        requests += [_request(endpoint, call) for call in endpoint.calls]
    return {"name": group.title, "description": group.text, "item": requests}


def _request(endpoint: Endpoint, call: ExampleCall) -> Json:
    query = "&".join(f"{name}={value}" for name, value in call.query)
    used = dict(call.query)
    # Parameters that the example does not use are switched off.
    unused = [row for row in endpoint.parameters if row.type.startswith("query") and row.name not in used]
    url = {
        "raw": f"{{{{baseUrl}}}}/{call.path}" + (f"?{query}" if query else ""),
        "host": ["{{baseUrl}}"],
        "path": call.path.split("/"),
        "query": [
            *({"key": name, "value": value} for name, value in used.items()),
            *({"key": row.name, "value": "", "description": row.text, "disabled": True} for row in unused),
        ],
    }
    request = {"method": "GET", "header": [], "url": url, "description": endpoint.text}
    if call.public:
        request["auth"] = {"type": "noauth"}
    return {"name": f"{endpoint.summary}{f' ({call.title.lower()})' if call.title else ''}", "request": request}
