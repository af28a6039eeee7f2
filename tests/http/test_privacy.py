"""Data that is never returned is neither stored nor logged."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import json

import servers
from broken_store import run_sql, table_missing
from counterfoil.observe import EventLog
from records import EVER, NEW_YEAR, Record, base, bill, branch, line, member, shop
from running_service import SECRET, RunningService

USER = "U" + "5ec7e7" * 5 + "00"
OLDER_USER = "U" + "01d1d0" * 5 + "00"
TEL, EMAIL = "0899998888", "personal.address@example.com"
INTERNAL_ID = "internal-record-id-4711"

# A unique value for every kind of data that, according to the contract, is never returned.
STUFFED: dict[str, Record] = json.decode(Path(__file__).with_name("never_returned.json").read_bytes())
EARLIER_VISIT = "2019-04-13"
LOT = 313_373_137


def sentinels(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list | tuple) else ():
        yield from sentinels(part)


NEVER = sorted(sentinels(STUFFED))
# Values that no answer and no file may contain. The IDs are stored only as tokens or hashes.
NOWHERE = [*NEVER, "NEVER-base-secret", "NEVER-other-brands-coupon", EARLIER_VISIT, str(LOT)]
NOWHERE += [INTERNAL_ID, USER, OLDER_USER, USER[1:], OLDER_USER[1:]]


def world() -> list[Record]:
    of = branch(id="private-shop", providerId="private-base", franchiseId="private-franchise")
    of |= STUFFED["shop"] | {"categories": [{"id": "c1", "name": "Soups", **STUFFED["category"]}]}
    another_brand = {"code": "NEVER-other-brands-coupon", "providerId": "another-base"}
    return [
        of,
        base(of, messagingChannel="now", olderMessagingChannels=["before"], secret="NEVER-base-secret"),
        member(
            of,
            id=INTERNAL_ID,
            tel=TEL,
            email=EMAIL,
            messaging=[{"channel": "now", "userId": USER}, {"channel": "before", "userId": OLDER_USER}],
            points=[{"amount": LOT, **STUFFED["lot"]}, {"amount": -LOT + 5, **STUFFED["lot"]}],
            credit=[{"amount": 20, **STUFFED["lot"]}],
            visits=[{"at": EARLIER_VISIT, **STUFFED["visit"]}, {"at": "2025-12-01", **STUFFED["visit"]}],
            coupons=[{"code": "C1", **STUFFED["coupon"]}, another_brand],
            **STUFFED["member"],
        ),
        bill(
            of,
            id="private-bill",
            memberId=INTERNAL_ID,
            lines=[line(**STUFFED["line"])],
            payments=[{"name": "Card", "amount": 120, **STUFFED["payment"]}],
            **STUFFED["bill"],
        ),
    ]


@pytest.fixture(scope="module")
def private(shared_service: RunningService) -> RunningService:
    """A service that loaded private data of every kind and answered requests with a key that has every permission."""
    records = world()
    shared_service.load(*records)
    # Load the same records again with changes, because an update must not leave traces either.
    shared_service.load(*[record | {"rank": "silver", "cashier": "Ann"} for record in records])
    key = full_key(shared_service)
    for answer in everything(shared_service, key):
        assert answer.status_code in (200, 404)
    return shared_service


@pytest.fixture(scope="module")
def answers(private: RunningService) -> list[Any]:
    """The responses on every route to a key that has every permission."""
    return everything(private, full_key(private))


def full_key(service: RunningService, **terms: Any) -> str:
    granted = {"personal_data": True, "messaging_lookup": True} | terms
    return service.key(franchise="private-franchise", per_min=10_000, **granted)


def everything(service: RunningService, key: str) -> list[Any]:
    """Return the responses to requests for the private data, on every route."""
    token, shop_id, provider_id = service.token(INTERNAL_ID), "private-shop", "private-base"
    return [
        service.get("shops", key),
        service.get("transactions", key, shopId=shop_id, **NEW_YEAR),
        service.get("transactions", key, shopId=shop_id, updatedSince=EVER),
        service.get("transactions", key, shopId=shop_id, updatedSince=EVER, limit=1),
        service.get("transactions/private-bill", key),
        *(service.get(path, key) for path in ("changes", "changes?limit=1", "digests", "digests?limit=1")),
        service.get("digests", key, shopId=shop_id),
        service.get("members", key, providerId=provider_id),
        service.get(f"members/{token}", key),
        service.get("members/lookup", key, providerId=provider_id, messagingUserId=USER),
        service.get("members/lookup", key, providerId=provider_id, messagingUserId=OLDER_USER),
        service.get(f"members/{INTERNAL_ID}", key),
        service.get("usage", key),
        service.get("openapi.json"),
    ]


def store_bytes(service: RunningService) -> dict[str, bytes]:
    """Return the contents of the store's files, including write-ahead logs, or of its tables on PostgreSQL."""
    if service.settings.database:
        return servers.postgres(18).files_of(service.settings.database.rpartition("/")[2])
    files = [file for file in service.settings.store.rglob("*") if file.is_file()]
    assert any(file.name.endswith("-wal") and file.stat().st_size for file in files)
    return {file.name: file.read_bytes() for file in files}


