"""`counterfoil keys`: issue, list, show, update, rotate and revoke API keys."""

import re
import secrets
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import tzinfo
from typing import Any

import click
from msgspec.structs import replace

from counterfoil import bootstrap, key_issuing
from counterfoil.cli.auditing import record_new_store
from counterfoil.cli.options import existing_store, settings_from, store_options, utc_option
from counterfoil.domain.access import DEFAULT_PER_DAY, DEFAULT_PER_MIN, Key, Scope, successors_of
from counterfoil.domain.activity import ShopActivity
from counterfoil.domain.audit import Act, Actor, field_changes
from counterfoil.domain.credentials import ID_LENGTH
from counterfoil.key_issuing import AlreadyRotated, KeyChanges, KeyIssuingError
from counterfoil.machine.operator import operator
from counterfoil.model.calendar import DAY_MS, HOUR_MS, days_until, iso_utc, thai_day
from counterfoil.model.messages import duration as span_text
from counterfoil.model.pos_values import record_id
from counterfoil.model.text import counted, parse_duration
from counterfoil.operator_reads import OperatorReads
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.program import terminal, times
from counterfoil.program.clock import SystemClock
from counterfoil.program.columns import json_row
from counterfoil.program.main import CommandGroup
from counterfoil.program.times import minute
from counterfoil.request_reads import DayOfKey
from counterfoil.settings import Settings, SettingsError
from counterfoil.views import copies
from counterfoil.views.audit import value_text
from counterfoil.views.keys import ERRORS, columns, key_days, permission_names, revoked_at, state
from counterfoil.views.welcome import welcome

_KEY_ID = re.compile(rf"[0-9A-Za-z]{{{ID_LENGTH}}}", re.ASCII)
MAX_SPAN_MS = 9_999 * 7 * DAY_MS
_WHOLE_KEY = re.compile(rf"cf_live_([0-9A-Za-z]{{{ID_LENGTH}}})_.*", re.ASCII | re.DOTALL)
NO_KEYS = "no keys found. Run `counterfoil keys issue` to create one."
LIMIT = click.IntRange(1, key_issuing.MAX_LIMIT)
REPORTED_DAYS = 7
# How long a change counts as recent, and how many of the key's latest audit entries are searched for recent changes.
RECENT_MS, RECENT_ENTRIES = HOUR_MS, 100


def key_id(value: str) -> str:
    """Parse a key ID. Refuse a complete key, because shell history and process lists would expose it."""
    complete_key = _WHOLE_KEY.fullmatch(value)
    if complete_key:
        raise click.BadParameter(
            "that is a complete key with its secret, which shell history and process lists expose. "
            f"Use only the key ID, {complete_key[1]}."
        )
    if not _KEY_ID.fullmatch(value):
        # The message does not quote the value, which may be a secret.
        raise click.BadParameter(f"this is not a valid key ID. A key ID consists of {ID_LENGTH} letters and digits.")
    return value


def duration(value: str) -> int:
    """Parse a duration such as `7d`, and return it in milliseconds."""
    span_ms = parse_duration(value, "mhdw")
    if span_ms is None or span_ms > MAX_SPAN_MS:
        raise click.BadParameter(
            f"{value!r} is not a valid duration. Use a number and a unit, such as 30m, 12h, 7d or 2w."
        )
    return span_ms


def instant(value: str, zone: tzinfo | None = None) -> int:
    """Parse a time with its zone, or in the given one, and return it in milliseconds since 1970."""
    found = times.instant(value, zone)
    if found is None:
        raise click.BadParameter(
            f"{value!r} is not a valid time. Use a time such as 2026-11-23T00:00, or 2026-11-23T00:00+07:00."
        )
    return found


def future_time(value: str) -> int:
    """Parse a time, by default in the zone in which lists show times."""
    settings_from()
    return instant(value, times.shown_zone())


def single_key_options(function: Callable[..., None]) -> Any:
    """Add the parameters that every single-key command takes: KEYID, --store, --json and --utc."""
    return click.argument("keyid", type=key_id)(utc_option(store_options(function)))


@click.group(cls=CommandGroup)
def command() -> None:
    """Issue, list, update, rotate and revoke API keys.

    KEYID is the part of a key between `cf_live_` and the next underscore.
    """


