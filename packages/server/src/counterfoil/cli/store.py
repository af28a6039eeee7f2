"""Commands about the store as a whole: `counterfoil init`, `migrate`, `prune`, `backup` and `restore`."""

import sys
from collections.abc import Sequence
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path

import click

from counterfoil import bootstrap
from counterfoil.backends.sqlite import files
from counterfoil.backends.sqlite.backup import BackupManifest, Restored, delete_older, rotating
from counterfoil.backends.sqlite.mappings import FOLDER
from counterfoil.checks.forgetting import Forgetting
from counterfoil.cli import options
from counterfoil.cli.auditing import audit_entry, record
from counterfoil.domain.access import DAILY_TOTAL_DAYS, REQUEST_RECORD_DAYS
from counterfoil.domain.audit import Act, AuditEntry
from counterfoil.domain.change_feed import REMOVALS_KEPT_MS
from counterfoil.domain.tokens import MIN_SECRET_BYTES
from counterfoil.machine.files import create_secret, read_regular, who_may_write
from counterfoil.machine.operator import operator
from counterfoil.model.calendar import DAY_MS, iso_utc
from counterfoil.model.messages import duration
from counterfoil.model.text import counted, printable, size
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.program.clock import SystemClock
from counterfoil.program.main import Command
from counterfoil.program.paths import UserPath
from counterfoil.program.terminal import confirm, echo, is_terminal, print_fields, print_json, print_note
from counterfoil.program.times import second
from counterfoil.settings import Settings, SettingsError, display_value

MAX_BACKUP_NAME = 200


