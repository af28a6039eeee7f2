"""Finds the bills of a table: the rows that belong to bills, their number, their day, their shop and their lines."""

from collections.abc import Sequence
from datetime import date, timedelta
from itertools import pairwise

from counterfoil.importer.bills import bill_keys
from counterfoil.importer.bills.bill_keys import KeyParts
from counterfoil.importer.bills.bill_numbers import find_number, last_number, moments_of
from counterfoil.importer.bills.bill_rows import KeptRows
from counterfoil.importer.bills.bills import Bills
from counterfoil.importer.bills.closing_times import find_closing_time
from counterfoil.importer.bills.date_orders import DateOrder, readable_order
from counterfoil.importer.bills.filled_down import FilledColumns, fill_days, fill_down, fill_shops
from counterfoil.importer.bills.repeated_rows import leave_out_repeated
from counterfoil.importer.bills.same_numbers import ask_about_parts, ask_about_times
from counterfoil.importer.columns import ExportTable, TableColumn, day_of
from counterfoil.importer.form import sentence
from counterfoil.importer.interview import Interview, Refuted
from counterfoil.importer.ranks import Ranks
from counterfoil.importing.sentences import listed, named_day
from counterfoil.importing.values import DATE_ORDERS, NIGHT_ENDS

ONE_SHOP = "one shop"
MANY_SHOPS = 10
MOST_DAYS = 3
_ORDER_NAMES = {
    "dmy": sentence("day before month"),
    "mdy": sentence("month before day"),
    "ymd": sentence("year first"),
    "ydm": sentence("year, day, month"),
}


def find_bills(
    table: ExportTable, interview: Interview, *, today: date, timezone: str | None, has_line_file: bool
) -> Bills:
    """Return the bills of a table: first the rows that belong to bills, then when, where and by what key."""
    kept = KeptRows(table, interview)
    kept.leave_out_answered()
    ends_in_totals = kept.leave_out_totals()
    is_number_asked = find_number(kept, interview, has_line_file=has_line_file)
    filled = FilledColumns() if has_line_file else fill_down(kept, interview, is_number_asked=is_number_asked)
    filled = fill_days(kept, interview, filled)
    filled = fill_shops(kept, interview, filled)
    kept.leave_out_without_number()
    kept.leave_out_without_day()
    kept.leave_out_words()
    kept.refuse_summary()
    repeated = leave_out_repeated(kept, interview, has_line_file=has_line_file)
    table, ranks, number = kept.table, kept.ranks, kept.number

    kinds = bill_keys.find_kinds(table, ranks, number, interview)
    runs = _find_runs(ranks, number, kinds)
    trading_day = ranks.first("tradingDay")
    closing = find_closing_time(table, ranks, runs, trading_day, interview)
    dated = [column for column in (closing.day, trading_day) if column]
    order = _find_order(DateOrder(ranks, dated, today, timezone), dated, interview)
    days = _find_days(dated, order, len(table.rows))

    shop = _find_shop(ranks, runs, interview)
    tills = [column for column in ranks.with_role("deviceId") if column.is_filled][:1]
    possible_days = [trading_day, closing.day, *ranks.with_role("datetime")]
    is_flat = not has_line_file and _has_lines(ranks, runs)
    is_undone_later = not is_flat and bill_keys.are_undone_later(ranks, number, days, interview)
    parts = KeyParts(
        number=number,
        days=days,
        dated=[] if is_undone_later else [day for day in possible_days if day and _is_one_day(day, runs, order)],
        times=[column for column in (closing.day, closing.clock) if column],
        shop=shop,
        tills=tills,
        kinds=kinds,
    )
    answer = _answered_key(table, interview)
    bills = Bills(
        table=table,
        ranks=ranks,
        number=number,
        is_flat=is_flat,
        shop=shop,
        tills=tills,
        kinds=kinds,
        key=bill_keys.answered_key(answer, kinds) if answer else bill_keys.find_key(table, ranks, parts),
        closing=closing,
        trading_day=trading_day,
        order=order,
        days=days,
        left_out=kept.left_out,
        skipped=kept.skipped,
        filled_down=filled.columns,
        line_marks=filled.line_marks,
        repeated=repeated,
        ends_in_totals=ends_in_totals,
    )
    bills.closing = ask_about_times(bills, interview)
    ask_about_parts(bills, interview)
    return bills


def _answered_key(table: ExportTable, interview: Interview) -> str:
    """Return the key such as `Date + Receipt` that an answer names, or an empty text."""
    for question in ("together", "bill"):
        answer = interview.answers.get(question, "")
        if " + " not in answer:
            continue
        for name in answer.split(" + "):
            if name not in table.columns:
                raise Refuted(question, answer, sentence("there is no column {name}", name=name))
        interview.answer(question)
        return answer
    return ""