command.instead = {"add": "issue", "create": "issue", "delete": "revoke", "new": "issue", "remove": "revoke"}


@command.command(
    groups={
        "Limits and permissions": ("--per-min", "--per-day", "--personal-data", "--messaging-lookup"),
        "Output": ("--welcome", "--json", "--utc", "--store"),
    }
)
@click.option("--shop", metavar="ID", help="Limit the key to one shop.")
@click.option("--franchise", metavar="ID", help="Limit the key to the shops of one franchise.")
@click.option("--label", default="", show_default=False, help="Who the key is for. For information only.")
@click.option("--per-min", type=LIMIT, default=DEFAULT_PER_MIN, help="Requests per 60 seconds.")
@click.option("--per-day", type=LIMIT, default=DEFAULT_PER_DAY, help="Requests per day (Thailand time).")
@click.option("--personal-data", is_flag=True, help="Allow reading members' tel and email.")
@click.option("--messaging-lookup", is_flag=True, help="Allow looking up members by messaging user ID.")
@click.option("--not-loaded-yet", is_flag=True, help="Issue the key although no such shop or franchise is loaded.")
@click.option(
    "--welcome",
    "has_welcome",
    is_flag=True,
    help="Also print a message for the holder: base URL, limits and what to read, without the key. Needs "
    "the setting api_url.",
)
@utc_option
@store_options
def issue(
    shop: str | None, franchise: str | None, not_loaded_yet: bool, has_welcome: bool, as_json: bool, **granted: Any
) -> None:
    """Issue a key for a shop or a franchise. The key is shown only once."""
    grant = key_issuing.Grant(scope=_scope(shop, franchise), **granted)
    settings = settings_from()
    if has_welcome:
        _require_api_url(settings)
    is_new = bootstrap.is_without_store(settings)
    if is_new and not not_loaded_yet:
        raise _not_loaded(grant.scope)
    with closing(bootstrap.store(settings).key_store()) as key_store:
        if is_new:
            record_new_store(settings)
        # Issuing refuses an ID that cannot be one, with the reason.
        is_id = record_id(grant.scope.id) is not None
        is_loaded = is_id and bootstrap.store(settings).reads().knows(grant.scope)
        if is_id and not (is_loaded or not_loaded_yet):
            raise _not_loaded(grant.scope)
        issued = key_issuing.issue(key_store, grant, secrets.token_bytes, _now(), operator())
    if not is_loaded:
        terminal.print_note(
            f"{grant.scope.kind} {grant.scope.id} is not loaded yet. Until it is, the key cannot read anything. "
            "`counterfoil shops` lists the loaded IDs. If the ID is wrong, revoke this key and issue another."
        )
    welcome_text = _welcome(settings, issued.key) if has_welcome else None
    _print_issued(issued, as_json, welcome_text)
    if welcome_text is not None:
        _note_attachment(settings)


@command.command(name="list")
@click.option("--active", is_flag=True, help="Leave out revoked keys.")
@utc_option
@store_options
def list_(active: bool, as_json: bool) -> None:
    """List all keys, oldest first."""
    reads, now = bootstrap.store(existing_store()).reads(), _now()
    keys = [key for key in reads.keys() if not (active and key.is_revoked(now))]  # noqa: SIM118 - not a dictionary
    try:
        last_used = reads.last_used()
    except (StoreUnavailable, StoreMismatch) as error:
        terminal.print_note(f"when the keys were last used cannot be shown: {error}")
        last_used = None
    first = ("keyId", "label", "scope", "perMin", "perDay")
    narrow = ["key ID", "label", "scope", "last used", "state"]
    is_ending = any(key.revokes_at and not key.is_revoked(now) for key in keys)
    if last_used is None or is_ending:
        # A state such as `active until 2026-12-01 00:00 +07` needs the room.
        narrow.remove("last used")
    terminal.print_rows(columns(now, last_used), keys, as_json, nothing=NO_KEYS, first=first, narrow=narrow)


