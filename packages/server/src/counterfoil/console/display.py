"""Renders times, numbers and names in the same way for all pages."""

import re
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from counterfoil.checks.findings import Finding, Status
from counterfoil.console.texts import Texts
from counterfoil.model.calendar import iso_utc, to_ms
from counterfoil.model.messages import duration
from counterfoil.model.text import printable
from counterfoil.program.times import local, second

_PART = re.compile(".+?(?: · |$)")
# Between the name of a brand and the name of a branch.
_SEPARATOR = re.compile(" [·–—|-] ")


def local_second(time: int | datetime | None) -> str:
    return "" if time is None else f"{local(time):%Y-%m-%d %H:%M:%S}"


def exact_time(time: int | datetime) -> tuple[str, str]:
    """Return a time in UTC for programs, and as a text that has it in the operator's zone and in UTC."""
    iso = iso_utc(time if isinstance(time, int) else to_ms(time))
    return iso, f"{second(time)} · {iso[:19].replace('T', ' ')} UTC"


def age(t: Texts, time: int | datetime, now: int, past: str = "ago") -> str:
    """Return how long ago a time was or, if `past` is `for`, since when something is so; or how far away it is."""
    instant = time if isinstance(time, int) else to_ms(time)
    span = t.message(duration(abs(now - instant)))
    if instant > now:
        return t.gettext("in %(span)s", span=span)
    return t.gettext("for %(span)s", span=span) if past == "for" else t.gettext("%(span)s ago", span=span)


def local_day(time: int | datetime) -> str:
    return f"{local(time):%Y-%m-%d}"


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def money(value: Decimal) -> str:
    """Return an amount with two decimal places."""
    return f"{value:,.2f}"


def exact_money(value: Decimal | float) -> str:
    """Return an amount of a bill with two decimal places, or with all of them if it has more."""
    amount = value if isinstance(value, Decimal) else Decimal(repr(value))
    return f"{amount:,.2f}" if amount == round(amount, 2) else f"{amount:,f}"


def quantity(value: float) -> str:
    """Return a quantity without trailing zeros."""
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def percent(part: int, whole: int) -> str:
    """Format a share as a percentage. A share above zero is never shown as zero."""
    if not whole:
        return "–"
    share = part / whole
    return "<0.1%" if 0 < share < 0.001 else f"{share:.1%}"


def change(now: int, before: int) -> str:
    """Return by which share a number differs from an earlier one. A difference is never shown as zero."""
    share = abs(now - before) / before
    return "<1%" if 0 < share < 0.005 else f"{share:,.0%}"


def name_of(text: str | None) -> str:
    """Return a name that somebody typed, with control characters replaced."""
    return printable(text or "–")


def parts_of(name: str | None) -> list[str]:
    return _PART.findall(name_of(name))


def brand_and_branch(name: str) -> tuple[str, str]:
    """Split the name of a shop. A name that does not show what its branch is called counts as that of a brand."""
    brand, *branch = _SEPARATOR.split(name, maxsplit=1)
    return brand, "".join(branch)


def by_check(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Return the findings in groups: those of the same check with the same status."""
    groups: dict[tuple[str, Status], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.check, finding.status), []).append(finding)
    return list(groups.values())
