"""A console on a real port in front of a real store, with a clock that tests control."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx

from counterfoil import bootstrap, devices
from counterfoil.console.app import ConsoleApp, listener_of
from counterfoil.console.sign_in import DEFAULT_VALIDITY_MS, audience, link_key, link_token, new_device, own_name
from counterfoil.console.visit import FORM
from counterfoil.domain.audit import Actor
from counterfoil.domain.devices import Role
from running_service import RunningService, free_port
from web.strict_html import StrictPage

PAGES = ("/", "/keys", "/keys/new", "/requests", "/shops", "/loads", "/personal-data", "/store", "/devices", "/audit")
SAME_ORIGIN = {"sec-fetch-site": "same-origin"}
PAGE = {"accept": "text/html"}
_FORM = re.compile(r"<form(?P<form>[^>]*)>.*?</form>", re.DOTALL)
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)">')


class RunningConsole:
    """A console with its service. `service` provides the store, the clock and the API."""

    def __init__(self, folder: Path, **overrides: Any) -> None:
        flags: dict[str, Any] = {"console_port": free_port(), "admin_port": 0, **overrides}
        self.service = RunningService(folder, **flags)
        self.settings = self.service.settings
        self.clock = self.service.clock
        self.key = link_key(bootstrap.deployment_secret(self.settings))
        self._start()

    def _start(self) -> None:
        self.app = ConsoleApp(self.settings, self.key, self.clock)
        self._listener = listener_of(self.settings, self.app)
        self.app.open()
        self._listener.start()

    def restart(self) -> None:
        """Replace the console with a new console on the same port."""
        self._listener.stop()
        self.app.close()
        self._start()

    @property
    def url(self) -> str:
        return f"http://{own_name(self.key, audience(self.settings))}:{self.settings.console_port}"

    def token(self, name: str = "alice", validity_ms: int = DEFAULT_VALIDITY_MS, **changes: Any) -> str:
        """Return the token of a sign-in link that was made while the store could not be written."""
        device = new_device(Actor(name, "cli", "back-office"), self.clock.now_ms(), validity_ms)
        return link_token(changes.get("key", self.key), device, changes.get("audience", audience(self.settings)))

    def linked(self, name: str, role: Role = "operator", days: int | None = None) -> tuple[str, str]:
        """Make a link like `counterfoil console link`; return the ID of its device, and its token."""
        maker = Actor("alice", "cli", "back-office")
        device = new_device(maker, self.clock.now_ms(), DEFAULT_VALIDITY_MS, name, role, days)
        devices.record_link(bootstrap.store(self.settings).devices(), device, maker)
        return device.device_id, link_token(self.key, device, audience(self.settings))

    def device(self, name: str, role: Role = "operator", days: int | None = None) -> "Operator":
        """Return a browser that was signed in with a link for a named device."""
        browser = Operator(self)
        browser.device_id, token = self.linked(name, role, days)
        assert browser.sign_in(token).status_code == 303
        return browser

    def stranger(self) -> "Operator":
        return Operator(self)

    def operator(self, name: str = "alice", language: str = "en") -> "Operator":
        """Return a browser in which this operator has signed in."""
        browser = Operator(self, **{"accept-language": language})
        answer = browser.sign_in(self.token(name))
        assert answer.status_code == 303, answer.text
        return browser

    def close(self) -> None:
        self._listener.stop()
        self.app.close()
        self.service.close()


def console_client(address: str, headers: Mapping[str, str] = {}) -> httpx.Client:
    """Return a client of the console at this URL. Unlike browsers, httpx does not resolve names below `localhost`."""
    url = httpx.URL(address)
    return httpx.Client(
        base_url=url.copy_with(host="127.0.0.1"), headers={"host": url.netloc.decode(), **headers}, timeout=30
    )


@contextmanager
def signed_in(link: str) -> Iterator[httpx.Client]:
    """Use a sign-in link; yield a client with the session."""
    address, _, token = link.partition("/sign-in#")
    with console_client(address) as client:
        assert client.post("/sign-in", data={"link": token}, headers=SAME_ORIGIN).status_code == 303
        yield client


class Operator:
    """An operator's browser, which does not run scripts."""

    device_id = ""

    def __init__(self, console: RunningConsole, **headers: str) -> None:
        self.console = console
        self.client = console_client(console.url, headers)

    def sign_in(self, token: str, **headers: str) -> httpx.Response:
        return self.client.post("/sign-in", data={"link": token}, headers=headers or SAME_ORIGIN)

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.client.get(path, headers={**PAGE, **headers})

    def page(self, path: str, **headers: str) -> str:
        """Return a page after checking that its markup is well-formed."""
        answer = self.get(path, **headers)
        assert answer.status_code == 200, answer.text
        assert StrictPage(answer.content).problems == []
        return answer.text

    def json(self, path: str) -> Any:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def csv(self, path: str) -> list[dict[str, str]]:
        """Return the rows of an export."""
        return list(csv.DictReader(io.StringIO(self.get(path).content.decode("utf-8-sig"))))

    def hidden(self, page: str, action: str) -> dict[str, str]:
        """Return the hidden fields of the first form with this action on a page."""
        for found in _FORM.finditer(page):
            if re.search(rf'action="{re.escape(action)}(#|")', found["form"]):
                return {name: unescape(value) for name, value in _HIDDEN.findall(found[0])}
        raise AssertionError(f"no form has the action {action}")

    def send(self, action: str, fields: dict[str, str], **headers: str) -> httpx.Response:
        body = urlencode(fields).encode()
        return self.client.post(action, content=body, headers={"content-type": FORM, **(headers or SAME_ORIGIN)})

    def fill_in(self, path: str, action: str, **fields: str) -> dict[str, str]:
        """Open a page and return the fields of one of its forms, with these values entered."""
        return {**self.hidden(self.page(path), action), **fields}

    def act(self, key_id: str, action: str, **fields: str) -> httpx.Response:
        """Fill in and send a form of a key's page: `change`, `rotate` or `revoke`."""
        return self.send(f"/keys/{key_id}/{action}", self.form_of(key_id, action, **fields))

    def form_of(self, key_id: str, action: str, **fields: str) -> dict[str, str]:
        return self.fill_in(f"/keys/{key_id}?tab={action}", f"/keys/{key_id}/{action}", **fields)

    def issue(self, scope: str, **fields: str) -> httpx.Response:
        """Issue a key for a scope such as `shop:ID`."""
        entered = {"label": "ERP", "scope": scope, "per_min": "60", "per_day": "1000", **fields}
        return self.send("/keys/new", self.fill_in("/keys/new", "/keys/new", **entered))


def revealed(page: str) -> str | None:
    """Return the key that a page shows, or None."""
    found = re.search(r"cf_live_[0-9A-Za-z]+_[0-9A-Za-z]+", page)
    return found[0] if found else None
