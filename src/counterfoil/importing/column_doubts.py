"""Proposes or asks what columns mean that say, beside the status, that a bill does not count as it stands."""

import re
from collections.abc import Mapping
from zoneinfo import ZoneInfo

from counterfoil.importing.bill_sample import BillSample
from counterfoil.importing.column_profiles import MANY_VALUES, NUMBER_ROLES, SampleColumn, SheetSample
from counterfoil.importing.headings import (
    AMOUNT_ROLES,
    REFUND,
    SALE,
    SKIP,
    VOID,
    channel_of,
    flag_of,
    heading_status,
    is_no_sale,
    is_payment,
    is_placeholder,
    status_of,
    statuses_of,
)
from counterfoil.importing.proposals import Proposal, quoted, toml
from counterfoil.importing.values import read_zone

# What a value may mean for a bill, and what happens to the bill then.
MEANINGS = (SALE, VOID, REFUND, SKIP)
EXPLAINED = ("it counts", "it is a voided bill", "its amounts are paid back", "it is left out")
_NUMBER = re.compile(r"[\d\s.,'’()+−-]+")


def propose_voids(sample: BillSample, result: Proposal) -> None:
    """Propose what a reason for a void or a refund, its time or its author means for a bill."""
    cancelled, explained = sample.cancelled, set[int]()
    has_status = bool(sample.statuses) or "[[status]]#shop" in result.sections
    for column in sample.sheet.columns.values():
        meaning = heading_status(column.name)
        is_known = column.name in result.used or column.role == "refunded" or not column.filled
        if meaning not in (VOID, REFUND) or is_known or (cancelled and column is cancelled.column):
            continue
        result.used.add(column.name)
        empty = {value for value in column.distinct if is_placeholder(value) or flag_of(value) is False}
        has_digits = all(any(map(str.isdigit, value)) for value in column.distinct if not is_placeholder(value))
        is_amount = (column.is_number and has_digits) or any(match.role in NUMBER_ROLES for match in column.matches)
        empty |= {value for value in column.distinct if is_amount and not any(map(str.isdigit, value.strip("0.,")))}
        marked = {row for row, value in enumerate(column.values) if value and value not in empty}
        in_doubt = sorted(marked - explained - sample.rows_with_status(meaning))
        is_reason = meaning == VOID and sample.is_of_bill(column) and not is_amount
        if is_reason and not result.has("[bill]", "voidReason") and not (in_doubt and has_status):
            cell = {"column": column.name, "values": dict.fromkeys(sorted(empty), "")} if empty else column.name
            result.add("[bill]", "voidReason", cell, "a bill with a value here is void")
            explained = marked
        elif in_doubt:
            row = sample.sheet.rows[in_doubt[0]]
            text = f"{column.name} has a value on line {row.line} of {row.sheet.name}. What does it mean for the bill?"
            result.ask("bill.void" if meaning == VOID else "refund", text)


def ask_about_exceptions(sample: BillSample, result: Proposal, answers: Mapping[str, str]) -> None:
    """Ask about voids, refunds, unpaid bills and tests that only the way of paying or another column shows."""
    entries = {VOID: "bill.void", REFUND: "refund", SKIP: "skip"}
    cancelled = sample.cancelled
    for column in sample.sheet.columns.values():
        is_known = column.name in sample.statuses or (cancelled and column is cancelled.column)
        is_spoken = column.role in ("method", "channel", "type")
        if is_known or not (is_spoken or (column.role is None and len(column.distinct) <= MANY_VALUES)):
            continue
        for value in column.distinct:
            meaning = SKIP if is_no_sale(value) else None if channel_of(value) else status_of(value)
            # A remark such as `hold the ice` says nothing about the bill.
            is_remark = meaning == SKIP and not is_spoken and not is_no_sale(value)
            if is_remark or meaning not in entries or answers.get(f"status.{value}") == SALE:
                continue
            explained = sample.rows_with_status(meaning)
            if any(text == value and row not in explained for row, text in enumerate(column.values)):
                text = f"{_place(sample.sheet, column, value)}. Is the bill a sale?"
                result.ask(entries[meaning], text, MEANINGS, EXPLAINED, f"status.{value}")


def ask_about_payment_rows(sample: BillSample, result: Proposal, answers: Mapping[str, str]) -> None:
    """Ask about rows of a bill that are payments by the name of the item, because they would be summed as items."""
    cancelled = sample.rows_with_status(VOID)
    for column in sample.sheet.with_role("item")[:1] if sample.is_flat else ():
        counted = {value: None for row, value in enumerate(column.values) if row not in cancelled}
        names = [value for value in counted if is_payment(value) and answers.get(f"status.{value}") != SALE]
        if names:
            section = f"[skip] with column = {quoted(column.name)} and values = {toml(names)}"
            text = f"{_place(sample.sheet, column, names[0])}. If it is a payment, leave such rows out: {section}."
            result.ask("skip", text, (SALE,), ("if it is an item",), f"status.{names[0]}")


def ask_about_payment_states(payments: SheetSample, result: Proposal, answers: Mapping[str, str]) -> None:
    """Ask about payments in a file of their own that were voided, refunded or did not succeed."""
    for column in payments.columns.values():
        is_status = column.role == "status" or heading_status(column.name) in (VOID, REFUND)
        is_state = is_status or column.role in ("type", "method")
        for value, meaning in statuses_of(column.name, column.distinct[:MANY_VALUES]).items() if is_state else ():
            is_doubtful = meaning != SALE if is_status else meaning in (VOID, REFUND, SKIP)
            if is_doubtful and answers.get(f"status.{value}") != SALE:
                text = f"{_place(payments, column, value)}. What does it mean for the bill?"
                result.ask("bill.void", text, (SALE,), ("if the payment counts",), f"status.{value}")


def _place(sheet: SheetSample, column: SampleColumn, value: str) -> str:
    row = sheet.rows[column.values.index(value)]
    return f"{column.name} has {value} on line {row.line} of {row.sheet.name}"


def ask_about_currencies(sample: BillSample, result: Proposal) -> None:
    amounts = [column for column in sample.sheet.columns.values() if column.role in AMOUNT_ROLES]
    for column in (*sample.sheet.with_role("currency"), *amounts):
        texts = [_NUMBER.sub("", value) if column in amounts else value for value in column.distinct]
        found = {text.casefold(): text for text in texts if text and not is_placeholder(text)}
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
