"""Oversized records are rejected before they are expanded, which bounds the loader's memory and the size of a page."""

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import json

from counterfoil.domain.questions import MAX_LIMIT
from counterfoil.ingest.lines import LONGEST_NAME, MAX_LINE_BYTES, MAX_RECORD
from records import NEW_YEAR, base, bill, branch, line, member
from running_service import RunningService

PAGE_BYTES = 120_000_000
LOADER_BYTES = 200_000_000
# This many empty items take 8 MB as a line and 390 MB as a response.
EMPTY_ITEMS = 2_600_000


def rejected(service: RunningService, *records: object) -> dict[str, int]:
    return dict(service.load(*records).rejected)


@pytest.mark.parametrize(
    "fields",
    [
        {"cashier": "x" * MAX_RECORD},
        {"lines": [{}] * 4_000},
        {"lines": [{}] * 600_000},
        {"lines": [line(options=[{}] * 50_000)]},
        {"payments": [{}] * 50_000},
        {"amounts": {"campaigns": [{}] * 50_000}},
        {"orderIds": ["o"] * 200_000},
    ],
    ids=["text", "empty items", "as many as a line holds", "options", "payments", "promotions", "orders"],
)
def test_a_bill_that_would_be_stored_larger_than_the_limit_is_rejected(
    service: RunningService, fields: dict[str, object]
) -> None:
    of = branch()
    assert rejected(service, of, bill(of, **fields)) == {"too_large": 1}


def test_the_sizes_of_withheld_parts_a_member_a_shop_and_a_base_are_limited_too(service: RunningService) -> None:
    alone = branch(franchiseId=None)
    assert rejected(service, alone, bill(alone, lines=[{"rootId": "r" * 300}] * 2_000)) == {"too_large": 1}
    of = branch()
    assert rejected(service, of, member(of, coupons=[{}] * 10_000)) == {"too_large": 1}
    assert rejected(service, branch(categories=[{"id": f"c{number}"} for number in range(20_000)])) == {"too_large": 1}
    assert rejected(service, base(of, tiers=[{"name": "x" * 100}] * 6_000)) == {"too_large": 1}


def test_the_length_of_a_name_copied_to_every_bill_or_member_is_limited(service: RunningService) -> None:
    long = "x" * (LONGEST_NAME + 1)
    assert rejected(service, branch(channels=[{"id": "c", "name": long}])) == {"too_large": 1}
    assert rejected(service, base("b", tiers=[{"name": long}])) == {"too_large": 1}


def test_a_line_longer_than_the_limit_is_rejected_as_too_long(service: RunningService) -> None:
    of = branch()
    assert rejected(service, of, bill(of, ignored="x" * MAX_LINE_BYTES)) == {"too_long": 1}


def test_a_banquet_of_five_hundred_lines_is_loaded(service: RunningService) -> None:
    of = branch()
    assert rejected(service, of, bill(of, lines=[line(options=[{"name": "Extra", "qty": 1}])] * 500)) == {}


@pytest.mark.long
def test_the_size_of_the_largest_page_is_limited(service: RunningService) -> None:
    of = branch()
    # Nearly the largest bill that is accepted: the size check reserves LONGEST_NAME bytes for the name of its channel,
    # and its other fields take less than 2,000 bytes.
    large = {"cashier": "x" * (MAX_RECORD - LONGEST_NAME - 2_000)}
    assert rejected(service, of, *[bill(of, **large) for _ in range(MAX_LIMIT)]) == {}
    key = service.key(shop=of["id"])
    page = service.get_unchecked("transactions", key, shopId=of["id"], limit=MAX_LIMIT, **NEW_YEAR)
    assert len(page.json()["data"]) == MAX_LIMIT
    assert len(page.content) < PAGE_BYTES


LOADER = """
import sys
from counterfoil.__main__ import run
sys.argv = ["counterfoil", "load", *sys.argv[1:]]
try:
    run()
finally:
    # ru_maxrss is not used, because a process inherits it from its parent.
    print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr)
"""


def peak_bytes(folder: Path, records: list[bytes]) -> int:
    """Load these lines in a separate process; return its peak memory."""
    file = folder / "delivery.ndjson"
    file.write_bytes(b"\n".join(records))
    command = [sys.executable, "-c", LOADER, str(file), "--store", str(folder / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "rejected" in done.stdout
    return int(done.stderr.split()[-2]) * 1024


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the peak memory is read from /proc, which only Linux has")
@pytest.mark.parametrize("hostile", ["one huge", "many large"])
def test_hostile_lines_do_not_fill_the_memory_of_the_loader(tmp_path: Path, hostile: str) -> None:
    of = branch()
    huge = json.encode(bill(of))[:-1] + b',"lines":[' + b",".join([b"{}"] * EMPTY_ITEMS) + b"]}"
    large = [json.encode(bill(of, ignored="x" * (MAX_LINE_BYTES - 2_000))) for _ in range(300)]
    assert len(huge) < 8 * 1024 * 1024
    records = [huge] if hostile == "one huge" else [b"{}", *large]
    peak = peak_bytes(tmp_path, [json.encode(of), *records])
    assert peak < LOADER_BYTES, f"{peak:,} bytes"