@click.command(cls=Command)
@click.option(
    "--recreate",
    type=click.Choice(["books", "keys", "usage"]),
    help="Replace this file with an empty one, if it was lost and there is no backup.",
)
@click.option(
    "--share",
    is_flag=True,
    help="Share the books of an embedded store with the group of its folder, so that `load` can run as "
    "another user, who cannot open the keys.",
)
@click.option(
    "--secret-file",
    "kept_secret",
    type=UserPath(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Use the deployment secret in this file, such as that of the store which this one replaces, so "
    "that member tokens stay the same.",
)
@options.store_option
def init(recreate: str | None, share: bool, kept_secret: Path | None) -> None:
    """Create an empty store and its deployment secret. An existing store keeps its data.

    `load`, `import --load`, `keys issue` and `demo` also create a store; `serve` never does. On PostgreSQL, run
    `counterfoil migrate` first, then run `init` with the same login; after that, `serve` can start before anything
    is loaded.
    """
    settings = options.settings_from()
    if recreate:
        if share or kept_secret:
            raise click.UsageError("--recreate cannot be combined with --share or --secret-file.")
        _recreate(settings, recreate)
        return
    if settings.database:
        _require_owner(settings)
    is_new = not bootstrap.store(settings).exists()
    if is_new and not settings.database:
        _require_own_files(settings, is_shared_now=share)
    if kept_secret:
        _keep_secret(settings, kept_secret, is_new=is_new)
    has_secret = bool(settings.secret) or settings.secret_file.exists()
    if share:
        if settings.database:
            raise SettingsError("only the files of an embedded store are shared. On PostgreSQL, each user has a login.")
        files.share(settings.store)
    bootstrap.store(settings).prepare()
    if is_new:
        record(settings, Act.STORE_CREATED, "")
    echo(f"The store {display_value(settings, 'store')} is ready. Load source records with `counterfoil load`.")
    _print_secret_notes(settings, is_new_secret=not has_secret)


def _recreate(settings: Settings, name: str) -> None:
    if settings.database:
        raise SettingsError("only an embedded store has files that can be recreated.")
    files.recreate(settings.store, name)
    record(settings, Act.FILE_RECREATED, f"{name}.sqlite3")
    echo(f"Created an empty {name}.sqlite3 in {display_value(settings, 'store')}.")


def _print_secret_notes(settings: Settings, *, is_new_secret: bool) -> None:
    if is_new_secret:
        print_note(
            f"{settings.secret_file} has a new deployment secret, which makes new member tokens. If this store "
            "replaces another one, the members in every copy get other IDs. To keep them, create a store in another "
            "folder with `counterfoil init --secret-file OLD/secret`, before anything is loaded."
        )
    if settings.database and not settings.secret:
        print_note(
            f"the deployment secret is in {settings.secret_file!s}. Every node and every loader needs the same secret: "
            "set COUNTERFOIL_SECRET or COUNTERFOIL_SECRET_FILE on each of them."
        )


def _keep_secret(settings: Settings, file: Path, *, is_new: bool) -> None:
    """Use the deployment secret of an earlier store for a new one, so that member tokens stay as they are."""
    if settings.secret:
        raise SettingsError("COUNTERFOIL_SECRET sets the deployment secret, so --secret-file has no effect.")
    secret = read_regular(file).strip()
    if len(secret) < MIN_SECRET_BYTES or not secret.isascii():
        raise SettingsError(
            f"{file} has no deployment secret: it must be at least {MIN_SECRET_BYTES} ASCII characters."
        )
    target = settings.secret_file
    if target.exists() and read_regular(target).strip() == secret:
        return
    if not is_new or target.exists():
        raise SettingsError(
            f"{target} has another deployment secret, which is kept. Create the store in another folder."
        )
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    create_secret(target, secret.decode("ascii"))


def _require_own_files(settings: Settings, *, is_shared_now: bool) -> None:
    """Raise if others may change the folder of a new store, or have put a deployment secret there."""
    folder, secret = settings.store, settings.secret_file
    if folder.exists() and (problem := who_may_write(folder, is_shared_now=is_shared_now)):
        advice = "Make it yours alone with `chown` and `chmod 700`, check what is in it, and run `init` again."
        raise SettingsError(f"{problem}, so somebody else could change the store. {advice}")
    if settings.secret or not secret.exists():
        return
    if problem := who_may_write(secret, is_shared_now=is_shared_now):
        raise SettingsError(
            f"{problem}, so somebody else may know this deployment secret. Delete the file for a new one, or, if it is "
            "the secret of an earlier store, make it yours alone with `chown` and `chmod 600`."
        )
    print_note(f"the deployment secret was already in {secret}. The member tokens of this store depend on it.")


def _require_owner(settings: Settings) -> None:
    """Raise if the login does not own the schema: only the owner can initialise a store and record it."""
    permissions = bootstrap.store(settings).reads().permissions()
    if permissions and not permissions.owns:
        raise SettingsError(
            f"the login {permissions.login} does not own the schema. Run `counterfoil init` with the login that "
            "you use for `counterfoil migrate`."
        )


@click.command(cls=Command)
@click.option(
    "--roles", is_flag=True, help="Create the roles for serving, loading and administration, with their permissions."
)
@click.option("--distribute", is_flag=True, help="Distribute bills and members over the workers of a Citus cluster.")
@options.store_options
def migrate(roles: bool, distribute: bool, as_json: bool) -> None:
    """Create or upgrade the schema of a PostgreSQL store. Safe to run concurrently.

    An embedded store is upgraded automatically. The login must own the schema `counterfoil` or be allowed to create
    it; with --roles, it must be allowed to create roles. Before --distribute, stop every `serve` and `load`.
    """
    settings = options.settings_from()
    if not settings.database and (roles or distribute):
        flag = "--roles" if roles else "--distribute"
        raise SettingsError(
            f"{flag} requires a store on PostgreSQL. Set COUNTERFOIL_STORE to its address. An "
            "embedded store has no roles and cannot be distributed."
        )
    done = bootstrap.store(settings).migrate(partial(_entry_about, Act.SCHEMA_MIGRATED))
    distributed = bootstrap.distribute(settings) if distribute else []
    if distributed:
        record(settings, Act.TABLES_DISTRIBUTED, ", ".join(distributed))
    granted = bootstrap.make_roles(settings, partial(_entry_about, Act.ROLES_GRANTED)) if roles else []
    if as_json:
        changes = {"migrations": done, "distributed": distributed, "roles": granted}
        print_json({"store": display_value(settings, "store"), **changes})
        return
    echo(f"Applied {', '.join(done)}." if done else "The schema is up to date.")
    if distribute:
        echo(f"Distributed {', '.join(distributed)}." if distributed else "The tables are already distributed.")
    if granted:
        echo(f"Roles: {', '.join(granted)}. They cannot log in; grant them to your own logins.")


def _entry_about(act: Act, names: list[str]) -> AuditEntry:
    return audit_entry(act, ", ".join(names))


@click.command(cls=Command)
@options.store_options
def prune(as_json: bool) -> None:
    """Delete old request records, daily totals and cursors, and old removals from the change feed.

    Request records are kept for 90 days, daily totals and removals for 400 days, and unused cursors for 7 days. A
    running service does this automatically every hour.
    """
    settings = options.existing_store()
    with closing(bootstrap.store(settings).usage()) as usage:
        records, totals = usage.prune()
        expired = usage.prune_cursors()
    removals = _prune_removals(settings)
    deleted_records = counted(records, "request record")
    deleted_totals = counted(totals, "daily total")
    deleted_removals = counted(removals, "removal")
    entry = f"{deleted_records}, {deleted_totals}, {counted(expired, 'expired cursor')}, {deleted_removals}"
    record(settings, Act.RECORDS_PRUNED, entry)
    if as_json:
        print_json({"requestRecords": records, "dailyTotals": totals, "cursors": expired, "removals": removals})
        return
    echo(
        f"Deleted {deleted_records} older than {REQUEST_RECORD_DAYS} days and {deleted_totals} older than "
        f"{DAILY_TOTAL_DAYS:,} days. Expired {counted(expired, 'unused cursor')}. Deleted {deleted_removals} older "
        f"than {REMOVALS_KEPT_MS // DAY_MS} days from the change feed."
    )


def _prune_removals(settings: Settings) -> int:
    """Delete old removals from the change feed; return the count. If the login cannot delete them, print a note."""
    permissions = bootstrap.store(settings).reads().permissions()
    if permissions and not (permissions.serves or permissions.loads):
        print_note(
            f"the login {permissions.login} cannot delete removals from the change feed, so none were deleted. "
            "The service deletes them."
        )
        return 0
    with closing(bootstrap.store(settings).ledger()) as ledger:
        return ledger.prune_removals()


@click.command(cls=Command)
@click.argument("folder", type=UserPath(path_type=Path), metavar="DIR", required=False)
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    metavar="N",
    help="Make the backup in DIR, in a folder named after the time, and keep only the newest N.",
)
@click.option(
    "--without-secret",
    is_flag=True,
    help="Leave the deployment secret out of the backup. You must keep your own copy of it.",
)
@click.option(
    "--record",
    "recorded_name",
    metavar="NAME",
    help="Record that another tool has just made this backup of a store on PostgreSQL.",
)
@options.utc_option
@options.store_options
def backup(
    folder: Path | None, keep: int | None, without_secret: bool, recorded_name: str | None, as_json: bool
) -> None:
    """Back up a store to the new folder DIR. The service can keep running.

    The backup contains the three databases, the deployment secret and the remembered mappings of exports. DIR is
    created only when the backup is complete and verified. A secret set in COUNTERFOIL_SECRET is not copied, and neither
    are rejects files, nor mappings that others may write to.

    With --keep, DIR is a folder of backups, which is created if the folder above it exists: the new one is
    DIR/TIME, and once it is complete, older ones of the same store are deleted. The audit log records each backup,
    and `counterfoil status` warns if the latest one is too old.

    A store on PostgreSQL is backed up with other tools. Run --record afterwards.

    Exit status: 0 if the backup is complete and verified, 1 if it failed.
    """
    settings = options.existing_store()
    if recorded_name is not None:
        if folder or keep or without_secret:
            raise click.UsageError("--record is used alone, without DIR and other options.")
        _record_backup_of_others(settings, recorded_name, as_json)
        return
    if folder is None:
        raise click.UsageError("Missing argument 'DIR'.")
    options.require_embedded(settings)
    now_ms = SystemClock().now_ms()
    with rotating(settings.store, folder, now_ms) if keep else nullcontext(folder) as target:
        manifest = bootstrap.back_up(settings, target, with_secret=not without_secret)
        _record_backup(settings, str(target.absolute()), manifest.created_at)
        deleted = delete_older(target, manifest.store_id, keep) if keep else []
    for sentence in manifest.left_out:
        print_note(f"{sentence}, so the backup does not contain it: mappings decide how money is read.")
    if as_json:
        print_json(_backup_json(target, manifest, deleted))
        return
    fields = _backup_fields(target, manifest)
    if keep:
        fields.append(("deleted", counted(len(deleted), "older backup")))
    print_fields(fields)
    if not manifest.has_secret:
        print_note("the backup cannot be used without the deployment secret. Keep a copy of the secret elsewhere.")


