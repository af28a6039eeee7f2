"""Changes keys and devices like the command line, shows rejected lines, and records all of this in the audit log.

Every audit entry names the signed-in operator, and `console` as the program that made the change. The secret of a new
key appears only in the response to the form: it is neither stored nor logged, and the form cannot be sent again.
"""

import secrets
import threading
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct, convert
from msgspec.structs import replace

from counterfoil import bootstrap, devices, key_issuing, shop_settings
from counterfoil.checks.open_items import close_by_hand
from counterfoil.checks.undoing import Undo
from counterfoil.console.addresses import shop_address
from counterfoil.console.audit_texts import describe_entry
from counterfoil.console.background import finishes_soon
from counterfoil.console.key_parts import scope_names
from counterfoil.console.layout import show
from counterfoil.console.pages import devices as devices_page
from counterfoil.console.pages import find as find_page
from counterfoil.console.pages import key as key_page
from counterfoil.console.pages import keys as keys_page
from counterfoil.console.pages import loads as loads_page
from counterfoil.console.pages import member as member_page
from counterfoil.console.pages import reference as try_page
from counterfoil.console.pages import shop as shop_page
from counterfoil.console.pages import shops as shops_page
from counterfoil.console.pages import undo as undo_page
from counterfoil.console.pages.key import OVERLAPS, key_version
from counterfoil.console.visit import ConsolePage, ConsoleResponse, FormResult, NotFound, Visit, number_in
from counterfoil.domain.access import TRY_LABEL, TRY_MS, Key, Scope
from counterfoil.domain.audit import Act, Actor, AuditEntry, FieldChange
from counterfoil.domain.open_items import Verb, joined
from counterfoil.ingest.lines import Reject, original_line, parse_reject
from counterfoil.model.calendar import DAY_MS
from counterfoil.model.text import counted, translatable
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.program.times import minute
from counterfoil.settings import Settings
from counterfoil.web.prose import inline

_CHANGING = threading.Lock()
# The hidden field because of which a form can be sent only once.
FORM_FIELD = "form"


class InvalidForm(Exception):
    """A field is missing or not valid. The message is shown to the operator."""


class SentBefore(Struct, frozen=True):
    """The result of a form when it was first sent, which may be the ID of a key; or `sent`, or `unknown`."""

    result: str


SENT_BEFORE = ConsolePage[SentBefore](name="keys", template="sent_before")
# A key to try requests has no permissions, these limits, and ends by itself.
TRY_PER_MIN, TRY_PER_DAY = 20, 200
# At most this many characters of a rejected line are shown.
MAX_SHOWN = 20_000


def _sent_before(visit: Visit) -> ConsoleResponse | None:
    """Mark the form as sent. Return what to answer if it was sent before, as by reloading a page, or is unknown."""
    result = visit.sessions.use_form(visit.session, visit.request.form.get(FORM_FIELD, ""))
    return None if result is None else show(visit, SENT_BEFORE, SentBefore(result), status=409)


def record_proxy_sign_in(settings: Settings, actor: Actor, now_ms: int) -> None:
    """Record a sign-in, unless the store is not writable: the operator must be able to see what is wrong with it."""
    entry = AuditEntry(at=now_ms, act=Act.CONSOLE_SIGNED_IN, actor=actor)
    with suppress(StoreUnavailable, StoreMismatch), closing(bootstrap.store(settings).key_store()) as audit:
        audit.record(entry)


def issue(visit: Visit) -> ConsoleResponse:
    try:
        if not visit.request.form.get("label", "").strip():
            raise InvalidForm(visit.t.gettext("Enter a label, so that you know later who has the key."))
        grant = convert({"scope": _scope(visit), **_entered(visit)}, key_issuing.Grant)
        if answer := _sent_before(visit):
            return answer
        with closing(bootstrap.store(visit.settings).key_store()) as key_store:
            issued = key_issuing.issue(key_store, grant, secrets.token_bytes, visit.now, visit.session.actor)
    except (InvalidForm, key_issuing.KeyIssuingError) as error:
        view = replace(keys_page.read_scopes(visit), problem=_refusal(visit, error))
        return show(visit, keys_page.ISSUE, view, status=422)
    return _reveal(visit, issued, None)


