"""The time zones of shops: as a person or a column says, or as offsets, currency and language show them."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cached_property
from zoneinfo import ZoneInfo

from counterfoil.importer.bills.bills import Bills
from counterfoil.importer.columns import ANY_CENTURY
from counterfoil.importer.form import sentence
from counterfoil.importer.interview import Interview, Refuted
from counterfoil.importer.shops.shop_questions import ask, zone_question
from counterfoil.importing.values import COUNTRY_ZONES, KNOWN_ZONES, OtherZone, UnreadableCell, read_time, read_zone
from counterfoil.model.calendar import zone_named

DEFAULT_ZONE = "Asia/Bangkok"
MOST_CHOICES = 4
_UTC = ("UTC", "GMT")
_NO_OFFSET = timedelta()
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
    """The time zones of the shops of a table. `timezone` is the one that was named for all of them."""

    def __init__(
        self, bills: Bills, timezone: str | None, times: Sequence[str], interview: Interview, usual_zone: str
    ) -> None:
        self._bills = bills
        self._interview = interview
        self._usual_zone = usual_zone
        self._first_time = min(filter(None, times), default="")
        self._timezone = timezone or interview.answers.get("timezone")
        if self._timezone and zone_named(self._timezone) is None:
            reason = sentence("{timezone} is not a time zone such as Asia/Bangkok", timezone=self._timezone)
            raise Refuted("timezone", self._timezone, reason)
        self.own: dict[str, str] = {}
        """The zone of each shop, where times have offsets of their own."""
        self.column = next((column for column in bills.ranks.with_role("timezone") if column.filled), None)
        """The column with the zone of each bill."""
        if self.column and self._timezone and not all(map(read_zone, self.column.distinct)):
            # A zone that was named stands for names that are not known.
            self.column = None
        self._columns = [column for column in (bills.closing.day, bills.closing.clock) if column]

    @property
    def is_written_utc(self) -> bool:
        """Whether a heading or a line above the table says that all times are in UTC."""
        return self._written in _UTC

    @cached_property
    def _written(self) -> str:
        """The zone of all times that a heading or a line above the table names, or an empty text."""
        # A title with a date says when the report was made.
        titles = [text for text in self._bills.table.file.above if not re.search(r"\d", _IN_TEXT.sub("", text))]
        for text in [*(column.name for column in self._columns), *titles]:
            match = _IN_TEXT.search(text)
            if match is None:
                continue
            zone = match[0].replace(" ", "")
            if "/" not in zone:
                return zone.upper()
            if read_zone(zone):
                return zone
        return ""

    def find(self, shops: Sequence[str], *, is_asked: bool) -> str:
        """Return the time zone of the shops. It is open if the times name several zones, or are in UTC."""
        zones = {}
        open_for = ""
        for shop in shops:
            zone, is_open = self._zone_of(shop)
            zones[shop] = zone
            if is_open:
                open_for = shop or "the shop"
        if self._timezone:
            self._interview.answer("timezone")
            return self._timezone
        if open_for:
            return self._asked(open_for)
        first = next(iter(zones.values()), self._usual_zone)
        if len(set(zones.values())) > 1:
            self.own = zones
            return first
        if not is_asked or self.column:
            return first
        return ask(zone_question(first, self._first_time), self._interview)

    def _asked(self, shop: str) -> str:
        columns = [self.column, *reversed(self._columns), self._bills.number]
        example = next(column.distinct[0] for column in columns if column)
        text = sentence("In which time zone is {shop}? The time {example} does not say it.", shop=shop, example=example)
        cells, _ = self._read(shop if self._bills.shop else "")
        fitting = self._fitting(cells) or [self._usual_zone]
        if self._usual_zone in fitting:
            fitting = list(dict.fromkeys([self._usual_zone, *fitting]))
        typed = sentence("If it is in another one, type its name, such as {zone}.", zone=self._usual_zone)
        return self._interview.choose("timezone", "shop", text, fitting[:MOST_CHOICES], free=True, typed=typed)

    def _zone_of(self, shop: str) -> tuple[str, bool]:
        """Return the probable zone of a shop, and whether it must be asked for."""
        cells, zones = self._read(shop)
        named = {zone.key for zone in zones if isinstance(zone, ZoneInfo) and zone.key not in _UTC}
        zone_of_country = self._zone_of_country()
        if self._timezone:
            zone = self._timezone
            self._refuse_other_abbreviation(zone, cells)
        elif len(named) == 1:
            [zone] = named
        else:
            zone = zone_of_country or self._usual_zone
        is_shown = bool(named or zone_of_country)
        is_in_utc = any(_is_in_utc(self._moment(cell, zone)) for cell in cells)
        if not self._fits(zone, cells):
            fitting = self._fitting(cells)
            has_offsets = not any(map(_ABBREVIATION.search, cells))
            if self._timezone or named or not has_offsets or not fitting:
                return zone, True
            # With an offset, the day of a bill is the same in each zone that has it.
            zone, is_shown = fitting[0], False
        is_unclear = None in zones or len(named) > 1
        return zone, is_unclear or (is_in_utc and not is_shown)

    def _zone_of_country(self) -> str:
        """Return the zone of the only country that uses the language or the currency, or an empty text."""
        for mark in self._bills.ranks.countries.values():
            if mark in COUNTRY_ZONES:
                return COUNTRY_ZONES[mark]
        return ""

    def _refuse_other_abbreviation(self, zone: str, cells: Sequence[str]) -> None:
        if any(self._moment(cell, zone) is OtherZone for cell in cells):
            reason = sentence("{cells} is not a time in {zone}", cells=cells[0], zone=zone)
            raise Refuted("timezone", zone, reason)

    def _read(self, shop: str) -> tuple[list[str], set[tzinfo | None]]:
        """Return a shop's times with an offset or the abbreviation of a zone, one for each day, and the named zones."""
        zones = set[tzinfo | None]()
        if "/" in self._written:
            zones.add(read_zone(self._written))
        if not self._columns:
            return [], zones
        bills = self._bills
        time_of: dict[tuple[object, ...], str] = {}
        for row in range(len(bills.table.rows)):
            if bills.shop and bills.shop.values[row] != shop:
                continue
            zone = self._written
            if self.column:
                zone = self.column.values[row]
                if zone:
                    zones.add(read_zone(zone))
            day = bills.days[row]
            cell = " ".join(column.values[row] for column in self._columns)
            suffix = _AFTER_TIME.search(cell) if ":" in cell else None
            if suffix:
                time_of.setdefault((day, suffix[0]), cell)
            elif self._columns[0].is_epoch:
                time_of.setdefault((day, None), cell)
            elif zone and self._is_offset(zone):
                time_of.setdefault((day, zone), f"{cell} {zone}")
        return list(time_of.values()), zones

    def _is_offset(self, zone: str) -> bool:
        """Return whether a zone can be read behind a time: one that is written above it, UTC, or an offset."""
        return self.column is None or zone in _UTC or isinstance(read_zone(zone), timezone)

    def _fitting(self, cells: Sequence[str]) -> list[str]:
        """Return the zones that all times may be in. Without times, that is none."""
        return [zone for zone in KNOWN_ZONES if self._fits(zone, cells)] if cells else []

    def _fits(self, zone: str, cells: Sequence[str]) -> bool:
        """Return whether times are in UTC, or have an offset or an abbreviation that is used in a zone at that time."""
        for cell in cells:
            moment = self._moment(cell, zone)
            if moment is OtherZone:
                return False
            if isinstance(moment, datetime) and not _is_in_utc(moment):
                offset_of_zone = moment.astimezone(zone_named(zone)).utcoffset()
                if moment.utcoffset() != offset_of_zone:
                    return False
        return True

    def _moment(self, cell: str, zone: str) -> datetime | type[OtherZone] | None:
        """Return a time with its offset, or `OtherZone` if its abbreviation is not used in the zone."""
        try:
            text = read_time(cell, ANY_CENTURY, self._bills.order or "dmy", zone_named(zone))
        except OtherZone:
            return OtherZone
        except UnreadableCell:
            return None
        return datetime.fromisoformat(text) if "T" in text else datetime.fromtimestamp(0, UTC)


def _is_in_utc(moment: datetime | type[OtherZone] | None) -> bool:
    return isinstance(moment, datetime) and moment.utcoffset() == _NO_OFFSET
