"""Tests for the client, against the real service."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import records as r
from client.pulled_copy import PLENTY
from client.scripted_service import newer_service, scripted_service
from counterfoil.client import Client, NotThisService, Refusal, Unreachable, calls
from counterfoil.client.connection import Environment, HttpResponse
from running_service import RunningService

ACCOUNT = "U" + "0123456789abcdef" * 2


class Caller:
    """Calls a new client. Instead of sleeping, the client advances the service's clock."""

    def __init__(self, service: RunningService) -> None:
        self.service = service
        self.slept: list[float] = []

    def __call__(
        self, key: str, method: str, *arguments: Any, url: str | None = None, steps: int = 1, **options: Any
    ) -> Any:
        """Call a method `steps` times; return the last result. Iterators are consumed completely."""
        clock = self.service.clock
        environment = Environment(lambda: clock.steady_us() / 1e6, lambda: clock.now_ms() / 1000, lambda: 1.0)
        url = f"{self.service.url}/ext/v1" if url is None else url
        with Client(url, key, sleep=self._sleep, environment=environment) as client:
            for _ in range(steps):
                result = getattr(client, method)(*arguments, **options)
                result = list(result) if isinstance(result, Iterator) else result
            return result

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.service.clock.advance(seconds)


@pytest.fixture
def call(service: RunningService) -> Caller:
    return Caller(service)


@pytest.fixture
def shop(service: RunningService) -> r.Record:
    shop = r.branch(categories=[{"id": "c-soups", "name": "Soups"}])
    service.load(shop, r.base(shop), *r.members(shop, 3), *r.bills(shop, 5))
    return shop


@pytest.fixture
def key(service: RunningService, shop: r.Record) -> str:
    return service.key(franchise=shop["franchiseId"], **PLENTY)


def test_the_page_of_shops_has_their_categories_and_the_mark_for_the_next_run(
    call: Caller, key: str, shop: r.Record, service: RunningService
) -> None:
    [listed] = call(key, "shops")
    assert (listed["shopId"], listed["categories"][0]["name"]) == (shop["id"], "Soups")
    page = call(key, "shop_page")
    assert page.server_time == service.get("shops", key).json()["serverTime"]
    assert page.next_cursor is None


def test_bills_by_day_are_read_over_all_pages_in_order(call: Caller, key: str, shop: r.Record) -> None:
    bills = call(key, "bills", shop["id"], first=date(2026, 1, 1), last=date(2026, 1, 31), limit=2)
    assert [bill["timestamp"][17:19] for bill in bills] == ["00", "01", "02", "03", "04"]


@pytest.mark.parametrize(("days", "windows"), [(31, 1), (32, 2), (62, 2), (63, 3)])
def test_a_long_range_of_days_is_read_in_windows_that_the_service_accepts(
    call: Caller, key: str, shop: r.Record, service: RunningService, days: int, windows: int
) -> None:
    sold = [date(2027, 1, 1) + timedelta(days=number) for number in range(64)]
    service.load(*(r.bill(shop, id=str(day), closedAt=f"{day}T12:00:00+07:00") for day in sold))
    bills = call(key, "bills", shop["id"], first=sold[0], last=sold[days - 1])
    assert [bill["id"] for bill in bills] == [str(day) for day in sold[:days]]
    assert routes(service).count("transactions") == windows


def test_a_long_range_with_a_cursor_is_refused(call: Caller, key: str, shop: r.Record) -> None:
    with pytest.raises(Refusal) as refused:
        call(key, "bills", shop["id"], first=date(2026, 1, 1), last=date(2026, 3, 1), cursor="any")
    assert refused.value.code == "bad_query"


def routes(service: RunningService) -> list[str]:
    return [event.route for event in service.events if hasattr(event, "route")]


@pytest.mark.parametrize("path", ["", "/", "/ext/v1", "/ext/v1/"])
def test_the_api_is_found_if_the_url_has_no_path(call: Caller, key: str, service: RunningService, path: str) -> None:
    assert call(key, "shops", url=service.url + path)
    assert routes(service) == ["shops"], "a client sends something before the first call"