def _entered(visit: Visit) -> dict[str, object]:
    form = visit.request.form
    return {
        "label": form.get("label", "").strip(),
        "per_min": _whole_number(visit, "per_min", key_issuing.MAX_LIMIT),
        "per_day": _whole_number(visit, "per_day", key_issuing.MAX_LIMIT),
        "personal_data": form.get("personal_data") == "on",
        "messaging_lookup": form.get("messaging_lookup") == "on",
    }


def _scope(visit: Visit) -> Scope:
    form = visit.request.form
    kind, _, identifier = form.get("scope", "").partition(":")
    if kind == "other":
        kind, identifier = form.get("other_kind", ""), form.get("other_id", "").strip()
    if not identifier or kind not in ("shop", "franchise"):
        raise InvalidForm(visit.t.gettext("Choose a shop or a franchise."))
    return Scope("shop" if kind == "shop" else "franchise", identifier)


def _reveal(visit: Visit, issued: key_issuing.Issued, old: Key | None) -> ConsoleResponse:
    visit.sessions.set_result(visit.session, visit.request.form.get(FORM_FIELD, ""), issued.key.key_id)
    is_loaded = visit.store.reads.knows(issued.key.scope)
    return show(visit, keys_page.ISSUED, keys_page.issued_view(visit, issued, old, is_loaded=is_loaded))


def try_request(visit: Visit) -> ConsoleResponse:
    view = try_page.read(visit)
    try:
        key = _try_key(visit)
    except (InvalidForm, key_issuing.KeyIssuingError) as error:
        return show(visit, try_page.PAGE, replace(view, problem=_refusal(visit, error)), status=422)
    answer = try_page.send(visit, view, key)
    return show(visit, try_page.PAGE, replace(view, answer=answer, key=key.key))


def _try_key(visit: Visit) -> key_issuing.Issued:
    scope, current = _scope(visit), try_page.current_key(visit)
    if current and current.key.scope == scope:
        return current
    until = visit.now + TRY_MS
    grant = key_issuing.Grant(scope=scope, label=TRY_LABEL, per_min=TRY_PER_MIN, per_day=TRY_PER_DAY, revokes_at=until)
    with closing(bootstrap.store(visit.settings).key_store()) as key_store:
        visit.session.try_key = key_issuing.issue(key_store, grant, secrets.token_bytes, visit.now, visit.session.actor)
    return visit.session.try_key


def change_key(visit: Visit, action: str) -> ConsoleResponse:
    """Do what a form on the page of a key asks for. If that is not possible, show the form again and say why."""
    if answer := _sent_before(visit):
        return answer
    try:
        # One at a time, so that only the operator who has revoked the key is told so.
        with _CHANGING, closing(bootstrap.store(visit.settings).key_store()) as key_store:
            key, successors = key_page.find(visit)
            key_issuing.require_not_revoked(key, visit.now)
            if action == "rotate":
                return _rotate(visit, key_store, key, successors)
            act = _change if action == "change" else _revoke
            message = act(visit, key_store, key, successors)
    except (InvalidForm, key_issuing.KeyIssuingError) as error:
        is_late = isinstance(error, key_issuing.KeyConflict | key_issuing.KeyRevoked)
        return _key_page(visit, _refusal(visit, error), "warn" if is_late else "bad", 409 if is_late else 422, action)
    return _key_page(visit, message, "good")


def _change(visit: Visit, key_store: key_issuing.KeyStore, key: Key, successors: list[str]) -> str:
    _require_version(visit, key, successors)
    # Only fields that differ are written. If there are none, the page says that nothing was saved.
    changes = {name: value for name, value in _entered(visit).items() if getattr(key, name) != value}
    if not changes:
        return visit.t.gettext("No value was changed, so nothing was saved.")
    wanted = convert(changes, key_issuing.KeyChanges)
    key_issuing.update(key_store, key.key_id, wanted, visit.now, visit.session.actor, shown=key)
    return visit.t.gettext("The change is saved. A running service uses it within a second.")


