"""The reference page on the API's port is off by default, needs no key, and refuses cross-origin requests."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from broken_store import keys_unreadable
from counterfoil.http.reference import build, example_base_url, served_pages
from counterfoil.http.reference.page import page_style_sheet
from counterfoil.observe import RequestServed
from counterfoil.web.assets import content_security_policy
from running_service import RunningService

KINDS = {
    "reference": "text/html; charset=utf-8",
    "reference.md": "text/markdown; charset=utf-8",
    "llms.txt": "text/plain; charset=utf-8",
}


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with closing(RunningService(tmp_path_factory.mktemp("public"), reference="on")) as service:
        yield service


def ask(service: RunningService, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return service.server.client.request(method, f"{service.url}/ext/{path}", headers=sent)


def test_nothing_is_served_unless_the_setting_says_so(tmp_path: Path) -> None:
    with closing(RunningService(tmp_path)) as service:
        for path in KINDS:
            answer = ask(service, path)
            assert (answer.status_code, answer.json()["error"]) == (404, "not_found")
            assert answer.json()["message"].endswith("it is described by /ext/v1/openapi.json.")


@pytest.mark.parametrize("path", KINDS)
def test_each_format_is_served_without_a_key_and_not_sent_again_if_unchanged(public: RunningService, path: str) -> None:
    answer = ask(public, path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, KINDS[path])
    expected = served_pages(build("/ext", example_base_url("/ext"), {}))
    assert answer.content == expected[f"/ext/{path}"].body
    tag = answer.headers["etag"]
    again = ask(public, path, if_none_match=tag)
    assert (again.status_code, again.content) == (304, b"")
    assert ask(public, path, method="HEAD").headers["etag"] == tag


def test_the_security_headers_are_strict(public: RunningService) -> None:
    headers = ask(public, "reference").headers
    assert headers["content-security-policy"] == content_security_policy(page_style_sheet(), runs_scripts=True)
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert not [name for name in headers if name.startswith(("access-control", "x-ratelimit", "set-cookie"))]


def test_the_page_is_compressed_for_clients_that_accept_it(public: RunningService) -> None:
    answer = ask(public, "reference", accept_encoding="gzip")
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) < 40_000


def test_another_web_page_cannot_read_or_embed_the_reference(public: RunningService) -> None:
    from_elsewhere = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    answer = ask(public, "reference", **from_elsewhere, sec_fetch_dest="iframe")
    assert (answer.status_code, answer.json()["error"]) == (403, "cross_origin_refused")
    assert ask(public, "reference", **from_elsewhere, sec_fetch_dest="document").status_code == 200, "a followed link"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_the_page_is_read_only(public: RunningService, method: str) -> None:
    answer = ask(public, "reference", method=method)
    assert (answer.status_code, answer.json()["error"]) == (405, "method_not_allowed")


def test_reading_the_page_is_not_counted(public: RunningService) -> None:
    """It is logged under its own name and without a key."""
    key = public.key(shop="s")
    for _ in range(3):
        ask(public, "reference", authorization=f"Bearer {key}", x_request_id="the-reader")
    assert public.data("usage", key)["today"]["count"] == 1
    events = [one for one in public.events if isinstance(one, RequestServed) and one.request_id == "the-reader"]
    assert [(event.route, event.status, event.key_id or None) for event in events] == [("reference", 200, None)] * 3


@pytest.mark.parametrize("path", ["reference/", "reference.html", "v1/reference", "Reference"])
def test_no_other_path_is_a_page(public: RunningService, path: str) -> None:
    assert ask(public, path).status_code == 404


@pytest.mark.parametrize("accept", ["text/html,*/*;q=0.8", "application/json"])
def test_an_unknown_path_names_the_api_its_description_and_the_page(public: RunningService, accept: str) -> None:
    answer = public.server.client.get(f"{public.url}/", headers={"accept": accept, "sec-fetch-mode": "navigate"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/json")
    assert answer.json()["error"] == "not_found"
    described = "the API is below /ext/v1/, and it is described by /ext/v1/openapi.json and /ext/reference."
    assert answer.json()["message"] == f"There is no such path: {described}"
    for path in ("v1/openapi.json", "reference"):
        assert ask(public, path).status_code == 200


def test_the_page_is_served_while_keys_cannot_be_read_and_follows_the_prefix(tmp_path: Path) -> None:
    with closing(RunningService(tmp_path, reference="on", prefix="")) as service:
        key = service.key(shop="s")
        service.get("shops", key)
        with keys_unreadable(service):
            assert service.get("shops", key).status_code == 503
            answer = service.server.client.get(f"{service.url}/reference")
        assert answer.status_code == 200
        assert "https://api.example.com/v1" in answer.text
