"""Bring in a file: what was brought in, the questions about it, its totals, and what has become of it."""

import hashlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, to_builtins

from counterfoil.console.import_steps import difference_of
from counterfoil.console.import_words import CONSOLE_WORDS
from counterfoil.console.imports import (
    KEPT_MS,
    Asking,
    BroughtIn,
    Checked,
    Failed,
    HandedOver,
    Imports,
    ReadingFiles,
    Stage,
)
from counterfoil.console.visit import ConsolePage, NotFound, Visit
from counterfoil.domain.acceptances import accepted_records
from counterfoil.domain.audit import Act
from counterfoil.domain.loads import load_state
from counterfoil.domain.open_items import OpenItem, joined
from counterfoil.domain.shops import ShopSettings
from counterfoil.importer.form import Form, Question
from counterfoil.importer.protocol import Kind
from counterfoil.importing.sentences import FormText
from counterfoil.ingest.converted_exports import ImportTally
from counterfoil.machine.uploaded_files import MAX_UPLOAD
from counterfoil.model.control_totals import TotalsOfDay, TotalsReport
from counterfoil.shop_settings import ShopChanges, ShopSettingsError, plan
from counterfoil.views.loads import MOST_LOADS

State = Literal[
    "reading",
    "asking",
    "checked",
    "failed",
    "waiting",
    "loading",
    "loaded",
    "some_rejected",
    "held",
    "rejected",
    "taken",
]
REFRESH_SEC = 2
# So many entries of the audit log are searched for files that were lost.
MOST_ENTRIES = 500
OF_FILES = (Act.FILE_BROUGHT_IN, Act.FILE_ACCEPTED, Act.FILE_DISCARDED)
# A page shows so many rows of totals by day and shop; if there are more, it shows days.
MOST_ROWS = 62
MOST_SHOPS_NAMED = 30
# Parts of the names of files with the items and the payments of bills.
OF_LINES = ("item", "line", "detail", "product", "รายการ", "สินค้า")
OF_PAYMENTS = ("pay", "tender", "ชำระ", "จ่าย")
OF_BILLS = ("bill", "receipt", "order", "sale", "transaction", "check", "บิล", "ใบเสร็จ", "ขาย")


class Progress(Struct, frozen=True, kw_only=True):
    """What has become of an import, and the load or the open item that says more."""

    state: State
    load: int | None = None
    item: OpenItem | None = None
    rejected: int = 0
    compared: int | None = None
    """Which share of the records the watcher has compared so far, in percent, once it has begun."""
    loaded: int = 0
    """How many records are loaded so far, while they are."""


class ImportRow(Struct, frozen=True, kw_only=True, rename="camel"):
    import_id: str
    name: str
    actor: str
    began_at: int
    progress: Progress


class ImportsView(Struct, frozen=True, kw_only=True, rename="camel"):
    imports: list[ImportRow]
    item: OpenItem | None
    """The open item whose file the operator wants to bring in."""
    max_mib: int
    lost_files: list[str]
    """The names of files that were brought in, and never accepted, before the console was started again."""


class TotalsRow(Struct, frozen=True, kw_only=True):
    day: str | None
    shop: str | None
    bills: int
    voids: int
    refunds: int
    net: Decimal
    tip: Decimal
    tax: Decimal


class ShopsForBase(Struct, frozen=True, kw_only=True):
    """The shops without a membership base, and what giving them the base of an import would do."""

    base: str
    planned: ShopChanges
    can_write: bool

    @property
    def version(self) -> str:
        """What the form was made from: it is refused if other shops have no base by then."""
        shop_ids = [change.shop_id for change in self.planned.changed]
        return hashlib.sha256(repr(shop_ids).encode()).hexdigest()

    @property
    def command(self) -> str:
        return f"counterfoil shops set --missing --base {shlex.quote(self.base)}"


