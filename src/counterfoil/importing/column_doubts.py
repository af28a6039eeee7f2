"""Proposes or asks what columns mean that say, beside the status, that a bill does not count as it stands."""

from collections.abc import Mapping
from zoneinfo import ZoneInfo

from counterfoil.importing.bill_sample import BillSample
from counterfoil.importing.column_profiles import NUMBER_ROLES, SampleColumn
from counterfoil.importing.headings import (
    REFUND,
    SALE,
    SKIP,
    VOID,
    channel_of,
    flag_of,
    heading_status,
    is_placeholder,
    status_of,
)
from counterfoil.importing.proposals import Proposal
from counterfoil.importing.values import read_zone


def propose_voids(sample: BillSample, result: Proposal) -> None:
    """Propose what a reason for a void or a refund, its time or its author means for a bill."""
    cancelled, explained = sample.cancelled, set[int]()
    has_status = bool(sample.statuses) or "[[status]]#shop" in result.sections
    for column in sample.sheet.columns.values():
        meaning = heading_status(column.name)
        is_known = column.name in result.used or column.role in NUMBER_ROLES or not column.filled
        if meaning not in (VOID, REFUND) or is_known or (cancelled and column is cancelled.column):
            continue
        result.used.add(column.name)
        empty = {value for value in column.distinct if is_placeholder(value) or flag_of(value) is False}
        marked = {row for row, value in enumerate(column.values) if value and value not in empty}
        in_doubt = sorted(marked - explained - sample.rows_with_status(meaning))
        is_reason = meaning == VOID and sample.is_of_bill(column)
        if is_reason and not result.has("[bill]", "voidReason") and not (in_doubt and has_status):
            cell = {"column": column.name, "values": dict.fromkeys(sorted(empty), "")} if empty else column.name
            result.add("[bill]", "voidReason", cell, "a bill with a value here is void")
            explained = marked
        elif in_doubt:
            row = sample.sheet.rows[in_doubt[0]]
            text = f"{column.name} has a value on line {row.line} of {row.sheet.name}. What does it mean for the bill?"
            result.ask("bill.void" if meaning == VOID else "refund", text)


def ask_about_exceptions(sample: BillSample, result: Proposal, answers: Mapping[str, str]) -> None:
    """Ask about voids, refunds and unpaid bills that only the way of paying or the sales channel shows."""
    entries = {VOID: "bill.void", REFUND: "refund", SKIP: "skip"}
    for column in sample.sheet.with_role("method", "channel", "type"):
        for value in column.distinct if column.name not in sample.statuses else ():
            meaning = None if channel_of(value) else status_of(value)
            if meaning not in entries or answers.get(f"status.{value}") == SALE:
                continue
            explained = sample.rows_with_status(meaning)
            rows = [row for row, text in enumerate(column.values) if text == value and row not in explained]
            if rows:
                row = sample.sheet.rows[rows[0]]
                text = (
                    f"{column.name} has {value} on line {row.line} of {row.sheet.name}. What does it say? "
                    f"If such bills are sales after all, say so with --set 'status.{value}=...'."
                )
                result.ask(entries[meaning], text)


def ask_about_currencies(sample: BillSample, result: Proposal) -> None:
    for column in sample.sheet.with_role("currency"):
        found = {value.casefold(): value for value in column.distinct if not is_placeholder(value)}
        if len(found) > 1:
            text = (
                f"{column.name} has {', '.join(found.values())}. Amounts in different currencies cannot be added up. "
                "Export them separately, or leave out all but one."
            )
            result.ask("skip", text)


def zone_of_shop(sample: BillSample, column: SampleColumn, name: str) -> str | None:
    """Return the name of the time zone that all rows of a shop have in a column, or None if there is no such zone."""
    shops = sample.shop.values if sample.shop else [name] * len(column.values)
    cells = {cell for cell, shop in zip(column.values, shops, strict=True) if cell and shop == name}
    zones = {zone.key if isinstance(zone, ZoneInfo) else None for zone in map(read_zone, cells)}
    return zones.pop() if len(zones) == 1 else None
