"""Brings in files: takes the upload, the answers and the acceptance, and records who did it.

The audit log has the names of files, and never what is in them.
"""

import hashlib
import os
import re
import shutil
import stat
from contextlib import closing
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from counterfoil import bootstrap
from counterfoil.checks.open_items import close_by_hand
from counterfoil.console import import_steps
from counterfoil.console.imports import (
    FILES_KEPT,
    IMPORT_PATH,
    Asking,
    BroughtIn,
    Checked,
    DayReportNet,
    Failed,
    HandedOver,
    Need,
    ReadingFiles,
    UploadBusy,
    answers_in,
)
from counterfoil.console.layout import show
from counterfoil.console.pages import imports as imports_page
from counterfoil.console.visit import ConsoleResponse, FormResult, Visit, redirect
from counterfoil.domain.acceptances import accepted_item
from counterfoil.domain.audit import Act, AuditEntry
from counterfoil.domain.doubts import describe
from counterfoil.domain.open_items import OpenItem, joined
from counterfoil.domain.shops import ShopSettings
from counterfoil.importer.protocol import Kind
from counterfoil.importer.shops.shop_questions import NO_GROUP
from counterfoil.importing.results import ImportFailed
from counterfoil.machine.uploaded_files import MAX_UPLOAD, UploadedFile, UploadRefused, safe_name
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.remembered_mappings import remember, remember_order
from counterfoil.shop_settings import ShopSettingsError, change_shops, checked

# An answer waits for the result for so long. If it is not there by then, the page follows it.
WAIT_SEC = 2
CURRENCY = re.compile("[A-Z]{3}")
KINDS: Final[tuple[Kind, ...]] = ("bills", "lines", "payments")


class DeliveryChanged(Exception):
    """The file of an open item is not the one that was delivered."""


def upload(visit: Visit) -> ConsoleResponse:
    """Keep the files of an upload, and begin to read them. Everything but the body was checked before."""
    t, request = visit.t, visit.request
    if request.upload is None:
        return _refused(visit, 400, t.gettext("Choose a file first."))
    device = visit.session.device_id or f"proxy {visit.session.actor.name}"
    try:
        brought, form = visit.imports.receive(
            device, visit.session.actor, request.upload, request.header("content-type")
        )
    except UploadRefused as refused:
        return _refused(visit, *_why_refused(visit, refused))
    except UploadBusy as busy:
        return _refused(visit, 409 if busy.reason == "one_per_device" else 503, _why_busy(visit, busy))
    brought.item = _open_item(visit, form.fields.get("item", ""))
    return _begin(visit, brought)


def _why_refused(visit: Visit, refused: UploadRefused) -> tuple[int, str]:
    t = visit.t
    match refused.problem:
        case "too_large":
            most = MAX_UPLOAD // 1024 // 1024
            return 413, t.gettext(
                "The files have more than %(most)s MB together. Export fewer days at once.", most=most
            )
        case "too_many_files":
            return 413, t.gettext("These are too many files at once. Bring in those of one export.")
        case "disk_full":
            return 507, t.gettext(
                "The disk for temporary files is full, so nothing was kept. Free up disk space and try again."
            )
        case "length":
            return 411, t.gettext("The browser did not say how large the files are.")
        case "broken":
            return 400, t.gettext("The connection was cut before the files were complete. Nothing was kept.")
        case "malformed":
            return 400, t.gettext("Choose a file first.")


def _why_busy(visit: Visit, busy: UploadBusy) -> str:
    t = visit.t
    match busy.reason:
        case "one_per_device":
            return t.gettext("This device is already sending files. Wait until they have arrived.")
        case "busy":
            return t.gettext("Others are sending files. Try again in a minute.")
        case "too_many_imports":
            return t.gettext("Too many files wait to be accepted. Accept or discard one of them first.")


def _refused(visit: Visit, status: int, text: str) -> ConsoleResponse:
    view = imports_page.read(visit)
    return show(visit, imports_page.PAGE, view, status=status, outcome=FormResult(text, "bad"), as_json="/imports.json")


