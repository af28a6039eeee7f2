"""Chooses the log's destination and format: text on a terminal and JSON elsewhere, unless a setting overrides this."""

import os
import sys

from counterfoil.machine.clock import SystemClock
from counterfoil.machine.colour import is_colourful
from counterfoil.observe.logs import EventLog, JsonLog, Schedule, TextLog
from counterfoil.settings import Settings


def open_log(settings: Settings, schedule: Schedule, stderr: int) -> EventLog:
    """Open the log that the settings select. `stderr` is the standard error of the service."""
    match settings.log:
        case "stdout":
            descriptor = sys.stdout.fileno()
        case "stderr":
            descriptor = stderr
        case _:
            descriptor = os.open(os.devnull, os.O_WRONLY)
    return log_to(descriptor, settings, schedule)


def log_to(descriptor: int, settings: Settings, schedule: Schedule) -> EventLog:
    is_text = os.isatty(descriptor) if settings.log_format == "auto" else settings.log_format == "text"
    if is_text:
        return TextLog(descriptor, SystemClock().now_ms, schedule, in_colour=is_colourful(descriptor))
    return JsonLog(descriptor, SystemClock().now_ms, schedule)
