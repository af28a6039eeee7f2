"""`counterfoil loads`: list the latest loads, one load, or what waits for the operator; close what waits."""

import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

import click

from counterfoil import bootstrap
from counterfoil.checks.contents import unfinished_load
from counterfoil.checks.open_items import VERBS, close_by_hand
from counterfoil.checks.running import horizon_motion
from counterfoil.cli.options import existing_store, refuse_without_effect, require_roles, store_options, utc_option
from counterfoil.cli.totals import print_totals
from counterfoil.cli.undo import check_options, undo_load
from counterfoil.domain.doubts import describe
from counterfoil.domain.open_items import OTHER_FILES, OpenItem, Verb, joined
from counterfoil.machine.operator import operator
from counterfoil.model.messages import duration
from counterfoil.model.text import counted
from counterfoil.operator_reads import OperatorReads
from counterfoil.program.clock import SystemClock
from counterfoil.program.columns import json_row
from counterfoil.program.main import Command
from counterfoil.program.terminal import echo, print_fields, print_json, print_list, print_note, print_rows
from counterfoil.settings import Settings
from counterfoil.views import loads as views

NUMBER = re.compile("[1-9][0-9]{0,17}")
WORDS = ("open", "undo", *VERBS)
USAGE = "Use `loads`, `loads LOAD`, `loads open`, `loads resolve`, `accept` or `discard`, or `loads undo LOAD`."


@click.command(cls=Command)
@click.argument(
    "words", nargs=-1, metavar="[LOAD | open | resolve ITEM... | accept ITEM... | discard ITEM... | undo LOAD]"
)
@click.option("--limit", type=click.IntRange(1, views.MOST_LOADS), default=20, help="Maximum number of loads.")
@click.option(
    "--remove", is_flag=True, help="With `undo`: remove the bills. Refused if a key has read them from lists only."
)
@click.option(
    "--void",
    "void_reason",
    metavar="REASON",
    help="With `undo`: make the bills void, with this reason, which integrators see.",
)
@click.option("--yes", is_flag=True, help="With `undo`: do not ask for confirmation on a terminal.")
@utc_option
@store_options
def command(
    words: tuple[str, ...], limit: int, remove: bool, void_reason: str | None, yes: bool, as_json: bool
) -> None:
    """List the latest loads, newest first, or the files, totals and rejected lines of the load with the number LOAD.

    `loads open` lists what was delivered and is not in the store: loads with rejected lines, and files that are
    quarantined or held. Each has a number of its own, the ITEM, and stays open until its own file is loaded, or
    `loads resolve ITEM` closes it, which is audited.

    `loads accept` and `loads discard` decide about a file that `load --watch` holds because of a sudden change, by
    its item or its name; the watcher then loads it or moves it to quarantine. Once one is accepted, later
    deliveries with the same change count as usual.

    `loads undo LOAD` shows what an undo would take back: the bills that the load added, if nothing has changed them
    or delivered them again since. It also names the keys that have read them. With --remove the bills are removed,
    of which a copy learns only from the change feed; with --void they stay and become void, which every copy
    learns. Both are audited. If an undo is interrupted, run it again. Then load the right file.

    The store remembers the latest 100 loads; of each, the totals of up to 1,000 pairs of shop and day, and up to
    1,000 rejected lines. Rejected lines are listed without their text, which may contain personal data; the rejects
    file has the text.

    Exit status: 0 if the loads or the items were listed or closed, 1 if the store cannot be read or there is no
    such load or item.
    """
    # A wrong word is wrong usage, whether there is a store or not.
    if words and words[0] not in WORDS and not NUMBER.fullmatch(words[0]):
        similar = get_close_matches(words[0], WORDS, 1)
        advice = f"Did you mean `counterfoil loads {similar[0]}`?" if similar else USAGE
        raise click.UsageError(f"{words[0]!r} is not the number of a load. {advice}")
    check_options(words, remove=remove, void_reason=void_reason)
    if words:
        refuse_without_effect("it limits the list of loads, `counterfoil loads`.", "--limit")
    settings = existing_store()
    reads, now = bootstrap.store(settings).reads(), SystemClock().now_ms()
    match words:
        case ():
            nothing = "nothing has been loaded yet. Run `counterfoil load` to load source records."
            first = ("number", "startedAt", "state", "lines", "changed", "rejected")
            narrow = ("load", "started", "state", "lines", "rejected")
            found = reads.loads(limit)
            print_rows(views.columns(now), found, as_json, nothing=nothing, first=first, narrow=narrow, below="files")
        case ("open",):
            nothing = "there are no open items: no rejected lines, and no quarantined or held files."
            items = joined(reads.open_items())
            print_rows(views.items(now), items, as_json, nothing=nothing)
            if not as_json:
                _print_advice(reads, now, has_items=bool(items))
        case ("resolve" | "accept" | "discard" as verb, first, *others):
            _close(settings, verb, _named(joined(reads.open_items()), verb, [first, *others]), as_json)
        case ("undo", number) if NUMBER.fullmatch(number):
            require_roles(settings, writes=remove or void_reason is not None)
            undo_load(settings, int(number), remove=remove, void_reason=void_reason, is_sure=yes, as_json=as_json)
        case (number,) if number not in WORDS:
            _print_load(reads, int(number), as_json)
        case _:
            raise click.UsageError(USAGE)


