"""Reads a table as bills: states and rows first, then sums. What the file does not prove becomes a doubt.

A reading takes the answers that were given and, where there is none, the most probable one. So each option of a
question is the reading with that answer, and its records, money and refutations are those of the reading.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.importer.bills.bill_rows import LeftOutRows
from counterfoil.importer.bills.bill_search import find_bills
from counterfoil.importer.bills.bills import Bills
from counterfoil.importer.bills.days import Days, find_days, local_times
from counterfoil.importer.columns import SCALE, ExportTable
from counterfoil.importer.form import FormFiles, KnownShop, sentence
from counterfoil.importer.interview import Interview, NeedsOtherReport
from counterfoil.importer.ranks import AMOUNT_ROLES, REFUND, SALE, SKIP, VOID, Ranks
from counterfoil.importer.reading import headings_missing, read_table
from counterfoil.importer.shops.shop_zones import DEFAULT_ZONE
from counterfoil.importer.shops.shops import Shops, find_shops
from counterfoil.importer.states.state_search import find_states
from counterfoil.importer.states.states import CancelledLines, States
from counterfoil.importer.sums.paid import PaidAmounts
from counterfoil.importer.sums.series import LINE, AmountSeries
from counterfoil.importing.results import REJECT_REASONS, RejectedRow
from counterfoil.importing.sentences import Sentence
from counterfoil.importing.sum_rows import BILLS, FEW_BILLS, MANY_BILLS, TOTALS, SumsOfOthers
from counterfoil.importing.values import decimal_places, prefix_of

LEAVE_OUT = "leave out"
ROUND, KEEP = "round", "keep"
PART_ROLES = ("tax", "tip", "discount", "service", "delivery", "rounding")
MOST_LINES = 3
_NUMBER = re.compile(r"[\d\s.,'’()+−-]+")
_READING_ANSWERS = ("encoding", "decimals")

Record = tuple[str, str, int, int, str]
"""What is stored of a bill, as far as readings differ: number, state, net, tip and local time."""


def _rounded(value: int, cent: int) -> int:
    """Return an amount in whole cents, half a cent up."""
    size = (abs(value) + cent // 2) // cent * cent
    return size if value >= 0 else -size


def _rejection(reason: str, lines: Sequence[int]) -> str:
    """Return what is wrong with rejected rows, and where the first ones are."""
    meaning = Sentence(REJECT_REASONS[reason], {})
    named = ", ".join(map(str, lines[:MOST_LINES]))
    if len(lines) > MOST_LINES:
        more = len(lines) - MOST_LINES
        return sentence("the row {meaning}: lines {named} and {more} more", meaning=meaning, named=named, more=more)
    if len(lines) > 1:
        return sentence("the row {meaning}: lines {named}", meaning=meaning, named=named)
    return sentence("the row {meaning}: line {named}", meaning=meaning, named=named)


class Left(Struct, frozen=True):
    """Bills and rows that are left out, with their money and why."""

    bills: int
    net: int
    reason: str


class ExportTables(NamedTuple):
    """The tables of an export."""

    bills: ExportTable
    lines: ExportTable | None
    payments: ExportTable | None


class ExportSource:
    """The tables of an export. Each is read once for each answer about how it is written."""

    def __init__(self, files: FormFiles) -> None:
        self._files = files
        self._read: dict[tuple[str | None, ...], tuple[ExportTables, Interview]] = {}

    def tables(self, interview: Interview) -> ExportTables:
        """Return the tables of bills, lines and payments, and add the doubts about how they are written."""
        key = tuple(interview.answer(name) for name in _READING_ANSWERS)
        if key not in self._read:
            answers = dict(zip(_READING_ANSWERS, key, strict=True))
            reading = Interview({name: answer for name, answer in answers.items() if answer})
            files = self._files
            bills = read_table(files.bills, reading)
            lines = read_table(files.lines, reading) if files.lines else None
            payments = read_table(files.payments, reading) if files.payments else None
            self._read[key] = ExportTables(bills, lines, payments), reading
        tables, reading = self._read[key]
        interview.doubts += reading.doubts
        interview.assumed += reading.assumed
        return tables


class ExportReading:
    """A table read as bills, with the answers that were given. Bills with a rejected row do not count."""

    def __init__(
        self,
        source: ExportSource,
        answers: Mapping[str, str],
        *,
        known: Sequence[KnownShop],
        today: date,
        timezone: str | None,
        usual_timezone: str = DEFAULT_ZONE,
        places: int = 2,
        rejected: Sequence[RejectedRow] = (),
    ) -> None:
        self._rejected = rejected
        self.interview = Interview(answers)
        self.sums_are: str | None = None
        self.source_table, self.lines, self.payments = source.tables(self.interview)
        self._refuse_unreadable()
        has_line_file = self.lines is not None
        self.bills: Bills = find_bills(
            self.source_table, self.interview, today=today, timezone=timezone, has_line_file=has_line_file
        )
        self.states: States = find_states(self.bills, self.interview)
        self._refuse_currencies()
        self.payment_states = self._find_payment_states()
        self.amounts = PaidAmounts(
            self.bills, self.states, self.interview, self.lines, self.payments, self.payment_states
        )
        self._refuse_joined_rows()
        self.net: AmountSeries = self._in_cents(self.amounts.decide_net(), places)
        self._refuse_negative_quantities()
        self.days: Days = find_days(self.bills, self.interview, today)
        self.times = local_times(self.bills, self.days)
        self.sums = self._find_sums()
        self.shops: Shops = find_shops(self.bills, self.times, known, timezone, self.interview, usual_timezone)
        self.shop_of_no_shop = self._find_shop_of_no_shop()
        self._ask_for_keys()

    # --- what no answer makes right ----------------------------------------------------------------

    def _refuse_unreadable(self) -> None:
        table = self.source_table
        if not table.rows:
            raise NeedsOtherReport(
                sentence("{table} has no rows below its header row that can be read.", table=table.name)
            )
        if data := headings_missing(table):
            line = table.file.heading_line
            raise NeedsOtherReport(
                sentence(
                    "{table} has no header row: line {line} has {data}, like the rows below it. Export it with "
                    "the headings of the columns.",
                    table=table.name,
                    line=line,
                    data=" and ".join(data[:2]),
                )
            )

    def _refuse_currencies(self) -> None:
        """Refuse amounts in several currencies, unless they are in columns by which bills can be left out."""
        ranks = self.bills.ranks
        for column in self.bills.table.columns.values():
            if ranks.role(column) not in AMOUNT_ROLES:
                continue
            # A cell without digits, such as `ERROR`, has no amount.
            numbers = [value for value in column.distinct if any(map(str.isdigit, value))]
            found = {_NUMBER.sub("", value).casefold() for value in numbers} - {""}
            if len(found) > 1:
                raise NeedsOtherReport(
                    sentence(
                        "{column} has amounts in {found}. Export each currency in its own file.",
                        column=column.name,
                        found=", ".join(sorted(found)),
                    )
                )
        for column in ranks.with_role("currency"):
            values = [value for value in column.distinct if not ranks.is_placeholder(value)]
            if len(values) > 1:
                self._ask_about_currency(column.name, values)

    def _ask_about_currency(self, name: str, values: Sequence[str]) -> None:
        text = sentence(
            "{name} has {values}. Amounts in several currencies cannot be added up. Which bills count?",
            name=name,
            values=", ".join(values),
        )
        choices = {f"only {value}": sentence("those in {value}", value=value) for value in values[:4]}
        self.interview.choose(f"rows.{name}", "bill", text, choices, must_confirm=True)

    def _refuse_joined_rows(self) -> None:
        methods = self.bills.ranks.with_role("method") if self.bills.is_flat else []
        for method in methods:
            row = self.bills.first_repeated_line(method)
            if row is None:
                continue
            table = self.bills.table
            raise NeedsOtherReport(
                sentence(
                    "The rows of {table} repeat for each {method}, as on line {line}, so its items would "
                    "count several times. Export the items and the payments as two files.",
                    table=table.name,
                    method=method.name,
                    line=table.line(row),
                )
            )

    def _refuse_negative_quantities(self) -> None:
        """Refuse items that were returned, as their quantity says, but count as sold."""
        quantity = self.bills.ranks.first("qty")
        if quantity is None or not self.bills.is_flat or self.net.level != LINE or self.net.is_product:
            return
        table = self.bills.table
        columns = [table.columns[name] for name in self.net.columns if name in table.columns]
        for bill in self.amounts.sales:
            for row in self.bills.rows[bill]:
                are_sold = bool(columns) and all(column.amount(row) > 0 for column in columns)
                if quantity.amount(row) >= 0 or not are_sold or self.states.is_cancelled(self.bills, row):
                    continue
                raise NeedsOtherReport(
                    sentence(
                        "Line {line} of {table} has the quantity {quantity} and the amount {amount}, so that nothing "
                        "shows whether it was paid back. Export what was returned with negative amounts.",
                        line=table.line(row),
                        table=table.name,
                        quantity=quantity.values[row],
                        amount=columns[0].values[row],
                    )
                )

    def _in_cents(self, net: AmountSeries, places: int) -> AmountSeries:
        """Return the net in the decimals of the currency, in which it was paid, or ask whether to round it."""
        codes = re.findall(r"[A-Z]{3}", " ".join(net.columns))
        places = max([places, *map(decimal_places, codes)])
        cent = SCALE // 10**places
        broken = [bill for bill in self.amounts.sales if (net.values[bill] or 0) % cent]
        if not broken:
            return net
        bill = broken[0]
        value = net.values[bill] or 0
        text = sentence(
            "{net} has fractions of a cent: {value} on bill {bill}. What was paid has none. Is it rounded "
            "on each bill?",
            net=net.name,
            value=f"{value / SCALE:.4f}",
            bill=self.bills.name_of(bill),
        )
        rounded = _rounded(value, cent)
        choices = {
            ROUND: sentence("Yes: {rounded}", rounded=f"{rounded / SCALE:,.{places}f}"),
            KEEP: sentence("No: keep it as it is"),
        }
        if self.interview.choose("cents", "money", text, choices) == KEEP:
            return net
        cell = net.cell if isinstance(net.cell, dict) else {"column": net.cell}
        values = [None if value is None else _rounded(value, cent) for value in net.values]
        return replace(net, values=tuple(values), cell={**cell, "round": places})

    def _find_sums(self) -> frozenset[int]:
        """Return the bills that have the sums of those above them, and are rows of totals, as an answer says."""
        found = self._bills_like_sums()
        if not found:
            return frozenset()
        line = self.bills.table.line(self.bills.rows[found[0]][0])
        number = self.bills.name_of(found[0])
        text = sentence(
            "{number} {number_2} on line {line} has the sums of other bills. Is it a bill?",
            number=self.bills.number.name,
            number_2=number,
            line=line,
        )
        choices = {TOTALS: sentence("No, it is a row of totals: leave out"), BILLS: sentence("Yes, it is a bill")}
        self.sums_are = self.interview.choose("sums", "bill", text, choices)
        return frozenset(found) if self.sums_are == TOTALS else frozenset()

    def _bills_like_sums(self) -> list[int]:
        """Return the bills whose amounts are the sums of those above: the last one, or any below many bills."""
        parts = [self.amounts.parts_of_role(role, self.net) for role in PART_ROLES]
        stated = [part for part in (*parts, self.amounts.subtotal(self.net)) if part]
        amounts = [self.net, *stated]
        of_sales, of_voids = [0] * len(amounts), [0] * len(amounts)
        found = []
        count = 0
        last = len(self.bills.rows) - 1
        for bill, state in enumerate(self.amounts.state_of_bill):
            if state == SKIP:
                continue
            values = [series.values[bill] or 0 for series in amounts]
            is_sum = self._is_sum(values, of_sales, of_voids, count)
            if is_sum and (bill == last or count >= MANY_BILLS):
                found.append(bill)
                continue
            count += bool(values[0])
            sums = of_voids if state == VOID else of_sales
            for place, value in enumerate(values):
                sums[place] += value
        return found or self._sums_of_others(amounts)

    def _sums_of_others(self, amounts: Sequence[AmountSeries]) -> list[int]:
        """Return the bill whose amounts are the sums of all others, or those that are the sums of their days."""
        others = SumsOfOthers()
        for bill, state in enumerate(self.amounts.state_of_bill):
            if state == SKIP:
                continue
            values = {}
            for place, series in enumerate(amounts):
                if series.values[bill]:
                    values["net" if place == 0 else str(place)] = Decimal(series.values[bill] or 0) / SCALE
            others.add(str(bill), bill + 1, (self.times[bill] or "")[:10], values, is_void=state == VOID)
        return sorted(int(day.key) for day in others.found())

    def _is_sum(self, values: Sequence[int], of_sales: Sequence[int], of_voids: Sequence[int], count: int) -> bool:
        """Return whether the amounts of a bill are the sums of `count` bills, with or without the voided ones."""
        if not values[0]:
            return False
        known = [place for place, value in enumerate(values) if value]
        # A single round amount is often the sum of others.
        is_common = len({values[place] for place in known}) == 1 and values[0] % SCALE == 0
        if count < (FEW_BILLS + 2 if is_common else FEW_BILLS):
            return False
        if all(values[place] == of_sales[place] for place in known):
            return True
        return all(values[place] == of_sales[place] + of_voids[place] for place in known)

    def _ask_for_keys(self) -> None:
        """Ask which column of another file has the number of the bill, if none was found."""
        for table, what in ((self.lines, "lines"), (self.payments, "payments")):
            if table is None or self.amounts.shared_key(table)[0]:
                continue
            text = sentence("Which column of {table} has the number of the bill?", table=table.name)
            columns = [column for column in table.columns.values() if column.is_like_an_id]
            choices = {}
            for column in columns[:4]:
                choices[column.name] = sentence("{one}, as in {value}", one=column.name, value=column.distinct[0])
            if not choices:
                raise NeedsOtherReport(sentence("{table} has no column with the number of the bill.", table=table.name))
            typed = sentence("If another one has it, type its heading. If none has it, export a report with it.")
            self.interview.choose(what, "bill", text, choices, free=True, typed=typed, must_confirm=True)

    def _find_payment_states(self) -> CancelledLines | None:
        """Return which payments of a file of their own do not count."""
        if self.payments is None:
            return None
        ranks = Ranks(self.payments)
        for column in self.payments.columns.values():
            if not column.filled or ranks.is_named_as_amount(column):
                continue
            states = ranks.states(column)
            is_decided = ranks.is_bare(column) and None not in states.values()
            marked = [value for value, meaning in states.items() if meaning not in (SALE, None)]
            if not marked or not (is_decided or ranks.may_be_state(column)):
                continue
            text = sentence(
                "“{column}” has {marked}. Do these payments count?", column=column.name, marked=", ".join(marked[:3])
            )
            choices = {VOID: "No", SALE: "Yes"}
            answer = self.interview.choose(f"payments.{column.name}", "state", text, choices, must_confirm=True)
            if answer == VOID:
                return CancelledLines(column.name, {value: value in marked for value in (*states, "")})
        return None

    def _find_shop_of_no_shop(self) -> str | None:
        """Return the shop of bills without one, or None if they are left out."""
        if not self.shops.no_shop:
            return None
        named = ", ".join(value or "nothing" for value in self.shops.no_shop)
        column = self.bills.shop.name if self.bills.shop else ""
        text = sentence("Some bills have {named} in {column}. Which shop sold them?", named=named, column=column)
        choices = {LEAVE_OUT: sentence("leave them out")} | {shop.id: shop.name for shop in self.shops.shops[:3]}
        answer = self.interview.choose("no shop", "bill", text, choices, must_confirm=True)
        return None if answer == LEAVE_OUT else answer

    # --- what is read -------------------------------------------------------------------------------

    @cached_property
    def state_of_bill(self) -> list[str]:
        """The state of each bill. One without a shop is left out, unless an answer names its shop."""
        found = list(self.amounts.state_of_bill)
        column = self.bills.shop
        if column and self.shops.no_shop and self.shop_of_no_shop is None:
            for bill, rows in enumerate(self.bills.rows):
                if column.values[rows[0]] in self.shops.no_shop:
                    found[bill] = SKIP
        for bill in (*self.sums, *self.rejected_bills):
            found[bill] = SKIP
        if self.states.cancelled:
            for bill, rows in enumerate(self.bills.rows):
                is_cancelled = all(self.states.is_cancelled(self.bills, row) for row in rows)
                if is_cancelled and found[bill] != SKIP:
                    found[bill] = VOID
        return found

    @cached_property
    def rejected_bills(self) -> dict[int, RejectedRow]:
        """The bills that cannot be converted, with the row that says why."""
        bill_of_row: dict[tuple[str, int], int] = {}
        bills_of_name: dict[str, list[int]] = {}
        for bill, rows in enumerate(self.bills.rows):
            bills_of_name.setdefault(self.bills.name_of(bill), []).append(bill)
            for row in rows:
                bill_of_row[self.bills.table.place(row)] = bill
        found: dict[int, RejectedRow] = {}
        for rejected in self._rejected:
            of_row = bill_of_row.get((rejected.file, rejected.line))
            # The row may be one of the lines or payments in another file.
            of_name = bills_of_name.get(rejected.bill or "", [])
            if of_row is not None:
                found.setdefault(of_row, rejected)
            elif len(of_name) == 1:
                found.setdefault(of_name[0], rejected)
        return found

    def net_of(self, bill: int) -> int:
        """Return the net of a bill that counts: that of a refund is negative, and that of a void nothing."""
        state, value = self.state_of_bill[bill], self.net.values[bill] or 0
        if state == VOID:
            return 0
        return -abs(value) if state == REFUND else value

    @property
    def counted(self) -> list[int]:
        return [bill for bill, state in enumerate(self.state_of_bill) if state != SKIP]

    @cached_property
    def total(self) -> int:
        return sum(map(self.net_of, self.counted))

    @cached_property
    def tip(self) -> AmountSeries | None:
        return self.amounts.parts_of_role("tip", self.net)

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """What is stored, to find out whether two readings are the same one."""
        tip = self.tip
        found = []
        for bill in self.counted:
            state = self.state_of_bill[bill]
            tips = (tip.values[bill] or 0) if tip and state != VOID else 0
            # A refund is a bill with a negative net, whatever says so.
            kind = VOID if state == VOID else SALE
            found.append((self.bills.name_of(bill), kind, self.net_of(bill), tips, self.times[bill]))
        return tuple(sorted(found))

    @cached_property
    def left_out(self) -> list[Left]:
        """What is not imported, with its money."""
        of_bills = self._by_reason(SKIP)
        return [*map(self._left_rows, self.bills.left_out), *of_bills.values(), *self._rejected_rows_of_no_bill()]

    def _rejected_rows_of_no_bill(self) -> list[Left]:
        """Return the rejected rows that are of no bill that is known, by what is wrong with them."""
        of_bills = self.rejected_bills.values()
        lines: dict[str, list[int]] = {}
        for rejected in self._rejected:
            if rejected not in of_bills:
                lines.setdefault(rejected.reason, []).append(rejected.line)
        return [Left(0, 0, _rejection(reason, of_reason)) for reason, of_reason in lines.items()]

    @property
    def voided(self) -> dict[str, Left]:
        """The voided bills with their money, by what says that they are void."""
        return self._by_reason(VOID)

    def _by_reason(self, state: str) -> dict[str, Left]:
        """Return the bills of a state with their money, by what says so."""
        bills: dict[str, list[int]] = {}
        for bill, state_of_bill in enumerate(self.state_of_bill):
            if state_of_bill == state:
                bills.setdefault(self._reason(bill, state), []).append(bill)
        found = {}
        for reason, of_reason in bills.items():
            net = sum(self.net.values[bill] or 0 for bill in of_reason)
            found[reason] = Left(len(of_reason), net, reason)
        return found

    def _reason(self, bill: int, state: str) -> str:
        """Return what says that a bill has a state."""
        if state == SKIP and bill in self.rejected_bills:
            wrong = self.rejected_bills[bill].reason
            of_bills = self.rejected_bills.values()
            return _rejection(wrong, [rejected.line for rejected in of_bills if rejected.reason == wrong])
        if bill in self.sums:
            return sentence("a row of totals")
        if found := self._cell_with_state(bill, state):
            return found
        number = self.bills.name_of(bill)
        if self.states.of_prefix(number) == state:
            return sentence("{number} begins with {prefix}", number=self.bills.number.name, prefix=prefix_of(number))
        if state == VOID:
            return sentence("all lines were cancelled")
        if self.bills.shop:
            return sentence("{column} names no shop", column=self.bills.shop.name)
        return sentence("it does not count")

    def _cell_with_state(self, bill: int, state: str) -> str:
        """Return which cell of a bill says that it has a state, or an empty text if none does."""
        columns, states = self.bills.table.columns, self.states
        empty = {name: {"": meaning} for name, meaning in states.empty.items()}
        for name, meanings in (*states.of_bills.items(), *states.marks.items(), *empty.items()):
            for row in self.bills.rows[bill]:
                value = columns[name].values[row]
                if meanings.get(value) == state:
                    return sentence("{name} is {value}", name=name, value=value or "empty")
        return ""

    def _left_rows(self, left: LeftOutRows) -> Left:
        """Return rows that are left out, with the money in the columns of the net."""
        kept = set(self.bills.number.values)
        number = left.table.columns.get(self.bills.number.name)
        names = [number.values[row] for row in left.rows] if number else []
        others = {name for name in names if name and name not in kept}
        bills = len(others) + names.count("")
        columns = [left.table.columns[name] for name in self.net.columns if name in left.table.columns]
        if self.net.is_product and len(columns) > 1:
            # Rows such as those of totals have no quantity and price.
            return Left(bills, 0, left.reason)
        net = 0
        for row in left.rows:
            for column in columns:
                net += column.units[column.values[row]] or 0
        return Left(bills, net, left.reason)