def _begin(visit: Visit, brought: BroughtIn) -> ConsoleResponse:
    try:
        _record(visit, Act.FILE_BROUGHT_IN, brought)
    except BaseException:
        visit.imports.discard(brought)
        raise
    return _read_again(visit, brought)


def _record(visit: Visit, act: Act, brought: BroughtIn) -> None:
    """Write an audit entry. Without it, nothing is done."""
    names = ", ".join(file.name for file in brought.files)
    with closing(bootstrap.store(visit.settings).key_store()) as audit:
        audit.record(AuditEntry(at=visit.now, act=act, actor=visit.session.actor, detail=names))


def _record_doubts(visit: Visit, brought: BroughtIn, stage: Checked) -> None:
    """Write to the audit log which doubts about the records were shown and accepted. Values of the file are none."""
    doubts = [str(describe(doubt)) for doubt in stage.shown.doubts]
    detail = f"{brought.name}: {'; '.join(doubts)}" if doubts else brought.name
    with closing(bootstrap.store(visit.settings).key_store()) as audit:
        audit.record(AuditEntry(at=visit.now, act=Act.DELIVERY_ACCEPTED, actor=visit.session.actor, detail=detail))


def _read_again(visit: Visit, brought: BroughtIn) -> ConsoleResponse:
    import_steps.begin_reading(visit.settings, brought).join(WAIT_SEC)
    return redirect(f"{IMPORT_PATH}/{brought.import_id}")


# --- the file of an open item -----------------------------------------------------------------


def bring_in_item(visit: Visit) -> ConsoleResponse:
    """Bring in the file of an open item, as `counterfoil import --item` does."""
    number = visit.values["number"]
    item = _open_item(visit, number)
    if item is None:
        text = visit.t.gettext("Item %(number)s is not open any more.", number=number)
        return _refused(visit, 409, text)
    try:
        brought = visit.imports.new(visit.session.actor)
    except UploadBusy as busy:
        return _refused(visit, 503, _why_busy(visit, busy))
    brought.item = item
    try:
        brought.files = [_copied(item, brought.folder)]
    except OSError:
        visit.imports.discard(brought)
        return redirect(f"{IMPORT_PATH}?item={item.number}&unreadable=1")
    except DeliveryChanged:
        visit.imports.discard(brought)
        text = visit.t.gettext("The file was changed since it was delivered. Deliver it again.")
        return _refused(visit, 409, text)
    brought.kinds = ["bills"]
    return _begin(visit, brought)


def _open_item(visit: Visit, number: str) -> OpenItem | None:
    """Return the open item of a file that is kept or, of several that wait for the same answers, that of the first."""
    items = joined(visit.store.reads.open_items()) if number else []
    for item in items:
        if str(item.number) == number and item.kind in FILES_KEPT:
            return item.parts[0]
    return None


