"""The shops of a table, and the facts that no export has: their group, the end of the business day, the time zone."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cached_property
from unicodedata import combining, normalize
from zoneinfo import ZoneInfo

from msgspec import Struct

from counterfoil.importer.bills import Bills
from counterfoil.importer.columns import ANY_CENTURY
from counterfoil.importer.days import quiet_hour
from counterfoil.importer.form import KnownShop, Question, sentence
from counterfoil.importer.interview import Interview, Refuted
from counterfoil.importer.shop_questions import NO_GROUP, closing_question, group_question, zone_question
from counterfoil.importing.values import COUNTRY_ZONES, KNOWN_ZONES, OtherZone, UnreadableCell, read_time, read_zone
from counterfoil.model.calendar import zone_named
from counterfoil.model.pos_values import closing_time

DEFAULT_ZONE = "Asia/Bangkok"
DEFAULT_SHOP = "my-shop"
MOST_CHOICES = 4
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


class ExportShop(Struct, frozen=True):
    id: str
    name: str
    column_value: str
    """What the column of shops has for it, or an empty text."""
    timezone: str
    is_known: bool = False
    franchise: str | None = None
    closing_time: str | None = None


class Shops(Struct, frozen=True):
    shops: tuple[ExportShop, ...]
    zone_column: str | None
    """The column with the time zone of each bill."""
    is_utc: bool
    """Whether times without an offset are in UTC."""
    no_shop: tuple[str, ...]
    """Values of the column that name no shop. Their bills are left out."""


def find_shops(
    bills: Bills,
    times: Sequence[str],
    known: Sequence[KnownShop],
    zone: str | None,
    interview: Interview,
    usual_zone: str = DEFAULT_ZONE,
) -> Shops:
    """Return the shops. `usual_zone` is that of new ones, unless the export shows another zone."""
    zones = _Zones(bills, zone or _only(shop.timezone for shop in known), times, interview, usual_zone)
    named: list[tuple[str, str, str]]
    no_shop: tuple[str, ...] = ()
    if bills.shop is None:
        shop_id = _asked_shop(known, interview)
        named = [(shop_id, "My shop" if shop_id == DEFAULT_SHOP else shop_id, "")]
    else:
        column = bills.shop
        no_shop = tuple(name for name in column.distinct if bills.ranks.names_no_shop(name))
        no_shop += () if column.is_filled else ("",)
        names = [name for name in column.distinct if not bills.ranks.names_no_shop(name)]
        named = [(shop_id, name, name) for name, shop_id in shop_ids(names, known).items()]
    by_id = {shop.id: shop for shop in known}
    new = [one for one in named if one[0] not in by_id]
    timezone = zones.find([value for *_, value in named], is_asked=bool(new) and zone is None)
    franchise = _asked_franchise(new, known, interview)
    closing = _asked_closing(times, known, interview) if new else None
    shops = []
    for shop_id, name, value in named:
        old = by_id.get(shop_id)
        if old:
            zone = old.timezone or timezone
            shops.append(ExportShop(shop_id, old.name or name, value, zone, is_known=True))
        else:
            zone = zones.own.get(value, timezone)
            shops.append(ExportShop(shop_id, name, value, zone, franchise=franchise, closing_time=closing))
    return Shops(tuple(shops), zones.column.name if zones.column else None, zones.written in ("UTC", "GMT"), no_shop)


def _only(values: object) -> str | None:
    found = {value for value in values if value} if hasattr(values, "__iter__") else set()
    return str(found.pop()) if len(found) == 1 else None


def _asked_shop(known: Sequence[KnownShop], interview: Interview) -> str:
    """Return the ID of the only shop of a file: one that is known, or a new one."""
    default = known[0].id if len(known) == 1 else DEFAULT_SHOP
    choices = {shop.id: shop.name or shop.id for shop in known[: MOST_CHOICES - 1]}
    choices.setdefault(DEFAULT_SHOP, sentence("a new shop"))
    text = sentence("Which shop is this? Choose one, or type the ID of a new one.")
    return interview.choose("shop", "shop", text, choices, free=True, default=default)


def _asked_franchise(
    new: Sequence[tuple[str, str, str]], known: Sequence[KnownShop], interview: Interview
) -> str | None:
    """Return the group of the new shops, so that one key can read them all."""
    if not new:
        return None
    groups = list(dict.fromkeys(shop.franchise_id for shop in known if shop.franchise_id))
    answer = _asked(group_question(len(new), groups), interview)
    return None if answer == NO_GROUP else answer


def _asked_closing(times: Sequence[str], known: Sequence[KnownShop], interview: Interview) -> str | None:
    question = closing_question(quiet_hour(times), _only(shop.closing_time for shop in known))
    answer = _asked(question, interview)
    closing = closing_time(answer)
    if closing is None:
        raise Refuted("closing", answer, sentence("{answer} is not a time such as 02:00", answer=answer))
    return closing


def _asked(question: Question, interview: Interview) -> str:
    choices = {option.answer: option.text for option in question.options}
    return interview.choose(
        question.id,
        question.kind,
        question.text,
        choices,
        example=question.example,
        free=question.free,
        default=question.default,
    )


def shop_ids(names: Sequence[str], known: Sequence[KnownShop] = ()) -> dict[str, str]:
    """Return an ID for each name of a shop: that of a known shop with this name, or one made of the name."""
    by_name = {shop.name: shop.id for shop in known if shop.name}
    ids = {shop.id for shop in known}
    found: dict[str, str] = {}
    for number, name in enumerate(names, start=1):
        plain = "".join(letter for letter in normalize("NFKD", name.casefold()) if not combining(letter))
        slug = re.sub(r"[^A-Za-z0-9]+", "-", plain).strip("-") or f"shop-{number}"
        if name in by_name or name in ids:
            found[name] = by_name.get(name, name)
        else:
            found[name] = slug if slug not in found.values() else f"{slug}-{number}"
    return found


class _Zones:
    """The time zones of shops: as a person or a column says, or as offsets, currency and language show it."""

    def __init__(
        self, bills: Bills, timezone: str | None, times: Sequence[str], interview: Interview, usual_zone: str
    ) -> None:
        self._bills = bills
        self._usual_zone = usual_zone
        self._first_time = min(filter(None, times), default="")
        self._timezone = timezone or interview.answers.get("timezone")
        self._interview = interview
        if self._timezone and zone_named(self._timezone) is None:
            raise Refuted(
                "timezone",
                self._timezone,
                sentence("{timezone} is not a time zone such as Asia/Bangkok", timezone=self._timezone),
            )
        self.own: dict[str, str] = {}
        """The zone of each shop, where times have offsets of their own."""
        column = next((one for one in bills.ranks.with_role("timezone") if one.filled), None)
        # A zone that was named stands for names that are not known.
        is_readable = column and (not self._timezone or all(map(read_zone, column.distinct)))
        self.column = column if is_readable else None
        self._columns = [one for one in (bills.closing.day, bills.closing.clock) if one]

    @cached_property
    def written(self) -> str:
        """The zone of all times that a heading or a line above the table names, or an empty text."""
        # A title with a date says when the report was made.
        titles = [text for text in self._bills.table.file.above if not re.search(r"\d", _IN_TEXT.sub("", text))]
        texts = [*(column.name for column in self._columns), *titles]
        found = [match[0].replace(" ", "") for text in texts if (match := _IN_TEXT.search(text))]
        found = [zone.upper() if "/" not in zone else zone for zone in found]
        return next((zone for zone in found if "/" not in zone or read_zone(zone)), "")

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
        first = next(iter(zones.values()), self._usual_zone)
        if open_for:
            return self._asked(open_for)
        if len(set(zones.values())) > 1:
            self.own = zones
            return first
        if not is_asked or self._is_named:
            return first
        return _asked(zone_question(first, self._first_time), self._interview)

    def _asked(self, shop: str) -> str:
        column = self._columns[-1] if self._columns else None
        example = (self.column or column or self._bills.number).distinct[0]
        cells, _ = self._read(shop if self._bills.shop else "")
        fitting = [one for one in KNOWN_ZONES if cells and self._fits(one, cells)] or [self._usual_zone]
        text = sentence("In which time zone is {shop}? The time {example} does not say it.", shop=shop, example=example)
        choices = {one: one for one in [self._usual_zone, *fitting] if one in fitting}
        named = dict(list(choices.items())[:MOST_CHOICES]) or {self._usual_zone: self._usual_zone}
        return self._interview.choose("timezone", "shop", text, named, free=True)

    @cached_property
    def _is_named(self) -> bool:
        return self.column is not None

    def _zone_of(self, shop: str) -> tuple[str, bool]:
        """Return the probable zone of a shop, and whether it must be asked for."""
        cells, zones = self._read(shop)
        marks = self._bills.ranks.countries.values()
        assumed = next((COUNTRY_ZONES[mark] for mark in marks if mark in COUNTRY_ZONES), "")
        fitting = [one for one in KNOWN_ZONES if cells and self._fits(one, cells)]
        named = {zone.key for zone in zones if isinstance(zone, ZoneInfo) and zone.key not in ("UTC", "GMT")}
        zone = self._timezone or "".join(named if len(named) == 1 else ()) or assumed or self._usual_zone
        moments = [self._moment(cell, zone) for cell in cells]
        if self._timezone and OtherZone in moments:
            raise Refuted(
                "timezone", self._timezone, sentence("{cells} is not a time in {zone}", cells=cells[0], zone=zone)
            )
        is_utc = any(isinstance(one, datetime) and one.utcoffset() == timedelta() for one in moments)
        has_offsets = cells and not any(map(_ABBREVIATION.search, cells))
        if not self._timezone and not named and has_offsets and fitting and not self._fits(zone, cells):
            # With an offset, the day of a bill is the same in each zone that has it.
            zone, assumed = fitting[0], ""
        is_unknown = None in zones or len(named) > 1 or not self._fits(zone, cells)
        return zone, is_unknown or (is_utc and not (named or assumed))

    def _read(self, shop: str) -> tuple[list[str], set[tzinfo | None]]:
        """Return a shop's times with an offset or the abbreviation of a zone, one for each day, and the named zones."""
        bills, found = self._bills, dict[tuple[object, ...], str]()
        zones: set[tzinfo | None] = {read_zone(self.written)} if "/" in self.written else set()
        for row in range(len(bills.table.rows)) if self._columns else ():
            if bills.shop and bills.shop.values[row] != shop:
                continue
            cell = " ".join(column.values[row] for column in self._columns)
            suffix = _AFTER_TIME.search(cell) if ":" in cell else None
            zone = self.column.values[row] if self.column else self.written
            zones |= {read_zone(zone)} if self.column and zone else set()
            if suffix or self._columns[0].is_epoch:
                found.setdefault((bills.days[row], suffix and suffix[0]), cell)
            elif zone and (zone in ("UTC", "GMT") or not self.column or isinstance(read_zone(zone), timezone)):
                found.setdefault((bills.days[row], zone), f"{cell} {zone}")
        return list(found.values()), zones

    def _fits(self, name: str, cells: Sequence[str]) -> bool:
        """Return whether times are in UTC, or have an offset or an abbreviation that is used in a zone at that time."""
        for cell in cells:
            moment = self._moment(cell, name)
            if moment is OtherZone:
                return False
            if isinstance(moment, datetime):
                own = moment.utcoffset()
                if own != timedelta() and own != moment.astimezone(zone_named(name)).utcoffset():
                    return False
        return True

    def _moment(self, cell: str, zone: str) -> datetime | type[OtherZone] | None:
        """Return a time with its offset, or `OtherZone` if its abbreviation is not used in the zone."""
        try:
            text = read_time(cell, ANY_CENTURY, self._bills.order or "dmy", zone_named(zone))
        except UnreadableCell as error:
            return OtherZone if isinstance(error, OtherZone) else None
        return datetime.fromisoformat(text) if "T" in text else datetime.fromtimestamp(0, UTC)
