"""`counterfoil keys`: issue, list, show, update, rotate, revoke."""

import re
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime

import click

from counterfoil import bootstrap, keydesk
from counterfoil.cli.options import existing_store, json_option, settings_from, store_option
from counterfoil.cli.terminal import Column, fields, note, on_terminal, print_json, table
from counterfoil.domain.access import DEFAULT_PER_DAY, DEFAULT_PER_MIN, Key, Scope
from counterfoil.domain.calendar import iso_utc
from counterfoil.domain.credentials import ID_LENGTH
from counterfoil.ports import KeyCabinet
from counterfoil.settings import Settings

_KEY_ID = re.compile(rf"[0-9A-Za-z]{{{ID_LENGTH}}}", re.ASCII)
_WHOLE_KEY = re.compile(rf"cf_live_([0-9A-Za-z]{{{ID_LENGTH}}})_.*", re.ASCII | re.DOTALL)
LIMIT = click.IntRange(1, keydesk.MOST)


def key_id(value: str) -> str:
    """A key's id. A whole key does not belong on a command line, where history and process lists keep it."""
    whole = _WHOLE_KEY.fullmatch(value)
    if whole:
        raise click.BadParameter(
            "that is a whole key with its secret, which should never stand on a command line "
            f"(shell history and process lists keep it). Give its id alone: {whole[1]}"
        )
    if not _KEY_ID.fullmatch(value):
        # Not repeated: it may be a secret.
        raise click.BadParameter(f"that is no key id; one has {ID_LENGTH} letters and digits.")
    return value


def permissions(key: Key) -> list[str]:
    """What the key may do beyond reading, named as the flags are."""
    granted = (("personal-data", key.personal_data), ("messaging-lookup", key.messaging_lookup))
    return [name for name, is_granted in granted if is_granted]


def key_view(key: Key) -> dict[str, object]:
    """A key as `--json` shows it."""
    return {
        "keyId": key.key_id,
        "label": key.label,
        "scope": {"kind": key.scope.kind, "id": key.scope.id},
        "permissions": permissions(key),
        "perMin": key.per_min,
        "perDay": key.per_day,
        "createdAt": iso_utc(key.created_at),
        "revoked": key.revoked_at is not None,
        "revokedAt": None if key.revoked_at is None else iso_utc(key.revoked_at),
        "successorOf": key.successor_of,
    }


def on_one_key(function: Callable[..., None]) -> Callable[..., None]:
    """What every command about one key takes: its id, the store, and whether to print JSON."""
    taken: Callable[..., None] = store_option(json_option(click.pass_context(function)))
    return click.argument("keyid", type=key_id)(taken)


@click.group()
def command() -> None:
    """Issue, list, change, rotate and revoke API keys.

    KEYID is the part between `cf_live_` and the next underscore.
    """


@command.command()
@click.option("--shop", metavar="ID", help="Bind the key to one shop.")
@click.option("--franchise", metavar="ID", help="Bind the key to every shop of a franchise.")
@click.option("--label", default="", help="Whose key it is, for people to read.")
@click.option("--per-min", type=LIMIT, default=DEFAULT_PER_MIN, show_default=True, help="Requests in any 60 seconds.")
@click.option("--per-day", type=LIMIT, default=DEFAULT_PER_DAY, show_default=True, help="Requests in a Thai day.")
@click.option("--personal-data", is_flag=True, help="May see members' tel and email.")
@click.option("--messaging-lookup", is_flag=True, help="May look members up by messaging user id.")
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
    """Issue a key for a shop or a franchise. The secret is shown once."""
    grant = keydesk.Grant(
        scope=_scope(shop, franchise),
        label=label,
        per_min=per_min,
        per_day=per_day,
        personal_data=personal_data,
        messaging_lookup=messaging_lookup,
    )
    settings = settings_from(ctx, store=store)
    with _cabinet(settings) as cabinet:
        issued = keydesk.issue(cabinet, grant, secrets.token_bytes, _now())
    if not bootstrap.Inspection(settings).knows(grant.scope):
        note(
            f"the store knows no {grant.scope.kind} {grant.scope.id} yet; until it is loaded the key reads nothing. "
            "If the id is mistyped, revoke this key and issue another."
        )
    _show_issued(issued, as_json)


@command.command(name="list")
@click.option("--active", is_flag=True, help="Leave revoked keys out.")
@store_option
@json_option
@click.pass_context
def list_(ctx: click.Context, active: bool, store: str | None, as_json: bool) -> None:
    """List all keys, oldest first."""
    with _cabinet(existing_store(ctx, store)) as cabinet:
        keys = [key for key in cabinet.all() if not (active and key.revoked_at is not None)]
    if as_json:
        print_json([key_view(key) for key in keys])
    elif not keys:
        note("no keys; `counterfoil keys issue` makes one.")
    elif on_terminal(sys.stdout):
        for key in keys:
            _draw(key)
    else:
        table(_COLUMNS, [_row(key) for key in keys])


@command.command()
@on_one_key
def show(ctx: click.Context, keyid: str, store: str | None, as_json: bool) -> None:
    """Show one key. Its secret is not kept and cannot be shown again."""
    with _cabinet(existing_store(ctx, store)) as cabinet:
        _show(keydesk.find(cabinet, keyid), as_json)


