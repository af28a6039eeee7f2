"""Maps each path of the console to a page or an action."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec import Struct, json
from msgspec.structs import replace

from counterfoil.checks.open_items import VERBS
from counterfoil.console import actions, import_actions
from counterfoil.console.imports import IMPORT_PATH
from counterfoil.console.layout import NAVIGATION, SERVICE_BANNER_PATH, service_banner, show
from counterfoil.console.pages import (
    audit,
    bill,
    devices,
    find,
    imports,
    item,
    key,
    keys,
    loads,
    member,
    reference,
    requests,
    shop,
    shops,
    store,
    today,
    undo,
)
from counterfoil.console.visit import CSV, JSON, ConsolePage, ConsoleResponse, NotFound, Visit, redirect
from counterfoil.domain.credentials import ID_LENGTH
from counterfoil.domain.devices import Role, allows
from counterfoil.model.calendar import iso_utc
from counterfoil.model.messages import Message
from counterfoil.model.text import csv_text
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.program.columns import RowList, as_data, csv_lines
from counterfoil.web.prose import inline

# This address redirects to the page of the latest load.
LATEST_LOAD = "/loads/latest"
_KEY = rf"(?P<key_id>[0-9A-Za-z]{{{ID_LENGTH}}})"
_NUMBER = "(?P<number>[0-9]{1,15})"
# IDs in paths are percent-encoded: see `addresses`.
_SHOP = "(?P<shop_id>[^/]+)"
_IMPORT = "(?P<import_id>[0-9a-f]{12})"
_OPERATION = "(?P<operation>[A-Za-z]{1,40})"
PAGES: Final[dict[str, ConsolePage[Any]]] = {
    "/today": today.PAGE,
    "/keys": keys.PAGE,
    "/keys/new": keys.ISSUE,
    f"/keys/{_KEY}": key.PAGE,
    "/requests": requests.PAGE,
    "/shops": shops.PAGE,
    f"/shops/{_SHOP}": shop.PAGE,
    f"/shops/{_SHOP}/days/(?P<day>[0-9a-z-]{{1,10}})": shop.ONE_DAY_PAGE,
    f"/shops/{_SHOP}/settings": shop.SETTINGS,
    "/bills/(?P<bill_id>[^/]+)": bill.PAGE,
    "/loads": loads.PAGE,
    f"/loads/{_NUMBER}": loads.ONE_LOAD,
    IMPORT_PATH: imports.PAGE,
    f"{IMPORT_PATH}/{_IMPORT}": imports.ONE_IMPORT,
    f"/loads/{_NUMBER}/undo": undo.PAGE,
    f"/loads/items/{_NUMBER}": item.PAGE,
    "/personal-data": requests.PERSONAL,
    "/store": store.PAGE,
    "/devices": devices.PAGE,
    "/audit": audit.PAGE,
    find.PATH: find.PAGE,
    f"{reference.TRY_PATH}/{_OPERATION}": reference.PAGE,
}


# What forms do. Only operators may send them: `forms.form` and `forms.button_form` show nothing to readers.
ACTIONS: Final[dict[str, Callable[[Visit], ConsoleResponse]]] = {
    "/keys/new": actions.issue,
    **{f"/keys/{_KEY}/{action}": partial(actions.change_key, action=action) for action in key.ACTIONS},
    f"/shops/{_SHOP}/settings/change": actions.change_shop,
    f"/shops/{_SHOP}/remove": actions.remove_shop,
    f"/loads/{_NUMBER}/undo/remove": partial(actions.undo_load, how="remove"),
    f"/loads/{_NUMBER}/undo/void": partial(actions.undo_load, how="void"),
    f"/loads/{_NUMBER}/reveal": actions.reveal_line,
    **{f"/loads/items/{_NUMBER}/{verb}": partial(actions.close_item, verb=verb) for verb in VERBS},
    r"/devices/(?P<device_id>[0-9a-f]{10})/revoke": actions.revoke_devices,
    f"{reference.TRY_PATH}/{_OPERATION}": actions.try_request,
    "/devices/revoke-all": actions.revoke_devices,
    member.PATH: actions.look_up_member,
    IMPORT_PATH: import_actions.upload,
    f"{IMPORT_PATH}/items/{_NUMBER}": import_actions.bring_in_item,
    f"{IMPORT_PATH}/{_IMPORT}/answers": import_actions.answer,
    f"{IMPORT_PATH}/{_IMPORT}/net": import_actions.expect_net,
    f"{IMPORT_PATH}/{_IMPORT}/base": import_actions.give_base,
    f"{IMPORT_PATH}/{_IMPORT}/accept": import_actions.accept,
    f"{IMPORT_PATH}/{_IMPORT}/discard": import_actions.discard,
}
_PAGES = [(re.compile(pattern, re.ASCII), page) for pattern, page in PAGES.items()]
_ACTIONS = [(re.compile(pattern, re.ASCII), action) for pattern, action in ACTIONS.items()]
_DATA_FORMAT = re.compile(r"(.*)\.(json|csv)")


def answer(visit: Visit) -> ConsoleResponse:
    """Return the response to a request: a page, its data as JSON or CSV, or the result of an action."""
    try:
        return _act(visit) if visit.request.method == "POST" else _show(visit)
    except NotFound as error:
        return problem(visit, 404, visit.t.gettext("Not found"), str(error))
    except (StoreUnavailable, StoreMismatch) as error:
        return problem(visit, 503, visit.t.gettext("The store cannot be read"), error.message.as_sentence())


def _act(visit: Visit) -> ConsoleResponse:
    for pattern, act in _ACTIONS:
        found = pattern.fullmatch(visit.request.path)
        if found:
            shown = replace(visit, values=found.groupdict(), path=_page_of(visit.request.path))
            return _not_allowed(visit, "operator") or act(shown)
    raise NotFound(visit.t.gettext("There is no such page."))


def _page_of(path: str) -> str:
    """Return the address of the page that has a form: the action's address without its last parts."""
    while not any(pattern.fullmatch(path) for pattern, _ in _PAGES):
        path = path.rpartition("/")[0]
    return path