class ImportView(Struct, frozen=True, kw_only=True):
    brought: BroughtIn
    progress: Progress
    reading: ReadingFiles | None = None
    asking: Asking | None = None
    checked: Checked | None = None
    failed: Failed | None = None
    handed: HandedOver | None = None
    days: list[TotalsRow] = []
    by_shop: bool = True
    """Whether each row of `days` is of one shop."""
    other_days: list[str] = []
    difference: Decimal | None = None
    """By how much the net differs from that of the day report."""
    names_of_shops: dict[str, str] = {}
    same_load: int | None = None
    """The load that had the same bills and net on each day, before this file is accepted."""
    has_readers: bool = True
    """Whether a key reads one of the shops."""
    base_without_shops: str | None = None
    """The membership base of the members, if no shop has it, so that no key can read them."""
    shops_for_base: ShopsForBase | None = None

    @property
    def form(self) -> Form | None:
        """The form whose first rows are shown."""
        if self.asking:
            return self.asking.form
        return self.checked.form if self.checked else None

    @property
    def question(self) -> Question | None:
        """The first question without which nothing can be loaded."""
        return self.form.open[0] if self.asking and self.form and self.form.open else None

    @property
    def number_of_question(self) -> int:
        """Return the number of the first open question, after those that were answered."""
        return len(self.form.answers) + 1 if self.form else 1

    @property
    def facts(self) -> Sequence[Question]:
        """The questions about new shops, which are asked when nothing else is open."""
        if self.asking and self.asking.questions:
            return self.asking.questions
        return self.form.questions if self.asking and self.form and not self.form.open else ()

    @property
    def kinds(self) -> Sequence[Kind | None]:
        """What is in each file: what a person has said or, until then, what its name suggests, if anything."""
        if self.brought.has_kinds:
            return self.brought.kinds
        return [_likely_kind(file.name.casefold()) for file in self.brought.files]

    @property
    def totals(self) -> TotalsReport | None:
        if self.checked:
            return self.checked.totals
        return self.handed.totals if self.handed else None

    @property
    def may_ask_again(self) -> bool:
        """Whether the file does not fit the answers that are kept, so that other answers may help."""
        if self.brought.is_unknown or (self.failed and self.failed.accepted_as):
            return False
        texts: Iterable[FormText] = self.failed.texts if self.failed else ()
        if self.checked:
            texts = self.checked.tally.texts.values()
        return any(made.template in CONSOLE_WORDS for made in texts)

    @property
    def names_in_file(self) -> Mapping[str, str]:
        """The names that the file has for shops, by their IDs."""
        tally = self.tally or (self.brought.export.tally if self.brought.export else None)
        return tally.names_of_shops if tally else {}

    @property
    def has_records(self) -> bool:
        """Whether there is anything to load."""
        return bool(self.tally and (self.tally.bills or self.tally.members))

    @property
    def totals_of_shops(self) -> list[TotalsRow]:
        """The sums of each shop over all days, or none if there is only one shop."""
        if self.totals is None or self.number_of_shops < 2:
            return []
        by_shop: dict[str | None, list[TotalsOfDay]] = {}
        for day in self.totals.days:
            by_shop.setdefault(day.shop_id, []).append(day)
        return [_sum(days, None, shop) for shop, days in by_shop.items()]

    @property
    def number_of_days(self) -> int:
        return len({day.day for day in self.totals.days if day.day}) if self.totals else 0

    @property
    def number_of_shops(self) -> int:
        return len({day.shop_id for day in self.totals.days}) if self.totals else 0

    @property
    def tally(self) -> ImportTally | None:
        if self.checked:
            return self.checked.tally
        return self.handed.tally if self.handed else None


def _likely_kind(name: str) -> Kind | None:
    """Return what a person probably chooses for a file of this name, or None if the name does not say it."""
    for word in OF_PAYMENTS:
        if word in name:
            return "payments"
    for word in OF_LINES:
        if word in name:
            return "lines"
    return "bills" if any(word in name for word in OF_BILLS) else None


def read(visit: Visit) -> ImportsView:
    rows = [
        ImportRow(
            import_id=brought.import_id,
            name=brought.name,
            actor=brought.actor.name,
            began_at=brought.began_at,
            progress=progress_of(visit, brought.stage),
        )
        for brought in visit.imports.all()
    ]
    number = visit.query.get("item", "")
    items = joined(visit.store.reads.open_items()) if number else []
    item = next((item for item in items if str(item.number) == number), None)
    return ImportsView(
        imports=rows, item=item, max_mib=MAX_UPLOAD // 1024 // 1024, lost_files=_lost_files(visit, visit.imports)
    )


