"""`counterfoil keys`: issue, list, show, update, rotate and revoke API keys."""

import re
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime

import click

from counterfoil import bootstrap, key_issuing
from counterfoil.cli.key_report import print_report, read_report, report_fields, report_view
from counterfoil.cli.options import existing_store, json_option, settings_from, store_option
from counterfoil.cli.recent_key_changes import confirm_replacement, recent_values, successors_by_others
from counterfoil.cli.recording import is_without_store, record_new_store
from counterfoil.cli.terminal import (
    DisplayColumn,
    confirm,
    echo,
    is_terminal,
    print_fields,
    print_json,
    print_note,
    print_table,
    style,
)
from counterfoil.domain.access import DEFAULT_PER_DAY, DEFAULT_PER_MIN, Key, Scope, permissions, successors_of
from counterfoil.domain.calendar import DAY_MS, iso_utc, to_ms
from counterfoil.domain.credentials import ID_LENGTH
from counterfoil.key_issuing import AlreadyRotated, KeyIssuingError
from counterfoil.machine.clock import SystemClock
from counterfoil.machine.operator import operator
from counterfoil.ports import KeyStore, StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings
from counterfoil.text import counted, parse_duration

_KEY_ID = re.compile(rf"[0-9A-Za-z]{{{ID_LENGTH}}}", re.ASCII)
MAX_SPAN_MS = 9_999 * 7 * DAY_MS
_WHOLE_KEY = re.compile(rf"cf_live_([0-9A-Za-z]{{{ID_LENGTH}}})_.*", re.ASCII | re.DOTALL)
LIMIT = click.IntRange(1, key_issuing.MAX_LIMIT)


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


def instant(value: str) -> int:
    """Parse a time with a zone, and return it in milliseconds since 1970."""
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise click.BadParameter(
            f"{value!r} is not a valid time. Include the time zone, for example 2026-11-23T00:00+07:00."
        )
    return to_ms(moment)


def key_view(key: Key) -> dict[str, object]:
    """Return the key as `--json` prints it."""
    is_revoked = key.is_revoked(_now())
    revoked_at = key.revokes_at if is_revoked and key.revoked_at is None else key.revoked_at
    return {
        "keyId": key.key_id,
        "label": key.label,
        "scope": {"kind": key.scope.kind, "id": key.scope.id},
        "permissions": permissions(key),
        "perMin": key.per_min,
        "perDay": key.per_day,
        "createdAt": iso_utc(key.created_at),
        "revoked": is_revoked,
        "revokedAt": None if revoked_at is None else iso_utc(revoked_at),
        "revokesAt": None if is_revoked or key.revokes_at is None else iso_utc(key.revokes_at),
        "successorOf": key.successor_of,
    }


def single_key_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the parameters that every single-key command takes: KEYID, --store and --json."""
    decorated: Callable[..., None] = store_option(json_option(click.pass_context(function)))
    return click.argument("keyid", type=key_id)(decorated)


@click.group()
def command() -> None:
    """Issue, list, update, rotate and revoke API keys.

    KEYID is the part of a key between `cf_live_` and the next underscore.
    """


@command.command()
@click.option("--shop", metavar="ID", help="Limit the key to one shop.")
@click.option("--franchise", metavar="ID", help="Limit the key to the shops of one franchise.")
@click.option("--label", default="", help="Who the key is for. For information only.")
@click.option("--per-min", type=LIMIT, default=DEFAULT_PER_MIN, show_default=True, help="Requests per 60 seconds.")
@click.option(
    "--per-day", type=LIMIT, default=DEFAULT_PER_DAY, show_default=True, help="Requests per day (Thailand time)."
)
@click.option("--personal-data", is_flag=True, help="Allow reading members' tel and email.")
@click.option("--messaging-lookup", is_flag=True, help="Allow looking up members by messaging user ID.")
@store_option
@json_option
@click.pass_context
def issue(
    ctx: click.Context,
    shop: str | None,
    franchise: str | None,
    label: str,
    per_min: int,
    per_day: int,
    personal_data: bool,
    messaging_lookup: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Issue a key for a shop or a franchise. The key is shown only once."""
    grant = key_issuing.Grant(
        scope=_scope(shop, franchise),
        label=label,
        per_min=per_min,
        per_day=per_day,
        personal_data=personal_data,
        messaging_lookup=messaging_lookup,
    )
    settings = settings_from(ctx, store=store)
    is_new = is_without_store(settings)
    with _open_key_store(settings) as key_store:
        if is_new:
            record_new_store(settings)
        issued = key_issuing.issue(key_store, grant, secrets.token_bytes, _now(), operator())
    if not bootstrap.operator_reads(settings).knows(grant.scope):
        print_note(
            f"{grant.scope.kind} {grant.scope.id} is not loaded yet. Until it is, the key cannot read anything. "
            "`counterfoil shops` lists the loaded IDs. If the ID is wrong, revoke this key and issue another."
        )
    _print_issued(issued, as_json)