def _backup_json(target: Path, manifest: BackupManifest, deleted: Sequence[Path]) -> dict[str, object]:
    return {
        "folder": str(target),
        "createdAt": iso_utc(manifest.created_at),
        "horizon": iso_utc(manifest.horizon),
        "hasSecret": manifest.has_secret,
        "files": manifest.files,
        "mappings": manifest.mappings,
        "leftOut": manifest.left_out,
        "deleted": [str(path) for path in deleted],
    }


def _backup_fields(target: Path, manifest: BackupManifest) -> list[tuple[str, str]]:
    total_bytes = sum(file.size_bytes for file in manifest.files.values())
    fields = [
        ("backup", f"{target} (verified)"),
        ("size", size(total_bytes)),
        *_row_counts(manifest),
        ("horizon", second(manifest.horizon)),
        ("secret", "included" if manifest.has_secret else "not included"),
    ]
    if manifest.mappings:
        fields.append(("mappings", f"{len(manifest.mappings):,}"))
    return fields


def _row_counts(manifest: BackupManifest) -> list[tuple[str, str]]:
    return [
        ("bills", f"{manifest.rows('books', 'bills'):,}"),
        ("members", f"{manifest.rows('books', 'members'):,}"),
        ("keys", f"{manifest.rows('keys', 'keys'):,}"),
    ]


