"""Requests: a search by ID, key, route, status, error, duration and time; and the disclosures of personal data."""

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.console.display import name_of
from counterfoil.console.key_parts import ScopeNames, scope_names
from counterfoil.console.visit import PER_PAGE, ConsolePage, Visit, number_in
from counterfoil.domain.problems import RECORDED_CODES, what_to_do
from counterfoil.domain.request_records import UNKNOWN
from counterfoil.http.app import ROUTES
from counterfoil.model.calendar import DAY_MS, HOUR_MS, iso_utc
from counterfoil.model.messages import Message
from counterfoil.model.text import translatable
from counterfoil.program.columns import ListColumn, RowList, console_json
from counterfoil.program.times import instant, local, shown_zone
from counterfoil.request_reads import ANY_ERROR, RecordedRequest, RecordPosition, RequestFilter
from counterfoil.views.requests import columns, disclosures, find

MOST_PER_PAGE, MOST_EXPORTED = 500, 10_000
_POSITION = re.compile(r"([0-9]{1,15}),([0-9]{1,18})", re.ASCII)
# The search conditions: parameters in the page's address and, except for the request ID, options of the command.
PARAMETERS = ("request", "key", "route", "status", "error", "slower", "since", "until")
_FLAGS = {name: "--slower-than" if name == "slower" else f"--{name}" for name in PARAMETERS[1:]}
_TIMES = ("since", "until")
# A time as a form sends it.
FORM_TIME = "%Y-%m-%dT%H:%M"
# So many keys have a link above the list.
MOST_PRESETS = 3


class RequestsView(Struct, frozen=True, kw_only=True):
    """The data of the page. `wanted` has the valid parameters, and `ignored` the names of the invalid ones."""

    wanted: dict[str, str]
    ignored: list[str]
    requests: RowList[RecordedRequest]
    next: str | None
    # The labels of all keys, by their IDs.
    labels: dict[str, str]
    # The times from which the last hour and the current day are, as the form for a search has them.
    last_hour: str
    midnight: str
    # The name of the shop of a single request, if it is loaded.
    shop_name: str | None

    # What stands for any error, and for a shop that is not one of this store's.
    any_error: ClassVar[str] = ANY_ERROR
    unknown: ClassVar[str] = UNKNOWN

    @property
    def key_names(self) -> dict[str, str]:
        """Return the names of all keys, by their IDs."""
        names = {}
        for key_id, label in self.labels.items():
            names[key_id] = f"{name_of(label)} ({key_id})" if label else key_id
        return names

    @property
    def busiest(self) -> dict[str, str]:
        """Return the keys with the most requests on this page, and the one that is searched for, with their labels."""
        counts = Counter(request.key_id for request in self.requests.rows)
        wanted = self.wanted.get("key")
        key_ids = [wanted] if wanted else []
        key_ids += [key_id for key_id, _ in counts.most_common(MOST_PRESETS)]
        return {key_id: self.labels.get(key_id, "") for key_id in key_ids}

    @property
    def is_preset(self) -> bool:
        """Return whether a link above the list has these conditions and no others."""
        known = [{"error": ANY_ERROR}, {"since": self.last_hour}, {"since": self.midnight}]
        return self.wanted in known or list(self.wanted) == ["key"]

    @property
    def routes(self) -> dict[str, str]:
        return {route: route for route, handler in ROUTES.items() if handler}

    @property
    def errors(self) -> dict[str, str]:
        return {code: code for code in RECORDED_CODES}

    @property
    def single(self) -> RecordedRequest | None:
        """Return the request that was searched for by its ID, if it was found."""
        is_single = "request" in self.wanted and len(self.requests.rows) == 1
        return self.requests.rows[0] if is_single else None

    @property
    def advice(self) -> Message | None:
        """Return what the caller of the single request should do about its error."""
        return what_to_do(self.single.error) if self.single and self.single.error else None

    @property
    def command(self) -> str:
        # The form sends times without a time zone. `counterfoil requests` refuses such times, so convert them to UTC.
        times = {name: instant(self.wanted.get(name, ""), shown_zone()) for name in _TIMES}
        wanted = {**self.wanted, **{name: iso_utc(time) for name, time in times.items() if time is not None}}
        words = ["counterfoil requests"]
        if "request" in self.wanted:
            words.append(shlex.quote(self.wanted["request"]))
        words += [f"{flag} {shlex.quote(value)}" for name, flag in _FLAGS.items() if (value := wanted.get(name))]
        return " ".join(words)


def read(visit: Visit) -> RequestsView:
    wanted, ignored = request_filter(visit.query)
    # A search for something rare may need several queries, which are left to the operator.
    page, labels = visit.store.reads.requests(wanted, visit.limit(MOST_PER_PAGE)), visit.store.labels()
    return RequestsView(
        wanted={name: value for name in PARAMETERS if (value := visit.query.get(name)) and name not in ignored},
        ignored=ignored,
        requests=RowList(columns(labels), page.requests),
        next=position_text(page.next),
        labels=labels,
        last_hour=f"{local(visit.now - HOUR_MS):{FORM_TIME}}",
        midnight=f"{local(visit.now).replace(hour=0, minute=0):{FORM_TIME}}",
        shop_name=_shop_name(visit, page.requests),
    )