def test_the_example_with_threads_in_the_documents_works(
    key: str,
    shop: r.Record,
    service: RunningService,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = (Path(__file__).parents[2] / "docs" / "keep-a-copy.md").read_text("utf-8")
    [example] = (code for code in re.findall(r"```python\n(.*?)```", document, re.DOTALL) if "threads" in code)
    monkeypatch.setenv("COUNTERFOIL_URL", service.url)
    monkeypatch.setenv("COUNTERFOIL_KEY", key)
    exec(compile(example, "keep-a-copy.md", "exec"), {})  # noqa: S102 - this runs the example under test
    assert capsys.readouterr().out == f"{shop['id']} 5\n"


def test_the_ten_lines_of_the_readme_of_the_client_work(
    key: str, service: RunningService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = Path(__file__).parents[2] / "packages" / "client" / "README.md"
    [example] = re.findall(r"```python\n(.*?)```", readme.read_text("utf-8"), re.DOTALL)
    monkeypatch.setenv("COUNTERFOIL_URL", service.url)
    monkeypatch.setenv("COUNTERFOIL_KEY", key)
    exec(compile(example, "README.md", "exec"), {})  # noqa: S102 - this runs the example under test
    assert capsys.readouterr().out == "5 bills\n"


def test_changed_bills_are_read_from_an_instant_on(call: Caller, key: str, shop: r.Record) -> None:
    mark = call(key, "shop_page").server_time
    call.service.load(r.bill(shop, id="late"))
    assert [bill["id"] for bill in call(key, "bills", shop["id"], updated_since=mark)][-1] == "late"
    since = datetime.fromisoformat(mark).astimezone(UTC)
    assert [bill["id"] for bill in call(key, "bills", shop["id"], updated_since=since)][-1] == "late"
    assert "zstd" in {getattr(event, "encoding", None) for event in call.service.events}


def test_pages_say_how_much_of_the_day_quota_is_left(call: Caller, key: str, shop: r.Record) -> None:
    pages = call(key, "bill_pages", shop["id"], updated_since=r.EVER, limit=2)
    assert [len(page.data) for page in pages] == [2, 2, 1]
    # The second page is preceded by a request for the rate limit.
    assert [page.remaining for page in pages] == [999_999, 999_997, 999_996]


def test_the_feed_of_changes_ends_with_a_mark_that_continues_it(call: Caller, key: str, shop: r.Record) -> None:
    pages = call(key, "change_pages", limit=4)
    assert [[element["type"] for element in page.data] for page in pages] == [
        ["shop", "bill", "bill", "bill"],
        ["bill"] * 2,
    ]
    assert [page.mark is None for page in pages] == [True, False]
    assert isinstance(pages[0].data[1]["bill"]["amounts"]["net"], Decimal)
    sold = r.bill(shop)
    call.service.load(sold)
    [page] = call(key, "change_pages", since=pages[-1].mark)
    assert [element["bill"]["id"] for element in page.data] == [sold["id"]]


def test_digests_are_exact_decimals(call: Caller, key: str, shop: r.Record) -> None:
    [page] = call(key, "digest_pages", shop_id=shop["id"], first=date(2026, 1, 1), last=date(2026, 1, 31))
    [digest] = page.data
    assert (digest["bills"], digest["net"], digest["day"]) == (5, Decimal(600), "2026-01-01")
    assert isinstance(digest["tip"], Decimal)


def test_one_bill_is_read_by_its_id_whatever_the_id(call: Caller, key: str, shop: r.Record) -> None:
    for bill_id in ("a/b c?d#e%f", "บิล", "lookup"):
        call.service.load(r.bill(shop, id=bill_id))
        assert call(key, "bill", bill_id)["id"] == bill_id


def test_money_is_decimal_and_exact_in_every_field(call: Caller, key: str, shop: r.Record) -> None:
    lines = [r.line(qty=0.1, unitPrice="19.99", total=2, options=[{"id": "o", "qty": 3}])]
    amounts = {"net": 0.3, "subtotal": 8935002455.22, "campaigns": [{"id": "c", "amount": 5}], "coupons": []}
    call.service.load(r.bill(shop, id="m", lines=lines, amounts=amounts, payments=[{"name": "Cash", "amount": 0.1}]))
    bill = call(key, "bill", "m")
    item, amounts = bill["items"][0], bill["amounts"]
    found = [item["qty"], item["unitPrice"], item["lineTotal"], item["options"][0]["qty"], amounts["net"]]
    found += [amounts["subtotal"], amounts["campaign"][0]["amount"], bill["payments"][0]["amount"]]
    assert found == [Decimal(text) for text in ("0.1", "19.99", "2", "3", "0.3", "8935002455.22", "5", "0.1")]
    assert all(type(value) is Decimal for value in found)
    assert amounts["tip"] is None


def test_members_are_read_over_all_pages_by_token_and_by_lookup(call: Caller, shop: r.Record) -> None:
    last = r.member(shop, id="found", messaging=[{"userId": ACCOUNT}], createdAt="2025-03-04T10:00:00+07:00")
    call.service.load(last)
    key = call.service.key(franchise=shop["franchiseId"], personal_data=True, messaging_lookup=True, **PLENTY)
    members = call(key, "members", shop["providerId"], limit=1)
    assert [member["createdDate"][8:10] for member in members] == ["01", "02", "03", "04"]
    assert {type(member["points"]) for member in members} == {Decimal}
    assert [len(page.data) for page in call(key, "member_pages", shop["providerId"], limit=3)] == [3, 1]
    assert members[0]["tel"] == "0811111111"
    token = members[0]["memberId"]
    assert call(key, "member", token)["memberId"] == token
    assert call(key, "lookup", shop["providerId"], ACCOUNT) == call.service.token("found")


def test_usage_reports_the_permissions_of_the_key(call: Caller, key: str) -> None:
    usage = call(key, "usage")
    assert (usage["scope"], usage["rate"]["perMin"], len(usage["days"])) == ("franchise", 1_000_000, 7)
    assert usage["today"]["count"] == 1


def test_the_client_stays_within_the_limit_that_the_service_reports(call: Caller, shop: r.Record) -> None:
    key = call.service.key(franchise=shop["franchiseId"], per_min=5)
    call(key, "shops", steps=12)
    refused = [event for event in call.service.events if getattr(event, "status", 0) == 429]
    assert refused == []
    assert call.slept == [61.0, 61.0]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "ftp://example.com/v1",
        "http://",
        "http://a b/",
        "http://x/v1?y=1",
        "http://x:port/v1",
        "http://[::1/v1",
        "http://x/v1#y",
    ],
)
def test_an_invalid_base_url_is_reported_before_anything_is_sent(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        Client(url, "k")


@pytest.mark.parametrize("key", ["", "two words", "ก", "line\nbreak"])
def test_a_malformed_key_is_reported_before_anything_is_sent(key: str) -> None:
    with pytest.raises(ValueError, match="not a valid API key"):
        Client("http://127.0.0.1", key)


def test_threads_that_share_a_client_learn_the_limit_only_once(key: str, service: RunningService) -> None:
    with Client(service.url, key) as client, ThreadPoolExecutor(20) as threads:
        list(threads.map(lambda _: client.shops(), range(20)))
    assert client.requests == 21
    assert (routes(service).count("usage"), routes(service).count("shops")) == (1, 20)


def test_a_closed_client_ends_the_waits_of_others(service: RunningService, shop: r.Record) -> None:
    key = service.key(franchise=shop["franchiseId"], per_min=1)
    client = Client(f"{service.url}/ext/v1", key, per_min=1)
    client.shops()
    client.close()
    with pytest.raises(Unreachable, match="closed"):
        client.shops()


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b"5", b'{"ok":true}', b'{"data":7}', b"\xff", b'{"data":[1]}'])
def test_an_answer_from_another_kind_of_service_is_rejected(body: bytes) -> None:
    with (
        scripted_service(lambda _path, _headers: (200, {}, body)) as url,
        Client(url, "k", per_min=5) as client,
        pytest.raises(NotThisService, match="not from the Counterfoil API"),
    ):
        client.shops() if body != b'{"data":[1]}' else client.usage()