def _find_runs(ranks: Ranks, number: TableColumn, kinds: Sequence[TableColumn]) -> list[list[int]]:
    """Return the rows that follow each other and seem to belong to one bill: same number, branch, till and kind."""
    is_row_per_bill = not ranks.with_role("item", "qty", "method")
    places = [column for column in (ranks.first("shopId"), ranks.first("deviceId")) if column]
    cells: list[Sequence[object]] = [column.values for column in (number, *places, *kinds)]
    days = _days_of_business(ranks)
    if _start_again(number, days):
        cells.append(days)
    runs: list[list[int]] = []
    for row in range(len(number.values)):
        if row and not is_row_per_bill and all(values[row] == values[row - 1] for values in cells):
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


def _days_of_business(ranks: Ranks) -> list[date | None]:
    """Return the day of each row, or the day before for a time after midnight, at which a bill may go on."""
    moments = moments_of(ranks)
    if moments:
        night = timedelta(hours=NIGHT_ENDS.hour)
        return [(moment - night).date() for moment in moments]
    dated = ranks.first("tradingDay", "datetime")
    for column in ranks.table.columns.values():
        if dated is None and column.is_date:
            dated = column
    if dated is None:
        return []
    return [day_of(value, "dmy") or day_of(value, "mdy") for value in dated.values]


def _start_again(number: TableColumn, days: Sequence[date | None]) -> bool:
    """Return whether the numbers of each day are mostly those of the day before, as where they start again."""
    numbers: dict[date, set[int]] = {}
    for value, day in zip(number.values, days, strict=False):
        if day:
            numbers.setdefault(day, set()).add(last_number(value))
    falls = False
    for day, following in pairwise(sorted(numbers)):
        earlier, later = numbers[day], numbers[following]
        common = earlier & later
        if len(common) * 2 <= min(len(earlier), len(later)):
            return False
        # A till may sell one bill a day, each with the first number.
        falls = falls or min(later) < max(earlier) or later == earlier
    return falls


def _has_lines(ranks: Ranks, runs: Sequence[list[int]]) -> bool:
    """Return whether each row is a line of a bill."""
    repeats = any(len(run) > 1 for run in runs)
    if ranks.with_role("item"):
        return repeats or bool(ranks.with_role("qty", "unitPrice"))
    return repeats and bool(ranks.with_role("qty"))


# --- days ---------------------------------------------------------------------------------


def _find_order(found: DateOrder, dated: Sequence[TableColumn], interview: Interview) -> str | None:
    """Return the order of day, month and year, or ask for it."""
    if not dated:
        return None
    if found.order and "order" not in interview.answers:
        if found.proof:
            interview.prove(sentence("Dates are {order}: {proof}", order=_ORDER_NAMES[found.order], proof=found.proof))
        return found.order
    column = dated[0]
    if column.is_serial and not column.is_date:
        return None
    choices = {order: _shown_days(column, order) for order in found.possible or DATE_ORDERS}
    first, last = column.values[0], column.values[-1]
    text = sentence("Which days are these?  {first} … {last}", first=first, last=last)
    return interview.choose("order", "day", text, choices)


def _shown_days(column: TableColumn, order: str) -> str:
    """Return a few days of a column, read in an order, or the first and the last one."""
    found = [day_of(value, order) for value in column.values]
    days = list(dict.fromkeys(filter(None, found)))
    if len(days) > MOST_DAYS:
        return sentence("{first} … {last}", first=named_day(days[0]), last=named_day(days[-1]))
    return listed([named_day(day) for day in days])


def _find_days(dated: Sequence[TableColumn], order: str | None, rows: int) -> list[date | None]:
    """Return the day of each row."""
    if not dated:
        return [None] * rows
    column = dated[0]
    day_of_value = {value: day_of(value, readable_order(order)) for value in column.distinct}
    return [day_of_value.get(value) for value in column.values]


def _is_one_day(column: TableColumn, runs: Sequence[list[int]], order: str | None) -> bool:
    """Return whether the rows of each run are of the same day, whatever their times are."""
    cell_of_value = {value: day_of(value, readable_order(order)) or value for value in column.distinct}
    for rows in runs:
        cells = {cell_of_value.get(column.values[row]) for row in rows}
        if len(cells) > 1:
            return False
    return True


# --- shops --------------------------------------------------------------------------------


def _find_shop(ranks: Ranks, runs: Sequence[list[int]], interview: Interview) -> TableColumn | None:
    """Return the column with the shops, if there is one, or ask whether its many values are shops."""
    columns = [column for column in ranks.with_role("shopId") if column.filled]
    if not columns:
        return None
    column = columns[0]
    names = [name for name in column.distinct if not ranks.names_no_shop(name)]
    if not names:
        return None
    is_many = len(names) >= MANY_SHOPS and len(runs) < 3 * len(names)
    if ranks.are_areas(names) or is_many or "shop" in interview.answers:
        text = sentence(
            "{column} has {count} values, as {name}. Is each of them a shop?",
            column=column.name,
            count=f"{len(names):,}",
            name=names[0],
        )
        choices = {column.name: sentence("Yes, each is a shop"), ONE_SHOP: sentence("No, all bills are of one shop")}
        if interview.choose("shop", "shop", text, choices) == ONE_SHOP:
            return None
    return column