@command.command()
@click.option(
    "--welcome",
    "is_welcome",
    is_flag=True,
    help="Print only the message for the holder of the key: base URL, limits and what to read.",
)
@single_key_options
def show(keyid: str, is_welcome: bool, as_json: bool) -> None:
    """Show one key, its usage and errors in the last 7 days, and how fresh its copy is.

    The secret of a key is not stored and cannot be shown again.
    """
    settings = existing_store()
    reads, now = bootstrap.store(settings).reads(), _now()
    key = key_issuing.key_in(reads.keys(), keyid)
    if is_welcome:
        _require_api_url(settings)
        key_issuing.require_not_revoked(key, now)
        _print_welcome(_welcome(settings, key), as_json)
        _note_attachment(settings)
        return
    try:
        _show_usage(reads, key, now, as_json)
    except (StoreUnavailable, StoreMismatch) as error:
        terminal.print_note(f"the usage of this key cannot be shown: {error}")
        _print_key(key, as_json)


@command.command()
@click.option("--label", help="Who the key is for.")
@click.option("--per-min", type=LIMIT, help="Requests per 60 seconds.")
@click.option("--per-day", type=LIMIT, help="Requests per day (Thailand time).")
@click.option("--personal-data/--no-personal-data", default=None, help="Allow reading members' tel and email.")
@click.option(
    "--messaging-lookup/--no-messaging-lookup", default=None, help="Allow looking up members by messaging user ID."
)
@click.option(
    "--yes", is_flag=True, help="Do not ask before replacing values that somebody else set within the last hour."
)
@single_key_options
def update(keyid: str, yes: bool, as_json: bool, **changed: Any) -> None:
    """Change a key's label, limits or permissions. Its scope and secret never change.

    A revoked key cannot be changed. Before the command replaces a value that somebody else set within the last
    hour, it asks for confirmation. Without a terminal, it refuses unless --yes is given.
    """
    changes = KeyChanges(**changed)
    if not changes.changed_fields():
        raise click.UsageError("Nothing to change. Set at least one option.")
    settings, now, by = existing_store(), _now(), operator()
    with closing(bootstrap.store(settings).key_store()) as key_store:
        key = key_issuing.key_in(key_store.all(), keyid)
        # Refuse a revoked key before the operator is asked anything.
        key_issuing.require_not_revoked(key, now)
        replaced = recent_values(settings, key, changes, now, by)
        for value, replacement in () if yes else replaced.items():
            if not terminal.is_terminal(sys.stdin):
                advice = f"To replace that value with {replacement}, run the command with --yes."
                raise KeyIssuingError(f"{value} Nothing was changed. {advice}")
            terminal.confirm(f"{value} Replace it with {replacement}?")
        # If somebody else changes the key while the operator is being asked, this update is refused.
        _print_key(key_issuing.update(key_store, keyid, changes, _now(), by, shown=key), as_json)
    for value, replacement in replaced.items():
        terminal.print_note(f"{value} This command has replaced that value with {replacement}.")


@command.command()
@click.option(
    "--revoke-old-in",
    type=duration,
    metavar="DURATION",
    help="Revoke the old key after this time, for example 30m, 12h, 7d or 2w.",
)
@click.option("--again", is_flag=True, help="Issue another successor of a key that has an active one.")
@single_key_options
def rotate(keyid: str, revoke_old_in: int | None, again: bool, as_json: bool) -> None:
    """Issue a successor with the same scope, limits and permissions.

    The old key stays valid until it is revoked, either by you or after the time given with --revoke-old-in. If the
    key already has an active successor, the command refuses to issue another one unless --again is given.
    """
    settings, now, by = existing_store(), _now(), operator()
    revoke_old_at = None if revoke_old_in is None else now + revoke_old_in
    with closing(bootstrap.store(settings).key_store()) as key_store:
        successors = {key.key_id for key in successors_of(key_store.all(), keyid) if not key.is_revoked(now)}
        known = successors if again else set()
        try:
            issued = key_issuing.rotate(
                key_store, keyid, secrets.token_bytes, now, by, revoke_old_at, known_successors=known
            )
        except AlreadyRotated as error:
            raise KeyIssuingError(f"{error} To issue another successor, run the command with --again.") from error
    _print_issued(issued, as_json)
    if known:
        terminal.print_note(f"this key was rotated before. Other active successors: {', '.join(sorted(known))}.")
    if as_json:
        return
    # An earlier command may have scheduled the revocation.
    ends_at = issued.replaces.revokes_at if issued.replaces else None
    if ends_at is not None:
        terminal.echo(f"The old key {keyid} works until {minute(ends_at)}.")
    else:
        terminal.echo(f"Once the old key is no longer in use, run: counterfoil keys revoke {keyid}")


