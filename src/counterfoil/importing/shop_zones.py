"""Proposes the time zone of each shop: as a person or a column says, or as offsets, currency and language show it."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cached_property
from zoneinfo import ZoneInfo

from counterfoil.domain.calendar import zone_named
from counterfoil.importing.answers import DEFAULT_ZONE, ZONE
from counterfoil.importing.bill_sample import BillSample
from counterfoil.importing.column_profiles import ANY_CENTURY
from counterfoil.importing.proposals import Proposal
from counterfoil.importing.results import ImportFailed, message
from counterfoil.importing.values import COUNTRY_ZONES, KNOWN_ZONES, OtherZone, UnreadableCell, read_time, read_zone

MOST_CHOICES = 6
# The zone of all times in a heading or a title, as in `Date (GMT+7)`, `closed_at_utc` and `Time zone: Asia/Bangkok`.
_IN_TEXT = re.compile(
    r"(?<![^\W_])(?:(?i:utc|gmt)(?:\s?[+-]\s?\d{1,2}(?::?\d\d)?)?|(?<=\()[A-Z]{2,4}T(?=\))|[A-Z][a-z]+/\w+)(?![^\W_])",
    re.ASCII,
)
# An offset or the abbreviation of a zone, but not AM or PM.
_AFTER_TIME = re.compile(
    r"(?<=[\dMm ])(?![AP]M$)(?:(?:UTC|GMT)?[+-]\d{1,2}:?\d{2}|[A-Z]{1,5})(?:\s*\([^)]*\))?$", re.ASCII
)
_ABBREVIATION = re.compile(r"[A-Z]{2,}$", re.ASCII)


class ShopZones:
    """The time zones of the shops of a sample. `timezone` is the one that a person has named."""

    def __init__(self, sample: BillSample, result: Proposal, timezone: str | None) -> None:
        self._sample, self._result, self._timezone = sample, result, timezone
        column = next((column for column in sample.sheet.with_role("timezone") if column.filled), None)
        # A zone that was named stands for names that are not known.
        self.column = column if column and (not timezone or all(map(read_zone, column.distinct))) else None
        """The column with the time zone of each bill."""
        self.assumed: str | None = None
        """A time zone that nothing shows."""
        self._columns = [one for one in (sample.day, sample.clock) if one]

    @cached_property
    def written(self) -> str:
        """The zone of all times that a heading or a line above the table names, or an empty text."""
        # A title with a date says when the report was made.
        titles = [text for text in self._sample.sheet.file.above if not re.search(r"\d", _IN_TEXT.sub("", text))]
        texts = [*(column.name for column in self._columns), *titles]
        found = [match[0].replace(" ", "") for text in texts if (match := _IN_TEXT.search(text))]
        found = [zone.upper() if "/" not in zone else zone for zone in found]
        return next((zone for zone in found if "/" not in zone or read_zone(zone)), "")

    def propose(self, section: str, shop: str) -> None:
        """Add the time zone of a shop to its section, or ask for it once for all shops."""
        cells, zones = self._read(shop)
        marks = self._sample.sheet.countries.items()
        reason, assumed = next(((why, COUNTRY_ZONES[mark]) for why, mark in marks if mark in COUNTRY_ZONES), ("", ""))
        fitting = [one for one in KNOWN_ZONES if cells and self._fits(one, cells)]
        named = {zone.key for zone in zones if isinstance(zone, ZoneInfo) and zone.key not in ("UTC", "GMT")}
        zone = self._timezone or "".join(named if len(named) == 1 else ()) or assumed or DEFAULT_ZONE
        moments = [self._moment(cell, zone) for cell in cells]
        if self._timezone and OtherZone in moments:
            raise ImportFailed(f"{cells[0]} is not a time in {zone}. Name the zone of the shop.")
        is_utc = any(isinstance(one, datetime) and one.utcoffset() == timedelta() for one in moments)
        has_offsets = cells and not any(map(_ABBREVIATION.search, cells))
        if not self._timezone and not named and has_offsets and fitting and not self._fits(zone, cells):
            # With an offset, the day of a bill is the same in each zone that has it.
            zone, assumed = fitting[0], ""
        is_open = None in zones or len(named) > 1 or not self._fits(zone, cells) or (is_utc and not (named or assumed))
        if self._timezone or not is_open:
            note = "" if self._timezone or named else f"assumed, because {reason}" if zone == assumed else "assumed"
            self._result.add(section, "timezone", zone, note)
            self.assumed = zone if note == "assumed" else None
        elif not any(question.entry == ZONE for question in self._result.questions):
            column = self._columns[-1] if is_utc or not self.column else self.column
            values = {"name": column.name, "value": column.filled[0], "shop": shop if self._sample.shop else "the shop"}
            text = message("zone_utc", **values) if is_utc else message("zone_unknown", **values, entry=ZONE)
            text += " If the shops are in several, set it in each [[shop]]." if self._sample.shop else ""
            choices = [DEFAULT_ZONE] if is_utc else fitting[:MOST_CHOICES]
            self._result.ask(ZONE, text, choices, ["or another name"] if is_utc else ())

    def _read(self, shop: str) -> tuple[list[str], set[tzinfo | None]]:
        """Return a shop's times with an offset or the abbreviation of a zone, one for each day, and the named zones."""
        sample, found = self._sample, dict[tuple[object, ...], str]()
        zones = {read_zone(self.written)} if "/" in self.written else set[tzinfo | None]()
        for row in range(len(sample.sheet.rows) if self._columns else 0):
            if sample.shop and sample.shop.values[row] != shop:
                continue
            cell = " ".join(column.values[row] for column in self._columns)
            suffix = _AFTER_TIME.search(cell) if ":" in cell else None
            zone = self.column.values[row] if self.column else self.written
            zones |= {read_zone(zone)} if self.column and zone else set()
            if suffix or self._columns[0].is_epoch:
                found.setdefault((sample.days[row], suffix and suffix[0]), cell)
            elif zone and (zone in ("UTC", "GMT") or not self.column or isinstance(read_zone(zone), timezone)):
                found.setdefault((sample.days[row], zone), f"{cell} {zone}")
        return list(found.values()), zones

    def _fits(self, name: str, cells: Sequence[str]) -> bool:
        """Return whether times are in UTC, or have an offset or an abbreviation that is used in a zone at that time."""
        moments = [self._moment(cell, name) for cell in cells]
        known = [moment for moment in moments if isinstance(moment, datetime)]
        offsets = ((one.utcoffset(), one.astimezone(zone_named(name)).utcoffset()) for one in known)
        return OtherZone not in moments and all(one in (timedelta(), other) for one, other in offsets)

    def _moment(self, cell: str, zone: str) -> datetime | type[OtherZone] | None:
        """Return a time with its offset, or `OtherZone` if its abbreviation is not used in the zone."""
        try:
            text = read_time(cell, ANY_CENTURY, self._sample.order or "dmy", zone_named(zone))
        except UnreadableCell as error:
            return OtherZone if isinstance(error, OtherZone) else None
        return datetime.fromisoformat(text) if "T" in text else datetime.fromtimestamp(0, UTC)
