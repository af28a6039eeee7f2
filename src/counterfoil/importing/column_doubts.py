"""Proposes or asks what columns mean that say, beside the status, that a bill does not count as it stands."""

import re
from collections import defaultdict
from collections.abc import Collection
from datetime import date
from decimal import Decimal
from itertools import accumulate, permutations, product
from typing import Any

from counterfoil.importing import column_profiles, headings
from counterfoil.importing.answers import CHOICES, MEANINGS, UNIT, Answers
from counterfoil.importing.bill_amounts import BillAmounts
from counterfoil.importing.bill_numbers import rows_by
from counterfoil.importing.bill_sample import MOST_STATUSES, BillSample
from counterfoil.importing.checks import improbable_days
from counterfoil.importing.column_profiles import DATE_ROLES, NUMBER_ROLES, SampleColumn, SheetSample
from counterfoil.importing.export_totals import is_total_word
from counterfoil.importing.mapping import REFUND, SALE, SKIP, VOID
from counterfoil.importing.proposals import Proposal, quoted
from counterfoil.importing.results import ImportFailed, message
from counterfoil.importing.sheets import CsvFile
from counterfoil.importing.values import has_half_day, number_shape, ordered_date

# What a value may mean for a bill, and what happens to the bill then.
EXPLAINED = ("it counts", "it is a voided bill", "its amounts are paid back", "it is left out")
_CHOICES = (MEANINGS, EXPLAINED)
ENOUGH_ROWS = 5
MANY_QUESTIONS = 3
# Of fewer different totals, only longer ones are asked about, because a bill of less than 3.00 is improbable.
ENOUGH_NUMBERS, LONGER = 3, 3
BUDDHIST_SHIFT = 43
"""By so many years, a two-digit Buddhist year is ahead if it is read as Gregorian."""
# Columns in which a word such as *return* is a name, or that are read as numbers and times.
_NO_WORDS = NUMBER_ROLES | DATE_ROLES | {"time", "cashier", "memberId", "shopId", "timezone", "currency"}
_ITEM_ROLES = ("item", "productId", "category", "options")
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"[\d\s.,'’()+−-]+")


def column_in_doubtful_unit(sheet: SheetSample) -> SampleColumn | None:
    """Return a column with totals that may be in cents: its heading says so, or all amounts are long whole numbers."""
    amounts = _amounts(sheet)
    named = next((column for column in amounts if headings.names(column.name, "units")), None)
    totals = [column for column in amounts if column.role in headings.TOTAL_ROLES]
    if named or not totals or not all(column.is_whole for column in amounts):
        return named
    values = [text for column in (*sheet.with_role("currency"), *totals) for text in column.distinct]
    smallest = headings.smallest_in_cents(list(sheet.columns), values)
    total = max(totals, key=lambda column: len(amounts[column]))
    factor = 1 if len(amounts[total]) >= ENOUGH_NUMBERS else LONGER
    is_long = smallest and all(number >= smallest * factor for column in totals for number in amounts[column])
    return total if is_long else None


def _amounts(sheet: SheetSample) -> dict[SampleColumn, set[Decimal]]:
    """Return the columns of money with their amounts, without those that are always 0."""
    columns = [column for column in sheet.columns.values() if column.role in headings.AMOUNT_ROLES | {"unitPrice"}]
    amounts = {column: {abs(column.amount(row)) for row in range(len(sheet.rows))} - {0} for column in columns}
    return {column: numbers for column, numbers in amounts.items() if numbers}


def refuse_other_unit(sheet: SheetSample, answers: Answers, *, is_proved: bool) -> None:
    """Refuse cents for amounts with decimals, unless those without add up with them as cents."""
    amounts = _amounts(sheet)
    is_mixed = is_proved and any(column.is_whole for column in amounts if column.role in headings.TOTAL_ROLES)
    written = next((column for column in amounts if not column.is_whole), None)
    if written and not is_mixed and not headings.names(written.name, "units") and answers.get(UNIT, "units") != "units":
        value = next(value for value in written.distinct if re.search(r"\d[.,]\d", value))
        raise ImportFailed(message("unit_contradicted", name=written.name, value=value))


