"""The published JSON Schemas accept and reject the same records as a strict load."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator, meta

from cli.command import Command
from counterfoil.demo.worldgen.world import world
from counterfoil.ingest.fields import check_record, known_fields
from counterfoil.ingest.lines import Rejected, parse_record
from ingest.loaders import PLAN, READER, at, paths
from malformed_records import malformed

KINDS = ("shop", "base", "member", "bill")

CASES = json.loads(Path(__file__).with_name("schema_cases.json").read_text("utf-8"))
# A record of each kind that has every field.
FULL: dict[str, dict[str, Any]] = CASES["full"]
# Each value is tried in every field, except values that a schema cannot check (see docs/source-records.md).
VALUES: list[Any] = CASES["values"]


@pytest.fixture(scope="module")
def validators() -> dict[str, Draft202012Validator]:
    for kind in KINDS:
        meta.validate(published(kind))
    return {kind: Draft202012Validator(published(kind)) for kind in KINDS}


def published(kind: str) -> dict[str, Any]:
    """Return the schema that `counterfoil schema KIND` prints."""
    return json.loads(Command("unused").bare("schema", kind).stdout)  # type: ignore[no-any-return]


def strict_verdict(line: bytes) -> str | None:
    """Return the reason why a strict load rejects the line, or None if it is accepted."""
    try:
        record = parse_record(line)
        findings = check_record(record, READER.change(record))
    except Rejected as rejected:
        return rejected.reason
    return f"unknown {findings.unknown}, unreadable {findings.unreadable}" if findings else None


def disagreement(validators: dict[str, Draft202012Validator], record: dict[str, Any]) -> str | None:
    said = strict_verdict(json.dumps(record).encode())
    errors = [
        f"{error.instance_path}: {error.message[:200]}" for error in validators[record["kind"]].iter_errors(record)
    ]
    return None if bool(said) == bool(errors) else f"{json.dumps(record)[:300]}: load: {said}; schema: {errors}"


def changed(record: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    copy = deepcopy(record)
    at(copy, path[:-1])[path[-1]] = value
    return copy


def without(record: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    copy = deepcopy(record)
    del at(copy, path[:-1])[path[-1]]
    return copy


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_record_is_accepted_by_both(validators: dict[str, Draft202012Validator], kind: str) -> None:
    assert strict_verdict(json.dumps(FULL[kind]).encode()) is None
    assert list(validators[kind].iter_errors(FULL[kind])) == []
    assert set(known_fields(kind).fields or {}) - set(FULL[kind]) <= {"removed", "rev"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_misspelt_field_name_is_rejected_by_both_at_any_level(
    validators: dict[str, Draft202012Validator], kind: str
) -> None:
    objects = [(), *(path for path in paths(FULL[kind]) if isinstance(at(FULL[kind], path), dict))]
    for path in objects:
        record = changed(FULL[kind], (*path, "mispelt"), 1)
        assert strict_verdict(json.dumps(record).encode())
        assert not validators[kind].is_valid(record), path


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_both_agree_on_any_value_in_any_field(validators: dict[str, Draft202012Validator], kind: str) -> None:
    found = []
    for path in paths(FULL[kind]):
        if path[0] == "kind":
            continue
        values = [value for value in VALUES if not is_beyond_a_schema(path, value)]
        found += [disagreement(validators, changed(FULL[kind], path, value)) for value in values]
        found.append(disagreement(validators, without(FULL[kind], path)))
    assert list(filter(None, found)) == []


def is_beyond_a_schema(path: tuple[Any, ...], value: Any) -> bool:
    """Return whether docs/source-records.md says that the schemas cannot check this value."""
    is_time_zone = path[-1] == "timezone" and isinstance(value, str)
    is_epoch_with_separators = value in ("1,250.00", "1e3") and any(
        str(key).endswith(("At", "Day")) or key == "visits" for key in path
    )
    is_id_beyond_doubles = type(value) is float and value > 2**53
    return is_time_zone or is_epoch_with_separators or is_id_beyond_doubles


def test_both_agree_on_the_generated_world(validators: dict[str, Draft202012Validator]) -> None:
    # NaN is not valid JSON, so it is converted to text. The schema and a strict load must agree on this text, too.
    records = [json.loads(line, parse_constant=str) for line in malformed(world(PLAN), 0.5)]
    assert {record["kind"] for record in records} == set(KINDS)
    found = [disagreement(validators, record) for record in records if record.get("id")]
    assert list(filter(None, found))[:5] == []
    verdicts = [strict_verdict(json.dumps(record).encode()) is None for record in records]
    assert 50 < sum(verdicts) < len(verdicts) - 50, "the world must have clean and dirty records"


@pytest.mark.parametrize("kind", ["shop", "member", "bill"])
def test_a_removal_needs_nothing_but_its_ids(validators: dict[str, Draft202012Validator], kind: str) -> None:
    removal = {"kind": kind, "id": "1", "shopId": "sh_1", "providerId": "mb", "removed": True, "anything": [1]}
    assert disagreement(validators, removal) is None
    assert validators[kind].is_valid(removal)
    assert disagreement(validators, removal | {"rev": "first"}) is None
    assert not validators[kind].is_valid(without(removal, ("id",)))
