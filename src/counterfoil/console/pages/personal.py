"""Personal data: who received members' telephone numbers and email addresses, when, and how many."""

import shlex
from collections import defaultdict
from collections.abc import Callable

from msgspec import Struct

from counterfoil.console.display import PageColumn, ago, key_link, list_table, number, section, table, utc_time
from counterfoil.console.pages.requests import MOST_EXPORTED, PER_PAGE, position, position_text, request_link
from counterfoil.console.visit import ConsolePage, CsvExport, PageContent, Visit
from counterfoil.domain.calendar import DAY_MS
from counterfoil.operator_reads import RecordedRequest, RecordPosition, RequestFilter
from counterfoil.views.columns import console_json, csv_lines
from counterfoil.views.requests import columns, disclosures, find
from counterfoil.web.html import Child, Html, element, markup

DAYS = 90
# The sums per key cover at most this many disclosures, so that the page stays fast.
MOST_SUMMED = 5_000


class KeyDisclosures(Struct, frozen=True):
    """The disclosures to one key. A member who was read twice counts twice."""

    key_id: str
    requests: int
    members: int
    last: RecordedRequest


class PersonalView(Struct, frozen=True, kw_only=True):
    """The data of the page. `is_partial` is true if there are more disclosures than the sums cover."""

    key_id: str | None
    by_key: list[KeyDisclosures]
    is_partial: bool
    disclosures: list[RecordedRequest]
    next: str | None
    labels: dict[str, str]


def read(visit: Visit) -> PersonalView:
    key_id = visit.query.get("key") or None
    listed, following = _disclosures(visit, key_id, position(visit.query.get("before", "")), PER_PAGE)
    summed, more = _disclosures(visit, key_id, None, MOST_SUMMED)
    by_key: defaultdict[str, list[RecordedRequest]] = defaultdict(list)
    for request in summed:
        by_key[request.key_id].append(request)
    sums = [
        KeyDisclosures(found, len(requests), sum(request.personal_members for request in requests), requests[0])
        for found, requests in by_key.items()
    ]
    return PersonalView(
        key_id=key_id,
        by_key=sorted(sums, key=lambda of_key: -of_key.members),
        is_partial=more is not None,
        disclosures=listed,
        next=position_text(following),
        labels=visit.store.labels(),
    )


def _disclosures(
    visit: Visit, key_id: str | None, before: RecordPosition | None, limit: int
) -> tuple[list[RecordedRequest], RecordPosition | None]:
    wanted = RequestFilter(key_id=key_id, personal_data=True, since=visit.now - DAYS * DAY_MS, before=before)
    return find(visit.store.reads, wanted, limit)


def as_json(_: Visit, view: PersonalView) -> dict[str, object]:
    recorded = columns(view.labels)
    by_key = [
        {
            "keyId": of_key.key_id,
            "label": view.labels.get(of_key.key_id, ""),
            "requests": of_key.requests,
            "members": of_key.members,
            "last": console_json(recorded, of_key.last),
        }
        for of_key in view.by_key
    ]
    return {
        "keyId": view.key_id,
        "byKey": by_key,
        "isPartial": view.is_partial,
        "disclosures": [console_json(recorded, request) for request in view.disclosures],
        "next": view.next,
    }


def draw(visit: Visit, view: PersonalView) -> PageContent:
    t = visit.t
    return PageContent(
        title=t("personal.title"),
        lead=element("p", t("personal.lead", days=DAYS)),
        main=markup(_by_key(visit, view), _list(visit, view)),
        command="counterfoil usage --disclosures" + (f" {shlex.quote(view.key_id)}" if view.key_id else ""),
    )


def _by_key(visit: Visit, view: PersonalView) -> Html:
    t = visit.t
    headings = (
        PageColumn(t("key")),
        PageColumn(t("requests"), is_number=True),
        PageColumn(t("personal.members_sum"), is_number=True),
        PageColumn(t("last")),
    )
    rows = [
        (
            key_link(of_key.key_id, view.labels.get(of_key.key_id)),
            number(of_key.requests),
            number(of_key.members),
            ago(t, utc_time(of_key.last.at), visit.now),
        )
        for of_key in view.by_key
    ]
    partial = element("p", t("personal.partial", count=f"{MOST_SUMMED:,}"), class_="muted") if view.is_partial else None
    return section(
        t("personal.by_key"),
        table(t("personal.by_key_caption", days=DAYS), headings, rows, empty=t("personal.none")),
        element("p", t("personal.counted"), class_="muted") if rows else None,
        partial,
    )


def _list(visit: Visit, view: PersonalView) -> Html | None:
    t = visit.t
    if not view.disclosures:
        return None
    cells: dict[str, Callable[[RecordedRequest], Child]] = {
        "key": lambda request: key_link(request.key_id, view.labels.get(request.key_id)),
        "requests.request_id": lambda request: request_link(request.request_id),
    }
    older = (
        element(
            "p",
            element("a", t("requests.older"), href=visit.address("/personal-data", before=view.next), class_="button"),
            class_="buttons",
        )
        if view.next
        else None
    )
    return section(
        t("personal.list"),
        list_table(t, t("personal.caption"), disclosures(view.labels), view.disclosures, cells),
        older,
    )


def csv(visit: Visit, view: PersonalView) -> CsvExport:
    found, _ = _disclosures(visit, view.key_id, None, MOST_EXPORTED)
    return CsvExport("personal-data", csv_lines(disclosures(view.labels), found))


PAGE = ConsolePage(name="personal", read=read, draw=draw, as_json=as_json, csv=csv)
