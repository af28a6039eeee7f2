"""The store records where and why lines were rejected, but not their values."""

from contextlib import closing
from pathlib import Path

from counterfoil import bootstrap
from counterfoil.ingest.fields import OTHER_FIELDS
from records import bill, shop
from running_service import RunningService

PHONE = "0812345678"


def test_of_a_rejected_line_the_names_of_wrong_fields_are_stored_and_no_value_or_name_that_may_be_one(
    tmp_path: Path,
) -> None:
    of = shop()
    wrong = [bill(of, cashierName="Lek"), bill(of, **{PHONE: PHONE})]
    with closing(RunningService(tmp_path)) as service:
        service.load(of, *wrong, bill(of, tel=PHONE), PHONE.encode(), {"kind": PHONE}, strict=True)
        reads = bootstrap.store(service.settings).reads()
        (load,) = reads.loads(10)
        assert load.rejects_file == "rejects.ndjson"
        rejects = reads.rejects(load.number, 10)
    assert len(rejects) == 5
    assert [(one.reason, list(one.fields)) for one in rejects[:2]] == [
        ("unknown_field", ["cashierName"]),
        ("unknown_field", [OTHER_FIELDS]),
    ]
    stored = b"".join(file.read_bytes() for file in service.settings.store.glob("*.sqlite3*"))
    assert PHONE.encode() not in stored