def refuse_other_columns(sheet: SheetSample, answers: Answers) -> None:
    """Refuse columns that do not identify a bill, and times that are not those of closing, if the export has these."""
    named = (answers[entry].split(" + ") if entry in answers else [] for entry in ("bill.id", "bill.closedAt"))
    keys, closing = ([sheet.columns[name] for name in names if name in sheet.columns] for names in named)
    numbers = [column for column in sheet.with_role("id") if all(column.values)]
    for column in keys:
        if column.role in ("item", "qty") or (column.role in NUMBER_ROLES and not column.is_whole):
            raise ImportFailed(message("answer_not_of_bill", name=column.name, value=column.filled[0]))
    if keys and numbers and not any(column.role in (None, "id") for column in keys):
        for rows in rows_by(*(column.values for column in keys)):
            one, *others = dict.fromkeys(numbers[0].values[row] for row in rows)
            if others:
                names = {"answer": answers["bill.id"], "name": numbers[0].name, "one": one, "other": others[0]}
                raise ImportFailed(message("answer_merges", **names))
    times = [
        column for column in sheet.with_role(*DATE_ROLES) if headings.closing_rank(column.name) < headings.OTHER_TIME
    ]
    for column in closing:
        if times and column.is_date and headings.closing_rank(column.name) == headings.OTHER_TIME:
            raise ImportFailed(message("answer_other_time", name=column.name, other=times[0].name))


def add_statuses_in_advance(sample: BillSample, result: Proposal, answers: Answers) -> None:
    """Add what the operator says about words that later files may have, but not the sample."""
    sheets = [sheet for sheet in (result.bills, result.lines, result.payments) if sheet]
    known = {value for sheet in sheets for column in sheet.columns.values() for value in column.distinct}
    known.update(sample.sheet.columns, *sample.skipped.values())
    statuses = [name for name in sample.statuses if sample.sheet.columns[name].role != "currency"]
    for entry, owner, value, answer in answers.statuses(sample.sheet.columns):
        if answer == SALE and headings.status_of(value) not in (SALE, None):
            result.undecided.append(message("answered_sale", entry=entry, value=value))
        if value in known if owner is None else value in sample.sheet.columns[owner].values:
            continue
        columns = [name for name in statuses if owner in (None, name)]
        if owner and not columns and sample.is_of_bill(column := sample.sheet.columns[owner]):
            columns, sample.statuses[owner] = [owner], dict.fromkeys({*column.values}, SALE)
        if value in sample.values_left_out:
            raise ImportFailed(f"--set {entry}: only rows that are left out have {value}, so it has no effect.")
        if len(columns) != 1 or (not owner and value.casefold() in map(str.casefold, known)):
            raise ImportFailed(f"--set {entry}: no column has the value {value}. Upper and lower case matter.")
        sample.statuses[columns[0]][value] = answer
        result.undecided.append(f"whether {value} is a value of {columns[0]}. The sample does not have it.")


def refuse_answers_without_effect(sample: BillSample, result: Proposal, answers: Answers) -> None:
    """Refuse what the operator says about a value or a column if the mapping does not have it, or cannot tell which."""
    sections = [lines for name, lines in result.sections.items() if name not in ("[file]", "[checks]")]
    text = "\n".join(line for lines in sections for line in lines)
    for entry, owner, value, answer in answers.statuses(sample.sheet.columns):
        having = [name for name, meanings in sample.statuses.items() if value in meanings and not owner]
        if len(having) > 1 and answer != SALE and (value.isdigit() or headings.flag_of(value) is not None):
            raise ImportFailed(message("answer_ambiguous", entry=entry, value=value, one=having[0], other=having[1]))
        is_written = quoted(value) in text or f"{value} = " in text
        if answer != SALE and not (result.questions or is_written):
            raise ImportFailed(message("answer_without_effect", entry=entry, value=value))


