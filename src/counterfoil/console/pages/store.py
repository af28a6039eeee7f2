"""Store: the findings of `status --deep`, sizes, servers, database user, meter, and open console sessions."""

from msgspec import Struct

from counterfoil.checks.findings import Finding, worst_first
from counterfoil.console.display import (
    PageColumn,
    badge,
    fields,
    finding_list,
    moment,
    number,
    section,
    table,
    utc_time,
)
from counterfoil.console.layout import notice
from counterfoil.console.visit import ConsolePage, PageContent, Visit
from counterfoil.settings import display_value
from counterfoil.text import size
from counterfoil.web.html import Child, Html, element, markup


class ServerRow(Struct, frozen=True, rename="camel"):
    name: str
    role: str
    horizon: int | None


class StoreView(Struct, frozen=True, kw_only=True, rename="camel"):
    address: str
    meter: str
    checks: list[Finding]
    size_bytes: int | None
    schema: str | None
    software: str | None
    log_bytes: dict[str, int]
    free_bytes: int | None
    servers: list[ServerRow]
    login: str | None
    sessions: int


def read(visit: Visit) -> StoreView:
    seen = visit.store.overview().store
    permissions = visit.store.inspection().permissions()
    return StoreView(
        address=display_value(visit.settings, "store"),
        meter=display_value(visit.settings, "meter"),
        checks=worst_first(visit.store.findings()),
        size_bytes=seen.extent.size_bytes if seen.extent else None,
        schema=seen.extent.schema if seen.extent else None,
        software=seen.extent.software if seen.extent else None,
        log_bytes=seen.disk.log_bytes if seen.disk else {},
        free_bytes=seen.disk.free_bytes if seen.disk else None,
        servers=[ServerRow(server.name, server.role.value, server.horizon) for server in seen.servers],
        login=permissions.login if permissions else None,
        sessions=visit.sessions.count(),
    )


def draw(visit: Visit, view: StoreView) -> PageContent:
    t = visit.t
    wrong = sum(one.status != "ok" for one in view.checks)
    verdict = notice(t("store.wrong", count=wrong), "warn") if wrong else notice(t("store.well"), "good")
    return PageContent(
        title=t("store.title"),
        lead=verdict,
        main=markup(
            section(t("store.facts"), fields(_facts(visit, view))),
            section(t("store.checks"), finding_list(t, view.checks)),
            _servers(visit, view),
            _sessions(visit, view),
        ),
        command="counterfoil status --deep --json",
        shows_service=True,
    )


def _facts(visit: Visit, view: StoreView) -> list[tuple[str, Child]]:
    t = visit.t
    pairs: list[tuple[str, Child]] = [
        (t("store.address"), element("code", view.address)),
        (t("store.size"), size(view.size_bytes) if view.size_bytes is not None else t("unknown")),
        (t("store.schema"), view.schema or t("unknown")),
        (t("store.software"), view.software or t("unknown")),
        (
            t("store.meter"),
            markup(
                element("code", view.meter) if view.meter else t("store.own_meter"),
                " ",
                element("small", t("store.meter_term")),
            ),
        ),
    ]
    if view.free_bytes is not None:
        pairs.append((t("store.free"), size(view.free_bytes)))
    pairs += [(t("store.log", name=name), size(count)) for name, count in view.log_bytes.items()]
    if view.login:
        pairs.append((t("store.login"), element("code", view.login)))
    return pairs


def _servers(visit: Visit, view: StoreView) -> Html | None:
    if not view.servers:
        return None
    t = visit.t
    kinds = {"primary": "", "replica": "", "behind": "warn", "away": "bad"}
    columns = (PageColumn(t("store.server")), PageColumn(t("store.role")), PageColumn(t("store.horizon")))
    rows = [
        (element("code", one.name), badge(one.role, kinds.get(one.role, "")), moment(utc_time(one.horizon)))
        for one in view.servers
    ]
    return section(t("store.servers"), table(t("store.servers"), columns, rows))


def _sessions(visit: Visit, view: StoreView) -> Html:
    t = visit.t
    everywhere = element(
        "form",
        element("input", type="hidden", name="everywhere", value="on"),
        element("button", t("store.sign_out_all"), class_="plain"),
        method="post",
        action="/sign-out",
        class_="inline",
    )
    return section(t("store.sessions"), element("p", t("store.sessions_text", count=number(view.sessions))), everywhere)


PAGE = ConsolePage(name="store", read=read, draw=draw)
