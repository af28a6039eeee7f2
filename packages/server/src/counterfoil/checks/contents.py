"""Checks of what the store holds: loads, deliveries, keys, shops and backups."""

from collections.abc import Iterator, Sequence
from datetime import UTC

from msgspec import UNSET

from counterfoil.checks.findings import Finding, FindingKind
from counterfoil.checks.running import HorizonMotion, horizon_motion
from counterfoil.domain.access import Key
from counterfoil.domain.activity import MOST_COUNTED, ShopActivity
from counterfoil.domain.doubts import describe
from counterfoil.domain.forgetting import ForgottenMember
from counterfoil.domain.intake import MIN_EARLIER_GROUPS, Intake, comparable_groups
from counterfoil.domain.loads import STALLED_MS, LoadRow, WatchedFolder
from counterfoil.model.calendar import DAY_MS, HOUR_MS, MINUTE_MS, from_ms
from counterfoil.model.messages import Message, duration, first_of
from counterfoil.model.text import format_usual, printable
from counterfoil.views.store import KeyToday, StoreValues

QUIET_LOAD_MS = 15_000
# A forgetting that was begun later may still be running.
FORGETTING_MS = 10 * MINUTE_MS

NOTHING_LOADED = FindingKind(
    code="nothing_loaded",
    check="load",
    status="warn",
    text="Nothing has been loaded yet.",
    advice="Run `counterfoil load`.",
)
LOAD_FINISHED_AGO = FindingKind(
    code="load_finished_ago",
    check="load",
    status="ok",
    text="Finished {span} ago: {lines:line}, {changed} changed, {rejected} rejected.",
)


def load(load: LoadRow | None, horizon: int | None, now: int) -> Finding:
    if load is None:
        return NOTHING_LOADED()
    if not load.finished:
        return unfinished_load(load, horizon_motion(horizon, now), now)
    span = duration(load.idle_ms(now))
    return LOAD_FINISHED_AGO(span=span, lines=load.lines, changed=load.changed, rejected=load.rejected)


LOAD_FAILED = FindingKind(
    code="load_failed",
    check="load",
    status="warn",
    text="A load did not finish: it stopped after {lines:line}, {span} ago.",
    advice="Correct the cause that its error message named. Then run the same `counterfoil load` again; records "
    "that are already loaded are skipped.",
)
LOAD_UNKNOWN = FindingKind(
    code="load_unknown",
    check="load",
    status="warn",
    text="The latest load has not finished ({lines:line}). It may be running; the clock is too far behind to tell.",
    advice="If it is no longer running, run the same `counterfoil load` again; records that are already loaded are "
    "skipped.",
)
LOAD_AGAIN = Message(
    "load_again", "Run the same `counterfoil load` again; records that are already loaded are skipped."
)
LOAD_STALLED = FindingKind(
    code="load_stalled",
    check="load",
    status="warn",
    text="A load did not finish: it stopped after {lines:line}, {span} ago.",
    advice=LOAD_AGAIN,
)
LOAD_WAITING = FindingKind(
    code="load_waiting",
    check="load",
    status="ok",
    text="A load is waiting or was stopped: {lines:line} so far, nothing written for {span}.",
    advice="Run `counterfoil doctor` again in two minutes.",
)
LOAD_RUNNING = FindingKind(
    code="load_running", check="load", status="ok", text="A load is running: {lines:line} so far."
)


def unfinished_load(load: LoadRow, motion: HorizonMotion, now: int) -> Finding:
    idle_ms = load.idle_ms(now)
    if load.is_stopped:
        kind = LOAD_FAILED
    elif motion == "ahead":
        kind = LOAD_UNKNOWN
    elif idle_ms > STALLED_MS:
        kind = LOAD_STALLED
    else:
        kind = LOAD_WAITING if idle_ms > QUIET_LOAD_MS else LOAD_RUNNING
    return kind(lines=load.lines, span=duration(idle_ms))


FORGETTING_UNFINISHED = FindingKind(
    code="forgetting_unfinished",
    check="members",
    status="warn",
    text="Not wholly forgotten, because the command was interrupted: {count:member}, the oldest {span} ago.",
    advice="Run the same `counterfoil members forget` again, with the member's ID and, to find him in kept files, "
    "--tel and --email. If nobody knows who was meant, run `counterfoil members forget --unfinished`, which searches "
    "no files.",
)


def forgettings(members: Sequence[ForgottenMember], now: int) -> Iterator[Finding]:
    """Yield a warning if members were not wholly forgotten, because the command was interrupted."""
    interrupted = [member for member in members if now - member.at >= FORGETTING_MS]
    if interrupted:
        since = min(member.at for member in interrupted)
        span = duration(now - since)
        yield FORGETTING_UNFINISHED(since=from_ms(since, UTC), count=len(interrupted), span=span)


