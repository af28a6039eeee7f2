"""Cross-origin requests from browsers are refused before any other check, without a CORS header."""

from typing import Any

import pytest

import raw_http
from running_service import RunningService


@pytest.fixture(scope="module")
def key(shared_service: RunningService) -> str:
    return shared_service.key(shop="s", per_min=10_000)


FROM_A_PAGE = [
    {"origin": "https://shop.example"},
    {"origin": "http://localhost:3000"},
    {"origin": "null"},
    {"origin": ""},
    {"origin": "file://"},
    {"access-control-request-method": "GET"},
    {"access-control-request-method": "GET", "access-control-request-headers": "authorization"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "object"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "websocket"},
]
FROM_A_SERVER_OR_A_PERSON = [
    {},
    {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate"},
    {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"},
    {"referer": "https://shop.example/"},
    {"user-agent": "Mozilla/5.0"},
]


@pytest.mark.parametrize("headers", FROM_A_PAGE, ids=str)
def test_a_request_from_a_web_page_is_refused(
    shared_service: RunningService, key: str, headers: dict[str, str]
) -> None:
    answer = shared_service.get("shops", key, headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (403, "cross_origin_refused")


@pytest.mark.parametrize("headers", FROM_A_SERVER_OR_A_PERSON, ids=str)
def test_a_server_and_a_person_who_follows_a_link_are_not_refused(
    shared_service: RunningService, key: str, headers: dict[str, str]
) -> None:
    assert shared_service.get("shops", key, headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["shops", "transactions/x", "openapi.json", "nowhere"])
def test_a_preflight_is_refused_everywhere(shared_service: RunningService, path: str) -> None:
    headers = {"origin": "https://shop.example", "access-control-request-method": "GET"}
    answer = shared_service.get(path, method="OPTIONS", headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (403, "cross_origin_refused")


def test_a_refused_page_learns_nothing_about_the_key(shared_service: RunningService, key: str) -> None:
    def seen(answer: Any) -> tuple[Any, ...]:
        headers = {name: value for name, value in answer.headers.items() if name not in ("x-request-id", "date")}
        return answer.status_code, answer.content, headers

    page = {"origin": "https://shop.example"}
    assert seen(shared_service.get("shops", key, headers=page)) == seen(
        shared_service.get("shops", "nonsense", headers=page)
    )


def test_an_origin_header_of_any_bytes_marks_a_browser(shared_service: RunningService, key: str) -> None:
    answer = raw_http.send(shared_service, raw_http.request(b"/ext/v1/shops", b"Origin: \xff\xfe", key=key))
    assert answer.status == 403
