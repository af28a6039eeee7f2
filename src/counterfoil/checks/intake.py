"""Delivery checks of `doctor` and `status`: sudden changes compared with earlier loads, and watched folders."""

from collections.abc import Iterator, Sequence
from datetime import UTC

from counterfoil.checks.findings import Finding, ok, warn
from counterfoil.domain.calendar import from_ms
from counterfoil.domain.intake import (
    FOLDER_SILENT,
    WATCHER_STOPPED,
    WATCHER_UNSEEN,
    Intake,
    WatchedFolder,
    describe,
    folder_warning,
)
from counterfoil.domain.messages import Message, duration

INTAKE_USUAL = ok("intake", "intake_usual", "The latest loads look like earlier ones.")
INTAKE_ALARM = warn(
    "intake",
    "intake_alarm",
    "Sudden change, noticed {span} ago: {change}.",
    "Check the POS export. If the change is intended, run `counterfoil load --accept-change`.",
)
FOLDER_WATCHED = ok(
    "folders", "folder_watched", "{folder} is watched: {files:file} loaded, latest delivery {span} ago."
)
START_WATCHER = Message("start_watcher", "Start it again with `counterfoil load --watch {folder}`, or check its log.")
CHECK_DELIVERY = Message(
    "check_delivery",
    "Check that the POS still delivers files. To change the limit, set silent_folder_min (in minutes).",
)
_ADVICE = {WATCHER_STOPPED.code: START_WATCHER, WATCHER_UNSEEN.code: START_WATCHER, FOLDER_SILENT.code: CHECK_DELIVERY}


def sudden_changes(intake: Intake, now: int) -> Iterator[Finding]:
    """Yield a warning for each active alarm, or one `ok` finding if there are none.

    Yield nothing until the first group of loads is complete (see `Intake.judged`).
    """
    if not intake.judged:
        return
    if not intake.alarms:
        yield INTAKE_USUAL()
    since = from_ms(intake.alarmed_at, UTC)
    for alarm in intake.alarms:
        yield INTAKE_ALARM(since=since, span=duration(now - intake.alarmed_at), change=describe(alarm))


def watched_folders(folders: Sequence[WatchedFolder], now: int, silent_after_min: int) -> Iterator[Finding]:
    for folder in folders:
        warning = folder_warning(folder, now, silent_after_min)
        if warning is None:
            yield FOLDER_WATCHED(
                subject=folder.name, folder=folder.name, files=folder.files, span=duration(now - folder.delivered_at)
            )
        else:
            since = from_ms(folder.seen_at if folder.is_stale(now) else folder.delivered_at, UTC)
            advice = _ADVICE[warning.code](folder=folder.name)
            yield Finding("folders", "warn", warning, advice, warning.code, folder.name, since)