def _record_backup(settings: Settings, name: str, at: int) -> None:
    """Record a backup that is complete. If the store cannot be written, print a note: the backup can still be used."""
    try:
        record(settings, Act.STORE_BACKED_UP, name, at)
    except (StoreUnavailable, StoreMismatch) as error:
        print_note(f"the backup is complete, but it could not be recorded in the store. {error.message.as_sentence()}")


def _record_backup_of_others(settings: Settings, name: str, as_json: bool) -> None:
    if not settings.database:
        raise SettingsError("only backups of a store on PostgreSQL are recorded. Run `counterfoil backup DIR`.")
    if not name.strip() or printable(name) != name or len(name) > MAX_BACKUP_NAME:
        raise SettingsError(f"the name of a backup has 1 to {MAX_BACKUP_NAME} printable characters.")
    at = SystemClock().now_ms()
    record(settings, Act.STORE_BACKED_UP, name, at)
    if as_json:
        print_json({"recorded": name, "createdAt": iso_utc(at)})
    else:
        echo(f"Recorded the backup {name}.")


@click.command(cls=Command)
@click.argument("folder", type=UserPath(path_type=Path), metavar="DIR")
@click.option("--replace", is_flag=True, help="Replace the existing store. Its files are kept in a subfolder.")
@click.option("--yes", is_flag=True, help="Skip the --replace confirmation prompt.")
@options.utc_option
@options.store_options
def restore(folder: Path, replace: bool, yes: bool, as_json: bool) -> None:
    """Restore the backup in DIR, which was created with `counterfoil backup`.

    Stop the service and all loads first. The backup is verified before anything is changed. The horizon is raised
    to the current time, so that marks for updatedSince stay valid. All marks of the change feed become invalid: a
    client that sends one gets mark_expired and must read everything again. All cursors become invalid too: a client
    that sends one gets bad_cursor and must read its list again from the beginning.

    Exit status: 0 if the backup was restored, 1 if the restore failed.
    """
    if not replace:
        options.refuse_without_effect("only --replace asks.", "--yes")
    settings = options.settings_from()
    options.require_embedded(settings)
    if replace and not yes:
        if not is_terminal(sys.stdin):
            raise click.UsageError("--replace needs --yes, because standard input is not a terminal.")
        confirm(f"Replace the store {display_value(settings, 'store')}?")
    restored = bootstrap.restore(settings, folder, operator(), replace=replace)
    forgetting = Forgetting(settings, SystemClock().now_ms())
    forgotten = forgetting.unfinished()
    if forgotten:
        forgetting.forget_marked(forgotten, operator())
    if as_json:
        print_json(_restored_json(restored, folder, len(forgotten)))
    else:
        store = display_value(settings, "store")
        print_fields([("restored", f"{store} from {folder}"), *_restored_fields(restored, len(forgotten))])
        _print_next_steps(restored)
    for sentence in restored.left_out:
        print_note(sentence)
    if restored.clock_behind_ms:
        print_note(
            f"the clock is {duration(restored.clock_behind_ms)} behind the horizon. Check the clock against "
            "NTP before you start the service."
        )


