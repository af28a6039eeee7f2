"""Devices: the browsers that are signed in to the console, and buttons that revoke them."""

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.console.sign_in import lifetimes
from counterfoil.console.visit import ConsolePage, Visit
from counterfoil.domain.devices import Device, Lifetimes, state_of
from counterfoil.model.text import translatable
from counterfoil.program.columns import DATA, ListColumn, RowList
from counterfoil.views.devices import columns


class DevicesView(Struct, frozen=True):
    """The devices, newest first, and those that have ended last."""

    devices: RowList[Device]
    lifetimes: Lifetimes
    now: int

    @property
    def shown(self) -> RowList[Device]:
        buttons = ListColumn[Device]("buttons", page=translatable("Revoke"), without=DATA)
        return RowList((*self.devices.columns, buttons), self.devices.rows)

    def state_of(self, device: Device) -> str:
        return state_of(device, self.lifetimes, self.now)

    def has_ended(self, device: Device) -> bool:
        return self.state_of(device) in ("expired", "revoked")


def read(visit: Visit) -> DevicesView:
    of_console = lifetimes(visit.settings)
    view = DevicesView(RowList([], []), of_console, visit.now)
    found = sorted(visit.store.reads.devices(), key=view.has_ended)
    return replace(view, devices=RowList(columns(of_console, visit.now), found))


PAGE = ConsolePage(
    name="devices",
    template="devices",
    read=read,
    as_json=lambda _, view: {"devices": view.devices},
    csv=lambda _, view: ("devices", view.devices),
)
