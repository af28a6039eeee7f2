"""The OpenAPI document is valid, complete, and consistent with the tables that it is generated from."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator
from msgspec import json

from broken_store import keys_unreadable
from counterfoil.domain.problems import TABLE
from counterfoil.domain.questions import DEFAULT_LIMIT, MAX_FEED_LIMIT, MAX_LIMIT, MAX_SPAN_DAYS
from counterfoil.http.app import ROUTES
from counterfoil.http.openapi import document
from counterfoil.model.version import API_VERSION
from running_service import RunningService

Json = dict[str, Any]

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
CONDITIONAL = {"Member": {"tel", "email"}}


@pytest.fixture
def described() -> Json:
    found: Json = json.decode(document("/ext"))
    return found


def objects(node: Any, where: str = "#") -> Iterator[tuple[str, Json]]:
    """Yield every object in the document, with its path. Examples are left out."""
    if isinstance(node, list):
        for number, part in enumerate(node):
            yield from objects(part, f"{where}/{number}")
    if isinstance(node, dict):
        yield where, node
        for name, part in node.items():
            if name not in ("example", "examples"):
                yield from objects(part, f"{where}/{name}")


def operations(described: Json) -> dict[str, Json]:
    return {path: item["get"] for path, item in described["paths"].items()}


def resolved(described: Json, node: Json) -> Json:
    if "$ref" not in node:
        return node
    target: Any = described
    for step in node["$ref"].removeprefix("#/").split("/"):
        target = target[step]
    found: Json = target
    return found


def bodies(described: Json, response: Json) -> list[Json]:
    """Return the schemas that a response's body may have."""
    schema = response["content"]["application/json"]["schema"]
    return [resolved(described, option) for option in schema.get("oneOf", [schema])]


def complaints(described: Json, schema: Json, example: Any) -> list[str]:
    whole = {**schema, "components": described["components"]}
    checker = Draft202012Validator(whole, validate_formats=True)
    return [error.message for error in checker.iter_errors(example)]


def examples_of(node: Json) -> Iterator[tuple[Json, Any]]:
    """Yield the examples of an object, each with the schema that it must satisfy."""
    if "schema" in node:
        if "example" in node:
            yield node["schema"], node["example"]
        for named in node.get("examples", {}).values():
            yield node["schema"], named["value"]
    elif isinstance(node.get("examples"), list):
        for example in node["examples"]:
            yield node, example


def test_the_document_is_valid_openapi_wherever_the_service_is_mounted(described: Json) -> None:
    # This import takes half a second, and every test process imports this file, so the import is not at the top.
    from openapi_spec_validator import OpenAPIV31SpecValidator  # noqa: PLC0415

    OpenAPIV31SpecValidator(described).validate()
    assert described["openapi"] == "3.1.0"
    (server,) = described["servers"]
    assert server["url"] == "/ext"
    for prefix in ("", "/a/b"):
        elsewhere = {**described, "servers": [{**server, "url": prefix or "/"}]}
        assert json.decode(document(prefix)) == elsewhere


def test_the_version_is_that_of_the_api_and_the_newest_of_the_changelog(described: Json) -> None:
    newest = re.search(r"^# Versions of the API.*?^## (\d+\.\d+\.\d+)", CHANGELOG.read_text("utf-8"), re.M | re.S)
    assert newest
    assert newest[1] == described["info"]["version"] == API_VERSION


def test_every_route_is_described_and_nothing_else(described: Json) -> None:
    assert set(described["paths"]) == {f"/v1/{route}" for route in ROUTES}
    assert all(set(item) == {"get"} for item in described["paths"].values())


def test_only_the_route_without_a_handler_needs_no_key(described: Json) -> None:
    assert described["security"] == [{"apiKey": []}]
    public = {path for path, operation in operations(described).items() if operation.get("security") == []}
    assert public == {f"/v1/{route}" for route, handler in ROUTES.items() if handler is None}


def test_every_operation_explains_itself(described: Json) -> None:
    known_tags = {tag["name"] for tag in described["tags"]}
    for operation in operations(described).values():
        assert operation["summary"]
        assert operation["description"]
        assert operation["operationId"]
        assert set(operation["tags"]) <= known_tags


def test_every_error_code_is_described_under_its_status_and_under_no_other(described: Json) -> None:
    found = {
        (int(status), body["properties"]["error"]["const"])
        for operation in operations(described).values()
        for status, response in operation["responses"].items()
        if int(status) >= 400
        for body in bodies(described, response)
    }
    assert found == {(problem.status, problem.code) for problem in TABLE}


def test_both_bodies_of_429_are_described(described: Json) -> None:
    for path, operation in operations(described).items():
        if path == "/v1/openapi.json":
            continue
        limited, spent = bodies(described, operation["responses"]["429"])
        assert {"retryAfterSec", "limit", "windowSec"} <= set(limited["required"])
        assert set(spent["properties"]) == {"ok", "error", "message"}
        assert "Retry-After" in operation["responses"]["429"]["headers"]