NO_KEYS = FindingKind(
    code="no_keys",
    check="keys",
    status="ok",
    text="There are no active keys. Run `counterfoil keys issue` to create one.",
)
KEYS_BELOW = FindingKind(
    code="keys_below", check="keys", status="ok", text="{count:active key}, all below 80 % of today's quota."
)
NEAR_QUOTA = Message("near_quota", "{name} ({count} of {quota})")
KEYS_NEAR = FindingKind(
    code="keys_near",
    check="keys",
    status="warn",
    text="{count:active key}; near today's quota: {names}.",
    advice="Run `counterfoil usage` for details. To raise a quota, run `counterfoil keys update KEYID --per-day N`.",
)


def keys(keys: Sequence[Key], near: Sequence[KeyToday]) -> Finding:
    if not keys:
        return NO_KEYS()
    if not near:
        return KEYS_BELOW(count=len(keys))
    named = [
        NEAR_QUOTA(name=key.label or key.key_id, count=min(key.count, key.per_day), quota=key.per_day) for key in near
    ]
    return KEYS_NEAR(ids=[key.key_id for key in near], count=len(keys), names=first_of(named))


SHOPS_USUAL = FindingKind(
    code="shops_usual", check="shops", status="ok", text="{count:shop}, none silent for longer than usual."
)
SILENT_SHOP = Message("silent_shop", "{name} (no bill for {span}; usually at least {usual} bills in that time)")
SHOPS_SILENT = FindingKind(
    code="shops_silent",
    check="shops",
    status="warn",
    text="{count:shop}, {silent} silent: {names}.",
    advice="Check their tills and deliveries. Run `counterfoil shops` to see all shops.",
)


def shops(shops: Sequence[ShopActivity], now: int) -> Finding:
    silent = [shop for shop in shops if shop.is_silent]
    if not silent:
        return SHOPS_USUAL(count=len(shops))
    named = [
        SILENT_SHOP(
            name=printable(shop.name or shop.shop_id),
            span=duration(now - (shop.last_bill_at or now)),
            usual=format_usual(shop.usual_since_last),
        )
        for shop in silent
    ]
    ids = [shop.shop_id for shop in silent]
    return SHOPS_SILENT(ids=ids, count=len(shops), silent=len(silent), names=first_of(named))


BILLS = Message("bills", "{count:bill}")
BILLS_OR_MORE = Message("bills_or_more", "{count:bill} or more")
NO_BUSINESS_DAY = FindingKind(
    code="no_business_day",
    check="shops",
    status="warn",
    text="{bills} without a business day, because the shop has no closing time: {names}.",
    advice="Set when the business day ends: `counterfoil shops set --missing --closing-time {closing}`.",
)


def business_days(store: StoreValues) -> Iterator[Finding]:
    """Yield a warning if bills have no business day, because nobody said when the day of their shop ends."""
    lacking = [shop for shop in store.shops if shop.without_business_day]
    if not lacking:
        return
    is_exact = all(shop.without_business_day < MOST_COUNTED for shop in lacking)
    count = sum(shop.without_business_day for shop in lacking)
    bills = BILLS(count=count) if is_exact else BILLS_OR_MORE(count=count)
    yield NO_BUSINESS_DAY(
        ids=[shop.shop_id for shop in lacking],
        bills=bills,
        names=first_of([printable(shop.name or shop.shop_id) for shop in lacking]),
        closing=store.proposed_closing or "HH:MM",
    )


MAKE_BACKUP = Message(
    "make_backup",
    "Run `counterfoil backup`, or on PostgreSQL, record a backup that another tool made with `counterfoil backup "
    "--record NAME`. See docs/backup.md. To change the limit, set backup_max_hours.",
)
BACKUP_LOST = FindingKind(
    code="backup_lost",
    check="backup",
    status="warn",
    text="The latest backup is gone or incomplete: {folder}, made {span} ago.",
    advice=MAKE_BACKUP,
)
BACKUP_OLD = FindingKind(
    code="backup_old", check="backup", status="warn", text="The latest backup was made {span} ago.", advice=MAKE_BACKUP
)
BACKUP_MADE = FindingKind(
    code="backup_made",
    check="backup",
    status="ok",
    text="The latest backup was made {span} ago, and has all its files.",
)
BACKUP_UNCHECKED = FindingKind(
    code="backup_unchecked",
    check="backup",
    status="ok",
    text="The latest backup was made {span} ago. Its files were not checked, because they cannot be seen from here.",
)
BACKUP_MISSING = FindingKind(
    code="backup_missing",
    check="backup",
    status="warn",
    text="No backup of this store is recorded.",
    advice=MAKE_BACKUP,
)
BACKUP_NONE = FindingKind(
    code="backup_none",
    check="backup",
    status="ok",
    text="None yet. A store with bills should have one from its second day.",
)