def _restored_json(restored: Restored, folder: Path, forgotten: int) -> dict[str, object]:
    return {
        "folder": str(folder),
        "backupTakenAt": iso_utc(restored.manifest.created_at),
        "horizon": iso_utc(restored.horizon),
        "clockBehindMs": restored.clock_behind_ms,
        "previousFiles": None if restored.kept_in is None else str(restored.kept_in),
        "unreadable": restored.replaced.unreadable,
        "forgottenAgain": forgotten,
        "mappings": restored.mappings,
        "leftOut": restored.left_out,
    }


def _restored_fields(restored: Restored, forgotten: int) -> list[tuple[str, str]]:
    fields = [
        ("backup taken", second(restored.manifest.created_at)),
        *_row_counts(restored.manifest),
        ("horizon", f"{second(restored.horizon)} (raised, so that marks for updatedSince stay valid)"),
        ("feed marks", "all invalid: clients get mark_expired and must read everything again"),
        ("cursors", "all invalid: clients get bad_cursor and must read the list again from the beginning"),
    ]
    if restored.mappings:
        fields.append(("mappings", f"{len(restored.mappings):,}"))
    if restored.kept_in:
        fields.append(("previous files", str(restored.kept_in)))
    if forgotten:
        fields.append(("forgotten", f"{counted(forgotten, 'member')} again"))
    return fields


def _print_next_steps(restored: Restored) -> None:
    taken = second(restored.manifest.created_at)
    echo()
    echo("Before you start the service, do the following:")
    carried = restored.kept_in is not None and not {"keys", "usage"} & set(restored.replaced.unreadable)
    if not carried:
        echo(f"- Keys that were revoked after {taken} are active again: revoke them.")
    echo(f"- Keys that were issued after {taken} are lost: issue new ones.")
    if restored.kept_in is None or "books" in restored.replaced.unreadable:
        echo(
            f"- Members who were forgotten after {taken} are back: forget them again, with"
            " `counterfoil members forget --marks FILE` if you have kept their marks."
        )
    if restored.kept_in is not None and (restored.kept_in / FOLDER).exists():
        echo(f"- The previous mappings of exports are in {restored.kept_in / FOLDER}: copy back newer ones.")
    echo("Then load the deliveries again, beginning with those from shortly before the backup.")
