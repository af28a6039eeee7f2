"""Devices: the browsers that are signed in to the console, and buttons that revoke them."""

from msgspec import Struct

from counterfoil.console.display import Cells, badge, list_table, name_of
from counterfoil.console.forms import button_form
from counterfoil.console.sign_in import lifetimes
from counterfoil.console.visit import ConsolePage, PageContent, Visit
from counterfoil.domain.devices import Device, state_of
from counterfoil.program.columns import ListColumn, RowList
from counterfoil.views.devices import columns
from counterfoil.web.html import Child, Html, element, markup

_KINDS = {"signed_in": "", "link": "warn"}


class DevicesView(Struct, frozen=True):
    devices: RowList[Device]


def read(visit: Visit) -> DevicesView:
    """Return the devices, newest first, and those that have ended last."""
    found = sorted(visit.store.reads.devices(), key=lambda device: _state(visit, device) in ("expired", "revoked"))
    return DevicesView(RowList(columns(lifetimes(visit.settings), visit.now), found))


def _state(visit: Visit, device: Device) -> str:
    return state_of(device, lifetimes(visit.settings), visit.now)


def draw(visit: Visit, view: DevicesView, message: Html | None = None) -> PageContent:
    t = visit.t
    cells: Cells[Device] = {
        "device.role": lambda device: t(f"role.{device.role}"),
        "state": lambda device: _badge(visit, _state(visit, device)),
        "device.action": lambda device: _action(visit, device),
    }
    shown = RowList((*view.devices.columns, ListColumn("", page="device.action")), view.devices.rows)
    revoke_all = button_form(visit, "/devices/revoke-all", t("devices.revoke_all"), t("devices.revoke_all"))
    return PageContent(
        title=t("devices.title"),
        lead=markup(message, element("p", t("devices.lead"))),
        main=markup(list_table(visit, t("devices.caption"), shown, cells, empty=t("devices.none")), revoke_all),
        commands=[
            "counterfoil console devices --all",
            'counterfoil console link --for "kitchen phone" --role reader --days 90',
        ],
    )


def _badge(visit: Visit, state: str) -> Child:
    return badge(visit.t(f"device.{state}"), _KINDS.get(state, "quiet"))


def _action(visit: Visit, device: Device) -> Child:
    t = visit.t
    if device.device_id == visit.session.device_id:
        return t("device.own")
    if _state(visit, device) in ("expired", "revoked"):
        return "–"
    label = t("device.revoke_label", name=name_of(device.name))
    path = f"/devices/{device.device_id}/revoke"
    return button_form(visit, path, t("device.action"), label, is_dangerous=True) or "–"


PAGE = ConsolePage(name="devices", read=read, draw=draw, csv=lambda _, view: ("devices", view.devices))
