"""Recorded requests, and among them the disclosures of personal data."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from counterfoil.model.text import translatable
from counterfoil.operator_reads import OperatorReads
from counterfoil.program.columns import ListColumn
from counterfoil.request_reads import RecordedRequest, RecordPosition, RequestFilter

PER_QUERY = 1_000
# A record may be written up to this many milliseconds after the time that it contains.
LATE_MS = 5_000


def find(
    reads: OperatorReads, wanted: RequestFilter, limit: int | None
) -> tuple[list[RecordedRequest], RecordPosition | None]:
    """Return up to `limit` requests, or all, and the position after which others follow. A page may have no match."""
    found: list[RecordedRequest] = []
    while True:
        page = reads.requests(wanted, PER_QUERY if limit is None else min(limit - len(found), PER_QUERY))
        found += page.requests
        if page.next is None or len(found) == limit:
            return found, page.next
        wanted = replace(wanted, before=page.next)


class RequestFollower:
    """Finds new request records as they are written, and returns each of them once."""

    def __init__(self, reads: OperatorReads, wanted: RequestFilter, since: int) -> None:
        self._reads = reads
        self._wanted = wanted
        self._newest = since
        self._returned: set[RecordPosition] = set()
        self._since = since

    def new_requests(self) -> list[RecordedRequest]:
        """Return the records that were written since the last call, oldest first."""
        since = max(self._since, self._newest - LATE_MS)
        records, _ = find(self._reads, replace(self._wanted, since=since), None)
        found = [record for record in records if record.position not in self._returned]
        self._returned = {position for position in self._returned if position[0] >= since}
        for record in found:
            self._returned.add(record.position)
            # If only late records were found, the next call must not look further back than `_returned` does.
            self._newest = max(self._newest, record.at)
        return found[::-1]


def columns(labels: Mapping[str, str] = {}) -> Sequence[ListColumn[RecordedRequest]]:
    """Return the columns. `labels` are the labels of the keys, if they were read."""
    return (
        ListColumn("at", kind="time", terminal="time", page=translatable("Time"), other_names={"csv": "time_utc"}),
        ListColumn("requestId", kind="code", terminal="request ID", page=translatable("Request ID")),
        ListColumn("keyId", kind="key", terminal="key ID", page=translatable("Key")),
        ListColumn("label", lambda request: labels.get(request.key_id, ""), terminal="label", without=("json",)),
        ListColumn("route", kind="code", terminal="route", page=translatable("Route")),
        ListColumn("status", terminal="status", page=translatable("Status")),
        ListColumn("error", terminal="error"),
        ListColumn("tookUs", without=("console", "csv")),
        ListColumn(
            "took",
            lambda request: request.took_us / 1000,
            kind="number",
            terminal="ms",
            page=translatable("Duration"),
            other_names={"csv": "took_ms", "console": "tookMs"},
            text=lambda request: f"{request.took_us / 1000:,.1f}",
            without=("json",),
        ),
        ListColumn(
            "providerId",
            lambda request: request.personal_base,
            other_names={"csv": "personal_base", "console": "personalBase"},
        ),
        ListColumn(
            "members",
            lambda request: request.personal_members,
            other_names={"csv": "personal_members", "console": "personalMembers"},
        ),
        ListColumn("message", lambda request: request.returned.message or None),
        ListColumn("parameters", lambda request: ",".join(request.returned.names)),
        ListColumn("shopId", lambda request: request.returned.shop),
        ListColumn("rows", lambda request: request.returned.rows),
        ListColumn("lastPage", lambda request: request.returned.is_last),
    )


def disclosures(labels: Mapping[str, str] = {}) -> Sequence[ListColumn[RecordedRequest]]:
    """Return the columns of requests that were answered with personal data."""
    return (
        *(column for column in columns(labels) if column.name in ("at", "keyId", "label", "route")),
        ListColumn(
            "providerId",
            lambda request: request.personal_base or "",
            "code",
            terminal="base",
            page=translatable("Membership base"),
            other_names={"csv": "base", "console": "base"},
        ),
        ListColumn(
            "members",
            lambda request: request.personal_members,
            "number",
            terminal="members in response",
            page=translatable("Members in the response"),
            other_names={"csv": "members_in_response"},
        ),
        ListColumn("requestId", kind="code", page=translatable("Request ID")),
    )
