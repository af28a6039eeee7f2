"""Times as people read them: in the zone of the setting `timezone`. JSON, CSV and the API have UTC instead."""

from datetime import MAXYEAR, MINYEAR, UTC, datetime, tzinfo

from counterfoil.model.calendar import THAI_TIME, from_ms, to_ms, zone_named

THAILAND, UTC_NAME = "Asia/Bangkok", "UTC"
_MINUTE, _SECOND = "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"


class _ChosenZone:
    """The zone of this process. Like a locale, it is chosen once, when the settings are read."""

    name = THAILAND
    zone: tzinfo = THAI_TIME


def show_times_in(name: str) -> None:
    """Show times in the zone with this IANA name from now on. The settings have checked the name."""
    _ChosenZone.name, _ChosenZone.zone = name, zone_named(name) or UTC


def zone_name() -> str:
    return _ChosenZone.name


def shown_zone() -> tzinfo:
    return _ChosenZone.zone


def local(time: int | datetime) -> datetime:
    """Return a time in the zone. A number is in milliseconds since 1970."""
    return from_ms(time, _ChosenZone.zone) if isinstance(time, int) else time.astimezone(_ChosenZone.zone)


def instant(text: str, zone: tzinfo | None) -> int | None:
    """Return a time as lists show it, in ms since 1970, or None if it is invalid or has no zone and none is given."""
    try:
        # Lists show a time with a space before its zone.
        found = datetime.fromisoformat(text.strip().replace(" UTC", "Z").replace(" +", "+").replace(" -", "-"))
    except ValueError:
        return None
    found = found if found.tzinfo else found.replace(tzinfo=zone)
    # Converting a time in the first or last year to UTC could exceed the range of `datetime`.
    return to_ms(found) if found.tzinfo and MINYEAR < found.year < MAXYEAR else None


def minute(time: int | datetime | None) -> str:
    """Return a time without seconds. A missing time is a dash."""
    return "-" if time is None else _with_offset(local(time), _MINUTE)


def second(time: int | datetime | None) -> str:
    """Return a time with seconds. A missing time is a dash."""
    return "-" if time is None else _with_offset(local(time), _SECOND)


def _with_offset(time: datetime, form: str) -> str:
    """Return a time with its UTC offset, as in `2026-11-14 19:05 +07`."""
    offset = "UTC" if _ChosenZone.name == UTC_NAME else f"{time:%z}".removesuffix("00")
    return f"{time.strftime(form)} {offset}"