def ask_about_states(sample: BillSample, result: Proposal) -> None:
    """Ask about statuses that not all rows of a bill have."""
    sheet = sample.sheet
    for name in sample.marks_in_doubt[:1]:
        value = sheet.columns[name].filled[0]
        text = f"{_place(sheet, sheet.columns[name], value)}, the first line of a bill. What was cancelled?"
        result.ask("line.cancelled", text, CHOICES["void"], ("only that line", "the whole bill"), "void")
    paid_back, pairs = sample.negative_rows(), {row for pair in sample.pairs for row in pair}
    for name, values in sample.states_of_rows.items():
        column, parts = sheet.columns[name], []
        for value in values:
            rows = sample.rows_with(column, value)
            if not rows & paid_back:
                parts.append(value)
                continue
            # Without these rows, what they pay back would count.
            text = f"{_place(sheet, column, value)}, which pays back an amount of the same bill. What does it mean?"
            weakest = MEANINGS.index(VOID if rows <= pairs else REFUND)
            answer = sample.answer_name(name, value)
            result.ask("bill.void", text, MEANINGS[weakest:3], EXPLAINED[weakest:3], answer)
        if parts:
            text = message("states_of_rows", place=_place(sheet, column, parts[0]), value=parts[0])
            known = [one for one, meaning in headings.statuses_of(name, parts).items() if meaning]
            choices = [f"{name}={', '.join(known)}"] if known else [f"{name}={value}" for value in column.distinct]
            result.ask("skip", text, choices, ["such rows are left out"] * len(choices))
    cancelled = sample.cancelled
    if cancelled and cancelled.unknown:
        name, values = cancelled.column.name, cancelled.column.distinct
        text = f"What do these values of {name} mean for a line: {', '.join(cancelled.unknown)}?"
        kinds = [value for value in values if not headings.is_payment(value)]
        if 1 < len(kinds) < len(values) and {*map(headings.status_of, kinds)} == {SALE}:
            # The rows of one kind may be sums of those of the other.
            choices = [f"{name}={', '.join(value for value in values if value != kind)}" for kind in kinds]
            result.ask("skip", text, choices, [f"only rows with {kind} count" for kind in kinds])
            return
        text += " Answer for each of them." if len(cancelled.unknown) > 1 else ""
        first = sample.answer_name(name, cancelled.unknown[0])
        result.ask("line.cancelled", text, (SALE, VOID), ("it counts", "it does not count"), first)


def propose_voids(sample: BillSample, result: Proposal) -> None:
    """Propose what a reason for a void or a refund, its time or its author means for a bill."""
    cancelled, explained = sample.cancelled, set[int]()
    has_status = sample.has_status or "[[status]]#shop" in result.sections
    for column in sample.sheet.columns.values():
        meaning = headings.heading_status(column.name)
        is_known = column.name in (*result.used, *sample.marks_in_doubt) or column.role == "refunded"
        if meaning not in (VOID, REFUND) or is_known or not column.filled or (cancelled and column is cancelled.column):
            continue
        result.used.add(column.name)
        empty = {one for one in column.distinct if headings.says_nothing(one) or headings.status_of(one) == SALE}
        marked = {row for row, value in enumerate(column.values) if value and value not in empty}
        in_doubt = sorted(marked - explained - sample.rows_with_status(meaning))
        is_rare = len(marked) * 2 <= len(column.values)
        is_reason = meaning == VOID and is_rare and sample.is_of_bill(column) and not column.has_amounts
        if is_reason and not result.has("[bill]", "voidReason") and not (in_doubt and has_status):
            cell = {"column": column.name, "values": dict.fromkeys(sorted(empty), "")} if empty else column.name
            result.add("[bill]", "voidReason", cell, "a bill with a value here is void")
            explained = marked
        elif in_doubt:
            row = sample.sheet.rows[in_doubt[0]]
            text = f"{column.name} has a value on line {row.line} of {row.sheet.name}. What does it mean for the bill?"
            result.ask("bill.void" if meaning == VOID else "refund", text, *_CHOICES, f"status.{column.name}")


def ask_about_references(sample: BillSample, result: Proposal) -> None:
    """Ask about columns in which some bills name another one, which they may return, replace or be merged into."""
    for column in sample.sheet.columns.values():
        is_known = column.name in result.used or column is sample.number or column.role in NUMBER_ROLES
        is_rare = 0 < len(column.filled) * 2 < len(column.values)
        values = list(filter(sample.refers_to_bill, column.distinct)) if is_rare and not is_known else []
        are_all = len(values) == len(column.distinct)
        for value in values[:1] if are_all else values[:MANY_QUESTIONS]:
            result.used.add(column.name)
            text = f"{_place(sample.sheet, column, value)}, which is another bill. What is the bill with it?"
            result.ask("refund", text, *_CHOICES, f"status.{column.name if are_all else value}")