def logged(service: RunningService, folder: Path) -> str:
    """Return the log lines for all events of the service so far."""
    path = folder / "log"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    log = EventLog(descriptor, service.clock.now_ms, lambda _, __: None)
    for event in service.events_so_far():
        log(event)
    log.flush()
    os.close(descriptor)
    return path.read_text()


# --- never returned, never stored, never logged ----------------------------------------------------------


def test_the_private_data_is_requested_on_every_route(private: RunningService, answers: list[Any]) -> None:
    (document,) = [answer.json() for answer in answers if answer.url.path.endswith("openapi.json")]
    token = private.token(INTERNAL_ID)
    routes = {
        f"/ext{path}".replace("{id}", "private-bill").replace("{memberToken}", token) for path in document["paths"]
    }
    assert routes == {answer.url.path for answer in answers if answer.status_code == 200}


def test_the_feed_and_the_digests_contain_the_bill_with_private_data(private: RunningService) -> None:
    key = full_key(private)
    elements = private.data("changes", key)
    assert [(row["type"], row["shopId"]) for row in elements] == [("shop", "private-shop"), ("bill", "private-shop")]
    assert [(row["shopId"], row["bills"]) for row in private.data("digests", key)] == [("private-shop", 1)]


def test_unpublished_data_and_internal_ids_are_in_no_answer(answers: list[Any]) -> None:
    assert len(NEVER) > 45
    assert not [(value, answer.url) for answer in answers for value in NOWHERE if value in answer.text]


def test_unpublished_data_and_internal_ids_are_in_no_file_of_the_store(private: RunningService) -> None:
    files = store_bytes(private)
    assert not [(value, name) for name, content in files.items() for value in NOWHERE if value.encode() in content]


def test_unpublished_data_is_not_in_the_log(private: RunningService, tmp_path: Path) -> None:
    log = logged(private, tmp_path)
    assert not [value for value in NEVER if value in log]


def test_a_messaging_id_is_not_stored_as_a_plain_hash(private: RunningService) -> None:
    # With a plain hash, IDs could be guessed without the deployment secret.
    plain = [hashlib.new(name, USER.encode()) for name in ("sha256", "sha1", "md5", "blake2b")]
    stored = b"".join(store_bytes(private).values())
    assert not [h for h in plain if h.digest()[:16] in stored or h.hexdigest()[:32].encode() in stored]


def test_the_files_of_the_store_can_be_read_by_their_owner_only(private: RunningService) -> None:
    if private.settings.database:
        return  # The database server sets the permissions of its own files.
    modes = {file.name: file.stat().st_mode & 0o777 for file in private.settings.store.iterdir() if file.is_file()}
    assert set(modes.values()) == {0o600}
    assert private.settings.store.stat().st_mode & 0o777 == 0o700


def test_no_secret_is_in_a_file_or_in_the_log_and_no_wrong_key_is_logged(
    private: RunningService, tmp_path: Path
) -> None:
    key = full_key(private)
    private.get("shops", key)
    private.get("shops", "cf_live_aaaaaaaaaaaa_" + "b" * 49)
    log, files = logged(private, tmp_path), store_bytes(private)
    for secret in (SECRET, key.split("_")[3]):
        assert secret not in log
        assert not [name for name, content in files.items() if secret.encode() in content]
    assert "aaaaaaaaaaaa" not in log
    assert "b" * 49 not in log