@pytest.mark.parametrize(
    "number", ["0.1", "0.10", "19.99", "1e3", "1E-7", "7", "8935002455.22", "12345678901234567890.123456789", "9" * 30]
)
def test_a_number_is_decoded_with_all_its_digits(number: str) -> None:
    body = f'{{"data": {{"points": {number}, "credit": 0}}}}'.encode()
    points = calls.parse_object(HttpResponse(200, {}, body), calls.to_member)["points"]
    assert type(points) is Decimal
    assert points.as_tuple() == Decimal(number).as_tuple()


def test_unknown_fields_pass_through(call: Caller, key: str, shop: r.Record) -> None:
    with newer_service(call.service) as url:
        bill = call(key, "bills", shop["id"], updated_since=r.EVER, url=url)[0]
    assert bill["later"] == {"than": [Decimal("1.5"), "this"]}
    assert bill["items"][0]["later"] == bill["later"]
    assert bill["status"] == "disputed"


def test_a_range_of_days_may_end_with_the_last_day_of_the_calendar() -> None:
    windows = list(calls.bill_windows("shop", first=date(9999, 11, 1), last=date.max))
    assert len(windows) == 2


@pytest.mark.parametrize("first", [datetime(2026, 7, 1, tzinfo=UTC), "2026-07-01"])
def test_a_first_day_that_is_not_a_date_and_an_instant_without_a_zone_are_refused(first: Any) -> None:
    with pytest.raises(ValueError, match="time zone"):
        calls.bills("shop", updated_since=datetime(2026, 1, 1))  # noqa: DTZ001 - the test needs a naive datetime
    with pytest.raises(ValueError, match="first must be a date"):
        next(calls.bill_windows("shop", first=first, last=date(2026, 7, 2)))
    with pytest.raises(ValueError, match="first must be a date"):
        calls.digests(first=first)