def backup(store: StoreValues, max_hours: int, now: int) -> Finding:
    """Check the age of the latest backup. A store without bills, or one that is less than a day old, needs none yet."""
    latest_at, since, lost = store.backups.latest_at, store.backups.since, store.backups.lost
    if lost and max_hours:
        made_at, folder = lost
        return BACKUP_LOST(folder=printable(folder), span=duration(max(0, now - made_at)))
    if latest_at is not None:
        age = max(0, now - latest_at)
        is_old = max_hours and age > max_hours * HOUR_MS
        if is_old:
            return BACKUP_OLD(since=from_ms(latest_at, UTC), span=duration(age))
        kind = BACKUP_MADE if store.backups.is_checked else BACKUP_UNCHECKED
        return kind(since=UNSET, span=duration(age))
    is_young = since is not None and now - since <= DAY_MS
    is_due = max_hours and not is_young and any(shop.last_bill_at for shop in store.shops)
    return BACKUP_MISSING() if is_due else BACKUP_NONE()


INTAKE_LEARNING = FindingKind(
    code="intake_learning",
    check="intake",
    status="ok",
    text="The latest loads had too few before them to be compared: learning, {count} of {needed} groups of loads.",
)
INTAKE_USUAL = FindingKind(
    code="intake_usual", check="intake", status="ok", text="The latest loads look like earlier ones."
)
INTAKE_ALARM = FindingKind(
    code="intake_alarm",
    check="intake",
    status="warn",
    text="Sudden change, noticed {span} ago: {change}.",
    advice="Check the POS export. If the change is intended, run `counterfoil load --accept-change`.",
)


def sudden_changes(intake: Intake, now: int) -> Iterator[Finding]:
    """Yield a warning for each alarm, or an `ok` finding; nothing until the first group of loads is complete."""
    if not intake.groups:
        return
    groups = len(comparable_groups(intake))
    if groups <= MIN_EARLIER_GROUPS and not intake.alarms:
        yield INTAKE_LEARNING(count=groups, needed=MIN_EARLIER_GROUPS)
    elif not intake.alarms:
        yield INTAKE_USUAL()
    since = from_ms(intake.alarmed_at, UTC)
    for alarm in intake.alarms:
        subject = f"{alarm.measure} {alarm.field}".strip()
        span = duration(now - intake.alarmed_at)
        yield INTAKE_ALARM(subject=subject, since=since, span=span, change=describe(alarm))


START_WATCHER = Message("start_watcher", "Start it again with `counterfoil load --watch {folder}`, or check its log.")
WATCHER_STOPPED = FindingKind(
    code="watcher_stopped",
    check="folders",
    status="warn",
    text="The watcher of {folder} was stopped {span} ago.",
    advice=START_WATCHER,
)
WATCHER_UNSEEN = FindingKind(
    code="watcher_unseen",
    check="folders",
    status="warn",
    text="The watcher of {folder} was last seen {span} ago.",
    advice=START_WATCHER,
)
CHECK_FOLDERS = Message(
    "check_folders",
    "If a file cannot be moved, free up disk space for the files that the watcher keeps, and check who may write to "
    "both folders. The watcher tries again every minute.",
)
FOLDER_STUCK = FindingKind(
    code="folder_stuck",
    check="folders",
    status="warn",
    text="The watcher of {folder} cannot take what was delivered: {problem}",
    advice=CHECK_FOLDERS,
)
FOLDER_NEW = FindingKind(
    code="folder_new",
    check="folders",
    status="ok",
    text="{folder} is watched. Nothing has been delivered yet, for {span}.",
)
FOLDER_WATCHED = FindingKind(
    code="folder_watched",
    check="folders",
    status="ok",
    text="{folder} is watched: {files:file} loaded, latest delivery {span} ago.",
)
CHECK_DELIVERY = Message(
    "check_delivery",
    "Check that the POS still delivers files. To change the limit, set silent_folder_min (in minutes).",
)
FOLDER_SILENT = FindingKind(
    code="folder_silent",
    check="folders",
    status="warn",
    text="Nothing has been delivered to {folder} for {span}.",
    advice=CHECK_DELIVERY,
)


def watched_folders(folders: Sequence[WatchedFolder], now: int, silent_after_min: int) -> Iterator[Finding]:
    for folder in folders:
        at = folder.delivered_at
        if folder.is_stale(now):
            kind, at = WATCHER_STOPPED if folder.is_stopped else WATCHER_UNSEEN, folder.seen_at
        elif folder.problem:
            kind = FOLDER_STUCK
        else:
            is_new = not (folder.files or folder.quarantined)
            well = FOLDER_NEW if is_new else FOLDER_WATCHED
            kind = FOLDER_SILENT if folder.is_silent(now, silent_after_min) else well
        yield kind(
            subject=folder.name,
            since=UNSET if kind in (FOLDER_NEW, FOLDER_WATCHED) else from_ms(at, UTC),
            folder=folder.name,
            files=folder.files,
            problem=folder.problem,
            span=duration(now - at),
        )
