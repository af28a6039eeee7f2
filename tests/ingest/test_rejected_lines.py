"""The store records where and why lines were rejected, but not their values."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from counterfoil import bootstrap
from counterfoil.ingest.fields import OTHER_FIELDS
from records import bill, shop
from running_service import RunningService

PHONE = "0812345678"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    service = RunningService(tmp_path)
    yield service
    service.close()


def test_a_load_names_its_rejects_file_if_lines_were_rejected(service: RunningService) -> None:
    service.load(shop())
    service.load(b"not JSON")
    second, first = bootstrap.store(service.settings).reads().loads(10)
    assert (first.rejects_file, second.rejects_file) == (None, "rejects.ndjson")


def test_wrong_fields_are_named_unless_the_name_may_be_a_value(service: RunningService) -> None:
    of = shop()
    service.load(of, bill(of, cashierName="Lek"), bill(of, **{PHONE: 1}), strict=True)
    reads = bootstrap.store(service.settings).reads()
    (load,) = reads.loads(10)
    found = reads.rejects(load.number, 10)
    assert [(one.reason, list(one.fields)) for one in found] == [
        ("unknown_field", ["cashierName"]),
        ("unknown_field", [OTHER_FIELDS]),
    ]


def test_no_value_of_a_rejected_line_is_stored(service: RunningService) -> None:
    of = shop()
    rejected = [PHONE.encode(), bill(of, tel=PHONE), bill(of, **{PHONE: PHONE}), {"kind": PHONE}]
    service.load(of, *rejected, strict=True)
    service.close()
    stored = b"".join(file.read_bytes() for file in service.settings.store.glob("*.sqlite3*"))
    assert PHONE.encode() not in stored
