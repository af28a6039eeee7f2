"""Store: the findings of `status --deep`, sizes, servers, database user and meter."""

from msgspec import Struct
from msgspec.structs import asdict

from counterfoil.checks.findings import Finding, worst_first
from counterfoil.console.sign_in import lifetimes
from counterfoil.console.visit import ConsolePage, Visit
from counterfoil.domain.devices import state_of
from counterfoil.ports import ServerState, StoreMismatch, StoreUnavailable
from counterfoil.program.columns import RowList, console_json
from counterfoil.settings import display_value
from counterfoil.views.store import FACTS, SERVERS, StoreValues


class StoreView(Struct, frozen=True, kw_only=True):
    address: str
    meter: str
    checks: list[Finding]
    store: StoreValues
    login: str | None
    sessions: int | None

    @property
    def problems(self) -> list[Finding]:
        return [finding for finding in self.checks if finding.status != "ok"]

    @property
    def passed(self) -> list[Finding]:
        return [finding for finding in self.checks if finding.status == "ok"]

    @property
    def servers(self) -> RowList[ServerState]:
        return RowList(SERVERS, self.store.servers)


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
    return {**facts, **console_json(FACTS, view.store), "servers": view.servers}


PAGE = ConsolePage(name="store", template="store", read=read, as_json=as_json, shows_service=True)
