"""The form of an import is the JSON that the documents describe."""

import json
import re
from pathlib import Path

from jsonschema import validate

from counterfoil.importer.form import MOST_OPTIONS, form_of, json_of, json_schema

PAGE = (Path(__file__).parents[2] / "docs" / "import-form.md").read_text("utf-8")


def documented() -> str:
    found = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found[1]


def test_the_documented_form_fits_the_schema_and_is_read_without_loss() -> None:
    content = json.loads(documented())
    validate(content, json_schema())
    form = form_of(documented())
    assert json.loads(json_of(form)) == content
    assert [question.id for question in form.open] == ["net"]
    assert not form.is_complete


def test_the_documents_name_each_field_of_the_form() -> None:
    fields = json_schema()["$defs"]["Form"]["properties"]
    assert [name for name in fields if f"| `{name}` |" not in PAGE] == []
    assert MOST_OPTIONS == 4
