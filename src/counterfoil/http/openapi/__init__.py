"""The OpenAPI 3.1 description of the service.

Schemas come from the response types, error schemas from the error table, and
examples from the functions that write responses. This package adds only
the information that types cannot express.
"""

from functools import cache

from msgspec import json

from counterfoil import API_VERSION
from counterfoil.domain.credentials import PATTERN
from counterfoil.http.openapi.components import PARAMETERS, Json, components, headers, responses
from counterfoil.http.openapi.operations import OPERATIONS, TAGS, Operation

_OVERVIEW = """\
Read the branches, the closed bills and the loyalty members of a restaurant group. The API is meant for the servers of
an ERP, a CRM, a loyalty engine or a data warehouse. It is read-only.

**Where to begin.** `GET /v1/shops` lists the branches that your key covers. Use `shopId` to read the bills of a branch
and `providerId` to read the members of a base. Several branches may share one base: read each distinct base once.

**Keeping a copy.** Follow `GET /v1/changes`: one list of all changes in your shops, including removals, without windows
or full reads. `GET /v1/digests` shows whether a copy is complete. With the other lists alone, follow these steps:

1. Call `GET /v1/shops` before you read anything else. Its `serverTime` is the new **mark** of every shop that you
   read in this run.
2. Read a shop that has no mark **in full**: every window of at most 31 days with `from` and `to`, from your oldest
   day to a month ahead, then one pass with `updatedSince=1970-01-01T00:00:00Z` for the bills without a readable date.
   Replace all stored bills of the shop with what the full read returned.
3. Read a shop that has a mark with `updatedSince=<mark>`, and upsert its bills on `(shopId, id)`. A void is an
   update. Never replace a bill with one whose `updatedAt` is older.
4. Read every list from its beginning with `limit=200` and follow `nextCursor` until it is null. On `bad_cursor`, start
   that list again without a cursor. A cursor that you keep for a later run belongs to the mark of the run that received
   it: store the two together, and use that mark.
5. Store a shop's new mark only when everything that you read from that shop is stored.
6. If a shop is no longer listed, or a request returns `shop_not_in_scope`, stop reading it, keep its bills as they
   are and delete its mark. If the shop returns, it has no mark, so step 2 applies.
7. Read each distinct `providerId` in full, and replace the stored members of that base with what the pass returned.
8. Once a week, read every shop in full again (step 2), because a read by change does not show everything.

Between two full reads you do not see that a bill was removed, nor a bill without `updatedAt` that was loaded late.
A bill that has neither a readable date nor an `updatedAt` is in no list.

**Reading responses.** Every field is present, as null or [] if it is empty, unless its description says
otherwise. Ignore fields you do not know: new ones may be added at any time. Identifiers are opaque. Money is in Thai
baht, as plain numbers. Bill times have the shop's UTC offset, member times have +07:00, and `serverTime` is in
UTC.

**Errors.** Branch on `error`; `message` is for people and may change. The checks run in this order: browser, path and
method, key, rate limit, quota, permission, parameters, scope, cursor, existence.

**Costs.** A request counts when it arrives, even if it fails or returns 304. A request that exceeds the limit per
minute does not count. HEAD works wherever GET does and costs the same. Responses are compressed with zstd or gzip if
`Accept-Encoding` allows it.
"""


@cache
def document(prefix: str) -> bytes:
    """Return the document served at `{prefix}/v1/openapi.json`. It depends only on the prefix."""
    return json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Counterfoil: sales and membership read API",
                "summary": "Read-only access to the shops, bills and loyalty members of a restaurant group.",
                "description": _OVERVIEW,
                "version": API_VERSION,
                "contact": {"name": "The operator who issued your API key"},
                "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": prefix or "/", "description": "The host that served this document."}],
            "security": [{"apiKey": []}],
            "tags": [{"name": name, "description": description} for name, description in TAGS.items()],
            "paths": {f"/v1/{operation.path}": {"get": _describe(operation)} for operation in OPERATIONS},
            "components": {
                "securitySchemes": {"apiKey": _API_KEY},
                "parameters": PARAMETERS,
                "headers": headers(),
                "schemas": components(OPERATIONS),
            },
        }
    )


_API_KEY: Json = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "cf_live_{keyId}_{secret}",
    "description": f"A key issued by the operator, matching `^{PATTERN}$`. It is bound to one shop or one franchise, "
    "and nothing in a request can widen that. Keep it on a server: requests from web pages are refused.",
}


def _describe(operation: Operation) -> Json:
    described: Json = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
        "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in operation.parameters],
        "responses": responses(operation),
    }
    if operation.public:
        described["security"] = []
    return described
