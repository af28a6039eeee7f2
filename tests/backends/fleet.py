"""Nodes that share a primary and lagging replicas, with the real clock, and readers that keep copies of the bills."""

import itertools
import secrets
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from actors import OPERATOR
from counterfoil import bootstrap, key_issuing, settings
from counterfoil.domain.access import Scope
from counterfoil.ingest.pipeline import LoadRules, Pipeline, RejectsFile
from counterfoil.ports import StoreUnavailable
from faults.http_clients import Repeating
from running_service import SECRET, RecordSource, ServerThread
from servers import Postgres, Valkey, address_of

Json = dict[str, Any]

SHOP: Json = {"kind": "shop", "id": "s", "providerId": "p", "franchiseId": "f"}
BILLS = 12
EVER = "1970-01-01T00:00:00Z"
DAYS = {"from": "20260101", "to": "20260131"}
PLENTY = 10**9


def bill(number: int, version: int) -> Json:
    closed_at = f"2026-01-{1 + number:02}T12:00:00+07:00"
    return {"kind": "bill", "id": f"b{number:02}", "shopId": "s", "closedAt": closed_at, "cashier": f"Nok {version}"}


class Fleet:
    """A primary, its replicas, an optional meter, and nodes that use all of these."""

    def __init__(self, folder: Path, *, replicas: int = 2, nodes: int = 1, meter: bool = True) -> None:
        self.folder = folder
        self.primary = Postgres(18)
        self.database, _ = self.primary.fresh_database()
        self.replicas = [Postgres(18, replica_of=self.primary) for _ in range(replicas)]
        self.meter = Valkey() if meter else None
        flags = {"store": address_of(self.database, self.primary, *self.replicas), "secret": SECRET}
        if self.meter:
            flags["meter"] = self.meter.url
        self.settings = settings.load(flags, environment={})
        bootstrap.store(self.settings).prepare()
        self.nodes = [ServerThread(bootstrap.service(self.settings, lambda _: None)) for _ in range(nodes)]
        self.version = 0
        self.load(SHOP, *(bill(number, 0) for number in range(BILLS)))

    def close(self) -> None:
        for node in self.nodes:
            node.stop()
        for server in (*self.replicas, self.primary, *([self.meter] if self.meter else [])):
            server.remove()

    # --- the operator ----------------------------------------------------------------

    def load(self, *records: Json) -> None:
        """Load records, and repeat the load until it succeeds, as an operator does after a failure."""
        for _ in range(600):
            with suppress(StoreUnavailable), closing(bootstrap.store(self.settings).ledger()) as ledger:
                rejects = RejectsFile(self.folder / "rejects.ndjson")
                Pipeline(ledger, bootstrap.pseudonyms(self.settings), rejects, LoadRules()).load(
                    RecordSource(list(records))
                )
                ledger.advance_horizon()
                return
        raise AssertionError("no load succeeded")

    def change(self) -> None:
        """Change one bill. Successive calls change different bills."""
        self.version += 1
        self.load(bill(self.version % BILLS, self.version))

    def changing(self) -> Repeating:
        """Change bills one at a time in a thread, until the block ends."""
        return Repeating(self.change, patience_sec=600)

    def key(self) -> str:
        grant = key_issuing.Grant(scope=Scope("franchise", "f"), per_min=PLENTY, per_day=PLENTY)
        with closing(bootstrap.store(self.settings).key_store()) as key_store:
            return key_issuing.issue(key_store, grant, secrets.token_bytes, 0, OPERATOR).text

    def delay(self, replica: int, milliseconds: int) -> None:
        """Make a replica apply each commit this many milliseconds late."""
        self.replicas[replica].command(f"ALTER SYSTEM SET recovery_min_apply_delay = '{milliseconds}ms'")
        self.replicas[replica].command("SELECT pg_reload_conf()")

    def fail_over(self) -> None:
        """Kill the primary and promote the replica that has received the most data.

        The other replicas then follow the new primary.
        """
        self.primary.kill()
        first, *others = sorted(self.replicas, key=_received, reverse=True)
        for other in others:
            other.command(f"ALTER SYSTEM SET primary_conninfo = 'host=127.0.0.1 port={first.port} user=postgres'")
            other.command("SELECT pg_reload_conf()")
        first.promote()
        self.primary, self.replicas = first, others

    def expected(self) -> dict[str, str]:
        """Return the cashier of every bill on the primary, keyed by bill ID."""
        found = self.primary.command(
            "SELECT id, convert_from(body, 'UTF8')::json ->> 'cashier' FROM counterfoil.bills", self.database
        )
        return dict(found)