def _not_allowed(visit: Visit, needed: Role) -> ConsoleResponse | None:
    """Return the refusal of a device whose role does not include the one that is needed."""
    if allows(visit.session.role, needed):
        return None
    t = visit.t
    text = t.gettext(
        "This device is signed in as a reader, so nothing was done. This needs a device with the role %(role)s.",
        role=t.gettext("operator") if needed == "operator" else t.gettext("reader"),
    )
    return problem(visit, 403, t.gettext("Not allowed"), text)


def _show(visit: Visit) -> ConsoleResponse:
    path = "/today" if visit.request.path == "/" else visit.request.path
    if path == SERVICE_BANNER_PATH:
        return ConsoleResponse(body=service_banner(visit).encode())
    if path in reference.PATHS:
        return reference.answer(visit, path)
    if path == LATEST_LOAD:
        return redirect(next((f"/loads/{load.number}" for load in visit.store.reads.loads(1)), "/loads"))
    as_data = _DATA_FORMAT.fullmatch(path)
    path, kind = (as_data[1], as_data[2]) if as_data else (path, "html")
    for pattern, shown in _PAGES:
        found = pattern.fullmatch(path)
        if found and (kind != "csv" or shown.csv):
            refusal = _not_allowed(visit, shown.role)
            return refusal or _draw(replace(visit, values=found.groupdict(), path=path), shown, path, kind)
    raise NotFound(visit.t.gettext("There is no such page."))


def _draw(visit: Visit, shown: ConsolePage[Any], path: str, kind: str) -> ConsoleResponse:
    if shown.read is None:
        raise NotFound(visit.t.gettext("There is no such page."))
    view = shown.read(visit)
    if isinstance(view, find.FindView) and len(view.matches) == 1 and kind == "html":
        return redirect(view.matches[0].address)
    if kind == "json":
        body = json.encode(shown.as_json(visit, view), enc_hook=as_data, order="deterministic")
        return ConsoleResponse(content_type=JSON, body=body + b"\n")
    if kind == "csv" and shown.csv:
        return csv_response(visit, *shown.csv(visit, view))
    as_csv = visit.address(f"{path}.csv") if shown.csv else ""
    as_json = visit.address(f"{path}.json")
    return show(visit, shown, view, as_json=as_json, as_csv=as_csv)


def csv_response(visit: Visit, name: str, listing: RowList[Any]) -> ConsoleResponse:
    text = csv_text(csv_lines(listing.columns, listing.rows), "\r\n")
    file = f"{name}-{iso_utc(visit.now)[:10]}.csv"
    headers = (("content-disposition", f'attachment; filename="{file}"'),)
    # The byte order mark tells spreadsheets that the file is UTF-8.
    return ConsoleResponse(content_type=CSV, body=f"\N{ZERO WIDTH NO-BREAK SPACE}{text}".encode(), headers=headers)


class NoPage(Struct, frozen=True):
    """Why there is no page to show."""

    title: str
    text: str


def problem(visit: Visit, status: int, title: str, message: Message | str) -> ConsoleResponse:
    """Return an error page with header and navigation, or a JSON error if the request was for JSON or CSV."""
    if visit.request.path.endswith((".json", ".csv")):
        body = json.encode({"error": str(message)}) + b"\n"
        return ConsoleResponse(status=status, content_type=JSON, body=body)
    text = message if isinstance(message, str) else inline(visit.t.message(message))
    page = ConsolePage[NoPage](name=_name_in_navigation(visit.request.path), template="problem")
    return show(visit, page, NoPage(title, text), status=status)


def _name_in_navigation(path: str) -> str:
    """Return the name of the page that an address is below, or nothing if the navigation does not have it."""
    first_part = "/" + path.split("/")[1]
    for name, address in NAVIGATION.items():
        if address == first_part:
            return name
    return ""