def _rotate(visit: Visit, key_store: key_issuing.KeyStore, key: Key, successors: list[str]) -> ConsoleResponse:
    known = visit.request.form.get("successors", "").split()
    unknown = [successor for successor in successors if successor not in known]
    if unknown:
        raise key_issuing.AlreadyRotated(key.key_id, unknown)
    _require_version(visit, key, successors)
    overlap, by = OVERLAPS.get(visit.request.form.get("overlap", "")), visit.session.actor
    until = None if overlap is None else visit.now + overlap
    issued = key_issuing.rotate(
        key_store, key.key_id, secrets.token_bytes, visit.now, by, until, shown=key, known_successors=known
    )
    return _reveal(visit, issued, issued.replaces)


def _revoke(visit: Visit, key_store: key_issuing.KeyStore, key: Key, _: list[str]) -> str:
    # Somebody types the label on a phone in a hurry, so capitals and spaces do not matter.
    form = visit.request.form
    entered = form.get("confirm", "").casefold().split()
    names = [name.casefold().split() for name in (key.label, key.key_id) if name]
    if entered not in names:
        raise InvalidForm(visit.t.gettext("That is not the label of this key, so nothing was done."))
    if form.get("when") != "later":
        key_issuing.revoke(key_store, key.key_id, visit.now, visit.session.actor)
        return visit.t.gettext("The key is revoked. A running service refuses it within a second.")
    later = visit.now + DAY_MS
    if key.revokes_at is not None and key.revokes_at <= later:
        raise key_issuing.KeyConflict(key_issuing.CHANGED_MEANWHILE(key_id=key.key_id))
    key_issuing.schedule_revocation(key_store, key.key_id, later, visit.now, visit.session.actor)
    return visit.t.gettext("The key works until %(time)s.", time=minute(later))


def _require_version(visit: Visit, key: Key, successors: list[str]) -> None:
    if visit.request.form.get("version") != key_version(key, successors):
        raise key_issuing.KeyConflict(key_issuing.CHANGED_MEANWHILE(key_id=key.key_id))


def _whole_number(visit: Visit, name: str, most: int) -> int:
    """Return the number in this field of the form, which must be between 1 and `most`."""
    number = number_in(visit.request.form.get(name, "").strip().replace(",", ""), 0)
    if not 1 <= number <= most:
        raise InvalidForm(visit.t.gettext("A limit must be a whole number from 1 to %(most)s.", most=f"{most:,}"))
    return number


def _refusal(visit: Visit, error: key_issuing.KeyIssuingError | InvalidForm) -> str:
    if isinstance(error, InvalidForm):
        return str(error)
    if not isinstance(error, key_issuing.KeyConflict) or isinstance(error, key_issuing.AlreadyRotated):
        return inline(visit.t.message(error.message.as_sentence()))
    # The operator has not seen the latest change to the key.
    t, names = visit.t, scope_names(visit)
    latest = [describe_entry(t, names, entry) for entry in visit.store.reads.audit(1, visit.values["key_id"])]
    conflict = t.gettext("This key was changed in the meantime, so nothing was done. Check the values and try again.")
    return " ".join([conflict, *latest])


def _key_page(visit: Visit, message: str, kind: str, status: int = 200, action: str = "") -> ConsoleResponse:
    view = key_page.show_form(key_page.read(visit), action)
    as_json = f"/keys/{visit.values['key_id']}.json"
    return show(visit, key_page.PAGE, view, status=status, outcome=FormResult(message, kind), as_json=as_json)


_CLOSED: dict[Verb, str] = {
    "accept": translatable(
        "The watcher of the folder loads the file of item %(number)s. Later deliveries with the same change count as "
        "usual and are not held."
    ),
    "discard": translatable("Item %(number)s is closed. The watcher of the folder moves its file to quarantine."),
    "resolve": translatable("Item %(number)s is closed."),
}
_NOT_OPEN = translatable("Item %(number)s is not open any more.")


def close_item(visit: Visit, verb: Verb) -> ConsoleResponse:
    """Close an open item by hand, or let the watcher load a held file or move it to quarantine."""
    number = int(visit.values["number"])
    open_items = joined(visit.store.reads.open_items())
    found = [item for item in open_items if item.number == number and verb in item.verbs]
    # Somebody else may have closed it since it was read.
    if found and close_by_hand(visit.settings, verb, found, visit.session.actor, visit.now):
        status, outcome = 200, FormResult(visit.t.gettext(_CLOSED[verb], number=number), "good")
    else:
        status, outcome = 409, FormResult(visit.t.gettext(_NOT_OPEN, number=number), "warn")
    # The item has no page any more, so the links of the answer lead to the list.
    shown = replace(visit, path="/loads")
    view = loads_page.read(shown)
    return show(shown, loads_page.PAGE, view, status=status, outcome=outcome, as_json="/loads.json")


