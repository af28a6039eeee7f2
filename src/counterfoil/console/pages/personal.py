"""Personal data: who received members' telephone numbers and email addresses, when, and how many."""

import shlex
from collections import defaultdict

from msgspec import Struct

from counterfoil.console.display import PageColumn, ago, csv_time, key_link, moment, name_of, number, section, table
from counterfoil.console.pages.requests import MOST_EXPORTED, PER_PAGE, RequestRow, position, request_link, row
from counterfoil.console.visit import ConsolePage, CsvExport, PageContent, Visit
from counterfoil.domain.calendar import DAY_MS
from counterfoil.operator_reads import RecordPosition, RequestFilter
from counterfoil.web.html import Child, Html, element, markup

DAYS = 90
PER_QUERY = 500
# The sums per key cover at most this many disclosures, so that the page stays fast.
MOST_SUMMED = 5_000


class KeyDisclosures(Struct, frozen=True, kw_only=True, rename="camel"):
    """The disclosures to one key. A member who was read twice counts twice."""

    key_id: str
    label: str
    requests: int
    members: int
    last: RequestRow


class PersonalView(Struct, frozen=True, kw_only=True, rename="camel"):
    """The data of the page. `is_partial` is true if there are more disclosures than the sums cover."""

    key_id: str | None
    by_key: list[KeyDisclosures]
    is_partial: bool
    disclosures: list[RequestRow]
    next: str | None


def read(visit: Visit) -> PersonalView:
    key_id = visit.query.get("key") or None
    before = position(visit.query.get("before", ""))
    rows, following = _disclosures(visit, key_id, before, PER_PAGE)
    summed, more = _disclosures(visit, key_id, None, MOST_SUMMED)
    by_key: defaultdict[str, list[RequestRow]] = defaultdict(list)
    for one in summed:
        by_key[one.key_id].append(one)
    sums = [
        KeyDisclosures(
            key_id=found,
            label=ones[0].label,
            requests=len(ones),
            members=sum(one.personal_members for one in ones),
            last=ones[0],
        )
        for found, ones in by_key.items()
    ]
    return PersonalView(
        key_id=key_id,
        by_key=sorted(sums, key=lambda one: -one.members),
        is_partial=more is not None,
        disclosures=rows,
        next=None if following is None else f"{following[0]},{following[1]}",
    )


def _disclosures(
    visit: Visit, key_id: str | None, before: RecordPosition | None, limit: int
) -> tuple[list[RequestRow], RecordPosition | None]:
    keys = {key.key_id: key for key in visit.store.all_keys()}
    rows: list[RequestRow] = []
    since = visit.now - DAYS * DAY_MS
    with visit.store.reads() as reads:
        while True:
            wanted = RequestFilter(key_id=key_id, personal_data=True, since=since, before=before)
            page = reads.requests(wanted, min(PER_QUERY, limit - len(rows)))
            rows += [row(one, keys) for one in page.requests]
            before = page.next
            if before is None or len(rows) >= limit:
                return rows, before


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
    columns = (
        PageColumn(t("key")),
        PageColumn(t("requests"), is_number=True),
        PageColumn(t("personal.members_sum"), is_number=True),
        PageColumn(t("last")),
    )
    rows = [
        (key_link(one.key_id, one.label), number(one.requests), number(one.members), ago(t, one.last.at, visit.now))
        for one in view.by_key
    ]
    partial = element("p", t("personal.partial", count=f"{MOST_SUMMED:,}"), class_="muted") if view.is_partial else None
    return section(
        t("personal.by_key"),
        table(t("personal.by_key_caption", days=DAYS), columns, rows, empty=t("personal.none")),
        element("p", t("personal.counted"), class_="muted") if rows else None,
        partial,
    )


def _list(visit: Visit, view: PersonalView) -> Html | None:
    t = visit.t
    if not view.disclosures:
        return None
    columns = (
        PageColumn(t("time")),
        PageColumn(t("key")),
        PageColumn(t("route")),
        PageColumn(t("base")),
        PageColumn(t("personal.members"), is_number=True),
        PageColumn(t("requests.request_id")),
    )
    rows: list[tuple[Child, ...]] = [
        (
            moment(one.at),
            key_link(one.key_id, one.label),
            element("code", one.route),
            element("code", name_of(one.personal_base)),
            number(one.personal_members),
            request_link(one.request_id),
        )
        for one in view.disclosures
    ]
    older = (
        element(
            "p",
            element("a", t("requests.older"), href=visit.address("/personal-data", before=view.next), class_="button"),
            class_="buttons",
        )
        if view.next
        else None
    )
    return section(t("personal.list"), table(t("personal.caption"), columns, rows), older)


def csv(visit: Visit, view: PersonalView) -> CsvExport:
    rows, _ = _disclosures(visit, view.key_id, None, MOST_EXPORTED)
    columns = ("time_utc", "key_id", "label", "route", "base", "members_in_response", "request_id")
    lines: list[tuple[object, ...]] = [
        (
            csv_time(one.at),
            one.key_id,
            one.label,
            one.route,
            one.personal_base or "",
            one.personal_members,
            one.request_id or "",
        )
        for one in rows
    ]
    return CsvExport("personal-data", columns, lines)


PAGE = ConsolePage(name="personal", read=read, draw=draw, csv=csv)