@command.command()
@click.option("--label", help="Whose key it is.")
@click.option("--per-min", type=LIMIT, help="Requests in any 60 seconds.")
@click.option("--per-day", type=LIMIT, help="Requests in a Thai day.")
@click.option("--personal-data/--no-personal-data", default=None, help="May see members' tel and email.")
@click.option("--messaging-lookup/--no-messaging-lookup", default=None, help="May look members up.")
@on_one_key
def update(
    ctx: click.Context,
    keyid: str,
    label: str | None,
    per_min: int | None,
    per_day: int | None,
    personal_data: bool | None,
    messaging_lookup: bool | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Change a key's label, limits or permissions. Its scope and secret never change."""
    amendment = keydesk.Amendment(
        label=label,
        per_min=per_min,
        per_day=per_day,
        personal_data=personal_data,
        messaging_lookup=messaging_lookup,
    )
    if not amendment.given():
        raise click.UsageError("Nothing to change was given.", ctx)
    with _cabinet(existing_store(ctx, store)) as cabinet:
        _show(keydesk.update(cabinet, keyid, amendment), as_json)


@command.command()
@on_one_key
def rotate(ctx: click.Context, keyid: str, store: str | None, as_json: bool) -> None:
    """Issue a successor that may do the same. The old key stays valid until it is revoked."""
    with _cabinet(existing_store(ctx, store)) as cabinet:
        issued = keydesk.rotate(cabinet, keyid, secrets.token_bytes, _now())
    _show_issued(issued, as_json)
    if not as_json:
        click.echo(f"When nobody uses the old key any more: counterfoil keys revoke {keyid}")


@command.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@on_one_key
def revoke(ctx: click.Context, keyid: str, yes: bool, store: str | None, as_json: bool) -> None:
    """Revoke a key for good. A running service refuses it within a second."""
    with _cabinet(existing_store(ctx, store)) as cabinet:
        before = keydesk.find(cabinet, keyid)
        if before.revoked_at is None and not yes and on_terminal(sys.stdin):
            name = f"{keyid} ({before.label})" if before.label else keyid
            click.confirm(f"Revoke {name}? This cannot be undone", abort=True, err=True)
        after = keydesk.revoke(cabinet, keyid, _now())
    if as_json:
        print_json(key_view(after))
    elif before.revoked_at is not None:
        click.echo(f"Key {keyid} was revoked already, {_when(before.revoked_at)}.")
    else:
        click.echo(f"Key {keyid} is revoked. A running service refuses it within a second.")


@contextmanager
def _cabinet(settings: Settings) -> Iterator[KeyCabinet]:
    with closing(bootstrap.key_cabinet(settings)) as cabinet:
        yield cabinet


def _scope(shop: str | None, franchise: str | None) -> Scope:
    if shop is not None and franchise is None:
        return Scope("shop", shop)
    if franchise is not None and shop is None:
        return Scope("franchise", franchise)
    raise click.UsageError("Give either --shop ID or --franchise ID.", click.get_current_context())


def _now() -> int:
    return bootstrap.SystemClock().now_ms()


def _when(instant: int) -> str:
    return datetime.fromtimestamp(instant / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


# --- how keys look -------------------------------------------------------------

_COLUMNS = (
    Column("key id"),
    Column("label"),
    Column("scope"),
    Column("/min", right=True),
    Column("/day", right=True),
    Column("may also"),
    Column("state"),
)


def _draw(key: Key) -> None:
    """Two lines, which fit a narrow terminal with room for long labels."""
    state = click.style("  revoked", fg="red") if key.revoked_at is not None else ""
    may = "".join(click.style(f"  +{permission}", fg="cyan") for permission in permissions(key))
    about = f"{key.scope.kind} {key.scope.id} · {key.per_min:,}/min, {key.per_day:,}/day"
    click.echo(f"{click.style(key.key_id, bold=True)}  {key.label or '-'}{may}{state}")
    click.secho(f"{'':<{ID_LENGTH}}  {about}", dim=True)


def _row(key: Key) -> tuple[str, ...]:
    return (
        key.key_id,
        key.label,
        f"{key.scope.kind} {key.scope.id}",
        f"{key.per_min:,}",
        f"{key.per_day:,}",
        ", ".join(permissions(key)) or "-",
        "active" if key.revoked_at is None else "revoked",
    )


def _show_issued(issued: keydesk.Issued, as_json: bool) -> None:
    if as_json:
        print_json({"key": issued.text, **key_view(issued.key)})
        return
    click.echo(click.style(issued.text, bold=True))
    click.echo("\nThis is the only time the key is shown: the store keeps a hash of it. Pass it on safely.\n")
    _show(issued.key, as_json=False)


def _show(key: Key, as_json: bool) -> None:
    if as_json:
        print_json(key_view(key))
        return
    fields(
        [
            ("key id", click.style(key.key_id, bold=True)),
            ("label", key.label or "-"),
            ("scope", f"{key.scope.kind} {key.scope.id}"),
            ("limits", f"{key.per_min:,} requests a minute, {key.per_day:,} a day"),
            ("may also", ", ".join(permissions(key)) or "-"),
            ("issued", _when(key.created_at)),
            *([("successor of", key.successor_of)] if key.successor_of else []),
            ("state", "active" if key.revoked_at is None else f"revoked {_when(key.revoked_at)}"),
        ]
    )
