"""The parts of the Airbyte source that a manifest cannot express.

The mark of the change feed is an opaque string, and the CDK's cursors can store
only a time or a number. So the retriever adds the mark to the state of the
cursor, next to the time of the pass. The property `state` of a cursor is public,
but the CDK does not promise to keep what a component adds to it. `store_in_state`
therefore checks that the cursor has kept the mark.
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import requests
from airbyte_cdk.models import FailureType
from airbyte_cdk.sources.declarative.extractors.record_extractor import RecordExtractor
from airbyte_cdk.sources.declarative.requesters.request_options import (
    DefaultRequestOptionsProvider,
    RequestOptionsProvider,
)
from airbyte_cdk.sources.declarative.retrievers.simple_retriever import SimpleRetriever
from airbyte_cdk.sources.streams.concurrent.cursor import ConcurrentCursor, Cursor
from airbyte_cdk.sources.types import Record, StreamSlice
from airbyte_cdk.utils.traced_exception import AirbyteTracedException

# Give up after this many attempts, so that a pass is not restarted forever.
MAX_ATTEMPTS = 20


@dataclass
class MarkParameter(DefaultRequestOptionsProvider):
    """Sends the mark of the last pass as `since`. A manifest would send an empty `since` in the first pass."""

    def get_request_params(
        self,
        *,
        stream_slice: StreamSlice | None = None,
        next_page_token: Mapping[str, Any] | None = None,  # noqa: ARG002 - named by the base class
    ) -> Mapping[str, Any]:
        since = stream_slice.extra_fields.get("since") if stream_slice else None
        return {"since": since} if since else {}


@dataclass
class ChangeFeedRetriever(SimpleRetriever):
    """Reads one pass through the change feed.

    It yields one row per shop and per bill. If the `passTime` of a bill is before
    the `completeSince` of its shop, the bill no longer exists.
    """

    cursor: ConcurrentCursor | None = None
    request_option_provider: RequestOptionsProvider = field(default_factory=lambda: MarkParameter(parameters={}))

    def read_records(
        self, records_schema: Mapping[str, Any], stream_slice: StreamSlice | None = None
    ) -> Iterable[Record]:
        if self.cursor is None or stream_slice is None:
            raise TypeError("The stream `changes` needs the cursor that is defined in the manifest.")
        # Every state message contains the cursor's state, so the mark and the shops are added only after the last page.
        stored = self.cursor.state
        since, as_of, shops = stored.get("mark"), stored.get("asOf"), dict(stored.get("shops", {}))
        # Whoever runs the source may add `full` and `adopt` to the state. If everything is to be read again, a pass
        # from the mark comes first, because it shows whether the copy was made with this key.
        reads_again, adopts = stored.get("full"), stored.get("adopt")
        since = None if adopts else since
        for _ in range(MAX_ATTEMPTS):
            attempt = _Attempt(since, as_of, shops)
            try:
                for row in self._rows(records_schema, stream_slice, since, attempt):
                    yield Record(data=row, stream_name=self.name, associated_slice=stream_slice)
                if attempt.has_no_known_shop and not adopts:
                    raise other_key()
                if since is None or not reads_again:
                    for row in attempt.missing_shops():
                        yield Record(data=row, stream_name=self.name, associated_slice=stream_slice)
                    done = {"mark": attempt.mark, "asOf": attempt.time, "shops": shops, "full": False, "adopt": False}
                    store_in_state(self.cursor, **done)
                    return
                since = None
            except AirbyteTracedException as error:
                since = since_after(error, since, attempt)
        raise RuntimeError(f"The pass through the change feed was refused {MAX_ATTEMPTS} times.")

    def _rows(
        self, records_schema: Mapping[str, Any], stream_slice: StreamSlice, since: str | None, attempt: "_Attempt"
    ) -> Iterator[dict[str, Any]]:
        asked = StreamSlice(
            partition=stream_slice.partition, cursor_slice=stream_slice.cursor_slice, extra_fields={"since": since}
        )
        for record in super().read_records(records_schema, asked):
            yield from attempt.rows(record.data)


def since_after(error: AirbyteTracedException, since: str | None, attempt: "_Attempt") -> str | None:
    """Return the mark from which the next attempt starts after a refusal. Raise an error if there must be none."""
    code = str(error.message)
    if code == "bad_cursor" and since and not attempt.has_begun:
        # A mark is valid for the key that received it, and for those that replace it by rotation.
        raise other_key() from error
    if code not in ("bad_cursor", "mark_expired") or not (since or attempt.has_begun):
        raise error
    return None if code == "mark_expired" else since


def other_key() -> AirbyteTracedException:
    return AirbyteTracedException(
        message="This copy was made with another key, or from another service. If both return the same data, clear the "
        "data of the connection. Otherwise, use another destination.",
        failure_type=FailureType.config_error,
    )


def store_in_state(cursor: Cursor, **values: Any) -> None:
    """Add values to the state of a cursor. Raise `RuntimeError` if the cursor does not keep them."""
    cursor.state.update(values)
    if any(cursor.state.get(name) != value for name, value in values.items()):
        raise RuntimeError(
            "This version of airbyte-cdk does not keep the mark of the change feed in the state of a cursor. "
            "Install the version that is listed in requirements.txt."
        )


class _Attempt:
    """One attempt at a pass. It updates `shops`: `completeSince`, `inScope` and `completeUntil` by shop ID.

    `as_of` is the time of the last complete pass. A shop that has left has all changes up to that time.
    """

    def __init__(self, since: str | None, as_of: str | None, shops: dict[str, Any]) -> None:
        self.mark: str | None = None
        self.has_begun = False
        self._shops = shops
        self.time = ""
        self._as_of = as_of
        # Known shops that a pass from the beginning has not returned yet. Those that it never returns are out of scope.
        self._missing = set() if since else set(shops)
        self._expected = {shop_id for shop_id in self._missing if shops[shop_id]["inScope"]}

    def rows(self, element: MutableMapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the row for an element. An empty page is passed too, because it contains the mark and the time."""
        self.has_begun = True
        self.mark = element.pop("mark", None) or self.mark
        self.time = element.get("passTime") or element.get("serverTime") or self.time
        match element.get("type"):
            case "bill":
                yield self._row(element["shopId"], "bill", element["bill"]["id"], bill=element["bill"])
            case "billRemoved":
                yield self._row(element["shopId"], "bill", element["id"], removed=True)
            case "shop" | "shopRemoved":
                self._missing.discard(element["shopId"])
                yield self._shop_row(
                    element["shopId"], element.get("shop"), full=element["full"], in_scope=element.get("inScope", True)
                )

    @property
    def has_no_known_shop(self) -> bool:
        """Whether a pass from the beginning returned none of the copy's shops, so that they are another company's."""
        return bool(self._expected) and self._expected <= self._missing

    def missing_shops(self) -> Iterator[dict[str, Any]]:
        for shop_id in sorted(self._missing):
            yield self._shop_row(shop_id, None, full=False, in_scope=False)

    def _shop_row(self, shop_id: str, shop: Any, *, full: bool, in_scope: bool) -> dict[str, Any]:
        earlier = self._shops.get(shop_id)
        complete_since = self.time if full or earlier is None else earlier["completeSince"]
        complete_until = None
        if not in_scope:
            # A shop that had left before keeps its time.
            complete_until = self._as_of if earlier is None or earlier["inScope"] else earlier.get("completeUntil")
        self._shops[shop_id] = {"completeSince": complete_since, "inScope": in_scope, "completeUntil": complete_until}
        return self._row(shop_id, "shop", "", removed=shop is None, shop=shop) | self._shops[shop_id]

    def _row(self, shop_id: str, kind: str, row_id: str, *, removed: bool = False, **more: Any) -> dict[str, Any]:
        # Destinations delete a row that has `_ab_cdc_deleted_at`. Rows of removed shops stay, because bills may remain.
        deleted_at = self.time if removed and kind == "bill" else None
        nothing = dict.fromkeys(("inScope", "completeSince", "completeUntil", "shop", "bill"))
        key = {"shopId": shop_id, "kind": kind, "id": row_id, "passTime": self.time}
        return nothing | key | {"removed": removed, "_ab_cdc_deleted_at": deleted_at} | more


@dataclass
class BaseExtractor(RecordExtractor):
    """Extracts each base once from the list of shops, because several shops may share a base."""

    def extract_records(self, response: requests.Response) -> Iterable[MutableMapping[str, Any]]:
        bases = {shop["providerId"] for shop in response.json()["data"]} - {None}
        return [{"providerId": base} for base in sorted(bases)]