def _lost_files(visit: Visit, imports: Imports) -> list[str]:
    """Return the names of the files that were deleted when the console started, as the audit log says."""
    began = imports.opened_at
    entries = visit.store.reads.audit(MOST_ENTRIES, since=began - KEPT_MS)
    lost: list[str] = []
    for entry in reversed(entries):
        if entry.act not in OF_FILES or not entry.detail:
            continue
        if entry.act == Act.FILE_BROUGHT_IN and entry.at < began:
            lost.append(entry.detail)
        elif entry.detail in lost:
            # It was accepted or discarded, or brought in again.
            lost.remove(entry.detail)
    return lost


def found(visit: Visit) -> BroughtIn:
    """Return the import that the address names, or raise `NotFound`."""
    brought = visit.imports.find(visit.values["import_id"])
    if brought is None:
        raise NotFound(
            visit.t.gettext(
                "This file is not here any more: files are deleted after a day, and when the console starts again. If "
                "its totals were accepted, see Loads. Otherwise nothing of it was loaded: bring it in again."
            )
        )
    return brought


def read_one(visit: Visit) -> ImportView:
    brought = found(visit)
    stage = brought.stage
    progress = progress_of(visit, stage)
    match stage:
        case ReadingFiles():
            return ImportView(brought=brought, progress=progress, reading=stage)
        case Asking():
            return ImportView(brought=brought, progress=progress, asking=stage)
        case Failed():
            return ImportView(brought=brought, progress=progress, failed=stage)
        case Checked():
            days, by_shop = _days(stage.totals)
            return ImportView(
                brought=brought,
                progress=progress,
                checked=stage,
                days=days,
                by_shop=by_shop,
                other_days=sorted({day.day for day in stage.totals.days if day.day}),
                difference=difference_of(brought.expected, stage.totals) if brought.expected else None,
                names_of_shops=_names(visit),
                same_load=visit.store.reads.load_with_totals(stage.totals),
            )
        case HandedOver():
            days, by_shop = _days(stage.totals)
            base = _base_without_shops(visit, brought)
            return ImportView(
                brought=brought,
                progress=progress,
                handed=stage,
                days=days,
                by_shop=by_shop,
                names_of_shops=_names(visit),
                has_readers=_has_readers(visit, stage.totals),
                base_without_shops=base,
                shops_for_base=shops_for_base(visit, base) if base and progress.state == "loaded" else None,
            )


def _has_readers(visit: Visit, totals: TotalsReport) -> bool:
    reads = visit.store.reads
    shops = {day.shop_id for day in totals.days}
    franchises = {shop.franchise_id for shop in reads.shop_names() if shop.shop_id in shops}
    for key in reads.keys():  # noqa: SIM118 - not a dictionary
        is_read = key.scope.id in (shops if key.scope.kind == "shop" else franchises)
        if is_read and not key.is_revoked(visit.now) and not key.is_for_trying:
            return True
    return False


def _base_without_shops(visit: Visit, brought: BroughtIn) -> str | None:
    base = brought.said.get("base") or brought.answers.get("base")
    shops = visit.store.reads.loaded_shops() if base else []
    bases = {shop.facts.provider_id for shop in shops}
    return None if base in bases else base


def shops_for_base(visit: Visit, base: str) -> ShopsForBase | None:
    """Return the shops that could get the base, or None if all have one, or if the base is not loaded."""
    reads = visit.store.reads
    try:
        planned = plan(reads, [], ShopSettings(provider_id=base), visit.now, selection="missing")
    except ShopSettingsError:
        return None
    if not planned.changed:
        return None
    granted = reads.permissions()
    # On PostgreSQL, a login of the console may be allowed to issue keys, but not to write books.
    return ShopsForBase(base=base, planned=planned, can_write=granted is None or granted.loads)


def _names(visit: Visit) -> dict[str, str]:
    return {shop.shop_id: shop.shop_name or shop.shop_id for shop in visit.store.shop_names()}


