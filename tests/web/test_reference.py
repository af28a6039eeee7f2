"""The reference is complete in every format, valid and small, and loads nothing from other hosts."""

import gzip
import re

import jsonschema
import msgspec
import pytest

from counterfoil.domain.problems import TABLE
from counterfoil.http.openapi import document
from counterfoil.http.openapi.components import PARAMETERS
from counterfoil.http.openapi.operations import OPERATIONS
from counterfoil.http.reference import build, content, example_base_url, render
from counterfoil.http.reference.page import page_style_sheet, render_page
from counterfoil.web.assets import content_security_policy
from upkeep.fields import published
from web.strict_html import StrictPage

MAX_BYTES, MAX_COMPRESSED_BYTES = 125_000, 25_000
BASE = example_base_url("/ext")
FENCED = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def page() -> bytes:
    return render("html", "/ext", BASE)


@pytest.fixture(scope="module")
def read(page: bytes) -> StrictPage:
    return StrictPage(page)


@pytest.fixture(scope="module")
def in_text(request: pytest.FixtureRequest) -> str:
    return render(request.param, "/ext", BASE).decode()


def expected_fields() -> list[tuple[str, str]]:
    return [
        (resource.__name__, field.encode_name) for resource in published() for field in msgspec.structs.fields(resource)
    ]


def expected_parameters() -> list[tuple[str, str]]:
    return [
        (operation.id, str(PARAMETERS[name]["name"]))
        for operation in OPERATIONS
        for name in operation.parameters
        if PARAMETERS[name]["in"] != "header"
    ]


# --- the HTML page -------------------------------------------------------------


def test_the_page_is_strict_html_with_unique_anchors_and_links_that_lead_somewhere(read: StrictPage) -> None:
    assert read.problems == []
    assert len(read.ids) > 200


def test_the_page_has_landmarks_a_language_and_a_policy_for_its_own_style_sheet(read: StrictPage) -> None:
    landmarks = ["header", "nav", "main", "footer"]
    assert [name for name, _ in read.elements if name in landmarks] == landmarks
    assert read.named("html") == [{"lang": "en"}]
    assert read.links[0] == "#content"
    policies = [meta["content"] for meta in read.named("meta") if "http-equiv" in meta]
    assert policies == [content_security_policy(page_style_sheet(), in_header=False)]


def test_the_page_shows_hostile_texts_as_text() -> None:
    hostile = """"'></style><script>alert(1)</script>{{ 7 * 7 }}<b onclick=x>"""
    reference = build("/ext", hostile, {})
    texts = {"version": hostile, "summary": hostile, "introduction": hostile, "authentication": hostile}
    guides = [msgspec.structs.replace(guide, title=hostile, text=hostile) for guide in reference.guides]
    spoilt = msgspec.structs.replace(reference, **texts, guides=guides)
    shown = StrictPage(render_page(spoilt, is_served=True, home=(f"/?{hostile}", hostile), try_at=f"/{hostile}"))
    assert shown.problems == []
    assert [script["src"] for script in shown.named("script")] == ["reference.js"]
    assert [bold for bold in shown.named("b") if bold] == []
    assert {meta["name"]: meta["content"] for meta in shown.named("meta") if "name" in meta}["description"] == hostile


def test_every_operation_parameter_field_and_error_has_an_anchor(read: StrictPage) -> None:
    anchors = set(read.ids)
    expected = {operation.id for operation in OPERATIONS}
    expected |= {f"{operation}.{name}" for operation, name in expected_parameters()}
    expected |= {f"request.{PARAMETERS[name]['name']}" for name in ("requestId", "ifNoneMatch")}
    expected |= {resource.__name__ for resource in published()}
    expected |= {f"{resource}.{field}" for resource, field in expected_fields()}
    expected |= {f"error-{problem.code}" for problem in TABLE}
    assert expected - anchors == set()


def test_every_header_and_every_field_of_envelopes_and_errors_has_an_anchor(read: StrictPage) -> None:
    """The test takes them from the OpenAPI document, so that it also covers new ones."""
    described, anchors = msgspec.json.decode(document("/ext")), set(read.ids)
    schemas = described["components"]["schemas"]
    for operation in OPERATIONS:
        for field in schemas[operation.response_schema]["properties"]:
            places = {f"response.{field}", f"{operation.id}.response.{field}", f"{operation.response_schema}.{field}"}
            assert field == "data" or places & anchors, (operation.id, field)
    for problem in TABLE:
        fields = schemas[problem.code.title().replace("_", "")]["properties"]
        assert {f"error-body.{field}" for field in fields} <= anchors
    responses = [response for path in described["paths"].values() for response in path["get"]["responses"].values()]
    assert {f"header-{name}" for response in responses for name in response["headers"]} <= anchors