@command.command()
@click.option("--at", type=future_time, metavar="TIME", help="Revoke at this time, for example 2026-11-23T00:00.")
@click.option("--yes", is_flag=True, help="Skip the confirmation prompt. Required if standard input is not a terminal.")
@single_key_options
def revoke(keyid: str, at: int | None, yes: bool, as_json: bool) -> None:
    """Revoke a key permanently. A running service refuses the key within a second, or within 270 seconds if the
    service cannot read the keys.

    With --at, the key works until that time. Until then, the command can be run again with another time.
    """
    now = _now()
    if at is not None and at <= now:
        raise click.UsageError("--at must be in the future. To revoke the key now, leave out --at.")
    with closing(bootstrap.store(existing_store()).key_store()) as key_store:
        before = key_issuing.key_in(key_store.all(), keyid)
        if not before.is_revoked(now) and not yes:
            if not terminal.is_terminal(sys.stdin):
                raise click.UsageError("Revoking a key needs --yes, because standard input is not a terminal.")
            name = f"{keyid} ({before.label})" if before.label else keyid
            when = "This cannot be undone" if at is None else f"It will stop working at {minute(at)}"
            terminal.confirm(f"Revoke {name}? {when}")
        if at is None:
            after = key_issuing.revoke(key_store, keyid, now, operator())
        else:
            after = key_issuing.schedule_revocation(key_store, keyid, at, now, operator())
    if as_json:
        terminal.print_json(json_row(columns(now), after))
    elif before.is_revoked(now):
        terminal.echo(f"Key {keyid} was already revoked at {minute(before.revoked_at or before.revokes_at or now)}.")
    elif at is not None:
        terminal.echo(f"Key {keyid} works until {minute(at)}.")
    else:
        terminal.echo(f"Revoked key {keyid}. A running service refuses it within a second.")


def _scope(shop: str | None, franchise: str | None) -> Scope:
    if shop is not None and franchise is None:
        return Scope("shop", shop)
    if franchise is not None and shop is None:
        return Scope("franchise", franchise)
    raise click.UsageError("Use either --shop ID or --franchise ID.")


def _not_loaded(scope: Scope) -> KeyIssuingError:
    unknown = f"no {'shop of ' if scope.kind == 'franchise' else ''}{scope.kind} {scope.id} is loaded"
    advice = "`counterfoil shops` lists the IDs. If the ID is right and is loaded later, add --not-loaded-yet."
    return KeyIssuingError(f"{unknown}, so no key was issued. {advice}")


def _now() -> int:
    return SystemClock().now_ms()


def _require_api_url(settings: Settings) -> None:
    if not settings.api_url:
        raise SettingsError(
            "the message needs the base URL under which integrators reach the API. Set api_url, such as "
            "COUNTERFOIL_API_URL=https://api.example.com/ext/v1, and run the command again."
        )


def _welcome(settings: Settings, key: Key) -> str:
    """Return the message for the holder of the key."""
    shops = _loaded_shops(bootstrap.store(settings).reads(), _now())
    in_franchise = None
    if shops is not None:
        in_franchise = sum(shop.franchise_id == key.scope.id for shop in shops)
    return welcome(key, settings.api_url, in_franchise, is_reference_served=settings.reference == "on")


def _print_welcome(text: str, as_json: bool) -> None:
    if as_json:
        terminal.print_json({"welcome": text})
        return
    for line in text.splitlines():
        terminal.echo(line)


def _note_attachment(settings: Settings) -> None:
    if settings.reference != "on":
        terminal.print_note(
            "the reference page is not served (reference = off). Attach the file that this command writes: "
            f"counterfoil reference --base-url {settings.api_url.rstrip('/')} --out reference.html"
        )


def _print_issued(issued: key_issuing.Issued, as_json: bool, welcome_text: str | None = None) -> None:
    if as_json:
        row = {"key": issued.text, **json_row(columns(_now()), issued.key)}
        if welcome_text is not None:
            row["welcome"] = welcome_text
        terminal.print_json(row)
        return
    terminal.echo(terminal.style(issued.text, bold=True))
    terminal.echo()
    terminal.echo("This key is shown only once: the store keeps only a hash of it. Save it in a safe place now.")
    terminal.echo()
    _print_key(issued.key, as_json=False)
    if welcome_text is not None:
        terminal.echo()
        terminal.echo("Send the holder the message below, and the key in another way, such as a password manager.")
        terminal.echo()
        _print_welcome(welcome_text, as_json=False)


