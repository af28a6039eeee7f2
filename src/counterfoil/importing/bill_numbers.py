"""What the form of a bill's number says, and IDs that are made from names of shops."""

import re
from collections.abc import Sequence
from datetime import date
from unicodedata import combining, normalize

from counterfoil.importing.values import BUDDHIST_OFFSET

_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_LONG_NUMBER = 10
_LONG_CODE = 12
_MANY_SWITCHES = 3


def is_long_id(value: str) -> bool:
    """Return whether an ID is random, or has so many digits that it is not a number that starts again at 1."""
    if _UUID.fullmatch(value):
        return True
    if not value.isascii() or " " in value:
        return False
    digits = sum(len(run.lstrip("0")) for run in re.findall(r"\d+", value))
    switches = len(re.findall(r"(?<=\d)[A-Za-z]|(?<=[A-Za-z])\d", value))
    return digits >= _LONG_NUMBER or (len(value) >= _LONG_CODE and switches >= _MANY_SWITCHES)


def contains_day(value: str, day: date | None) -> bool:
    """Return whether a bill number contains its day, such as 20261114-001 or INV691114-01."""
    if day is None:
        return False
    digits = re.sub(r"\D", "", value)
    years = [str(day.year), str(day.year + BUDDHIST_OFFSET)]
    years += [year[2:] for year in years]
    month_day, day_month = f"{day:%m%d}", f"{day:%d%m}"
    return any(
        f"{year}{month_day}" in digits or f"{day_month}{year}" in digits or f"{month_day}{year}" in digits
        for year in years
    )


def shop_ids(names: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, name in enumerate(names, start=1):
        plain = "".join(letter for letter in normalize("NFKD", name.casefold()) if not combining(letter))
        letters = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in plain)
        slug = "-".join(part for part in letters.split("-") if part) or f"shop-{number}"
        found[name] = slug if slug not in found.values() else f"{slug}-{number}"
    return found
