"""`counterfoil loads undo`: shows what the undo of a load takes back, and takes it back."""

import sys
from collections.abc import Mapping, Sequence

import click

from counterfoil import bootstrap
from counterfoil.checks.undoing import Undo
from counterfoil.cli.totals import money_text
from counterfoil.domain.loads import LoadRow, load_state
from counterfoil.domain.undo import DayOfUndo, KeptBill, KeyThatRead, UndoPreview, Verdict
from counterfoil.machine.operator import operator
from counterfoil.model.text import counted, decimal_text, printable
from counterfoil.operator_reads import OperatorReads
from counterfoil.program.clock import SystemClock
from counterfoil.program.columns import ListColumn
from counterfoil.program.terminal import confirm, echo, print_json, print_list, print_note, print_wrapped
from counterfoil.settings import Settings
from counterfoil.views import loads as views

_DAYS: Sequence[ListColumn[DayOfUndo]] = (
    ListColumn("shopId", terminal="shop"),
    ListColumn("day", terminal="calendar day"),
    ListColumn("bills", kind="number", terminal="bills"),
    ListColumn("net", kind="number", terminal="net", text=lambda day: money_text(decimal_text(day.net))),
)
_STAYS: dict[Verdict, str] = {
    "changed": "changed by the load; what they were before is not stored, so load their files again",
    "changed_later": "changed by a later load",
    "delivered_again": "delivered again by a later load, with the same content; if it is wrong, too, undo it first",
}


def check_options(words: Sequence[str], *, remove: bool, void_reason: str | None) -> None:
    if (remove or void_reason is not None) and words[:1] != ("undo",):
        raise click.UsageError("--remove and --void belong to `loads undo LOAD`.")
    if remove and void_reason is not None:
        raise click.UsageError("use either --remove or --void, not both.")
    if void_reason is not None and not void_reason.strip():
        raise click.UsageError("--void needs a reason, which integrators see as voidReason.")


def undo_load(
    settings: Settings, number: int, *, remove: bool, void_reason: str | None, is_sure: bool, as_json: bool
) -> None:
    reads = bootstrap.store(settings).reads()
    now = SystemClock().now_ms()
    load = _load_to_undo(reads, number, now)
    undo = Undo(settings, number, load)
    found = undo.preview()
    # The files of the loads that the store remembers, by their numbers.
    files = {known.number: views.file_names(known) for known in reads.loads(views.MOST_LOADS)}
    readers = undo.readers(found.shops, now)
    lists_only = [reader for reader in readers if not reader.reads_feed]
    if remove and lists_only:
        raise click.ClickException(
            f"{_named(lists_only)} may have read these bills from lists, where a removed bill does not appear, so the"
            f" copy would keep them. Use `counterfoil loads undo {number} --void REASON`. Nothing was changed."
        )
    if not remove and void_reason is None:
        if as_json:
            print_json({**_json(found, readers), "done": None})
        else:
            _print_preview(found, readers, lists_only, files)
            print_note(f"nothing was changed. {_advice(found, lists_only, load)}")
        return
    is_done = load is not None and load_state(load, now) == "undone" and not found.taken_back
    if found.taken_back and not is_sure and sys.stdin.isatty():
        named = f"load {number} ({views.file_names(load)})" if load else f"load {number}"
        confirm(f"{'Remove' if remove else 'Make void'} {counted(found.taken_back, 'bill')} of {named}?")
    count = 0
    # If there is nothing to do, nothing is audited.
    if not is_done:
        count = undo.take_back(None if remove else void_reason, operator(), now)
    late_readers = []
    if remove:
        late_readers = [reader for reader in undo.readers(found.shops, now) if not reader.reads_feed]
    if as_json:
        print_json({**_json(found, readers), "done": {"how": "removed" if remove else "void", "bills": count}})
    else:
        verb = "Removed" if remove else "Made void:"
        echo(f"{verb} {counted(count, 'bill')} of load {number}.")
        _print_kept(found, files)
        print_note("the load was undone before." if is_done else _next_step(found, count))
    if late_readers:
        raise click.ClickException(
            f"while the bills were being removed, {_named(late_readers)} may have read some of them from lists, where a"
            " removed bill does not appear. Ask the integrator to read these shops again in full."
        )


