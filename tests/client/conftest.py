from pathlib import Path

import pytest

import records as r
from client.pulled_copy import PLENTY, Copy
from client.targets import TARGETS, Target
from running_service import RunningService

# To save time, `make test` covers only DuckDB and SQLite. `make test-long` covers all targets.
KINDS = [pytest.param(name, marks=() if name in ("duckdb", "sqlite") else pytest.mark.long) for name in TARGETS]


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    """An empty target of each kind in turn."""
    return TARGETS[request.param](tmp_path)


@pytest.fixture
def branch(service: RunningService) -> r.Record:
    """A branch with a base, members and bills of every kind."""
    branch = r.branch(categories=[{"id": "c-soups", "name": "Soups"}, {"id": "c-hot", "parentId": "c-soups"}])
    service.load(branch, r.base(branch), *r.members(branch, 5), *r.bills(branch, 12))
    service.load(*odd_bills(branch), odd_member(branch))
    return branch


@pytest.fixture
def copy(service: RunningService, branch: r.Record, target: Target) -> Copy:
    """A copy of the branch's franchise that has not been pulled yet."""
    return Copy(service, service.key(franchise=branch["franchiseId"], **PLENTY), target)


def odd_bills(of: r.Record) -> list[r.Record]:
    lines = [
        r.line(name="quote \" and ' and \\ and\nnew line", options=[{"id": "o1", "name": "ไม่เผ็ด"}, {"qty": 0.5}]),
        r.line(name="ต้มยำกุ้ง 🦐", categoryIds=None, cancelled=True, qty=None, unitPrice=None, total=None),
        r.line(tip=True, qty=3, unitPrice=None, total=10, categoryIds=[]),
    ]
    promotions = [{"id": "p1", "name": "Happy; DROP TABLE bills; --", "amount": 12.5}, {"amount": None}]
    amounts = {"net": 8935002455.22, "tip": 0, "vatType": "", "campaigns": promotions, "coupons": promotions[:1]}
    return [
        r.bill(of, id='it\'s "odd" %s ? $1', lines=lines, amounts=amounts, payments=[{}, {"name": "QR", "amount": 1}]),
        r.bill(of, closedAt=None),
        r.bill(of, history=True),
        r.bill(of, closedAt="2025-02-14T23:59:59+07:00", void={"reason": "mistake"}),
        r.bill(of, closedAt="2025-11-30T01:00:00+07:00", memberId="m-1", orderIds=["o1", "o2"]),
        r.bill(of, lines=[], amounts={}, payments=[], table=None, serviceType=None, cashier=None),
        r.bill(of, closedAt="2026-05-05T12:00:00+07:00"),
    ]


def odd_member(of: r.Record) -> r.Record:
    coupons = [{"code": "A'1", "status": "used", "name": "ลด 50%"}, {"expireAt": "2026-03-01T00:00:00Z"}, {}]
    return r.member(
        of, id="m-1", createdAt=None, coupons=coupons, labels=["vip", "a,b"], persona=["{x}"], visits=["2025-12-24"]
    )
