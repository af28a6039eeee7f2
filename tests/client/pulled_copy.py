"""A copy of a service's data that is pulled, compared and reconciled over HTTP."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import msgspec

from client import copy_contents, expected
from client.copy_contents import Json
from counterfoil.client import Client
from counterfoil.client.connection import Connection
from counterfoil.client.pull import Options, Puller
from counterfoil.client.pull_state import Tally
from counterfoil.client.reconcile import Difference, Reconciler
from counterfoil.client.sinks.sql import Sink
from records import Record
from running_service import RunningService

PLENTY: dict[str, Any] = {"per_min": 1_000_000, "per_day": 1_000_000}


class Copy:
    """A copy of everything that one key can read. Its target is opened for every run."""

    branch: Record  # what the copy contains, if a fixture has loaded it

    def __init__(
        self, service: RunningService, key: str, target: Callable[[], Sink], *, personal: bool = False
    ) -> None:
        self.service = service
        self.key = key
        self.target = target
        self.personal = personal
        self.connect: Callable[[str, str, float], Connection] = Connection

    @property
    def url(self) -> str:
        return f"{self.service.url}{self.service.settings.prefix}/v1"

    def load(self, *records: Any) -> None:
        self.service.load(*records)

    def pull(self, **options: Any) -> Tally:
        with closing(self.target()) as sink, Client(self.url, self.key, connect=self.connect) as client:
            return Puller(client, sink, Options(**options)).run()

    def pull_after(self, *changes: Record) -> Tally:
        """Load these changes, and pull."""
        self.load(*changes)
        return self.pull()

    def reconcile(self, **options: Any) -> list[Difference]:
        with closing(self.target()) as sink, Client(self.url, self.key) as client:
            return list(Reconciler(client, sink, **options).run())

    def held(self) -> dict[str, Any]:
        """Return the contents of the copy."""
        with closing(self.target()) as sink:
            return {
                "shops": copy_contents.shops(sink),
                "bills": copy_contents.bills(sink),
                "members": copy_contents.members(sink, personal=self.personal),
            }

    def served(self) -> dict[str, Any]:
        """Return everything that the service returns to this key."""
        shops = expected.shops(self._ask)
        bills: dict[tuple[str, str], Json] = {}
        members: dict[tuple[str, str], Json] = {}
        for shop in shops.values():
            bills |= expected.bills(self._ask, shop["shopId"])
            if shop["providerId"]:
                members |= expected.members(self._ask, shop["providerId"])
        return {"shops": shops, "bills": bills, "members": members}

    def rows(self, statement: str) -> list[Any]:
        with closing(self.target()) as sink:
            return sink.run(statement)

    def _ask(self, path: str, **query: Any) -> Json:
        """Return a response body. It is not checked against the OpenAPI document: that is slow for whole copies."""
        headers = {"authorization": f"Bearer {self.key}"}
        answer = self.service.server.client.get(f"{self.service.url}/ext/v1/{path}", params=query, headers=headers)
        assert answer.status_code == 200, answer.text
        body: Json = msgspec.json.decode(answer.content)
        return body


def assert_equal(copy: Copy) -> None:
    """Check that the copy equals the service's data, field for field."""
    held, served = copy.held(), copy.served()
    assert held["shops"] == served["shops"]
    assert held["bills"] == served["bills"]
    assert held["members"] == served["members"]