def worded_columns(sample: BillSample, sheet: SheetSample) -> list[SampleColumn]:
    """Return the columns whose words may say that a bill is void, refunded or no sale, beside those of its status."""
    known = {*sample.statuses, *sample.marks_in_doubt, *([sample.cancelled.column.name] if sample.cancelled else ())}
    return [
        column
        for column in sheet.columns.values()
        if not (sheet is sample.sheet and column.name in known)
        if column.heading_role not in _NO_WORDS and not _is_explained(column)
    ]


def _is_explained(column: SampleColumn) -> bool:
    """Return whether a heading is that of a void or a refund, or of names of people."""
    return headings.heading_status(column.name) in (VOID, REFUND) or headings.names_person(column.name)


def ask_about_words(sample: BillSample, result: Proposal, answers: Answers, *, has_total: bool) -> None:
    """Ask about voids, refunds, tests and payments that only the name of an item, a remark or another column shows.

    `has_total` says whether the total of a bill shows which rows it contains.
    """
    entries = {VOID: "bill.void", REFUND: "refund"}
    paid_back, sums = sample.negative_rows(), _items_like_sums(sample)
    people = [one for one in sample.sheet.columns.values() if headings.names_person(one.name)]
    for column in (*worded_columns(sample, sample.sheet), *people):
        is_item, is_name = column.role == "item" and sample.is_flat, column in people
        is_spoken = column.role in ("method", "channel", "type")
        for value in column.distinct:
            meaning = headings.exception_in(value, is_item=is_item, is_name=is_name)
            charge = headings.charge_of(value) if is_item else None
            if is_item and (value in sums or (charge == "tax" and not has_total)):
                meaning = headings.NO_ITEM
            if is_spoken and not headings.channel_of(value) and headings.status_of(value) == SKIP:
                # A remark such as `hold the ice` says nothing about the bill.
                meaning = SKIP
            if not meaning or answers.about(column.name, value) or charge == "tip":
                continue
            is_negative = meaning == REFUND or (meaning == headings.NO_ITEM and not headings.is_payment(value))
            explained = sample.rows_with_status(meaning) | (paid_back if is_negative else set())
            if any(text == value and row not in explained for row, text in enumerate(column.values)):
                place, what = _place(sample.sheet, column, value), "it an item" if is_item else "the bill a sale"
                place += ", which costs as much as the rows above it" if is_item and value in sums else ""
                what = "it paid in addition to the prices" if charge == "tax" else what
                text = f"{place}. Is {what}?"
                choices, examples = ((SALE, SKIP), ("it is", "such rows are left out")) if is_item else _CHOICES
                entry = "skip" if is_item else entries.get(meaning, "skip")
                result.ask(entry, text, choices, examples, f"status.{value}")
            elif meaning == headings.NO_ITEM:
                result.allowed.append(value)


def _items_like_sums(sample: BillSample) -> set[str]:
    """Return the items that cost as much as all rows of the bill above them: payments and sums, not sold items."""
    amounts = [one for one in sample.sheet.with_role(*headings.TOTAL_ROLES) if not sample.is_of_bill(one)]
    found = set[str]()
    for item, amount in product(sample.sheet.with_role("item")[:1] if sample.is_flat else [], amounts):
        counts = defaultdict[str, list[int]](list)
        for bill in sample.bills:
            sums = accumulate(map(amount.amount, bill))
            for place, (row, above) in enumerate(zip(bill[1:], sums, strict=False), start=1):
                counts[item.values[row]].append(place if amount.amount(row) == above > 0 else 0)
        # The second of two equal items costs as much as the first.
        found |= {name for name, rows in counts.items() if max(rows) > 1 and 0 not in rows and len(rows) > 2}
    return {name for name in found if not is_total_word(name)}


