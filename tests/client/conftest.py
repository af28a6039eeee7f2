import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

import records as r
from client.pulled_copy import PLENTY, Copy
from client.targets import TARGETS, Target, sqlite_target
from running_service import DEPLOYMENTS, RunningService, backend_settings, reserved_port

# To save time, `make test` covers only DuckDB and SQLite. `make test-long` covers all targets.
KINDS = [pytest.param(name, marks=() if name in ("duckdb", "sqlite") else pytest.mark.long) for name in TARGETS]


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    """An empty target of each kind in turn."""
    return TARGETS[request.param](tmp_path)


@dataclass(frozen=True)
class Prepared:
    """A folder with a store that contains `branch`, and with an SQLite copy of it, pulled from a service at `port`."""

    folder: Path
    port: int
    branch: r.Record
    key: str


class DuplicatedService(RunningService):
    """A duplicate of the prepared service and its copy."""

    def __init__(self, prepared: Prepared, folder: Path) -> None:
        shutil.copytree(prepared.folder / "store", folder / "store")
        shutil.copy2(prepared.folder / "copy.sqlite", folder)
        super().__init__(folder)
        self.port = prepared.port
        self.prepared = prepared


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    """A copy that is pulled once and then duplicated, because a pull takes longer than most tests.

    The copy contains the address of the service, so every duplicate of the service listens on the same port.
    """
    folder = tmp_path_factory.mktemp("prepared")
    with reserved_port() as port:
        with closing(RunningService(folder)) as service:
            service.port = port
            branch = loaded_branch(service)
            copy = new_copy(service, branch, sqlite_target(folder))
            copy.pull()
        yield Prepared(folder, port, branch, copy.key)


@pytest.fixture(params=DEPLOYMENTS)
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningService]:
    """An empty deployment on each back end in turn.

    On SQLite, a test that uses `pulled_copy` gets a `DuplicatedService` instead.
    """
    if request.param == "sqlite" and "pulled_copy" in request.fixturenames:
        with closing(DuplicatedService(request.getfixturevalue("prepared"), tmp_path)) as service:
            yield service
        return
    with backend_settings(request.param) as place, closing(RunningService(tmp_path, **place)) as service:
        yield service


@pytest.fixture
def branch(service: RunningService) -> r.Record:
    """A branch with a base, members and bills of every kind."""
    return service.prepared.branch if isinstance(service, DuplicatedService) else loaded_branch(service)


def loaded_branch(service: RunningService) -> r.Record:
    branch = r.branch(categories=[{"id": "c-soups", "name": "Soups"}, {"id": "c-hot", "parentId": "c-soups"}])
    service.load(branch, r.base(branch), *r.members(branch, 5), *r.bills(branch, 12))
    service.load(*odd_bills(branch), odd_member(branch))
    return branch


def new_copy(service: RunningService, branch: r.Record, target: Target) -> Copy:
    """Return a copy with a new key."""
    service.clock.advance(1)  # The service learns of new keys once a second.
    copy = Copy(service, service.key(franchise=branch["franchiseId"], **PLENTY), target)
    copy.branch = branch
    return copy


@pytest.fixture
def pulled_copy(service: RunningService, branch: r.Record, tmp_path: Path) -> Copy:
    """An SQLite copy of the branch's franchise that has been pulled once."""
    target = sqlite_target(tmp_path)
    if isinstance(service, DuplicatedService):
        copy = Copy(service, service.prepared.key, target)
        copy.branch = branch
        return copy
    copy = new_copy(service, branch, target)
    copy.pull()
    return copy


@pytest.fixture
def copy(service: RunningService, branch: r.Record, target: Target) -> Copy:
    """A copy of the branch's franchise that has not been pulled yet."""
    return new_copy(service, branch, target)


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
