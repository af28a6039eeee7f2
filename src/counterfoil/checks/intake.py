"""Delivery checks of `doctor` and `status`: sudden changes compared with earlier loads, and watched folders."""

from collections.abc import Iterator, Sequence

from counterfoil.checks.local import Finding, format_duration
from counterfoil.domain.counted import counted
from counterfoil.domain.intake import Intake, WatchedFolder, describe, folder_warning
from counterfoil.ports import Inspection
from counterfoil.settings import Settings

ACCEPT = "Check the POS export. If the change is intended, run `counterfoil load --accept-change`."


def check_intake(settings: Settings, inspection: Inspection, now: int) -> Iterator[Finding]:
    yield from sudden_changes(inspection.intake(), now)
    yield from watched_folders(inspection.watched_folders(now), now, settings.silent_folder_min)


def sudden_changes(intake: Intake, now: int) -> Iterator[Finding]:
    """Yield a warning for each active alarm, or one `ok` finding if there are none.

    Yield nothing until the first group of loads is complete (see `Intake.judged`).
    """
    if not intake.judged:
        return
    if not intake.alarms:
        yield Finding("intake", "ok", "The latest loads look like earlier ones.")
    since = format_duration(now - intake.alarmed_at)
    for alarm in intake.alarms:
        said = describe(alarm)
        yield Finding("intake", "warn", f"Sudden change, noticed {since} ago: {said}.", ACCEPT)


def watched_folders(folders: Sequence[WatchedFolder], now: int, silent_after_min: int) -> Iterator[Finding]:
    for folder in folders:
        warning = folder_warning(folder, now, silent_after_min)
        if warning is None:
            delivered = format_duration(now - folder.delivered_at)
            files = f"{counted(folder.files, 'file')} loaded"
            message = f"{folder.name} is watched: {files}, latest delivery {delivered} ago."
            yield Finding("folders", "ok", message)
        elif folder.is_stale(now):
            advice = f"Start it again with `counterfoil load --watch {folder.name}`, or check its log."
            yield Finding("folders", "warn", f"{warning[0].upper()}{warning[1:]}.", advice)
        else:
            advice = "Check that the POS still delivers files. To change the limit, set silent_folder_min (in minutes)."
            yield Finding("folders", "warn", f"{warning[0].upper()}{warning[1:]}.", advice)