def _print_advice(reads: OperatorReads, now: int, *, has_items: bool) -> None:
    if has_items:
        print_note(
            "items and loads have numbers of their own. `counterfoil loads LOAD` shows a load and "
            "why it rejected lines; `counterfoil loads resolve ITEM` closes an item."
        )
    for load in reads.loads(1):
        # It becomes an item when another load begins. Until then, `status` warns about it with the same words.
        found = None if load.finished else unfinished_load(load, horizon_motion(reads.horizon(), now), now)
        if found and found.status != "ok":
            print_note(f"load {load.number}: {found.message} {found.advice}")


def _named(items: Sequence[OpenItem], verb: Verb, names: Sequence[str]) -> list[OpenItem]:
    """Return the open items with these numbers, or with these names of files."""
    found = []
    for name in names:
        of_name = [item for item in items if name in _names_of(item)]
        if not of_name:
            raise click.ClickException(
                f"{name} is not open. Nothing was changed. Run `counterfoil loads open` to list the open items."
            )
        if len(of_name) > 1:
            numbers = ", ".join(str(item.number) for item in of_name)
            raise click.ClickException(
                f"several items are named {name}. Nothing was changed. Give a number: {numbers}."
            )
        (item,) = of_name
        if verb not in item.verbs:
            state, use = views.STATES[item.state], " or ".join(item.verbs)
            raise click.ClickException(f"item {item.number} is {item.kind}{state}: use {use}. Nothing was changed.")
        if verb == "accept" and _is_changed(item):
            raise click.ClickException(
                f"the file of item {item.number} is not the one that was held, because it was "
                f"changed: {item.path}. Nothing was changed in the store. Discard the item, and load the file by hand."
            )
        found.append(item)
    return found


def _names_of(item: OpenItem) -> list[str]:
    """Return what an operator may call an item."""
    return [str(item.number), *(part.identity for part in item.parts), *item.files]


def _is_changed(item: OpenItem) -> bool:
    """Return whether a held file is another one than when it was held, if it can be read from here."""
    with suppress(OSError):
        # A pipe, which somebody may have put there, would block the command.
        if Path(item.path).is_file():
            with Path(item.path).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() != item.digest
    return False


def _close(settings: Settings, verb: Verb, items: Sequence[OpenItem], as_json: bool) -> None:
    now, done = SystemClock().now_ms(), VERBS[verb][1]
    numbers = [item.number for item in close_by_hand(settings, verb, items, operator(), now)]
    if as_json:
        print_json({done: numbers})
        return
    for item in items:
        echo(f"{done.capitalize()} {item.title}." if item.number in numbers else f"Not open any more: {item.title}.")
    if numbers and verb == "accept":
        print_note(
            "later deliveries with the same change count as usual and are not held. Those that would "
            "replace stored bills are held each time."
        )
    if numbers and verb != "resolve":
        folders = bootstrap.store(settings).reads().watched_folders(now)
        reports = [now - folder.seen_at for folder in folders if not folder.is_stale(now)]
        moves = "loads the file" if verb == "accept" else "moves the file to quarantine"
        if reports:
            last_report = duration(min(reports))
            print_note(f"the watcher of the folder {moves} if it is still there. It last reported {last_report} ago.")
        else:
            print_note(f"no watcher is running: start `counterfoil load --watch`, which {moves} if it is still there.")


def _with_count(name: str, rejected: int | None) -> str:
    if rejected is None:
        return f"{name} (could not be read completely)"
    return f"{name} ({rejected:,} rejected)" if rejected else name


def _print_load(reads: OperatorReads, number: int, as_json: bool) -> None:
    load = views.find(reads, number)
    if load is None:
        raise click.ClickException(
            f"there is no load {number!s}, or it is too old. Run `counterfoil loads` to list the latest loads."
        )
    columns, totals, rejects = views.rejects({}), reads.totals(number), reads.rejects(number, views.MOST_REJECTS)
    if as_json:
        lines = [json_row(columns, reject) for reject in rejects]
        row = json_row(views.columns(SystemClock().now_ms()), load)
        print_json({**row, "totals": totals, "rejects": lines})
        return
    pairs = [("file", _with_count(name, rejected)) for name, rejected in load.files.items() if name]
    pairs += [("file", f"{more:,} more")] if (more := load.files.get(OTHER_FILES)) else []
    print_fields([*(pairs or [("source", load.source)]), *(("ALARM", str(describe(alarm))) for alarm in load.alarms)])
    if totals:
        print_totals(totals)
        if load.finished_at is None:
            print_note(
                f"load {load.number} was stopped. These are the totals of what it read; it wrote "
                f"{counted(load.changed, 'changed record')}."
            )
    else:
        print_note(f"the store has no totals of load {load.number}, because it has not ended, or ended with an error.")
    if not rejects:
        print_note(f"the store has no rejected lines from load {load.number}.")
        return
    print_list(columns, rejects, ("line", "reason", "fields"))
    if load.rejected > len(rejects):
        print_note(f"the first {len(rejects):,} of {load.rejected:,} rejected lines are shown.")