def _print_key(key: Key, as_json: bool, more: Sequence[tuple[str, str]] = ()) -> None:
    if as_json:
        terminal.print_json(json_row(columns(_now()), key))
        return
    ended_at = revoked_at(key, _now())
    terminal.print_fields(
        [
            ("key ID", terminal.style(key.key_id, bold=True)),
            ("label", key.label or "-"),
            ("scope", f"{key.scope.kind} {key.scope.id}"),
            ("limits", f"{counted(key.per_min, 'request')} per minute, {key.per_day:,} per day (Thailand time)"),
            ("permissions", permission_names(key)),
            ("issued", minute(key.created_at)),
            *([("successor of", key.successor_of)] if key.successor_of else []),
            ("state", state(key, _now()) + (f" {minute(ended_at)}" if ended_at else "")),
            *more,
        ]
    )


def _show_usage(reads: OperatorReads, key: Key, now: int, as_json: bool) -> None:
    """Print a key with its usage, its errors and its copy. The JSON has the names of the console's page."""
    span = days_until(thai_day(now), REPORTED_DAYS)
    last_used = reads.last_used().get(key.key_id)
    days = key_days(reads, key.key_id, span)
    errors = reads.errors(now - REPORTED_DAYS * DAY_MS, key.key_id)
    lists = copies.copy_rows(key, reads.copies().get(key.lineage, []), _loaded_shops(reads, now), now)
    if as_json:
        used = None if last_used is None else iso_utc(last_used)
        found = {"lastUsed": used, "days": days, "errors": [json_row(ERRORS, group) for group in errors]}
        terminal.print_json({**json_row(columns(now), key), **found, "copies": lists})
        return
    used_at = minute(last_used) if last_used else "never"
    _print_key(key, as_json, more=[("last used", used_at), ("usage", _sentence_of_days(days))])
    if errors:
        terminal.echo()
        terminal.print_list(ERRORS, errors)
    if lists:
        terminal.echo()
        terminal.print_list(copies.columns(now), lists)
    for row in lists:
        notes = " ".join(map(str, copies.notes(row)))
        if notes:
            terminal.print_wrapped(f"{copies.list_name(row)}: {notes}")


def _sentence_of_days(days: Sequence[DayOfKey]) -> str:
    requests = sum(day.requests for day in days)
    failed = sum(day.errors for day in days)
    refused = sum(day.rate_limited + day.refused for day in days)
    return (
        f"{counted(requests, 'request')} in the last {REPORTED_DAYS} days, of which {failed:,} failed. This does not "
        f"include {counted(refused, 'request that was', 'requests that were')} refused because of the rate limit or a "
        "revoked key."
    )


def _loaded_shops(reads: OperatorReads, now: int) -> list[ShopActivity] | None:
    try:
        return reads.shops(now, count_all=False)
    except (StoreUnavailable, StoreMismatch):
        return None


# A change that the same operator made in the console counts as somebody else's.
def recent_values(settings: Settings, key: Key, changes: KeyChanges, now: int, by: Actor) -> dict[str, str]:
    """Return sentences about the values that somebody else set recently, and the values that replace them."""
    planned = field_changes(key, replace(key, **changes.changed_fields()))
    entries = bootstrap.store(settings).reads().audit(RECENT_ENTRIES, key.key_id, now - RECENT_MS)
    found = {}
    for name in sorted(planned):
        latest = next((entry for entry in entries if entry.act == Act.KEY_CHANGED and name in entry.changes), None)
        if latest is None or (latest.actor.name, latest.actor.via) == (by.name, by.via):
            continue
        before, after = latest.changes[name].before, latest.changes[name].after
        description = (
            f"{span_text(now - latest.at)} ago, {latest.actor.name} ({latest.actor.via}) "
            f"changed {name} from {value_text(before)} to {value_text(after)}."
        )
        found[description] = value_text(planned[name].after)
    return found
