"""Requests: a search by ID, key, route, status, error, duration and time; and the disclosures of personal data."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.console import display
from counterfoil.console.display import Cells, ago, button_link, list_table, section, status_badge
from counterfoil.console.forms import select
from counterfoil.console.key_parts import base_label, scope_names
from counterfoil.console.layout import notice
from counterfoil.console.visit import PER_PAGE, ConsolePage, PageContent, Visit, number_in
from counterfoil.domain.problems import RECORDED_CODES, explanation, what_to_do
from counterfoil.domain.request_records import UNKNOWN, RequestDetail
from counterfoil.http.app import ROUTES
from counterfoil.model.calendar import DAY_MS, iso_utc
from counterfoil.operator_reads import ANY_ERROR, RecordedRequest, RecordPosition, RequestFilter
from counterfoil.program.columns import ListColumn, RowList, console_json
from counterfoil.program.times import instant, shown_zone
from counterfoil.views.requests import columns, disclosures, find
from counterfoil.web.html import Child, Html, element, markup

MOST_PER_PAGE, MOST_EXPORTED = 500, 10_000
_POSITION = re.compile(r"([0-9]{1,15}),([0-9]{1,18})", re.ASCII)
# The search conditions: parameters in the page's address and, except for the request ID, options of the command.
PARAMETERS = ("request", "key", "route", "status", "error", "slower", "since", "until")
_FLAGS = {name: "--slower-than" if name == "slower" else f"--{name}" for name in PARAMETERS[1:]}
_TIMES = ("since", "until")
_FIRST = ("time", "status", "route", "key", "took")


class RequestsView(Struct, frozen=True, kw_only=True):
    """The data of the page. `wanted` has the valid parameters, and `ignored` the names of the invalid ones."""

    wanted: dict[str, str]
    ignored: list[str]
    requests: RowList[RecordedRequest]
    next: str | None


def read(visit: Visit) -> RequestsView:
    wanted, ignored = request_filter(visit.query)
    # A search for something rare may need several queries, which are left to the operator.
    page, labels = visit.store.reads.requests(wanted, visit.limit(MOST_PER_PAGE)), visit.store.labels()
    return RequestsView(
        wanted={name: value for name in PARAMETERS if (value := visit.query.get(name)) and name not in ignored},
        ignored=ignored,
        requests=RowList(columns(labels), page.requests),
        next=position_text(page.next),
    )


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


def draw(visit: Visit, view: RequestsView) -> PageContent:
    t = visit.t
    single = view.requests.rows[0] if "request" in view.wanted and len(view.requests.rows) == 1 else None
    return PageContent(
        title=t("requests.title"),
        main=markup(
            _search(visit, view),
            notice(t("requests.ignored", names=", ".join(view.ignored)), "warn") if view.ignored else None,
            _one_request(visit, single) if single else _list(visit, view),
        ),
        commands=[_command(view)],
    )


def _command(view: RequestsView) -> str:
    # The form sends times without a time zone. `counterfoil requests` refuses such times, so convert them to UTC.
    times = {name: instant(view.wanted.get(name, ""), shown_zone()) for name in _TIMES}
    wanted = {**view.wanted, **{name: iso_utc(time) for name, time in times.items() if time is not None}}
    words = ["counterfoil requests"]
    if "request" in view.wanted:
        words.append(shlex.quote(view.wanted["request"]))
    words += [f"{flag} {shlex.quote(value)}" for name, flag in _FLAGS.items() if (value := wanted.get(name))]
    return " ".join(words)


def _search(visit: Visit, view: RequestsView) -> Html:
    t, query = visit.t, visit.query
    anything = {"": t("requests.any")}
    labels = visit.store.labels()
    keys = {key_id: f"{display.name_of(label)} ({key_id})" if label else key_id for key_id, label in labels.items()}
    routes = {route: route for route, handler in ROUTES.items() if handler}
    errors = {ANY_ERROR: t("requests.any_error"), **{code: code for code in RECORDED_CODES}}
    choices = [
        select(t("key"), "key", {"": anything | keys}, query.get("key", "")),
        select(t("route"), "route", {"": anything | routes}, query.get("route", "")),
        select(t("error"), "error", {"": anything | errors}, query.get("error", "")),
    ]
    since, until = (t(f"requests.{name}", zone=display.zone_text(t)) for name in _TIMES)
    given = {name: query.get(name) for name in PARAMETERS}
    form = display.template("search", t, given=given, choices=choices, since=since, until=until)
    # The form stays closed, so that a phone shows what was found.
    conditions = [
        (f"{name}: {display.name_of(value)} ×", visit.address("/requests", **{name: None, "before": None}), False)
        for name, value in view.wanted.items()
    ]
    return markup(form, display.link_list("cards", t("requests.conditions"), conditions) if conditions else None)


def _one_request(visit: Visit, request: RecordedRequest) -> Html:
    t, error = visit.t, request.error
    disclosed = t("requests.disclosed", count=request.personal_members, base=display.name_of(request.personal_base))
    pairs: list[tuple[str, Child]] = [
        (t("time"), display.moment(request.at)),
        (t("key"), display.key_link(request.key_id, visit.store.labels().get(request.key_id))),
        (t("route"), element("code", request.route)),
        (t("status"), markup(status_badge(request.status), " ", element("code", error) if error else None)),
        (t("took"), _took(request)),
        *_returned(visit, request.returned),
        (t("personal.title"), disclosed if request.personal_members else t("no")),
    ]
    if error and explanation(error):
        pairs += [(t("errors.action"), display.translated(t, what_to_do(error)))]
    return section(t("requests.returned", request_id=display.name_of(request.request_id)), display.fields(pairs))


def _returned(visit: Visit, returned: RequestDetail) -> Iterator[tuple[str, Child]]:
    """Yield what was asked for and what the caller got, as far as it is recorded."""
    t = visit.t
    if returned.message:
        # The API answers in English.
        yield t("errors.message"), element("q", returned.message, lang="en")
    names = markup([[element("code", name), " "] for name in returned.names])
    yield t("requests.parameters"), names or t("permission.none")
    if returned.shop_id == UNKNOWN:
        yield t("shop"), t("unknown")
    elif returned.shop_id:
        yield t("shop"), element("code", display.name_of(returned.shop_id))
    if returned.rows is not None:
        more = "" if returned.is_last else f" ({t('requests.more_pages')})"
        yield t("requests.rows"), f"{returned.rows:,}{more}"


def _took(request: RecordedRequest) -> str:
    return f"{request.took_us / 1000:,.1f} ms"


def _list(visit: Visit, view: RequestsView) -> Html:
    t = visit.t
    cells: Cells[RecordedRequest] = {
        "time": lambda request: _link(request, display.moment(request.at, is_focusable=False)),
        "status": lambda request: _status(visit, request),
        "took": _took,
    }
    newest = "before" not in visit.query
    back = button_link(t("requests.newest"), visit.address("/requests", before=None))
    older = button_link(t("requests.older"), visit.address("/requests", before=view.next), rel="next")
    caption, none = t("requests.caption"), t("requests.more_to_search") if view.next else t("requests.none")
    listed = list_table(visit, caption, view.requests, cells, first=_FIRST, empty=none, body_id="rows", kind="page")
    return markup(
        display.template("follow", t) if newest and "request" not in view.wanted else None,
        element("div", listed, id="list"),
        display.button_row(None if newest else back, older if view.next else None),
    )


def _link(request: RecordedRequest, text: Html) -> Html:
    return element("a", text, href=f"/requests?request={quote(request.request_id, safe='')}")


def _status(visit: Visit, request: RecordedRequest) -> Html:
    """Return the status with links to the same error, and a mark if personal data was disclosed."""
    found = request.error
    error = found and element("a", element("code", found), href=visit.address("/requests", error=found, before=None))
    personal = display.badge(visit.t("requests.personal_short"), "warn") if request.personal_members else None
    return markup(status_badge(request.status), [" ", error] if error else None, [" ", personal] if personal else None)


def csv(visit: Visit, view: RequestsView) -> tuple[str, RowList[RecordedRequest]]:
    """Return the requests on this page and on older pages, up to a limit."""
    found, _ = find(visit.store.reads, request_filter(visit.query)[0], MOST_EXPORTED)
    return "requests", RowList(view.requests.columns, found)


PAGE = ConsolePage(name="requests", read=read, draw=draw, csv=csv)


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
    )


def _members(requests: KeyDisclosures) -> int:
    return sum(request.personal_members for request in requests)


def _disclosed_to(visit: Visit, key_id: str | None) -> RequestFilter:
    return RequestFilter(key_id=key_id, personal_data=True, since=visit.now - DAYS * DAY_MS)


def _columns_by_key(labels: Mapping[str, str]) -> Sequence[ListColumn[KeyDisclosures]]:
    return (
        ListColumn("keyId", lambda requests: requests[0].key_id, page="key"),
        ListColumn("label", lambda requests: labels.get(requests[0].key_id, "")),
        ListColumn("requests", len, "number", page="requests"),
        ListColumn("members", _members, "number", page="personal.members_sum"),
        ListColumn("last", lambda requests: console_json(columns(labels), requests[0]), page="last"),
    )


def draw_personal(visit: Visit, view: PersonalView) -> PageContent:
    t = visit.t
    return PageContent(
        title=t("personal.title"),
        lead=element("p", t("personal.lead", days=DAYS)),
        main=markup(_by_key(visit, view), _disclosed_list(visit, view)),
        commands=["counterfoil usage --disclosures" + (f" {shlex.quote(view.key_id)}" if view.key_id else "")],
    )


def _by_key(visit: Visit, view: PersonalView) -> Html:
    t = visit.t
    cells: Cells[KeyDisclosures] = {"last": lambda requests: ago(t, requests[0].at, visit.now)}
    caption, none = t("personal.by_key_caption", days=DAYS), t("personal.none")
    partial = element("p", t("personal.partial", count=f"{MOST_SUMMED:,}"), class_="muted") if view.is_partial else None
    return section(
        t("personal.by_key"),
        list_table(visit, caption, view.by_key, cells, empty=none),
        element("p", t("personal.counted"), class_="muted") if view.by_key.rows else None,
        partial,
    )


def _disclosed_list(visit: Visit, view: PersonalView) -> Html | None:
    t = visit.t
    if not view.disclosures.rows:
        return None
    older = button_link(t("requests.older"), visit.address("/personal-data", before=view.next)) if view.next else None
    return section(t("personal.list"), disclosure_table(visit, view.disclosures.rows), display.button_row(older))


def disclosure_table(visit: Visit, rows: Sequence[RecordedRequest], *, of_key: bool = False) -> Html:
    """Return a page of disclosures, or the newest ones to one key, which is then not named."""
    t, names = visit.t, scope_names(visit)
    cells: Cells[RecordedRequest] = {
        "time": lambda request: _link(request, ago(t, request.at, visit.now, is_focusable=False)),
        "base": lambda request: base_label(t, names, request.personal_base or ""),
    }
    shown = RowList([column for column in disclosures() if not of_key or column.page != "key"], rows)
    kind: Literal["page", "fixed"] = "fixed" if of_key else "page"
    return list_table(visit, t("personal.caption"), shown, cells, empty=t("personal.none"), kind=kind)


def personal_csv(visit: Visit, view: PersonalView) -> tuple[str, RowList[RecordedRequest]]:
    found, _ = find(visit.store.reads, _disclosed_to(visit, view.key_id), MOST_EXPORTED)
    return "personal-data", RowList(disclosures(visit.store.labels()), found)


PERSONAL = ConsolePage(name="personal", read=read_personal, draw=draw_personal, csv=personal_csv)
