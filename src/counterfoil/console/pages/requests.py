"""Requests: a search by request ID, key, route, status, error, duration and time."""

import re
import shlex
from datetime import MAXYEAR, MINYEAR, datetime
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.console.display import (
    PageColumn,
    csv_time,
    fields,
    key_link,
    moment,
    name_of,
    section,
    status_badge,
    table,
    translated,
    utc_time,
)
from counterfoil.console.forms import FormChoice, select, text_field
from counterfoil.console.layout import notice
from counterfoil.console.visit import ConsolePage, CsvExport, PageContent, Visit
from counterfoil.domain.access import Key
from counterfoil.domain.calendar import THAI_TIME, iso_utc, to_ms
from counterfoil.domain.problems import TABLE, explanation, what_to_do
from counterfoil.http.app import ROUTES
from counterfoil.operator_reads import RecordedRequest, RecordPosition, RequestFilter
from counterfoil.web.html import Child, Html, element, markup

PER_PAGE, MOST_PER_PAGE, MOST_EXPORTED = 50, 500, 10_000
_POSITION = re.compile(r"([0-9]{1,15}),([0-9]{1,18})", re.ASCII)
# The search conditions, which are parameters in the page's address.
PARAMETERS = ("request", "key", "route", "status", "error", "slower", "since", "until")
_TIMES = ("since", "until")
# The options of `counterfoil requests` for these parameters, except for the request ID, which is an argument.
_FLAGS = {
    "key": "--key",
    "route": "--route",
    "status": "--status",
    "error": "--error",
    "slower": "--slower-than",
    "since": "--since",
    "until": "--until",
}


class RequestRow(Struct, frozen=True, kw_only=True, rename="camel"):
    at: datetime | None
    request_id: str | None
    key_id: str
    label: str
    route: str
    status: int
    error: str | None
    took_ms: float
    personal_base: str | None
    personal_members: int


class RequestsView(Struct, frozen=True, kw_only=True, rename="camel"):
    """The data of the page. `wanted` has the valid parameters, and `ignored` the names of the invalid ones."""

    wanted: dict[str, str]
    ignored: list[str]
    requests: list[RequestRow]
    next: str | None


def read(visit: Visit) -> RequestsView:
    return _read(visit, _limit(visit))


def _read(visit: Visit, limit: int, *, is_export: bool = False) -> RequestsView:
    wanted, ignored = request_filter(visit.query)
    with visit.store.reads() as reads:
        page = reads.requests(wanted, min(limit, MOST_PER_PAGE))
        found, following = list(page.requests), page.next
        while is_export and following and len(found) < limit:
            page = reads.requests(replace(wanted, before=following), MOST_PER_PAGE)
            found, following = [*found, *page.requests], page.next
    keys = {key.key_id: key for key in visit.store.all_keys()}
    return RequestsView(
        wanted={name: value for name in PARAMETERS if (value := visit.query.get(name)) and name not in ignored},
        ignored=ignored,
        requests=[row(one, keys) for one in found],
        next=_position_text(following),
    )


def row(one: RecordedRequest, keys: dict[str, Key]) -> RequestRow:
    return RequestRow(
        at=utc_time(one.at),
        request_id=one.request_id,
        key_id=one.key_id,
        label=keys[one.key_id].label if one.key_id in keys else "",
        route=one.route,
        status=one.status,
        error=one.error,
        took_ms=one.took_us / 1000,
        personal_base=one.personal_base,
        personal_members=one.personal_members,
    )


def request_filter(query: dict[str, str]) -> tuple[RequestFilter, list[str]]:
    """Return the filter that the address describes, and the names of the parameters that are not valid."""
    given = {name: query.get(name, "").strip() for name in (*PARAMETERS, "before")}
    since, until = _instant(given["since"]), _instant(given["until"])
    status, slower = _number(given["status"]), _number(given["slower"])
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


def _position_text(found: RecordPosition | None) -> str | None:
    return None if found is None else f"{found[0]},{found[1]}"


