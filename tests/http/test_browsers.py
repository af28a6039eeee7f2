"""Cross-origin requests from browsers are refused before any other check, without a CORS header."""

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


def test_a_request_from_a_web_page_is_refused(shared_service: RunningService, key: str) -> None:
    for headers in FROM_A_PAGE:
        assert shared_service.get("shops", key, headers=headers).json()["error"] == "cross_origin_refused", headers


def test_a_server_and_a_person_who_follows_a_link_are_not_refused(shared_service: RunningService, key: str) -> None:
    for headers in FROM_A_SERVER_OR_A_PERSON:
        assert shared_service.get("shops", key, headers=headers).status_code == 200, headers


def test_a_preflight_is_refused_everywhere(shared_service: RunningService) -> None:
    headers = {"origin": "https://shop.example", "access-control-request-method": "GET"}
    for path in ("shops", "transactions/x", "openapi.json", "nowhere"):
        answer = shared_service.get(path, method="OPTIONS", headers=headers)
        assert answer.json()["error"] == "cross_origin_refused", path


def test_a_refused_page_learns_nothing_about_the_key(shared_service: RunningService, key: str) -> None:
    page = {"origin": "https://shop.example"}
    answers = [shared_service.get("shops", each, headers=page) for each in (key, "nonsense")]
    assert raw_http.visible(answers[0]) == raw_http.visible(answers[1])


def test_an_origin_header_of_any_bytes_marks_a_browser(shared_service: RunningService, key: str) -> None:
    answer = raw_http.send(shared_service, raw_http.request(b"/ext/v1/shops", b"Origin: \xff\xfe", key=key))
    assert answer.status == 403