def test_every_answer_has_a_request_id_and_every_counted_one_the_allowance(described: Json) -> None:
    for operation in operations(described).values():
        for status, response in operation["responses"].items():
            assert "X-Request-Id" in response["headers"]
            counted = operation.get("security") != [] and status in ("200", "304", "400", "404")
            remaining = response["headers"].get("X-RateLimit-Remaining")
            if counted:
                assert resolved(described, remaining)["required"]
            elif remaining:
                assert not resolved(described, remaining)["required"]


def test_every_field_of_every_body_has_a_description(described: Json) -> None:
    for where, node in objects(described["components"]["schemas"]):
        if node.get("type") == "object":
            assert node["description"], where
            for name, field in node["properties"].items() if "properties" in node else ():
                assert field.get("description"), f"{where}: {name}"


def test_every_field_is_always_present_except_the_conditional_ones(described: Json) -> None:
    for name, schema in described["components"]["schemas"].items():
        assert set(schema["properties"]) - set(schema["required"]) == CONDITIONAL.get(name, set()), name


def test_schemas_allow_new_fields_in_bodies(described: Json) -> None:
    for where, node in objects(described["components"]["schemas"]):
        assert node.get("additionalProperties", True) is True, where


def test_numbers_and_nullable_fields_have_plain_types(described: Json) -> None:
    schemas = described["components"]["schemas"]
    assert all("anyOf" not in node for _, node in objects(schemas))
    assert schemas["Amounts"]["properties"]["net"]["type"] == ["number", "null"]
    assert schemas["Member"]["properties"]["points"]["type"] == "number"
    assert schemas["Member"]["properties"]["rankLevel"]["type"] == ["integer", "null"]
    assert schemas["Coupon"]["properties"]["status"]["enum"] == ["available", "used", None]


@pytest.mark.parametrize(("schema", "field"), [("Channel", "code"), ("Bill", "serviceType"), ("Amounts", "vatType")])
def test_an_open_string_is_documented_as_open(described: Json, schema: str, field: str) -> None:
    open_string = described["components"]["schemas"][schema]["properties"][field]
    assert open_string["type"] == ["string", "null"]
    assert "enum" not in open_string
    assert "open" in open_string["description"]


def test_every_schema_parameter_header_and_body_has_an_example(described: Json) -> None:
    components = described["components"]
    for name, node in {**components["schemas"], **components["parameters"], **components["headers"]}.items():
        assert list(examples_of(node)), name
    for operation in operations(described).values():
        for response in operation["responses"].values():
            for content in response.get("content", {}).values():
                assert content["examples"]


def test_every_example_satisfies_its_schema(described: Json) -> None:
    for where, node in objects(described):
        for schema, example in examples_of(node):
            assert complaints(described, schema, example) == [], where


def test_a_refusal_satisfies_the_schema_of_its_own_code_only(described: Json) -> None:
    refusals = [described["components"]["schemas"][problem.code.title().replace("_", "")] for problem in TABLE]
    for refusal in refusals:
        example = refusal["examples"][0]
        assert [other for other in refusals if not complaints(described, other, example)] == [refusal]


def test_every_process_generates_the_same_bytes() -> None:
    program = "import sys; from counterfoil.http.openapi import document; sys.stdout.buffer.write(document('/ext'))"
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    written = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    assert written.stdout == document("/ext")


def test_the_described_limits_are_those_of_the_service(described: Json) -> None:
    parameters = described["components"]["parameters"]
    for name, most in (("limit", MAX_LIMIT), ("feedLimit", MAX_FEED_LIMIT)):
        assert re.findall(r"[0-9],?[0-9]{2,3}", parameters[name]["description"]) == [f"{most:,}"] * 3 + ["100"]
        assert parameters[name]["schema"]["default"] == DEFAULT_LIMIT == 100
    assert f"at most {MAX_SPAN_DAYS} days" in parameters["to"]["description"]


# --- served: public and not counted ----------------------------------------------------------


@pytest.mark.parametrize("key", [None, "nonsense", "cf_live_abcdefghijkl_" + "0" * 49])
def test_the_document_needs_no_key_and_ignores_one_and_parameters(
    shared_service: RunningService, key: str | None
) -> None:
    for path in ("openapi.json", "openapi.json?version=2&key=cf_live_x"):
        answer = shared_service.get(path, key)
        assert (answer.status_code, answer.content) == (200, document(shared_service.settings.prefix))


def test_the_document_is_served_to_a_key_whose_minute_is_full_and_while_keys_cannot_be_read(
    service: RunningService,
) -> None:
    key = service.key(shop="s", per_min=1)
    service.get("shops", key)
    assert service.error("shops", key) == "rate_limited"
    assert service.get("openapi.json", key).status_code == 200
    with keys_unreadable(service):
        assert service.error("shops", key) == "auth_unavailable"
        assert service.get("openapi.json", key).status_code == 200
