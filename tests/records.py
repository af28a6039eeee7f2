"""Source records for tests: realistic by default, with unique IDs. Any field can be replaced by name."""

from itertools import count
from typing import Any

Record = dict[str, Any]

_numbers = count(1)


def fresh(what: str) -> str:
    """Return an ID that is unique in this process."""
    return f"{what}-{next(_numbers):05}"


def shop(**fields: Any) -> Record:
    """Return an independent Thai shop. Pass `franchiseId` and `providerId` for a branch with members."""
    return {
        "kind": "shop",
        "id": fresh("shop"),
        "name": "Riverside",
        "timezone": "Asia/Bangkok",
        "closingTime": "02:00",
        **fields,
    }


def branch(**fields: Any) -> Record:
    """Return a branch of a franchise, with a membership base."""
    return shop(**{"franchiseId": fresh("franchise"), "providerId": fresh("base"), **fields})


def bill(of: Record, **fields: Any) -> Record:
    """Return a bill for a shop: one line, paid in cash at noon on New Year's Day."""
    return {
        "kind": "bill",
        "id": fresh("bill"),
        "shopId": of["id"],
        "closedAt": "2026-01-01T12:00:00+07:00",
        "receiptNumber": "R-1",
        "table": {"id": "t1", "name": "A1"},
        "serviceType": "alacarte",
        "lines": [line()],
        "amounts": {"subtotal": 120, "net": 120},
        "payments": [{"name": "Cash", "amount": 120, "change": 0}],
        "cashier": "Nok",
        **fields,
    }


def bills(of: Record, number: int, **fields: Any) -> list[Record]:
    """Return bills for a shop, oldest first. Each was closed one second after the previous one."""
    return [
        bill(of, **{"closedAt": f"2026-01-01T12:{minute // 60:02}:{minute % 60:02}+07:00", **fields})
        for minute in range(number)
    ]


def line(**fields: Any) -> Record:
    return {
        "productId": "p-soup",
        "rootId": "hq-soup",
        "name": "Soup",
        "qty": 1,
        "unitPrice": 120,
        "total": 120,
        "categoryIds": ["c-soups"],
        "vat": True,
        **fields,
    }


def base(of: Record | str, **fields: Any) -> Record:
    """Return the membership base of a branch, or the base with this ID."""
    provider_id = of if isinstance(of, str) else of["providerId"]
    return {
        "kind": "base",
        "id": provider_id,
        "creditEnabled": True,
        "autoTiers": True,
        "tiers": [{"code": "silver", "name": "Silver"}, {"code": "gold", "name": "Gold"}],
        **fields,
    }


def member(of: Record | str, **fields: Any) -> Record:
    """Return a member of a branch's base, or of the base with this ID."""
    provider_id = of if isinstance(of, str) else of["providerId"]
    return {
        "kind": "member",
        "id": fresh("member"),
        "providerId": provider_id,
        "createdAt": "2025-03-01T10:00:00+07:00",
        "rank": "gold",
        "rankLevel": 1,
        "points": 100,
        "tel": "0811111111",
        "email": "somebody@example.com",
        **fields,
    }


def members(of: Record | str, number: int, **fields: Any) -> list[Record]:
    """Return members of a base, in the order in which they signed up, one day apart."""
    return [member(of, **{"createdAt": f"2025-03-{day:02}T10:00:00+07:00", **fields}) for day in range(1, number + 1)]


def removal(of: Record) -> Record:
    """Return the record that removes this record."""
    return {name: of[name] for name in ("kind", "id", "shopId") if name in of} | {"removed": True}


def days(first: str, last: str | None = None) -> Record:
    """Return the parameters `from` and `to`. `from` is a Python keyword, so it cannot be passed by name."""
    return {"from": first, "to": last or first}


NEW_YEAR = days("20260101")
EVER = "2000-01-01T00:00:00Z"


def at(found: Any, path: str) -> Any:
    """Return the value at a path in a published object, such as `items.0.qty`."""
    for step in path.split("."):
        found = found[int(step)] if step.isdigit() else found[step]
    return found