# --- phone and email --------------------------------------------------------------------------------------------


def test_phone_and_email_are_only_in_the_two_answers_about_members_to_a_key_with_the_permission(
    private: RunningService, tmp_path: Path
) -> None:
    with_permission = [f"/ext/v1/members{rest}" for rest in ("", f"/{private.token(INTERNAL_ID)}")]
    for personal_data, expected in ((False, []), (True, with_permission)):
        found = everything(private, full_key(private, personal_data=personal_data))
        for value in (TEL, EMAIL):
            assert [answer.url.path for answer in found if value in answer.text] == expected
    usage = [content for name, content in store_bytes(private).items() if not name.startswith(("books", "members"))]
    log = logged(private, tmp_path)
    for value in (TEL, EMAIL):
        assert value not in log
        assert not [content for content in usage if value.encode() in content]


# --- the log --------------------------------------------------------------------------------------------------


PARAMETERS: list[tuple[str, Record, str]] = [
    ("transactions", {"shopId": "told-shop", **NEW_YEAR}, "told-shop"),
    ("transactions", {"shopId": "private-shop", "cursor": "told-cursor", **NEW_YEAR}, "told-cursor"),
    ("transactions", {"shopId": "x", "updatedSince": "2011-11-11T11:11:11Z"}, "2011-11"),
    ("members", {"providerId": "told-base"}, "told-base"),
    ("members/lookup", {"providerId": "private-base", "messagingUserId": USER}, USER),
    ("members/lookup", {"providerId": "private-base", "messagingUserId": TEL}, TEL),
    ("members/m1_toldtoken", {}, "toldtoken"),
    (f"members/{TEL}", {}, TEL),
    ("transactions/told-bill", {}, "told-bill"),
    ("told-path", {}, "told-path"),
    ("shops", {"phone": TEL}, TEL),
    ("changes", {"since": "told-mark"}, "told-mark"),
    ("changes", {"cursor": "told-feed-cursor"}, "told-feed-cursor"),
    ("changes", {"limit": TEL}, TEL),
    ("digests", {"shopId": "told-shop"}, "told-shop"),
    ("digests", {"from": "20111111"}, "20111111"),
    ("digests", {"to": TEL}, TEL),
    ("digests", {"cursor": "told-cursor"}, "told-cursor"),
]


def test_the_log_does_not_contain_parameters_or_the_token_of_a_lookup(private: RunningService, tmp_path: Path) -> None:
    for path, query, _ in PARAMETERS:
        private.get(path, full_key(private), **query)
    log = logged(private, tmp_path)
    assert not [value for *_, value in PARAMETERS if value in log]
    assert private.token(INTERNAL_ID) not in log


def test_a_log_line_has_exactly_these_fields(private: RunningService, tmp_path: Path) -> None:
    private.get("shops", full_key(private))
    last = json.decode(logged(private, tmp_path).splitlines()[-1])
    fields = "at type request_id method route status error key_id took_us sent encoding personal_base personal_members"
    assert set(last) == set(fields.split())


def test_one_line_is_logged_for_each_request(private: RunningService) -> None:
    before = len(private.events_so_far())
    key = full_key(private)
    for path in ("shops", "nowhere", "transactions", "openapi.json"):
        private.get(path, key)
    private.get("shops")
    assert len(private.events_so_far()) - before == 5


def test_a_crash_is_logged_without_values(service: RunningService, tmp_path: Path) -> None:
    of = branch()
    someone = member(of, tel=TEL)
    service.load(of, someone)
    run_sql(service, "books", "UPDATE members SET form = substr(form, 1, 99)")
    answer = service.get(f"members/{service.token(someone['id'])}", service.key(shop=of["id"], personal_data=True))
    log = logged(service, tmp_path)
    assert answer.status_code == 500
    assert '"type":"crash"' in log
    assert TEL not in log + answer.text
    assert service.token(someone["id"]) not in log


def test_a_failing_store_is_logged_without_values(service: RunningService, tmp_path: Path) -> None:
    of = shop(id="told-shop")
    service.load(of)
    key = service.key(shop="told-shop")
    with table_missing(service, "books", "bills"):
        service.get("transactions", key, shopId="told-shop", **NEW_YEAR)
    log = logged(service, tmp_path)
    assert '"type":"store_failed"' in log
    assert "told-shop" not in log