def _load_to_undo(reads: OperatorReads, number: int, now: int) -> LoadRow | None:
    """Return the load, or None if it is too old for the store to remember it. Raise if it cannot be undone."""
    load = views.find(reads, number)
    if load is None:
        has_later = any(found.number > number for found in reads.loads(1))
        if not has_later:
            raise click.ClickException(f"there is no load {number}. `counterfoil loads` lists the latest loads.")
        return None
    if load_state(load, now) == "running":
        raise click.ClickException(f"load {number} is still running. Stop it first. Nothing was changed.")
    if load.horizon is None:
        raise click.ClickException(
            f"load {number} was made by an older version, whose bills do not remember their load, so nothing of it can"
            " be taken back. Load the right file: it replaces the bills with the same IDs. Nothing was changed."
        )
    return load


def _json(found: UndoPreview, readers: Sequence[KeyThatRead]) -> dict[str, object]:
    return {
        "load": found.load,
        "takenBack": found.taken_back,
        "kept": dict(found.kept),
        "firstKept": found.named,
        "removedByLoad": found.removed,
        "days": found.days,
        "readers": readers,
    }


def _print_preview(
    found: UndoPreview, readers: Sequence[KeyThatRead], lists_only: Sequence[KeyThatRead], files: Mapping[int, str]
) -> None:
    echo(f"Load {found.load} added {counted(found.taken_back, 'bill')} that an undo takes back.")
    if found.load in files:
        print_wrapped(f"Its files: {files[found.load]}")
    if found.days:
        print_list(_DAYS, found.days)
    _print_kept(found, files)
    feed = len(readers) - len(lists_only)
    echo(f"Read since by {counted(feed, 'key')} that read the change feed.")
    echo(f"Read since by {counted(len(lists_only), 'key')} that read only lists.")
    for reader in lists_only:
        echo(f"  only lists: {_name(reader)}")


def _print_kept(found: UndoPreview, files: Mapping[int, str]) -> None:
    for kind, count in found.kept.items():
        echo(f"Not taken back: {counted(count, 'bill')} {_STAYS[kind]}.")
    for bill in found.named:
        echo(f"  {_kept_bill(bill, files)}")
    if sum(found.kept.values()) > len(found.named):
        echo(f"  and {sum(found.kept.values()) - len(found.named):,} more")
    print_wrapped(
        "Not taken back: shops, bases and members of the load. Load their right records, with no lower revision. "
        'A shop that should not be there goes with the record {"kind":"shop","id":"ID","removed":true}.'
    )
    if found.removed:
        echo(f"Not brought back: {counted(found.removed, 'bill')} removed by the load; load their files again.")


def _kept_bill(bill: KeptBill, files: Mapping[int, str]) -> str:
    other = "a load that is not known"
    if bill.other_load:
        file = files.get(bill.other_load)
        other = f"load {bill.other_load}" + (f" ({file})" if file else "")
    return f"{bill.shop_id} {bill.bill_id}: {'before: ' if bill.verdict == 'changed' else ''}{other}"


def _next_step(found: UndoPreview, count: int) -> str:
    if count or found.kept or found.removed:
        return "load the right file now."
    return "if the load delivered bills of an earlier load again, that load can be undone now."


def _advice(found: UndoPreview, lists_only: Sequence[KeyThatRead], load: LoadRow | None) -> str:
    if not found.taken_back and not found.kept.get("changed") and not found.removed:
        if load and load.has_repeated and load.undone_at is None:
            return (
                "There is nothing to take back. If the load delivered bills of an earlier load again,"
                f" `counterfoil loads undo {found.load} --remove` lets the earlier load be undone."
            )
        return "There is nothing to take back."
    void = f"`counterfoil loads undo {found.load} --void REASON` makes the bills void, which every copy learns"
    if lists_only:
        return f"{void}. They cannot be removed, because keys that read only lists would not learn of it."
    return f"`counterfoil loads undo {found.load} --remove` removes the bills; {void}."


def _named(readers: Sequence[KeyThatRead]) -> str:
    return ", ".join(map(_name, readers))


def _name(reader: KeyThatRead) -> str:
    return printable(f"key {reader.key_id}" + (f" ({reader.label})" if reader.label else ""))
