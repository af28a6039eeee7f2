"""Every request of the Postman collection works against the demo, once the variables of the collection are set."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from counterfoil.http.openapi.operations import OPERATIONS
from counterfoil.http.reference import render
from e2e.served_demo import Demo

pytestmark = pytest.mark.programs

Json = dict[str, Any]


def requests_in(node: Json) -> Iterator[tuple[str, Json]]:
    for item in node.get("item", ()):
        yield from requests_in(item)
    if "request" in node:
        yield node["name"], node["request"]


def filled(text: str, variables: dict[str, str]) -> str:
    """Replace the variables of a text as Postman does. An unknown one is an error."""
    return re.sub(r"{{(\w+)}}", lambda found: variables[found[1]], text)


@pytest.fixture(scope="module")
def collection() -> Json:
    found: Json = json.loads(render("json", "/ext", "https://pos.example.com/ext/v1"))
    return found


@pytest.fixture
def variables(demo: Demo, collection: Json) -> dict[str, str]:
    ids = demo.shown.samples
    mine = {
        "baseUrl": f"{demo.url}/ext/v1",
        "key": demo.key("lookup"),
        "shopId": ids.shop_id,
        "providerId": ids.provider_id,
        "billId": ids.transaction_id,
        "memberToken": ids.member_id,
        "messagingUserId": ids.messaging_user_id,
        "from": ids.from_,
        "to": ids.to,
        "updatedSince": ids.updated_since,
    }
    assert {variable["key"] for variable in collection["variable"]} == mine.keys()
    return mine


def test_every_request_answers_with_200(collection: Json, variables: dict[str, str]) -> None:
    [token] = collection["auth"]["bearer"]
    authorization = {"authorization": f"Bearer {filled(token['value'], variables)}"}
    answers = {}
    for name, request in requests_in(collection):
        url = request["url"]
        address = filled("/".join([*url["host"], *url["path"]]), variables)
        query = {row["key"]: filled(row["value"], variables) for row in url["query"] if not row.get("disabled")}
        headers = {} if request.get("auth") == {"type": "noauth"} else authorization
        response = httpx.get(address, params=query, headers=headers, timeout=30)
        assert httpx.get(filled(url["raw"], variables), headers=headers, timeout=30).status_code == 200
        answers[name] = response.status_code
    assert len(answers) > len(OPERATIONS)
    assert set(answers.values()) == {200}, answers


def test_the_collection_has_every_operation(collection: Json) -> None:
    paths = {"/".join(request["url"]["path"]) for _, request in requests_in(collection)}
    described = {operation.path for operation in OPERATIONS}
    assert {re.sub(r"{{?\w+}}?", "{}", path) for path in paths} == {re.sub(r"{\w+}", "{}", path) for path in described}