def payment_states(payments: SheetSample, result: Proposal, answers: Answers) -> dict[str, Any]:
    """Return which payments in a file of their own count; ask about those that may be voided or refunded."""
    cell: dict[str, Any] = {}
    for column in payments.columns.values():
        is_status = column.role == "status" or headings.heading_status(column.name) in (VOID, REFUND)
        is_state = is_status or column.role in ("type", "method")
        meanings = headings.statuses_of(column.name, column.distinct[: column_profiles.MANY_VALUES]) if is_state else {}
        meanings = {value: answers.about(column.name, value) or meaning for value, meaning in meanings.items()}
        for value, meaning in meanings.items():
            if not answers.about(column.name, value) and (
                meaning != SALE if is_status else meaning in (VOID, REFUND, SKIP)
            ):
                text = f"{_place(payments, column, value)}. Does the payment count?"
                result.ask("payment.cancelled", text, (SALE, VOID), ("it does", "it does not"), f"status.{value}")
        if meanings and (is_status or any(meaning == VOID for meaning in meanings.values())):
            values = {value: meaning not in (SALE, None) for value, meaning in meanings.items()}
            cell = {"cancelled": {"column": column.name, "values": {"": False, **values} if is_status else values}}
    return cell


def _place(sheet: SheetSample, column: SampleColumn, value: str) -> str:
    row = sheet.rows[column.values.index(value)]
    return f"{column.name} has {value} on line {row.line} of {row.sheet.name}"


def ask_about_currencies(sample: BillSample, result: Proposal, answers: Answers) -> None:
    amounts = [column for column in sample.sheet.columns.values() if column.role in headings.AMOUNT_ROLES]
    for column in (*sample.sheet.with_role("currency"), *amounts):
        texts = [_NUMBER.sub("", value) if column in amounts else value for value in column.distinct]
        texts = [text for text in texts if answers.about(column.name, text) != SKIP]
        found = {text.casefold(): text for text in texts if text and not headings.is_placeholder(text)}
        if len(found) > 1:
            text = message("currencies", name=column.name, found=", ".join(found.values()))
            choices = () if column in amounts else (SKIP,)
            result.ask("skip", text, choices, ("it is left out",), f"status.{next(reversed(found.values()))}")


def propose_checks(sample: BillSample, amounts: BillAmounts, result: Proposal, answers: Answers, today: date) -> None:
    """Note what is true of all rows of the sample, so that a later file in which it is not true is noticed."""
    checks: dict[str, Any] = {
        "words": [],
        "codes": [column.name for column in _columns_of_codes(sample, result)],
        "filled": [],
        "decimals": {},
        "currencies": {},
        "halfDays": [],
        "known": {},
    }
    sheets = [sheet for sheet in (result.bills, result.lines, result.payments) if sheet]
    for sheet in sheets:
        worded = worded_columns(sample, sheet)
        for column in sheet.columns.values():
            is_free = column.name not in result.used and column.name not in sample.statuses
            if column in worded or headings.names_person(column.name) or (is_free and not _is_explained(column)):
                checks["words"].append(column.name)
            values = _only_values(column) if is_free or column.role == "type" else None
            if values is not None and column.name not in sample.statuses:
                checks["known"].setdefault(column.name, []).extend(values)
            if column.name in result.used:
                _note_forms(column, sheet, checks)
    checks |= {name: list(dict.fromkeys(checks[name])) for name in ("words", "currencies")}
    sales = [value for _, _, value, answer in answers.statuses(sample.sheet.columns) if answer == SALE]
    checks["allowed"] = [*sales, *result.allowed]
    checks["totals"] = sample.ends_in_totals
    checks["whole"] = amounts.converted(sheets)
    checks["equal"] = [[one.cell, other.cell] for one, other in amounts.search.equations()]
    checks["larger"] = [pair for sheet in sheets for pair in _larger_columns(sheet, result.used)]
    checks["days"] = _first_and_last_day(sample, result, today)
    result.comment("[checks]", "what is true of the sample; a bill for which it is not true is rejected")
    for entry, value in checks.items():
        if value:
            result.add("[checks]", entry, value)


def _note_forms(column: SampleColumn, sheet: SheetSample, checks: dict[str, Any]) -> None:
    """Note how the numbers and times of a column are written."""
    if column.filled and all(map(has_half_day, column.distinct)):
        checks["halfDays"].append(column.name)
    if column.role not in NUMBER_ROLES:
        return
    if len(column.filled) == len(column.values) >= ENOUGH_ROWS:
        checks["filled"].append(column.name)
    if isinstance(sheet.file, CsvFile):
        shapes = [number_shape(value, column.numbers.decimal) for value in column.distinct]
        checks["decimals"][column.name] = sorted({decimals for decimals, _, _ in shapes})
        checks["currencies"] |= {currency: None for _, _, currency in shapes if currency}


