"""Day totals are computed from the JSON of the bills."""

from hashlib import md5

from msgspec import json

from counterfoil.domain.day_totals import DayTotal, day_total, hash_of


def body(bill_id: str, net: float | None, tip: float | None = None, status: str = "completed") -> bytes:
    return json.encode({"id": bill_id, "status": status, "amounts": {"net": net, "tip": tip}, "items": []})


def test_the_hash_of_a_bill_is_as_documented() -> None:
    assert hash_of("txn-1", 1_767_225_600_000) == int(md5(b"txn-1|1767225600000").hexdigest()[:15], 16)  # noqa: S324
    assert hash_of("txn-1", None) == int(md5(b"txn-1|").hexdigest()[:15], 16)  # noqa: S324
    assert hash_of("ใบ", None) == int(md5("ใบ|".encode()).hexdigest()[:15], 16)  # noqa: S324


def test_sums_are_exact_and_in_plain_notation() -> None:
    total = day_total([(5, body("a", 0.1)), (None, body("b", 0.2, 7.5)), (9, body("c", None, 0.5, "void"))])
    assert total == DayTotal(3, 1, "0.3", "8", 9, str(hash_of("a", 5) + hash_of("b", None) + hash_of("c", 9)))
    assert day_total([(1, body("a", 9_000_000_000_000_000)), (1, body("b", 0.000001))]).net == "9000000000000000.000001"
    assert day_total([(1, body("a", 100)), (1, body("b", -100))]).net == "0"