def _days(totals: TotalsReport) -> tuple[list[TotalsRow], bool]:
    """Return the rows per shop and day or, if these are too many, per day, and whether they are per shop."""
    if len(totals.days) <= MOST_ROWS:
        return [_sum([day], day.day, day.shop_id) for day in totals.days], True
    by_day: dict[str | None, list[TotalsOfDay]] = {}
    for day in totals.days:
        by_day.setdefault(day.day, []).append(day)
    return [_sum(days, day, None) for day, days in by_day.items()], False


def _sum(days: Sequence[TotalsOfDay], day: str | None, shop: str | None) -> TotalsRow:
    bills = voids = refunds = 0
    net = tip = tax = Decimal(0)
    for totals in days:
        bills += totals.bills
        voids += totals.voids
        refunds += totals.refunds
        net += Decimal(totals.net)
        tip += Decimal(totals.tip)
        tax += Decimal(totals.tax)
    return TotalsRow(day=day, shop=shop, bills=bills, voids=voids, refunds=refunds, net=net, tip=tip, tax=tax)


# --- what has become of it ----------------------------------------------------------------


def progress_of(visit: Visit, stage: Stage) -> Progress:
    match stage:
        case ReadingFiles():
            return Progress(state="reading")
        case Asking():
            return Progress(state="failed" if stage.is_refused else "asking")
        case Checked():
            return Progress(state="checked")
        case Failed():
            return Progress(state="failed")
        case HandedOver() as handed:
            return _progress_of_load(visit, handed)


def _progress_of_load(visit: Visit, handed: HandedOver) -> Progress:
    """Return what the store knows of accepted records. Their name is unique, so loads and items with it are theirs."""
    reads = visit.store.reads
    compared = None
    for item in reads.open_items():
        if handed.name in item.files and item.kind == "not_begun":
            accepted = accepted_records(item)
            compared = accepted.compared if accepted else None
        if handed.name in item.files and item.kind in ("quarantined", "held", "needs_answers"):
            return Progress(state="held" if item.kind == "held" else "rejected", item=item, load=item.load)
    for load in reads.loads(MOST_LOADS):
        if handed.name in load.files:
            state: State = "some_rejected" if load.rejected else "loaded"
            if load_state(load, visit.now) == "running":
                state = "loading"
            elif not load.finished:
                state = "rejected"
            return Progress(state=state, load=load.number, rejected=load.rejected, loaded=load.lines)
    if handed.folder is None:
        # The load is known by the store once its first batch is written.
        return Progress(state="loading" if handed.load is None else "loaded", load=handed.load)
    is_waiting = _exists(handed.folder / handed.name)
    return Progress(state="waiting" if is_waiting else "taken", compared=compared)


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True


def _refresh_sec(_: Visit, view: ImportView) -> int | None:
    return REFRESH_SEC if view.progress.state in ("reading", "waiting", "loading", "taken") else None


def as_json(_: Visit, view: ImportView) -> dict[str, Any]:
    """Return what a program needs to follow an import. Rows of the file are in the form."""
    stage = view.asking or view.checked or view.failed or view.handed
    return {
        "importId": view.brought.import_id,
        "files": [file.name for file in view.brought.files],
        "state": view.progress.state,
        "load": view.progress.load,
        "item": view.progress.item.number if view.progress.item else None,
        "form": to_builtins(view.form) if view.form else None,
        "newShops": list(stage.new_shops) if isinstance(stage, Asking) else [],
        "totals": to_builtins(view.totals) if view.totals else None,
        "rejectedRows": view.tally.rejected.total() if view.tally else 0,
        "leftOut": {reason: str(money.net) for reason, money in view.tally.left_out.items()} if view.tally else {},
        "doubts": list(view.checked.doubts) if view.checked else [],
        "problem": str(view.failed.problem) if view.failed else None,
    }


PAGE = ConsolePage(name="imports", role="operator", template="imports", read=read)
ONE_IMPORT = ConsolePage(
    name="imports", role="operator", template="import", read=read_one, as_json=as_json, refresh_sec=_refresh_sec
)