def _shop_name(visit: Visit, found: Sequence[RecordedRequest]) -> str | None:
    if "request" not in visit.query or len(found) != 1:
        return None
    wanted = found[0].returned.shop_id
    return next((shop.shop_name for shop in visit.store.shop_names() if shop.shop_id == wanted), None)


def as_json(_: Visit, view: RequestsView) -> dict[str, object]:
    return {"wanted": view.wanted, "ignored": view.ignored, "requests": view.requests, "next": view.next}


def request_filter(query: dict[str, str]) -> tuple[RequestFilter, list[str]]:
    given = {name: query.get(name, "").strip() for name in (*PARAMETERS, "before")}
    since, until = (instant(given[name], shown_zone()) for name in _TIMES)
    status, slower = number_in(given["status"], None), number_in(given["slower"], None)
    parsed = {"since": since, "until": until, "status": status, "slower": slower}
    ignored = [name for name, value in parsed.items() if given[name] and value is None]
    wanted = RequestFilter(
        request_id=given["request"] or None,
        key_id=given["key"] or None,
        route=given["route"] or None,
        status=status,
        error=given["error"] or None,
        slower_than_us=None if slower is None else slower * 1000,
        since=since,
        until=until,
        before=position(given["before"]),
    )
    return wanted, ignored


def position(text: str) -> RecordPosition | None:
    found = _POSITION.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


def position_text(found: RecordPosition | None) -> str | None:
    return None if found is None else f"{found[0]},{found[1]}"


def csv(visit: Visit, view: RequestsView) -> tuple[str, RowList[RecordedRequest]]:
    """Return the requests on this page and on older pages, up to a limit."""
    found, _ = find(visit.store.reads, request_filter(visit.query)[0], MOST_EXPORTED)
    return "requests", RowList(view.requests.columns, found)


PAGE = ConsolePage(name="requests", template="requests", read=read, as_json=as_json, csv=csv)


DAYS = 90
# The sums per key cover at most this many disclosures, so that the page stays fast.
MOST_SUMMED = 5_000
# The disclosures to one key, newest first. A member who was read twice counts twice.
KeyDisclosures = list[RecordedRequest]


class PersonalView(Struct, frozen=True, kw_only=True, rename="camel"):
    """The data of the page. `is_partial` is true if there are more disclosures than the sums cover."""

    key_id: str | None
    by_key: RowList[KeyDisclosures]
    is_partial: bool
    disclosures: RowList[RecordedRequest]
    next: str | None
    names: ScopeNames

    days: ClassVar[int] = DAYS
    most_summed: ClassVar[int] = MOST_SUMMED

    @property
    def disclosed(self) -> RowList[RecordedRequest]:
        """Return the disclosures with the columns that the page shows."""
        return RowList(disclosures(), self.disclosures.rows)

    @property
    def command(self) -> str:
        return "counterfoil usage --disclosures" + (f" {shlex.quote(self.key_id)}" if self.key_id else "")


def read_personal(visit: Visit) -> PersonalView:
    reads, labels, key_id = visit.store.reads, visit.store.labels(), visit.query.get("key") or None
    wanted = _disclosed_to(visit, key_id)
    before = position(visit.query.get("before", ""))
    listed, following = find(reads, replace(wanted, before=before), PER_PAGE)
    summed, more = find(reads, wanted, MOST_SUMMED)
    by_key: dict[str, KeyDisclosures] = {}
    for request in summed:
        by_key.setdefault(request.key_id, []).append(request)
    return PersonalView(
        key_id=key_id,
        by_key=RowList(_columns_by_key(labels), sorted(by_key.values(), key=_members, reverse=True)),
        is_partial=more is not None,
        disclosures=RowList(columns(labels), listed),
        next=position_text(following),
        names=scope_names(visit),
    )


def personal_as_json(_: Visit, view: PersonalView) -> dict[str, object]:
    return {
        "keyId": view.key_id,
        "byKey": view.by_key,
        "isPartial": view.is_partial,
        "disclosures": view.disclosures,
        "next": view.next,
    }


def _members(requests: KeyDisclosures) -> int:
    return sum(request.personal_members for request in requests)


def _disclosed_to(visit: Visit, key_id: str | None) -> RequestFilter:
    return RequestFilter(key_id=key_id, personal_data=True, since=visit.now - DAYS * DAY_MS)


def _columns_by_key(labels: Mapping[str, str]) -> Sequence[ListColumn[KeyDisclosures]]:
    return (
        ListColumn("keyId", lambda requests: requests[0].key_id, "key", page=translatable("Key")),
        ListColumn("label", lambda requests: labels.get(requests[0].key_id, "")),
        ListColumn("requests", len, "number", page=translatable("Requests")),
        ListColumn("members", _members, "number", page=translatable("Members in all responses")),
        ListColumn("last", lambda requests: console_json(columns(labels), requests[0]), page=translatable("Latest")),
    )


def personal_csv(visit: Visit, view: PersonalView) -> tuple[str, RowList[RecordedRequest]]:
    found, _ = find(visit.store.reads, _disclosed_to(visit, view.key_id), MOST_EXPORTED)
    return "personal-data", RowList(disclosures(visit.store.labels()), found)


PERSONAL = ConsolePage(
    name="personal", template="personal", read=read_personal, as_json=personal_as_json, csv=personal_csv
)