def undo_load(visit: Visit, how: undo_page.How) -> ConsoleResponse:
    """Take back the bills of a load, as `counterfoil loads undo` does. It goes on if there are many."""
    t = visit.t
    view = undo_page.read(visit)
    reason = visit.request.form.get("reason", "").strip() if how == "void" else None
    refused = ""
    if view.is_running:
        refused = t.gettext("The load is still running. Stop it first.")
    elif not view.can_write or not (view.has_something or view.only_repeats):
        refused = t.gettext("There is nothing to take back.")
    elif how == "remove" and view.lists_only:
        refused = t.gettext("Keys that read only lists would not learn of the removal. Make the bills void instead.")
    elif how == "void" and not reason:
        refused = t.gettext("Enter a reason. Integrators see it.")
    if refused:
        return show(visit, undo_page.PAGE, view, status=422, outcome=FormResult(refused, "warn"))
    if answer := _sent_before(visit):
        return answer
    undo = Undo(visit.settings, view.number, view.load)
    is_done = finishes_soon("the undo of a load", partial(undo.take_back, reason, visit.session.actor, visit.now))
    text = t.gettext("The bills of the load were taken back. Bring in the right file now.")
    if view.only_repeats:
        text = t.gettext("The load is undone. Now the load that added its bills can be undone.")
    if not is_done:
        text = t.gettext("The bills of the load are being taken back. Reload this page to see how many are left.")
    emptied = [shop_id for shop_id in sorted(view.found.shops) if not visit.store.reads.has_sales(shop_id)]
    shown = replace(undo_page.read(visit), emptied=emptied)
    return show(visit, undo_page.PAGE, shown, outcome=FormResult(text, "good"))


def change_shop(visit: Visit) -> ConsoleResponse:
    """Change the facts of a shop. Its bills are rewritten while the page waits, or afterwards if there are many."""
    t = visit.t
    view = shop_page.settings_view(visit, visit.request.form)
    planned = view.planned
    if not view.can_write or planned is None or not planned.changed:
        text = view.problem or t.gettext("Nothing was changed.")
        return show(visit, shop_page.SETTINGS, view, status=422, outcome=FormResult(text, "warn"))
    if visit.request.form.get("version") != view.version:
        text = t.gettext("Somebody else has changed this shop since you opened the form. Nothing was changed.")
        return show(visit, shop_page.SETTINGS, view, status=409, outcome=FormResult(text, "warn"))
    store = bootstrap.store(visit.settings)
    with closing(store.ledger()) as ledger, closing(store.key_store()) as audit:
        shop_settings.change_shops(ledger, audit, planned, visit.now, visit.session.actor)
    is_done = finishes_soon("rewriting the bills of a shop", partial(_rewrite_bills, visit.settings))
    text = t.gettext("The facts of the shop were changed. All its bills are rewritten.")
    if not is_done:
        text = t.gettext("The facts of the shop were changed. Its bills are still being rewritten.")
    visit = replace(visit, path=shop_address(view.shop.shop_id))
    shown = shop_page.read(visit)
    return show(visit, shop_page.PAGE, shown, outcome=FormResult(text, "good"))


def remove_shop(visit: Visit) -> ConsoleResponse:
    """Remove a shop that has no bills, or only void ones, such as one that a wrong file brought in."""
    t = visit.t
    view = shop_page.read(visit)
    refused = ""
    if view.has_sales:
        refused = t.gettext(
            "The shop has bills that are not void, so it was not removed. Undo the load that brought them first."
        )
    elif not view.can_write:
        refused = t.gettext("Nothing was changed.")
    if refused:
        return show(visit, shop_page.PAGE, view, status=422, outcome=FormResult(refused, "warn"))
    if answer := _sent_before(visit):
        return answer
    store = bootstrap.store(visit.settings)
    with closing(store.ledger()) as ledger, closing(store.key_store()) as audit:
        shop_settings.remove_shop(ledger, audit, view.shop.shop_id, visit.now, visit.session.actor)
    text = t.gettext("The shop was removed: %(name)s", name=view.shop.name or view.shop.shop_id)
    visit = replace(visit, path="/shops")
    return show(visit, shops_page.PAGE, shops_page.read(visit), outcome=FormResult(text, "good"))