def _received(replica: Postgres) -> int:
    ((position,),) = replica.command("SELECT pg_last_wal_receive_lsn() - '0/0'::pg_lsn")
    return int(position)


class Reader:
    """A client that follows docs/own-client.md and sends its requests to the nodes in turn."""

    def __init__(self, fleet: Fleet, key: str, limit: int = 5) -> None:
        self.fleet = fleet
        self.key = key
        self.limit = limit
        self.copy: dict[str, Json] = {}
        self.mark: str | None = None
        self.highest = 0
        self.failed: list[tuple[int, str]] = []
        self._turns = itertools.cycle(range(len(fleet.nodes)))

    def run(self) -> bool:
        """Follow the procedure in docs/own-client.md once; return whether it finished."""
        shops = self.ask("shops")
        if shops is None:
            return False
        lists: list[Json] = [{"updatedSince": self.mark}] if self.mark else [DAYS, {"updatedSince": EVER}]
        for query in lists:
            if not self.read(query):
                return False
        self.mark = shops["serverTime"]
        return True

    def read(self, query: Json) -> bool:
        cursor: Json = {}
        while True:
            page = self.ask("transactions", shopId="s", limit=self.limit, **query, **cursor)
            if page is None:
                return False
            for row in page["data"]:
                known = self.copy.get(row["id"])
                if known is None or instant(row["updatedAt"]) >= instant(known["updatedAt"]):
                    self.copy[row["id"]] = row
            if page["nextCursor"] is None:
                return True
            cursor = {"cursor": page["nextCursor"]}

    def ask(self, path: str, **query: Any) -> Json | None:
        """Return the body of a response, or record the error and return None.

        For requests without a cursor, also check that the reported serverTime does not go backwards.
        """
        node = self.fleet.nodes[next(self._turns)]
        url = f"http://127.0.0.1:{node.port}{self.fleet.settings.prefix}/v1/{path}"
        answer = httpx.get(url, params=query, headers={"authorization": f"Bearer {self.key}"}, timeout=10)
        body: Json = answer.json()
        if not body["ok"]:
            self.failed.append((answer.status_code, body["error"]))
            return None
        if "cursor" not in query:
            given = instant(body["serverTime"])
            assert given >= self.highest, f"{path} reported a serverTime {self.highest - given} ms earlier than before"
            self.highest = given
        return body

    def until(self, holds: Callable[[], bool]) -> None:
        """Run the procedure until `holds` returns true. Fail after a fixed number of runs."""
        for _ in range(2_000):
            if holds():
                return
            self.run()
        raise AssertionError("the condition did not become true")

    def has_seen(self, horizon: int) -> bool:
        return self.highest >= horizon

    def assert_copy_is_exact(self) -> None:
        """Read until every change has arrived, then compare the copy with the primary."""
        expected = self.fleet.expected()
        ((stamp,),) = self.fleet.primary.command("SELECT max(updated_at) FROM counterfoil.bills", self.fleet.database)
        self.until(lambda: instant(self.mark or EVER) > stamp)
        self.until(self.run)
        assert {identity: row["cashier"] for identity, row in self.copy.items()} == expected


def instant(written: str) -> int:
    return round(datetime.fromisoformat(written).timestamp() * 1000)