def _copied(item: OpenItem, folder: Path) -> UploadedFile:
    """Copy the file of an item to the private folder. Raise `OSError` if this user may not read it."""
    (folder / "0").mkdir(mode=0o700)
    copy = folder / "0" / safe_name(item.source)
    descriptor = os.open(item.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as source:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_UPLOAD:
            raise OSError
        with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            shutil.copyfileobj(source, out, 1 << 20)
    with copy.open("rb") as copied:
        if item.digest and hashlib.file_digest(copied, "sha256").hexdigest() != item.content_digest:
            raise DeliveryChanged
    return UploadedFile(copy.name, copy, found.st_size)


# --- answers ------------------------------------------------------------------------------------


def answer(visit: Visit) -> ConsoleResponse:
    """Take answers, facts of new shops, kinds of files or a base, and read the files again with them."""
    brought, form = imports_page.found(visit), visit.request.form
    if isinstance(brought.stage, ReadingFiles | HandedOver):
        return redirect(f"{IMPORT_PATH}/{brought.import_id}")
    if withdrawn := form.get("change"):
        brought.answers.pop(withdrawn, None)
        brought.given.pop(withdrawn, None)
        return _read_again(visit, brought)
    if "again" in form:
        brought.is_unknown = True
        brought.answers.clear()
        brought.given.clear()
        brought.forget_export()
        return _read_again(visit, brought)
    if "forget" in form:
        brought.facts = None
        return _read_again(visit, brought)
    try:
        _take_answers(visit, brought)
    except ShopSettingsError as error:
        return _shown(visit, 422, FormResult(str(error), "bad"))
    return _read_again(visit, brought)


def _take_answers(visit: Visit, brought: BroughtIn) -> None:
    """Take what was answered. Raise `ShopSettingsError` if shops cannot have these facts."""
    form, stage = visit.request.form, brought.stage
    if isinstance(stage, Asking) and stage.needs and stage.needs != "kinds":
        _take_said(visit, brought, stage.needs)
    elif isinstance(stage, Asking) and stage.questions:
        brought.facts = _facts_in(visit, stage)
    if isinstance(stage, Asking) and stage.form:
        questions = {question.id: question.free for question in stage.form.questions}
        brought.take_answers(stage.form, answers_in(form, questions))
    for place in range(len(brought.files)):
        for kind in KINDS:
            if form.get(f"kind:{place}") == kind:
                brought.kinds[place] = kind
                brought.has_kinds = True
                brought.forget_export()


def _take_said(visit: Visit, brought: BroughtIn, need: Need) -> None:
    """Take what must be known before the files can be converted. Raise `ShopSettingsError` if it is not possible."""
    said = visit.request.form.get("said", "").strip()
    if not said:
        return
    if need == "timezone":
        checked(ShopSettings(timezone=said))
    if need == "currency":
        said = said.upper()
        if not CURRENCY.fullmatch(said):
            raise ShopSettingsError(visit.t.gettext("Type the three letters of a currency, such as USD."))
    brought.said[need] = said
    brought.forget_export()


def _facts_in(visit: Visit, stage: Asking) -> ShopSettings:
    """Return what was answered about the new shops of a known till. Raise `ShopSettingsError` if it cannot be."""
    given = answers_in(visit.request.form, {question.id: True for question in stage.questions})
    franchise, closing = given.get("franchise"), given.get("closing")
    return checked(
        ShopSettings(
            franchise_id=None if franchise == NO_GROUP else franchise, closing=closing, timezone=given.get("timezone")
        )
    )


def _shown(visit: Visit, status: int, outcome: FormResult) -> ConsoleResponse:
    view = imports_page.read_one(visit)
    as_json = f"{IMPORT_PATH}/{view.brought.import_id}.json"
    return show(visit, imports_page.ONE_IMPORT, view, status=status, outcome=outcome, as_json=as_json)


def expect_net(visit: Visit) -> ConsoleResponse:
    """Compare the net with that of the operator's day report."""
    brought, form = imports_page.found(visit), visit.request.form
    typed = form.get("net", "").strip()
    amount = import_steps.amount_in(typed)
    if typed and amount is None:
        return _shown(visit, 422, FormResult(visit.t.gettext("Type an amount, such as 12,345.50."), "bad"))
    brought.expected = DayReportNet(form.get("day") or None, amount) if amount else None
    return redirect(f"{IMPORT_PATH}/{brought.import_id}#check")


def give_base(visit: Visit) -> ConsoleResponse:
    """Give the membership base of the imported members to all shops that have none."""
    t, view = visit.t, imports_page.read_one(visit)
    found = view.shops_for_base
    if found is None or not found.can_write or visit.request.form.get("version") != found.version:
        text = t.gettext("The shops have changed since you opened this page. Nothing was changed.")
        return _shown(visit, 409, FormResult(text, "warn"))
    store = bootstrap.store(visit.settings)
    with closing(store.ledger()) as ledger, closing(store.key_store()) as audit:
        change_shops(ledger, audit, found.planned, visit.now, visit.session.actor)
    text = t.gettext("The shops have this base now. Keys of these shops read its members from now on.")
    return _shown(visit, 200, FormResult(text, "good"))


# --- accept or discard --------------------------------------------------------------------------


def accept(visit: Visit) -> ConsoleResponse:
    """Hand the records over to whoever loads them, and remember the mapping."""
    brought, t = imports_page.found(visit), visit.t
    stage = brought.stage
    if not isinstance(stage, Checked) or not (stage.tally.bills or stage.tally.members):
        return redirect(f"{IMPORT_PATH}/{brought.import_id}")
    if brought.expected and import_steps.difference_of(brought.expected, stage.totals):
        text = t.gettext("The net differs from that of your day report. Correct it, or clear the field.")
        return _shown(visit, 422, FormResult(text, "bad"))
    is_accepted = visit.request.form.get("nevertheless") == "on"
    if stage.doubts and not is_accepted:
        text = t.gettext("Confirm that the file is right although it is unusual.")
        return _shown(visit, 422, FormResult(text, "bad"))
    if not brought.lock.acquire(blocking=False):
        return redirect(f"{IMPORT_PATH}/{brought.import_id}")
    try:
        if brought.stage is not stage:
            return redirect(f"{IMPORT_PATH}/{brought.import_id}")
        _record(visit, Act.FILE_ACCEPTED, brought)
        if stage.doubts:
            _record_doubts(visit, brought, stage)
        _remember(visit, brought, stage)
        import_steps.hand_over(visit.settings, brought, stage, visit.now, is_accepted=is_accepted)
    except (OSError, ImportFailed, StoreUnavailable, StoreMismatch) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        text = t.gettext("The records could not be handed over: %(why)s. Nothing was loaded.", why=why or str(error))
        return _shown(visit, 507, FormResult(text, "bad"))
    finally:
        brought.lock.release()
    if brought.item:
        close_by_hand(visit.settings, "resolve", [brought.item], visit.session.actor, visit.now)
    return redirect(f"{IMPORT_PATH}/{brought.import_id}")


def _remember(visit: Visit, brought: BroughtIn, stage: Checked) -> None:
    """Keep the answers for files with the same headings."""
    if stage.form is not None:
        bills = brought.files[brought.kinds.index("bills")]
        paths = [remember(visit.settings, None, bills.path, stage.form, brought.kinds)]
    elif "order" in brought.answers:
        titles = dict.fromkeys(stage.tally.recognised.values())
        paths = remember_order(visit.settings, None, list(titles), brought.answers["order"])
    else:
        return
    with closing(bootstrap.store(visit.settings).key_store()) as audit:
        for path in paths:
            actor = visit.session.actor
            audit.record(AuditEntry(at=visit.now, act=Act.MAPPING_ACCEPTED, actor=actor, detail=path.name))


def discard(visit: Visit) -> ConsoleResponse:
    brought = imports_page.found(visit)
    visit.imports.discard(brought)
    if isinstance(brought.stage, HandedOver):
        text = visit.t.gettext("The entry is gone from this list. What was loaded stays.")
    elif isinstance(brought.stage, Failed) and brought.stage.accepted_as:
        text = visit.t.gettext("The file was deleted. What was loaded of it stays.")
        _resolve_accepted(visit, brought.stage.accepted_as)
    else:
        text = visit.t.gettext("The file was deleted, and nothing of it was loaded.")
        _record(visit, Act.FILE_DISCARDED, brought)
    # The import has no page any more, so the links of the answer lead to the list.
    visit = replace(visit, path=IMPORT_PATH)
    view = imports_page.read(visit)
    return show(visit, imports_page.PAGE, view, outcome=FormResult(text, "good"), as_json=f"{IMPORT_PATH}.json")


def _resolve_accepted(visit: Visit, name: str) -> None:
    """Close the item of a file whose load has not begun: a person has seen it, and discards the file."""
    identity = accepted_item(name).identity
    items = [item for item in visit.store.reads.open_items() if item.identity == identity]
    if items:
        close_by_hand(visit.settings, "resolve", items, visit.session.actor, visit.now)