def _rewrite_bills(settings: Settings) -> None:
    with closing(bootstrap.store(settings).ledger()) as ledger:
        shop_settings.rewrite(ledger)


def revoke_devices(visit: Visit) -> ConsoleResponse:
    """Revoke the device that the address names, or all devices and unused links except the operator's own device."""
    others = [device.device_id for device in visit.store.reads.devices() if device.device_id != visit.session.device_id]
    try:
        for device_id in visit.values.values() or others:
            devices.revoke(bootstrap.store(visit.settings).devices(), device_id, visit.now, visit.session.actor)
    except devices.UnknownDevice as error:
        raise NotFound(visit.t.message(error.message)) from error
    revoked = visit.t.gettext("Revoked. The device is signed out, and its link no longer works.")
    view = devices_page.read(visit)
    return show(visit, devices_page.PAGE, view, outcome=FormResult(revoked, "good"), as_json="/devices.json")


def look_up_member(visit: Visit) -> ConsoleResponse:
    """Show what is known of a customer. What was entered is neither shown again nor recorded."""
    entered = visit.request.form.get("who", "").strip()
    if not entered or len(entered) > member_page.MAX_ENTERED:
        text = visit.t.gettext("Enter a phone number, an email address, an ID or a token.")
        return show(visit, find_page.PAGE, find_page.read(visit), status=422, outcome=FormResult(text, "warn"))
    view = member_page.look_up(visit, entered)
    # The audit entry is written before anything is shown. If it cannot be written, nothing is shown.
    members = len(view.found)
    entry = AuditEntry(
        at=visit.now,
        act=Act.MEMBER_LOOKED_UP,
        actor=visit.session.actor,
        changes={"members": FieldChange(None, members)},
        detail=f"{counted(members, 'member')} found",
    )
    with closing(bootstrap.store(visit.settings).key_store()) as audit:
        audit.record(entry)
    if not view.found:
        text = visit.t.gettext("No member is known by what you entered, on no bill either.")
        return show(visit, find_page.PAGE, find_page.read(visit), status=404, outcome=FormResult(text, "warn"))
    return show(visit, member_page.PAGE, view)


def reveal_line(visit: Visit) -> ConsoleResponse:
    t, form = visit.t, visit.request.form
    view = loads_page.read_one(visit)
    line, source = form.get("line", ""), form.get("source", "")
    listed = any(str(reject.line) == line and reject.source == source for reject in view.rejects.rows)
    found = _find_reject(visit.settings.store, view.load.rejects_file, source, line) if listed else None
    if found is None:
        missing = t.gettext(
            "This line is not in the rejects file on this machine. The file may be on the machine that ran the load."
        )
        return show(visit, loads_page.ONE_LOAD, view, status=404, outcome=FormResult(missing, "warn"))
    # The audit entry is written before the text is shown. If it cannot be written, the text is not shown.
    entry = AuditEntry(
        at=visit.now,
        act=Act.REJECT_REVEALED,
        actor=visit.session.actor,
        changes={"load": FieldChange(None, view.load.number), "line": FieldChange(None, int(line))},
        detail=f"load {view.load.number}, line {line}",
    )
    with closing(bootstrap.store(visit.settings).key_store()) as audit:
        audit.record(entry)
    text = original_line(found.record, found.record_base64).decode("utf-8", "backslashreplace")
    revealed = loads_page.RevealedLine(line, text[:MAX_SHOWN])
    return show(visit, loads_page.ONE_LOAD, replace(view, revealed=revealed))


def _find_reject(folder: Path, rejects_file: str | None, source: str, line: str) -> Reject | None:
    """Return the rejected line, or None if its file does not contain it or is not in the store's folder `rejects`."""
    if not rejects_file or Path(rejects_file).name != rejects_file:
        return None
    path = folder / "rejects" / rejects_file
    if not path.is_file():
        return None
    with path.open("rb") as file:
        rejects = (parse_reject(text) for text in file)
        return next((found for found in rejects if found and (found.source, str(found.line)) == (source, line)), None)
