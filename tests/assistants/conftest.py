"""A DuckDB copy pulled from a service in this process, with invented personal data in fields that must stay private."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

import records as r
from client.pulled_copy import PLENTY, Copy
from client.targets import duckdb_target
from running_service import RunningService, backend_settings

# Each of these strings is in the copy and must not be in any tool result.
CANARIES = {
    "phone": "0899999999",
    "email": "canary.person@example.com",
    "cashier": "Canary Cashier",
    "table": "Table of Mr Canary",
    "reason": "canary reason",
    "coupon": "CANARY-CODE",
    "label": "canary label",
}


@pytest.fixture(scope="module")
def branch() -> r.Record:
    return r.branch(name="Riverside", categories=[{"id": "c-soups", "name": "Soups"}])


def pulled_copy(service: RunningService, branch: r.Record, folder: Path) -> Copy:
    """Return a copy of one branch that has been pulled with a key that may read personal data."""
    people = {"tel": CANARIES["phone"], "email": CANARIES["email"], "labels": [CANARIES["label"]]}
    member = r.member(branch, id="m-1", coupons=[{"code": CANARIES["coupon"]}], **people)
    staff = {"cashier": CANARIES["cashier"], "table": {"id": "t1", "name": CANARIES["table"]}}
    soup = r.line(name="Soup", qty=2, unitPrice=60.05, total=120.10)
    tip = r.line(productId="p-tip", name="Tip", total=20, tip=True, categoryIds=[])
    gone = r.line(productId="p-gone", name="Cancelled dish", cancelled=True)
    service.load(
        branch,
        r.base(branch),
        member,
        r.bill(branch, id="b-1", memberId="m-1", lines=[soup, tip], amounts={"net": 140.10, "tip": 20}, **staff),
        r.bill(branch, id="b-2", lines=[soup, gone], amounts={"net": 0.1}, receiptNumber="R-2", **staff),
        r.bill(branch, id="b-3", lines=[soup], amounts={"net": 0.2}, closedAt="2026-01-02T18:30:00+07:00", **staff),
        r.bill(branch, id="b-4", amounts={"net": 500}, void={"reason": CANARIES["reason"]}, **staff),
        r.bill(branch, id="b-5", amounts={"net": 7}, closedAt=None, **staff),
    )
    key = service.key(franchise=branch["franchiseId"], personal_data=True, **PLENTY)
    copy = Copy(service, key, duckdb_target(folder), personal=True)
    copy.pull()
    return copy


@pytest.fixture
def copy(service: RunningService, branch: r.Record, tmp_path: Path) -> Copy:
    return pulled_copy(service, branch, tmp_path)


@pytest.fixture(scope="module")
def pulled_file(branch: r.Record, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a copy that is pulled once per module, because a pull takes longer than most tests."""
    folder = tmp_path_factory.mktemp("pulled")
    with backend_settings("sqlite") as place, closing(RunningService(folder, **place)) as service:
        pulled_copy(service, branch, folder)
    return folder / "copy.duckdb"


@pytest.fixture
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The database file of the fixture `copy` if the test uses that fixture, otherwise a duplicate of `pulled_file`."""
    file = tmp_path / "copy.duckdb"
    if "copy" in request.fixturenames:
        request.getfixturevalue("copy")
    else:
        shutil.copy2(request.getfixturevalue("pulled_file"), file)
    return file