def _only_values(column: SampleColumn) -> list[str] | None:
    """Return what a column has on all rows, if nobody knows what it means, so that another value may change a bill."""
    values = [value for value in column.distinct if not headings.is_placeholder(value)]
    are_flags = bool(values) and all(headings.flag_of(one) is not None and not one.isdigit() for one in values)
    harmless = ("people", "remarks", "harmless_flags", *(() if are_flags else ("groups",)))
    # A bill that names another one may be its refund.
    is_reference = not values and headings.names(column.name, "references")
    is_known = column.role not in (None, "type") or column.is_date or column.is_clock
    if not is_reference and (is_known or any(headings.names(column.name, table) for table in harmless)):
        return None
    is_same = len({*column.values}) <= (MOST_STATUSES if headings.are_names(values) else 1)
    are_codes = all(len(value) <= headings.LONGEST_CODE for value in values)
    if not is_same or not (are_codes or not _DIGIT.search("".join(values))):
        return None
    return [*values, *([""] if len(column.filled) < len(column.values) or not values else [])]


def _columns_of_codes(sample: BillSample, result: Proposal) -> list[SampleColumn]:
    """Return the columns whose values are nearly all short codes, such as T4 and 12, and allow their other words."""
    columns = [one for one in worded_columns(sample, sample.sheet) if len(one.filled) >= ENOUGH_ROWS]
    columns = [one for one in columns if one is not sample.number and one.role not in (*_ITEM_ROLES, "shopId")]
    codes = {
        one.name: [text for text in one.filled if headings.names_area(text) and _DIGIT.search(text)] for one in columns
    }
    columns = [one for one in columns if len(codes[one.name]) * 5 >= len(one.filled) * 4]
    for column in columns:
        words = [word for word in dict.fromkeys(map(headings.word_among_codes, column.distinct)) if word]
        result.allowed += words
        if words:
            result.undecided.append(message("words_among_codes", name=column.name, words=", ".join(words)))
    return columns


def _larger_columns(sheet: SheetSample, used: Collection[str]) -> list[list[str]]:
    """Return pairs of columns of which the first never has a smaller number, without those that others imply."""
    pairs = set()
    amounts = [one for one in sheet.columns.values() if one.role in NUMBER_ROLES]
    others = [one for one in sheet.columns.values() if one.is_number and not (one in amounts or one.is_date)]
    # Numbers of bills grow, whatever the bills cost.
    numbers = [*amounts, *(one for one in others if not (one.is_like_an_id or one.is_clock))]
    for one, other in permutations(numbers, 2):
        if not any(column in amounts and column.name in used for column in (one, other)):
            continue
        sizes = [(abs(one.amount(row)), abs(other.amount(row))) for row in range(len(sheet.rows))]
        is_never_smaller = all(size >= smaller for size, smaller in sizes)
        # Amounts that differ on few rows, such as a discount and a tip, may do so the other way round in another file.
        if is_never_smaller and sum(size > smaller for size, smaller in sizes) >= max(ENOUGH_ROWS, len(sizes) / 2):
            pairs.add((one.name, other.name))
    names = {name for pair in pairs for name in pair}
    implied = {(one, other) for one, other in pairs if any({(one, name), (name, other)} <= pairs for name in names)}
    return [list(pair) for pair in sorted(pairs - implied)]


def _first_and_last_day(sample: BillSample, result: Proposal, today: date) -> list[str]:
    """Return the days between which the sample is, unless its own dates seem to be in another order."""
    days, column = sorted(day for day in sample.days if day), sample.day or sample.trading_day
    if not days or column is None:
        return []
    is_buddhist = result.has("[dates]", "calendar") and days[-1].year > today.year + BUDDHIST_SHIFT // 2
    shift = BUDDHIST_SHIFT if is_buddhist else 0
    known = [day.replace(year=day.year - shift).isoformat() for day in (days[0], days[-1])]
    dates = {text for value in column.distinct if (text := ordered_date(value))}
    order = sample.order if sample.order in ("dmy", "mdy") else None
    return [] if order and improbable_days(dates, column_profiles.ANY_CENTURY, order, None, known) else known