def test_every_row_has_a_description(read: StrictPage) -> None:
    described = {f"{one.anchor}.{row.name}": row for one in build("/ext", BASE, {}).objects for row in one.rows}
    for anchor, row in described.items():
        shown = read.text_of[row.anchor]
        assert row.name in shown, anchor
        assert len(shown) > len(row.name) + 5, anchor


def test_the_page_is_smaller_than_125_kb_and_25_kb_compressed(page: bytes) -> None:
    assert len(page) < MAX_BYTES
    assert len(gzip.compress(page)) < MAX_COMPRESSED_BYTES


def test_the_page_loads_nothing_and_runs_nothing(page: bytes, read: StrictPage) -> None:
    assert [address for address in read.loads if not address.startswith("data:")] == []
    assert read.named("script") == []
    assert re.findall(rb"url\(|@import|src=", page) == []


def test_tables_have_a_caption_and_row_headers(page: bytes) -> None:
    tables = re.findall(rb"<table.*?</table>", page, re.DOTALL)
    assert len(tables) > len(published())
    for table in tables:
        assert table.startswith(b"<table><caption>")
        assert table.count(b'<th scope="row">') == table.count(b"<tr id=")


def test_every_operation_has_a_request_in_three_languages_and_a_response(page: bytes) -> None:
    for operation in OPERATIONS:
        (shown,) = re.findall(rb'<article id="%b".*?</article>' % operation.id.encode(), page, re.DOTALL)
        for label in (b"curl", b"counterfoil.client", b"httpx"):
            assert b"<summary>%b</summary>" % label in shown
        assert (b"Response: " in shown) is not operation.path.endswith("}")


# --- Markdown and llms.txt --------------------------------------------------------


@pytest.mark.parametrize("in_text", ["md", "txt"], indirect=True)
def test_the_text_formats_name_everything_too(in_text: str) -> None:
    for operation in OPERATIONS:
        assert f"GET /v1/{operation.path}" in in_text
    for _, name in [*expected_fields(), *expected_parameters()]:
        assert f"`{name}`" in in_text, name
    for problem in TABLE:
        assert f"`{problem.code}`" in in_text
        assert problem.action in in_text


@pytest.mark.parametrize("in_text", ["md"], indirect=True)
def test_every_object_in_markdown_lists_its_fields(in_text: str) -> None:
    for resource in published():
        section = in_text.partition(f"\n### {resource.__name__}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
        for field in msgspec.structs.fields(resource):
            assert f"\n| `{field.encode_name}` | " in section


@pytest.mark.parametrize("in_text", ["txt"], indirect=True)
def test_llms_txt_has_the_form_that_readers_expect(in_text: str) -> None:
    lines = in_text.splitlines()
    assert lines[0].startswith("# ")
    assert lines[2].startswith("> ")
    assert [line for line in lines if line.startswith("## ")][-1] == "## Optional"


@pytest.mark.parametrize("in_text", ["md"], indirect=True)
def test_the_example_bodies_are_valid_by_their_schemas(in_text: str) -> None:
    described = msgspec.json.decode(document("/ext"))
    bodies = [msgspec.json.decode(text) for language, text in FENCED.findall(in_text) if language == "json"]
    shown = 0
    for operation in OPERATIONS:
        schema = {"$ref": f"#/components/schemas/{operation.response_schema}", "components": described["components"]}
        examples = described["paths"][f"/v1/{operation.path}"]["get"]["responses"]["200"]["content"]
        for example in examples["application/json"]["examples"].values():
            assert bodies[shown] == example["value"]
            jsonschema.validate(bodies[shown], schema)
            shown += 1
    assert shown == len(bodies)


# --- hand-written parts ---------------------------------------------------------------


def test_the_order_of_checks_is_the_one_in_the_overview() -> None:
    overview = " ".join(msgspec.json.decode(document("/ext"))["info"]["description"].split())
    assert f"in this order: {', '.join(content.CHECKS)}." in overview


def test_an_error_says_what_to_do(read: StrictPage) -> None:
    assert "What to do: Use GET." in read.text_of["error-method_not_allowed"]
    assert [problem.code for problem in TABLE if not problem.action] == []


def test_the_guides_are_those_of_the_document_and_each_has_text(read: StrictPage) -> None:
    described = build("/ext", BASE, {}).guides
    assert {"guide-keeping-a-copy", "guide-errors", "guide-paging", "guide-limits"} <= {one.anchor for one in described}
    for guide in described:
        assert len(read.text_of[guide.anchor]) > 100
