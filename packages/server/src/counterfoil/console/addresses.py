"""The addresses of pages about shops and bills. Their IDs may contain any character."""

from datetime import date
from urllib.parse import quote, urlencode

from counterfoil.domain.business_days import day_text


def _part(identifier: str) -> str:
    """Return an ID as a part of a path. Its dots are encoded, because `.json` at the end of a path is no ID."""
    return quote(identifier, safe="").replace(".", "%2E")


def shop_address(shop_id: str) -> str:
    return f"/shops/{_part(shop_id)}"


def day_address(shop_id: str, day: date | None) -> str:
    """Return the address of a shop's bills of a day, or of those without a date."""
    return f"{shop_address(shop_id)}/days/{day_text(day)}"


def bill_address(bill_id: str, shop_id: str) -> str:
    return f"/bills/{_part(bill_id)}?{urlencode({'shop': shop_id})}"
