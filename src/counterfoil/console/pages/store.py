"""Store: the findings of `status --deep`, sizes, servers, database user and meter."""

from msgspec import Struct
from msgspec.structs import asdict

from counterfoil.checks.findings import Finding, worst_first
from counterfoil.console.display import Cells, badge, fields, finding_list, list_table, moment, section
from counterfoil.console.layout import notice
from counterfoil.console.sign_in import lifetimes
from counterfoil.console.visit import ConsolePage, PageContent, Visit
from counterfoil.domain.devices import state_of
from counterfoil.ports import ServerState, StoreMismatch, StoreUnavailable
from counterfoil.settings import display_value
from counterfoil.text import size
from counterfoil.views.columns import RowList, console_json
from counterfoil.views.store import FACTS, SERVERS, StoreValues
from counterfoil.web.html import Child, Html, element, markup


class StoreView(Struct, frozen=True, kw_only=True):
    address: str
    meter: str
    checks: list[Finding]
    store: StoreValues
    login: str | None
    sessions: int | None


def read(visit: Visit) -> StoreView:
    permissions = visit.store.reads.permissions()
    return StoreView(
        address=display_value(visit.settings, "store"),
        meter=display_value(visit.settings, "meter"),
        checks=worst_first(visit.store.findings()),
        store=visit.store.overview().store,
        login=permissions.login if permissions else None,
        sessions=_signed_in(visit),
    )


def _signed_in(visit: Visit) -> int | None:
    """Return the number of devices that are signed in, or None if the keys cannot be read."""
    try:
        found = visit.store.reads.devices()
    except (StoreUnavailable, StoreMismatch):
        return None
    return sum(state_of(device, lifetimes(visit.settings), visit.now) == "signed_in" for device in found)


def as_json(_: Visit, view: StoreView) -> dict[str, object]:
    facts = {name: value for name, value in asdict(view).items() if name != "store"}
    return {**facts, **console_json(FACTS, view.store), "servers": RowList(SERVERS, view.store.servers)}


def draw(visit: Visit, view: StoreView) -> PageContent:
    t = visit.t
    wrong = [finding for finding in view.checks if finding.status != "ok"]
    passed = [finding for finding in view.checks if finding.status == "ok"]
    summary = element("summary", t("store.passed", count=len(passed)))
    return PageContent(
        title=t("store.title"),
        lead=None if wrong else notice(t("store.well"), "good"),
        main=markup(
            section(t("store.wrong", count=len(wrong)), finding_list(t, wrong)) if wrong else None,
            element("section", element("details", summary, finding_list(t, passed))),
            section(t("store.facts"), fields(_facts(visit, view))),
            _servers(visit, view),
        ),
        commands=["counterfoil status --deep --json"],
        shows_service=True,
    )


def _facts(visit: Visit, view: StoreView) -> list[tuple[str, Child]]:
    t, extent, disk = visit.t, view.store.extent, view.store.disk
    meter = element("code", view.meter) if view.meter else t("store.own_meter")
    known: dict[str, Child] = {
        "address": element("code", view.address),
        "meter": markup(meter, " ", element("small", t("store.meter_term"))),
    }
    if extent:
        known |= {"size": size(extent.size_bytes), "schema": extent.schema, "software": extent.software}
        known |= {"backup": moment(view.store.backups.latest_at)}
    if view.login:
        known |= {"login": element("code", view.login)}
    if disk:
        known |= {"free": size(disk.free_bytes)}
    logs = disk.log_bytes.items() if disk else ()
    return [
        *((t(f"store.{name}"), value) for name, value in known.items()),
        *((t("store.log", name=name), size(count)) for name, count in logs),
    ]


def _servers(visit: Visit, view: StoreView) -> Html | None:
    if not view.store.servers:
        return None
    t = visit.t
    kinds = {"behind": "warn", "away": "bad"}
    cells: Cells[ServerState] = {
        "store.role": lambda server: badge(server.role.value, kinds.get(server.role.value, ""))
    }
    return section(
        t("store.servers"), list_table(visit, t("store.servers"), RowList(SERVERS, view.store.servers), cells)
    )


PAGE = ConsolePage(name="store", read=read, draw=draw, as_json=as_json)
