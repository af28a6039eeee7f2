"""Chooses the log's destination and format: text on a terminal and JSON elsewhere, unless a setting overrides this."""

import os
import sys

from counterfoil.machine.clock import SystemClock
from counterfoil.machine.colour import is_colourful
from counterfoil.observe.logs import EventLog, JsonLog, Schedule, TextLog
from counterfoil.settings import Settings


def open_log(settings: Settings, schedule: Schedule) -> EventLog:
    """Open the log that the settings select."""
    stream = {"stdout": sys.stdout, "stderr": sys.stderr}.get(settings.log)
    descriptor = stream.fileno() if stream else os.open(os.devnull, os.O_WRONLY)
    return log_to(descriptor, settings, schedule)


def log_to(descriptor: int, settings: Settings, schedule: Schedule) -> EventLog:
    if is_text(descriptor, settings):
        return TextLog(descriptor, SystemClock().now_ms, schedule, in_colour=is_colourful(descriptor))
    return JsonLog(descriptor, SystemClock().now_ms, schedule)


def is_text(descriptor: int, settings: Settings) -> bool:
    return os.isatty(descriptor) if settings.log_format == "auto" else settings.log_format == "text"


def server_logging(settings: Settings) -> dict[str, object]:
    """Return the logging configuration for the HTTP server's own messages, which go to standard error."""
    descriptor = sys.stderr.fileno()
    formatter = {
        "()": "counterfoil.observe.logs.ServerLogFormatter",
        "as_text": is_text(descriptor, settings),
        "in_colour": is_colourful(descriptor),
    }
    return {
        "formatters": {"events": formatter},
        "handlers": {
            "console": {"class": "logging.StreamHandler", "stream": "ext://sys.stderr", "formatter": "events"},
        },
        "loggers": {"_granian": {"handlers": ["console"], "propagate": False}},
    }