@command.command(name="list")
@click.option("--active", is_flag=True, help="Leave out revoked keys.")
@store_option
@json_option
@click.pass_context
def list_(ctx: click.Context, active: bool, store: str | None, as_json: bool) -> None:
    """List all keys, oldest first."""
    found = bootstrap.operator_reads(existing_store(ctx, store)).keys()
    keys = [key for key in found if not (active and key.is_revoked(_now()))]
    if as_json:
        print_json([key_view(key) for key in keys])
    elif not keys:
        print_note("no keys found. Run `counterfoil keys issue` to create one.")
    elif is_terminal(sys.stdout):
        for key in keys:
            _print_on_two_lines(key)
    else:
        print_table(_COLUMNS, [_row(key) for key in keys])


@command.command()
@single_key_options
def show(ctx: click.Context, keyid: str, store: str | None, as_json: bool) -> None:
    """Show one key, its usage and errors in the last 7 days, and how fresh its copy is.

    The secret of a key is not stored and cannot be shown again.
    """
    settings, now = existing_store(ctx, store), _now()
    key = key_issuing.key_in(bootstrap.operator_reads(settings).keys(), keyid)
    try:
        report = read_report(settings, key, now)
    except (StoreUnavailable, StoreMismatch) as error:
        print_note(f"the usage of this key cannot be shown: {error}")
        _print_key(key, as_json)
        return
    if as_json:
        print_json({**key_view(key), **report_view(report)})
    else:
        _print_key(key, as_json=False, more=report_fields(report))
        print_report(report, now)


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
def update(
    ctx: click.Context,
    keyid: str,
    label: str | None,
    per_min: int | None,
    per_day: int | None,
    personal_data: bool | None,
    messaging_lookup: bool | None,
    yes: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Change a key's label, limits or permissions. Its scope and secret never change.

    A revoked key cannot be changed. Before the command replaces a value that
    somebody else set within the last hour, it asks for confirmation. Without a
    terminal, it refuses unless --yes is given.
    """
    changes = key_issuing.KeyChanges(
        label=label,
        per_min=per_min,
        per_day=per_day,
        personal_data=personal_data,
        messaging_lookup=messaging_lookup,
    )
    if not changes.changed_fields():
        raise click.UsageError("Nothing to change. Set at least one option.", ctx)
    settings, now, by = existing_store(ctx, store), _now(), operator()
    with _open_key_store(settings) as key_store:
        seen = key_issuing.find(key_store, keyid)
        # Refuse a revoked key before the operator is asked anything.
        key_issuing.require_not_revoked(seen, now)
        replaced = recent_values(settings, seen, changes, now, by)
        if not yes:
            confirm_replacement(replaced)
        # If somebody else changes the key while the operator is being asked, this update is refused.
        _print_key(key_issuing.update(key_store, keyid, changes, _now(), by, seen=seen), as_json)
    for value in replaced:
        print_note(f"{value.description} This command has replaced that value with {value.replacement}.")


@command.command()
@click.option(
    "--revoke-old-in",
    type=duration,
    metavar="DURATION",
    help="Revoke the old key after this time, for example 30m, 12h, 7d or 2w.",
)
@click.option("--again", is_flag=True, help="Issue a successor even if somebody else issued one within the last hour.")
@single_key_options
def rotate(
    ctx: click.Context, keyid: str, revoke_old_in: int | None, again: bool, store: str | None, as_json: bool
) -> None:
    """Issue a successor with the same scope, limits and permissions.

    The old key stays valid until it is revoked, either by you or after the time
    given with --revoke-old-in. If somebody else has rotated the key within the
    last hour, the command refuses to issue another successor unless --again is
    given.
    """
    settings, now, by = existing_store(ctx, store), _now(), operator()
    revoke_old_at = None if revoke_old_in is None else now + revoke_old_in
    with _open_key_store(settings) as key_store:
        successors = {key.key_id for key in successors_of(key_store.all(), keyid) if not key.is_revoked(now)}
        known = successors if again else successors - successors_by_others(settings, keyid, now, by)
        try:
            issued = key_issuing.rotate(
                key_store, keyid, secrets.token_bytes, now, by, revoke_old_at, known_successors=known
            )
        except AlreadyRotated as error:
            raise KeyIssuingError(f"{error} To issue another successor, run the command with --again.") from error
    _print_issued(issued, as_json)
    if known:
        print_note(f"this key was rotated before. Other active successors: {', '.join(sorted(known))}.")
    if as_json:
        return
    # An earlier command may have scheduled the revocation.
    ends_at = issued.replaces.revokes_at if issued.replaces else None
    if ends_at is not None:
        echo(f"The old key {keyid} works until {_format_time(ends_at)}.")
    else:
        echo(f"Once the old key is no longer in use, run: counterfoil keys revoke {keyid}")


@command.command()
@click.option("--at", type=instant, metavar="TIME", help="Revoke at this time, for example 2026-11-23T00:00+07:00.")
@click.option("--yes", is_flag=True, help="Skip the confirmation prompt. Required if standard input is not a terminal.")
@single_key_options
def revoke(ctx: click.Context, keyid: str, at: int | None, yes: bool, store: str | None, as_json: bool) -> None:
    """Revoke a key permanently. A running service refuses the key within a second,
    or within 270 seconds if the service cannot read the keys.

    With --at, the key works until that time. Until then, the command can be
    run again with another time.
    """
    now = _now()
    if at is not None and at <= now:
        raise click.UsageError("--at must be in the future. To revoke the key now, leave out --at.", ctx)
    with _open_key_store(existing_store(ctx, store)) as key_store:
        before = key_issuing.find(key_store, keyid)
        if not before.is_revoked(now) and not yes:
            _confirm_revocation(ctx, before, at)
        if at is None:
            after = key_issuing.revoke(key_store, keyid, now, operator())
        else:
            after = key_issuing.schedule_revocation(key_store, keyid, at, now, operator())
    if as_json:
        print_json(key_view(after))
    elif before.is_revoked(now):
        echo(f"Key {keyid} was already revoked at {_format_time(before.revoked_at or before.revokes_at or now)}.")
    elif at is not None:
        echo(f"Key {keyid} works until {_format_time(at)}.")
    else:
        echo(f"Revoked key {keyid}. A running service refuses it within a second.")


def _confirm_revocation(ctx: click.Context, key: Key, at: int | None) -> None:
    if not is_terminal(sys.stdin):
        raise click.UsageError("Revoking a key needs --yes, because standard input is not a terminal.", ctx)
    name = f"{key.key_id} ({key.label})" if key.label else key.key_id
    when = "This cannot be undone" if at is None else f"It will stop working at {_format_time(at)}"
    confirm(f"Revoke {name}? {when}")


@contextmanager
def _open_key_store(settings: Settings) -> Iterator[KeyStore]:
    with closing(bootstrap.key_store(settings)) as key_store:
        yield key_store


def _scope(shop: str | None, franchise: str | None) -> Scope:
    if shop is not None and franchise is None:
        return Scope("shop", shop)
    if franchise is not None and shop is None:
        return Scope("franchise", franchise)
    raise click.UsageError("Use either --shop ID or --franchise ID.", click.get_current_context())


def _now() -> int:
    return SystemClock().now_ms()


def _format_time(instant: int) -> str:
    return datetime.fromtimestamp(instant / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


# --- output ---------------------------------------------------------------------

_COLUMNS = (
    DisplayColumn("key ID"),
    DisplayColumn("label"),
    DisplayColumn("scope"),
    DisplayColumn("/min", align_right=True),
    DisplayColumn("/day", align_right=True),
    DisplayColumn("permissions"),
    DisplayColumn("state"),
)


def _print_on_two_lines(key: Key) -> None:
    """Print a key on two lines, which leaves room for long labels on a narrow terminal."""
    state = _state(key)
    shown = "" if state == "active" else style(f"  {state}", fg="red" if key.is_revoked(_now()) else "yellow")
    granted_flags = "".join(style(f"  +{permission}", fg="cyan") for permission in permissions(key))
    about = f"{key.scope.kind} {key.scope.id} · {key.per_min:,}/min, {key.per_day:,}/day"
    echo(f"{style(key.key_id, bold=True)}  {key.label or '-'}{granted_flags}{shown}")
    echo(f"{'':<{ID_LENGTH}}  {about}", dim=True)


def _row(key: Key) -> tuple[str, ...]:
    return (
        key.key_id,
        key.label,
        f"{key.scope.kind} {key.scope.id}",
        f"{key.per_min:,}",
        f"{key.per_day:,}",
        ", ".join(permissions(key)) or "none",
        _state(key),
    )


def _state(key: Key) -> str:
    if key.is_revoked(_now()):
        return "revoked"
    return "active" if key.revokes_at is None else f"active until {_format_time(key.revokes_at)}"


def _print_issued(issued: key_issuing.Issued, as_json: bool) -> None:
    if as_json:
        print_json({"key": issued.text, **key_view(issued.key)})
        return
    echo(style(issued.text, bold=True))
    echo()
    echo("This key is shown only once: the store keeps only a hash of it. Save it in a safe place now.")
    echo()
    _print_key(issued.key, as_json=False)


def _print_key(key: Key, as_json: bool, more: Sequence[tuple[str, str]] = ()) -> None:
    if as_json:
        print_json(key_view(key))
        return
    revoked_at = key.revoked_at or key.revokes_at
    print_fields(
        [
            ("key ID", style(key.key_id, bold=True)),
            ("label", key.label or "-"),
            ("scope", f"{key.scope.kind} {key.scope.id}"),
            ("limits", f"{counted(key.per_min, 'request')} per minute, {key.per_day:,} per day (Thailand time)"),
            ("permissions", ", ".join(permissions(key)) or "none"),
            ("issued", _format_time(key.created_at)),
            *([("successor of", key.successor_of)] if key.successor_of else []),
            ("state", _state(key) + (f" {_format_time(revoked_at)}" if key.is_revoked(_now()) and revoked_at else "")),
            *more,
        ]
    )