def _instant(text: str) -> int | None:
    """Return a time in milliseconds since 1970, or None if it is not valid.

    A time without a time zone, as the form sends it, is in Thailand time.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    # Converting a time in the first or last year to UTC could exceed the range of `datetime`.
    if not MINYEAR < found.year < MAXYEAR:
        return None
    return to_ms(found if found.tzinfo else found.replace(tzinfo=THAI_TIME))


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else None


def _limit(visit: Visit) -> int:
    return max(1, min(_number(visit.query.get("limit", "")) or PER_PAGE, MOST_PER_PAGE))


# --- drawing -------------------------------------------------------------------------


def draw(visit: Visit, view: RequestsView) -> PageContent:
    t = visit.t
    single = view.requests[0] if "request" in view.wanted and len(view.requests) == 1 else None
    names = ", ".join(view.ignored)
    return PageContent(
        title=t("requests.title"),
        main=markup(
            _search(visit, view),
            notice(t("requests.ignored", names=names), "warn") if view.ignored else None,
            _one_request(visit, single) if single else None,
            _list(visit, view),
        ),
        command=_command(view),
    )


def _command(view: RequestsView) -> str:
    # The form sends times without a time zone. `counterfoil requests` refuses such times, so convert them to UTC.
    times = {name: iso_utc(instant) for name in _TIMES if (instant := _instant(view.wanted.get(name, ""))) is not None}
    wanted = {**view.wanted, **times}
    words = ["counterfoil requests"]
    if "request" in view.wanted:
        words.append(shlex.quote(view.wanted["request"]))
    words += [f"{flag} {shlex.quote(value)}" for name, flag in _FLAGS.items() if (value := wanted.get(name))]
    return " ".join(words)


def _search(visit: Visit, view: RequestsView) -> Html:
    t, query = visit.t, visit.query
    keys = [
        FormChoice(key.key_id, f"{name_of(key.label)} ({key.key_id})" if key.label else key.key_id)
        for key in visit.store.all_keys()
    ]
    anything = FormChoice("", t("requests.any"))
    routes = [anything, *(FormChoice(route.path, route.path) for route in ROUTES if route.handler)]
    errors = [anything, *(FormChoice(problem.code, problem.code) for problem in TABLE)]
    more = element(
        "details",
        element("summary", t("requests.more")),
        element(
            "div",
            select(t("key"), "key", {"": [anything, *keys]}, query.get("key", "")),
            select(t("route"), "route", {"": routes}, query.get("route", "")),
            text_field(
                t("status"),
                "status",
                query.get("status", ""),
                inputmode="numeric",
                pattern="[0-9]{3}",
                title=t("requests.status_pattern"),
            ),
            select(t("error"), "error", {"": errors}, query.get("error", "")),
            text_field(t("requests.slower"), "slower", query.get("slower", ""), type="number", min=0),
            text_field(t("requests.since"), "since", query.get("since", ""), type="datetime-local"),
            text_field(t("requests.until"), "until", query.get("until", ""), type="datetime-local"),
            class_="filters",
        ),
        open=any(name in view.wanted for name in PARAMETERS[1:]),
    )
    return element(
        "form",
        text_field(
            t("requests.request_id"),
            "request",
            query.get("request", ""),
            hint=t("requests.request_id_hint"),
            spellcheck="false",
            maxlength=200,
        ),
        more,
        element(
            "p",
            element("button", t("requests.search")),
            " ",
            element("a", t("requests.reset"), href="/requests"),
            class_="buttons",
        ),
        method="get",
        action="/requests",
        class_="stack card",
        role="search",
        aria_label=t("requests.search_label"),
    )


def _one_request(visit: Visit, one: RequestRow) -> Html:
    t = visit.t
    pairs: list[tuple[str, Child]] = [
        (t("time"), moment(one.at)),
        (t("key"), key_link(one.key_id, one.label)),
        (t("route"), element("code", one.route)),
        (t("status"), markup(status_badge(one.status), " ", element("code", one.error) if one.error else None)),
        (t("took"), f"{one.took_ms:,.1f} ms"),
        (t("personal.title"), _disclosed(visit, one)),
    ]
    if one.error and explanation(one.error):
        pairs += [
            (t("errors.message"), translated(t, explanation(one.error))),
            (t("errors.action"), translated(t, what_to_do(one.error))),
        ]
    return section(t("requests.returned", request_id=name_of(one.request_id)), fields(pairs))


def _disclosed(visit: Visit, one: RequestRow) -> str:
    if not one.personal_members:
        return visit.t("no")
    if one.personal_members == 1:
        return visit.t("requests.disclosed_one", base=name_of(one.personal_base))
    return visit.t("requests.disclosed", count=one.personal_members, base=name_of(one.personal_base))


def _list(visit: Visit, view: RequestsView) -> Html:
    t = visit.t
    columns = (
        PageColumn(t("time")),
        PageColumn(t("status")),
        PageColumn(t("route")),
        PageColumn(t("key")),
        PageColumn(t("took"), is_number=True),
        PageColumn(t("requests.request_id")),
    )
    rows = [_row(visit, one) for one in view.requests]
    newest = "before" not in visit.query
    following = (
        element(
            "a", t("requests.older"), href=visit.address("/requests", before=view.next), rel="next", class_="button"
        )
        if view.next
        else None
    )
    first = (
        None
        if newest
        else element("a", t("requests.newest"), href=visit.address("/requests", before=None), class_="button")
    )
    live = element(
        "p",
        element(
            "button", t("requests.follow"), type="button", data_stop=t("requests.stop"), id="follow", class_="plain"
        ),
        " ",
        element(
            "span",
            role="status",
            data_text=t("requests.following"),
            data_lost=t("requests.lost"),
            id="follow-status",
            class_="muted",
        ),
        class_="live",
        hidden=True,
    )
    listed = (
        table(t("requests.caption"), columns, rows, body_id="rows")
        if rows
        else element("p", t("requests.more_to_search") if view.next else t("requests.none"), class_="empty")
    )
    return markup(
        live if newest and "request" not in view.wanted else None,
        element("div", listed, id="list"),
        element("p", first, " ", following, class_="buttons") if following or first else None,
    )


def _row(visit: Visit, one: RequestRow) -> tuple[Child, ...]:
    error = (
        [" ", element("a", element("code", one.error), href=visit.address("/requests", error=one.error, before=None))]
        if one.error
        else None
    )
    personal = (
        [" ", element("span", visit.t("requests.personal_short"), class_="badge warn")]
        if one.personal_members
        else None
    )
    return (
        moment(one.at),
        markup(status_badge(one.status), error, personal),
        element("code", one.route),
        key_link(one.key_id, one.label),
        f"{one.took_ms:,.1f} ms",
        request_link(one.request_id),
    )


def request_link(request_id: str | None) -> Html | str:
    """Return a link to the record of a request, or a dash if the request has no ID."""
    if not request_id:
        return "–"
    return element("a", element("code", name_of(request_id)), href=f"/requests?request={quote(request_id, safe='')}")


def csv(visit: Visit, _: RequestsView) -> CsvExport:
    """Return request records as CSV: those on this page and on older pages, up to a limit."""
    exported = _read(visit, MOST_EXPORTED, is_export=True)
    columns = (
        "time_utc",
        "request_id",
        "key_id",
        "label",
        "route",
        "status",
        "error",
        "took_ms",
        "personal_base",
        "personal_members",
    )
    rows: list[tuple[object, ...]] = [
        (
            csv_time(one.at),
            one.request_id or "",
            one.key_id,
            one.label,
            one.route,
            one.status,
            one.error or "",
            one.took_ms,
            one.personal_base or "",
            one.personal_members,
        )
        for one in exported.requests
    ]
    return CsvExport("requests", columns, rows)


PAGE = ConsolePage(name="requests", read=read, draw=draw, csv=csv)
