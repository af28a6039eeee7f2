"""The amounts that a sample states for its bills: possible totals, charges and deductions, and payments."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from itertools import accumulate, zip_longest
from math import prod
from typing import Any

from msgspec.structs import replace

from counterfoil.importing import bill_totals, headings
from counterfoil.importing.answers import UNITS
from counterfoil.importing.bill_sample import BillSample
from counterfoil.importing.bill_totals import (
    BILL,
    LINE,
    LINES_ROLE,
    PAYMENTS_ROLE,
    SCALE,
    SampleFinding,
    SampleSeries,
    differing,
    sums_of,
)
from counterfoil.importing.column_profiles import SampleColumn, SheetSample
from counterfoil.importing.headings import AMOUNT_ROLES, CHARGES, DEDUCTIONS, TOTAL_ROLES, flag_of, heading_status
from counterfoil.importing.mapping import REFUND, SALE, VOID
from counterfoil.importing.results import ImportFailed, message

# A column that differs between the rows of a bill, which are its payments; and one that is the same on all lines of a
# bill, so that it may also be the amount of a line.
ROW, EITHER = "row", "either"
MOST_ANSWERS = 8
BANKNOTE = 5 * SCALE
MOST_BILLS = 200
PAYMENT_AMOUNTS = ("tendered", "amount", "paid", "total")
# Roles of amounts that may be a part of the bill: of a department, or what is taxed at one rate.
BASES = ("net", "gross", "amount", "exempt")
_CENT = Decimal("0.01")
# Unlike an amount, a time as Excel writes it has many decimals.
_PARTS_OF_DAY = re.compile(r"[.,]\d{4}")
# What tills write before the name of an item that is a part of the one above it.
_MARKS = frozenset("-+*>•·└~")


class BillAmounts:
    """The amounts of the bills of a sample, in units of SCALE."""

    def __init__(
        self, sample: BillSample, lines: SheetSample | None, payments: SheetSample | None, answers: Mapping[str, str]
    ) -> None:
        self._sample = sample
        self._factor = UNITS[answers.get("numbers.unit", "units")]
        self._answers = answers
        self._lines = lines
        self._payments = payments
        self.levels = {name: self._level(column) for name, column in sample.sheet.columns.items()}

    @cached_property
    def sales(self) -> list[int]:
        """The numbers of the bills by whose amounts the total is found: neither voided nor refunded."""
        bills, status_of = list(enumerate(self._sample.bills)), self._sample.status_of
        # If no word of a status is known, those of others still are.
        counted = [bill for bill in bills if status_of(bill[1]) == SALE]
        counted = counted or [bill for bill in bills if status_of(bill[1], unknown=SALE) == SALE] or bills
        totals = self._sample.sheet.with_role("paid", "total", "net")
        positive = [bill for bill in counted if all(one.amount(bill[1][0]) >= 0 for one in totals)]
        return [place for place, _ in positive or counted]

    def of(self, column: SampleColumn, role: str, level: str = "") -> SampleSeries:
        level = level or self.levels[column.name]
        return self._series(self._sample.sheet, [column.name], role, BILL if level == EITHER else level)

    def candidates(self) -> list[SampleSeries]:
        return [*self._stated, *self._shown[1], *self.payments()]

    @cached_property
    def _shown(self) -> tuple[list[SampleSeries], list[SampleSeries]]:
        """The charges and discounts, and the sums of columns, that only the arithmetic shows."""
        columns = [one for one in self._sample.sheet.columns.values() if one.role is None and self.may_be_money(one)]
        unknown = [self.of(column, bill_totals.UNKNOWN_ROLE) for column in columns]
        exempt = [self.of(column, "exempt") for column in self._sample.sheet.with_role("exempt") if column.is_number]
        taxed = [one for one in (*self._stated, *exempt) if one.role in BASES and one.level == BILL]
        return bill_totals.shown_by_sums(self._stated, self._stated_parts, unknown, taxed, self.sales[:MOST_BILLS])

    @cached_property
    def _stated(self) -> list[SampleSeries]:
        sheet = self._sample.sheet
        found = []
        for column in sheet.with_role(*TOTAL_ROLES):
            roles = {BILL: column.role or ""}
            roles |= {LINE: _role_on_lines(column)} if self._sample.is_flat else {ROW: column.role or ""}
            level = self.levels[column.name]
            found += [self.of(column, role, one) for one, role in roles.items() if level in (one, EITHER)]
        # Without quantities, a price may be that of a line or of the bill.
        prices = [] if sheet.with_role("qty") else sheet.with_role("unitPrice")
        others = [column for column in sheet.columns.values() if column.role is None or column in prices]
        amounts = [column for column in others if self.may_be_money(column)]
        unknown = [self.of(column, bill_totals.UNKNOWN_ROLE) for column in amounts if len(column.distinct) > 1]
        # The heading of what the payments, or a total and the tip, add up to on all bills need not be known.
        tips = [one for one in self._stated_parts if one.role == "tip" and any(one.values)]
        tipped = [one.plus(*tips) for one in found if tips and one.level == BILL]
        sums = [sums_of([one], self.sales) for one in (*self.payments(), *tipped)]
        equal = [one for one in unknown if one.level == BILL and sums_of([one], self.sales) in sums]
        paid = [replace(one, role="total") for one in equal]
        found += paid or unknown[: bill_totals.MOST_UNKNOWN if found else None]
        for column in self._lines.with_role(*TOTAL_ROLES) if self._lines else ():
            found.append(self._series(self._lines or sheet, [column.name], _role_on_lines(column), LINE))
        lines = self._lines or (sheet if self._sample.is_flat else None)
        if lines and lines.with_role("qty") and lines.with_role("unitPrice"):
            factors = [lines.with_role(role)[0].name for role in ("qty", "unitPrice")]
            grows, stays = _price_changes(lines, *(lines.columns[name] for name in factors))
            is_of_line = bool(grows and not stays)
            names = factors[1:] if is_of_line else factors
            found.append(self._series(lines, names, LINES_ROLE, LINE, is_product=not is_of_line))
            shares = [name for name, column in lines.columns.items() if column.is_number and _is_discount_rate(name)]
            found += [self._series(lines, [*names, name], LINES_ROLE, LINE, rate=name) for name in shares]
        return found

    @cached_property
    def search(self) -> bill_totals.SampleSearch:
        return bill_totals.SampleSearch(self.candidates(), self.parts(), self.sales)

    def find_total(self, bills: Sequence[int]) -> SampleFinding:
        """Find the total. A question about it has choices with charges, unless they are shown to be included."""
        finding = self._find_total(bills)
        named = {name for total in finding.choices for name in total.columns}
        parts = [(total, self.other_parts(total, bills)) for total in finding.choices]
        for total, missing in parts if parts and parts[0][1] else ():
            others = [part for part in missing if named.isdisjoint(part.columns)]
            finding.choices += [total.plus(*others)] if others else []
        finding.choices = [total for total in finding.choices if self.first_negative(total, bills) is None]
        # A sum of columns may be what was left after fees.
        left = [one for one in self.candidates() if one.role == "payout"]
        finding.choices = [
            one for one in finding.choices if not one.columns[1:] or all(differing(one, other, bills) for other in left)
        ]
        first = finding.chosen or next(iter(finding.choices), None)
        if first and sum((first.values[bill] or 0) < 0 for bill in bills) * 2 > len(bills):
            finding.chosen, finding.choices = None, [first.minus(), *(finding.choices or [first])]
            finding.question = f"{finding.question} {first.name} is negative on most bills.".strip()
        return finding

    def first_negative(self, total: SampleSeries, bills: Sequence[int]) -> int | None:
        """Return a bill on which a total is negative, although no amount of the bill is."""
        if total.name.startswith("- "):
            # The export writes sales as negative amounts.
            return None
        candidates = [one.values for one in self.candidates()]
        return next(
            (bill for bill in bills if (total.values[bill] or 0) < min([0, *(one[bill] or 0 for one in candidates)])),
            None,
        )

    def other_parts(self, total: SampleSeries, bills: Sequence[int]) -> list[SampleSeries]:
        """Return what is not added to a total, and what the sample does not show to be in it."""
        candidate = total if total.role in TOTAL_ROLES else replace(total, role="unknown")
        return bill_totals.SampleSearch([*self.candidates(), candidate], self.parts(), bills).other_parts(total)

    def _find_total(self, bills: Sequence[int]) -> SampleFinding:
        """Find the total. If it is quantity by price, the sample must show that the price is that of one unit."""
        finding = self.search.finding()
        product = finding.chosen
        if product and product.level == LINE and (rate := self._unreadable_rate(product)):
            return SampleFinding(question=message("rate_as_text", name=rate), is_impossible=True)
        if product and product.level == LINE and (row := self._item_with_parts(product)) is not None:
            sheet = self._lines or self._sample.sheet
            item, line = sheet.with_role("item")[0].values[row], sheet.rows[row].line
            return SampleFinding(choices=[product], question=message("parts_of_sets", item=item, line=line))
        totals = [product] if product else finding.choices
        named = {name for total in totals for name in total.columns}
        if totals and (doubts := [one for one in self._unexplained(totals[0], bills) if named.isdisjoint(one.columns)]):
            choices = [[total, *_with_or_instead(total, doubts, bills)] for total in totals]
            # The first answers to each doubt come before the second ones.
            answers = {one.name: one for some in zip_longest(*choices) for one in some if one}
            finding.choices = list(answers.values())[:MOST_ANSWERS]
            others = [one for one in doubts if one not in choices[0]]
            texts = [finding.question]
            for one in [one for one in doubts if one not in others]:
                count = len(differing(one, totals[0], bills))
                texts.append(f"{one.name} differs from {totals[0].name} on {count:,} of {len(bills):,} bills.")
            if others:
                names = ", ".join(one.name for one in others)
                texts.append(f"Nothing shows whether {totals[0].name} takes {names} into account.")
            finding.chosen, finding.doubts, finding.question = None, doubts, " ".join(filter(None, texts))
        if product is None or finding.doubts:
            return finding
        either = [name for name in product.columns if self.levels.get(name) == EITHER]
        if either and (self._has_single_lines or not self.search.is_level_shown(product.level, either)):
            name, column = either[0], self._sample.sheet.columns[either[0]]
            text = f"No bill has lines that differ in {name}. Is {name} the amount of a line, or of the whole bill?"
            readings = [self.of(column, LINES_ROLE, LINE), self.of(column, "paid", BILL)]
            charges = [one for one in self._sample.sheet.with_role(*CHARGES) if one.name in product.columns]
            # A tax is that of a line if the price is.
            sums = [
                price.plus(*(self.of(one, one.role or "", price.level if one.role == "tax" else "") for one in charges))
                for price in readings
            ]
            return SampleFinding(choices=[*sums, *(readings if charges else ())], question=text)
        if not product.is_product or product.level == bill_totals.MIXED:
            return finding
        sheet, (quantity, price) = self._lines or self._sample.sheet, product.columns
        grows, stays = _price_changes(sheet, sheet.columns[quantity], sheet.columns[price])
        if stays and not grows:
            return finding
        of_lines = self._series(sheet, [price], LINES_ROLE, LINE)
        text = f"The sample does not show whether {price} is the price of one unit or of the whole line."
        return SampleFinding(choices=[product, of_lines], question=text)

    def _unreadable_rate(self, total: SampleSeries) -> str | None:
        """Return a column with discounts such as `10%`, if the total is quantity by price, without them."""
        sheet = self._lines or self._sample.sheet
        known = {*self.search.explained_columns(), *total.columns}
        prices = [one.name for one in (*sheet.with_role("qty")[:1], *sheet.with_role("unitPrice")[:1])]
        rates = [one for one in sheet.columns.values() if headings.names(one.name, "headings", "discount")]
        with_signs = [one.name for one in rates if any(value.endswith("%") for value in one.distinct)]
        return next(iter(with_signs), None) if known.issuperset(prices) else None

    @property
    def _has_single_lines(self) -> bool:
        return self._sample.is_flat and all(len(bill) == 1 for bill in self._sample.bills)

    def may_be_money(self, column: SampleColumn) -> bool:
        """Return whether a column may have sums of money, beside the charges and deductions that are known."""
        sample, role = self._sample, column.role
        known = (sample.number, sample.day, sample.clock, sample.trading_day)
        is_void = heading_status(column.name) == VOID
        is_time = (column.is_serial and any(map(_PARTS_OF_DAY.search, column.distinct))) or column.is_epoch
        if not column.is_number or is_void or is_time or column in known or column.name in sample.statuses:
            return False
        if role is None:
            is_mark = any(map(flag_of, column.distinct)) and all(flag_of(one) is not None for one in column.distinct)
            is_reference = bool(column.distinct) and all(map(sample.refers_to_bill, column.distinct))
            is_group = column.is_whole and headings.names(column.name, "groups")
            return not (is_mark or is_reference or is_group or headings.names(column.name, "not_amounts"))
        return role != "gross" and role in (*TOTAL_ROLES, "refunded", "unitPrice")

    def _unexplained(self, total: SampleSeries, bills: Sequence[int]) -> list[SampleSeries]:
        """Return amounts that nothing relates to the total, unless the payments equal it on all bills."""
        payments = [one for one in self.payments() if one.columns != total.columns]
        if not all(differing(one, total, bills) for one in payments):
            return []
        related = self.search.explained_columns()
        explained = {*related, *total.columns, *(name for part in self.parts() for name in part.columns)}
        found = []
        for sheet in filter(None, (self._sample.sheet, self._lines)):
            explained.update(one.name for one in sheet.with_role("unitPrice")[:1])
            for column in filter(self.may_be_money, sheet.columns.values()):
                level = LINE if sheet is self._lines else self.levels[column.name]
                is_back = column.role == "refunded" or heading_status(column.name) == REFUND
                role = "refunded" if is_back else column.role or ""
                amounts = self._series(sheet, [column.name], role, BILL if level == EITHER else level)
                values = [amounts.values[bill] or 0 for bill in bills]
                # A whole number on all bills may be that of the guests.
                has_cents = len(set(values)) > 1 and any(value % SCALE for value in values)
                is_count = role == "" and not has_cents and all(values)
                # Prices of lines without tax, for example, are no totals.
                is_price = level == LINE and _is_alike(amounts, total, bills)
                is_known = column.name in explained or is_count or is_price or (role == "payout" and all(values))
                found += [amounts] if any(values) and not is_known else []
        rates = [one for one in self._stated if _is_discount_rate(one.columns[-1])]
        found += [one for one in rates if one.columns[-1] not in explained]
        for one in payments[-1:]:
            # What was given in cash may be more than what was paid.
            pairs = [(one.values[bill] or 0, total.values[bill] or 0) for bill in differing(one, total, bills)]
            is_other = any(given and (given < paid or given % BANKNOTE) for given, paid in pairs)
            found += [one] if is_other and not explained.issuperset(one.columns) else []
        return found

    def _item_with_parts(self, total: SampleSeries) -> int | None:
        """Return the row of a set that costs as much as the rows below it: its items, with prices of their own."""
        sheet = self._lines or self._sample.sheet
        columns = [sheet.columns[name] for name in total.columns if name in sheet.columns]
        items = next((column.values for column in sheet.with_role("item")), [])
        combine = prod if total.is_product else sum
        sums_by_item = defaultdict[str, dict[int, bool]](dict)
        for bill in (self._rows_in(sheet) if self._lines else self._sample.bills) if items else ():
            amounts = [combine(column.amount(row) for column in columns) for row in bill]
            for place, row in enumerate(bill):
                below = list(accumulate(amounts[place + 1 :]))
                sums_by_item[items[row]][row] = amounts[place] > 0 and amounts[place] in below[1:]
        for rows in sums_by_item.values():
            first = min(rows)
            if all(rows.values()) and (len(rows) > 1 or items[first + 1][:1] in _MARKS):
                return first
        return None

    def expression(self, text: str) -> SampleSeries:
        """Return the total that a person has named, such as `Total + Tip` or `sum of Amount + Tip`."""
        either = [name for name, level in self.levels.items() if level == EITHER]
        if "sum of " in text and (self._has_single_lines or any(f"sum of {name}" in text for name in either)):
            # The sample does not show of which columns the amounts are those of lines, but the answer does.
            self.levels |= dict.fromkeys((*either, *(one.name for one in self._sample.sheet.with_role("tax"))), LINE)
            for name in ("_stated", "_stated_parts", "_shown", "search"):
                self.__dict__.pop(name, None)
        known = {one.name: one for one in (*self.parts(), *self.candidates())}
        if text in known:
            return known[text]
        found = []
        for term in re.split(r" (?=[+-] )", text.strip()):
            name = re.sub(r"^[+-] ?", "", term)
            series = known.get(name) or self._named(name.removeprefix("sum of "))
            found.append(series.minus() if term.startswith("-") else series)
        return found[0].plus(*found[1:])

    def _named(self, name: str) -> SampleSeries:
        sheet = self._sample.sheet
        if name not in sheet.columns and self._lines and name in self._lines.columns:
            return self._series(self._lines, [name], LINES_ROLE, LINE)
        if name not in sheet.columns:
            raise ImportFailed(f"There is no column {name}. The columns are: {', '.join(sheet.columns)}.")
        return self.of(sheet.columns[name], "unknown")

    def may_be_part(self, part: SampleSeries, total: SampleSeries | None) -> bool:
        """Return whether a part is small enough: under `Price incl. tax` is what a tax is paid on, not the tax."""
        size, whole = (abs(sum(sums_of([one], self.sales))) for one in (part, total or part))
        return total is None or part.role == "gross" or size * (3 if part.role == "tax" else 1) <= whole

    def parts(self) -> list[SampleSeries]:
        """Return the charges, discounts and fees that the headings or the arithmetic show."""
        return [*self._stated_parts, *self._shown[0]]

    @cached_property
    def _stated_parts(self) -> list[SampleSeries]:
        found = [self.of(column, column.role or "") for column in self._sample.sheet.with_role(*CHARGES, *DEDUCTIONS)]
        tips = self._payments.with_role("tip")[:1] if self._payments else []
        if self._payments and tips:
            name = f"{tips[0].name} of the payments"
            found.append(self._series(self._payments, [tips[0].name], "tip", ROW, name))
        return found

    def payments(self) -> list[SampleSeries]:
        """Return what the payments of a bill add up to, as far as the export states payments."""
        sheet = self._sample.sheet
        ways = [column for column in sheet.with_role("wayOfPaying") if any(map(column.number, range(len(sheet.rows))))]
        if {column.name.casefold() for column in ways} <= {"debit", "credit"}:
            # Two sides of an account, and not two cards.
            ways = []
        given = [column.name for column in ways or sheet.with_role("tendered")[:1]]
        change = [f"-{column.name}" for column in sheet.with_role("change")[:1]]
        level = ROW if any(self.levels[name] == ROW for name in given) else BILL
        found = [self._series(sheet, given, PAYMENTS_ROLE, level)] if given else []
        found += [self._series(sheet, [*given, *change], PAYMENTS_ROLE, level)] if given and change else []
        other = self._payments
        if other and (amounts := other.with_role(*PAYMENT_AMOUNTS)):
            change = [f"-{column.name}" for column in other.with_role("change")[:1]]
            tips = [column.name for column in other.with_role("tip")[:1]]
            for title, extra in (("", [""]), (" less change", change), (" with tips", tips)):
                names = [amounts[0].name, *filter(None, extra)]
                found += [self._series(other, names, PAYMENTS_ROLE, BILL, f"the payments{title}")] if extra else []
        return found

    def _series(
        self,
        sheet: SheetSample,
        names: Sequence[str],
        role: str,
        level: str,
        title: str = "",
        *,
        is_product: bool = False,
        rate: str = "",
    ) -> SampleSeries:
        """Return the sum or the product of columns for each bill, less a discount at a `rate`. A `-` subtracts."""
        own, cancelled = sheet is self._sample.sheet, self._sample.cancelled
        columns = [sheet.columns.get(name) or sheet.columns[name.removeprefix("-")] for name in names]
        signs = [1 if name in sheet.columns else -1 for name in names]
        values, counts = [], []
        for all_rows in self._sample.bills if own else self._rows_in(sheet):
            rows = all_rows[:1] if own and level == BILL else all_rows
            if own and level == LINE and cancelled:
                rows = [row for row in rows if not cancelled.has(row)]
            cells = [[self._in_units(column, row) for column in columns] for row in rows]
            known = [[number or Decimal() for number in row] for row in cells]
            if rate:
                numbers = [prod(row[:-1], start=1 - row[-1] / 100) for row in known]
            elif is_product:
                numbers = [quantity * price for quantity, price in known]
            else:
                signed = [pair for row in cells for pair in zip(signs, row, strict=True)]
                numbers = [sign * number for sign, number in signed if number is not None]
            values.append(round(sum(numbers) * SCALE) if numbers else None)
            counts.append(len(rows))
        text = " × ".join(names) if is_product else " + ".join(names).replace("+ -", "- ")
        text = f"{' × '.join(names[:-1])} × (1 - {rate})" if rate else text
        title = title or (text if level == BILL else f"sum of {text}")
        # A mapping cannot compute the total of a bill from another file's payments.
        entries = [self.cell(sheet, column.name) for column in columns]
        if rate:
            entries[-1] = {"add": [{"constant": "1"}, {"multiply": [rate, {"constant": "-0.01"}]}]}
        entries = [one if sign > 0 else bill_totals.subtracted(one) for sign, one in zip(signs, entries, strict=True)]
        inner = entries[0] if len(entries) == 1 else {"multiply" if is_product or rate else "add": entries}
        cell = None if sheet is self._payments else inner if level == BILL else {"sum": inner}
        plain = tuple(column.name for column in columns) if cell is not None else ()
        return SampleSeries(title, role, level, tuple(values), plain, cell, is_product, tuple(counts))

    def cell(self, sheet: SheetSample, name: str) -> Any:
        """Return the entry of a mapping that reads a column of numbers."""
        column = sheet.columns[name]
        numbers = column.numbers
        cell = name if numbers == self._sample.sheet.numbers else {"column": name, "decimal": numbers.decimal}
        return {"multiply": [cell, {"constant": str(self._factor)}]} if self._is_converted(column) else cell

    def converted(self, sheets: Sequence[SheetSample]) -> list[str]:
        """Return the columns with whole numbers that are converted to the currency's unit."""
        columns = [column for sheet in sheets for column in sheet.columns.values() if column.role in AMOUNT_ROLES]
        return list(dict.fromkeys(one.name for one in columns if one.is_whole and self._is_converted(one)))

    def _is_converted(self, column: SampleColumn) -> bool:
        is_other = self._factor != 1 and column.role != "qty"
        return is_other and (headings.names(column.name, "units") or column.is_whole)

    def _in_units(self, column: SampleColumn, row: int) -> Decimal | None:
        number = column.number(row)
        return number * self._factor if number is not None and self._is_converted(column) else number

    # --- other files -----------------------------------------------------------------

    def shared_key(self, sheet: SheetSample) -> tuple[list[str], list[str]]:
        """Return the columns of bills, and those of another file, that say which bill a row belongs to."""
        key, number = self._sample.key, self._sample.number
        if key is None or number is None:
            return [], []
        entry = "line.key" if sheet is self._lines else "payment.key"
        answer = self._answers.get(entry)
        if answer and answer not in sheet.columns:
            raise ImportFailed(f"--set {entry}: there is no column {answer} in {sheet.file.sheet.name}.")
        for names in () if answer else (key.columns, (number.name,)):
            if all(name in sheet.columns for name in names):
                return list(names), list(names)
        first_rows = [bill[0] for bill in self._sample.bills]
        ids = self._sample.sheet.with_role("id")
        ids = [one for one in ids if len({one.values[row] for row in first_rows}) == len(first_rows)]
        for own in (number, *ids):
            for column in [sheet.columns[answer]] if answer else sheet.with_role("id"):
                if not set(own.distinct).isdisjoint(column.distinct):
                    return [own.name], [column.name]
        return ([number.name], [answer]) if answer else ([], [])

    def _rows_in(self, sheet: SheetSample) -> list[list[int]]:
        """Return the rows of another file that belong to each bill."""
        own, foreign = self.shared_key(sheet)
        if not own:
            return [[] for _ in self._sample.bills]
        by_key: dict[tuple[str, ...], list[int]] = {}
        for row in range(len(sheet.rows)):
            by_key.setdefault(tuple(sheet.columns[name].values[row] for name in foreign), []).append(row)
        columns = [self._sample.sheet.columns[name].values for name in own]
        return [by_key.get(tuple(values[bill[0]] for values in columns), []) for bill in self._sample.bills]

    # --- levels ------------------------------------------------------------------------

    def _level(self, column: SampleColumn) -> str:
        """Return whether the numbers of a column belong to a bill, its lines or its payments, or `EITHER`."""
        sample = self._sample
        if not column.is_number or (not sample.is_flat and not self._has_payment_rows()):
            return BILL
        is_same = sample.is_of_bill(column)
        if not sample.is_flat and not is_same:
            return ROW
        if not is_same or column.role in ("qty", "unitPrice") or self._is_product(column):
            return LINE
        # Guests often pay equal parts of a bill, or order things at one price, so that no number of bills is enough.
        # `Order total` is of the bill, but `Order amount` may be that of a line.
        is_named = column.may_be("id") and not column.may_be("item") and column.role != "amount"
        is_shown = sample.is_flat and is_named and not self._has_single_lines
        return EITHER if column.role in TOTAL_ROLES and not is_shown else BILL

    def _has_payment_rows(self) -> bool:
        """Return whether rows with the same number are payments of one bill, as only the same time of day can show."""
        sample = self._sample
        has_times = sample.clock is not None or (sample.day is not None and sample.day.has_times)
        return has_times and any(not sample.is_of_bill(column) for column in sample.sheet.with_role("method"))

    def _is_product(self, column: SampleColumn) -> bool:
        sheet = self._sample.sheet
        quantities, prices = sheet.with_role("qty"), sheet.with_role("unitPrice")
        if not quantities or not prices:
            return False
        several = [row for bill in self._sample.bills if len(bill) > 1 for row in bill]
        rows = several or range(len(sheet.rows))
        return all(abs(column.amount(row) - quantities[0].amount(row) * prices[0].amount(row)) <= _CENT for row in rows)


def _is_discount_rate(heading: str) -> bool:
    return headings.names(heading, "not_amounts") and headings.names(heading, "headings", "discount")


def _is_alike(one: SampleSeries, total: SampleSeries, bills: Sequence[int]) -> bool:
    """Return whether amounts are between half a total and twice as much on most bills."""
    pairs = [(one.values[bill] or 0, total.values[bill] or 0) for bill in bills]
    return sum(amount <= 2 * size <= 4 * amount for amount, size in pairs) * 2 > len(pairs)


def _with_or_instead(total: SampleSeries, doubts: Sequence[SampleSeries], bills: Sequence[int]) -> list[SampleSeries]:
    """Return what the customer may have paid: a total with an amount more or less or, if that is alike, the amount."""
    found = []
    for one in doubts:
        if _is_alike(one, total, bills):
            found.append(one)
        elif one.role == "refunded":
            found.append(total.plus(one.minus() if any((value or 0) > 0 for value in one.values) else one))
        else:
            found += [total.plus(one), total.plus(one.minus())]
    return found


def _price_changes(sheet: SheetSample, quantity: SampleColumn, price: SampleColumn) -> tuple[int, int]:
    """Return how often the price of an item grew with its quantity, and how often it stayed the same."""
    first: dict[str, int] = {}
    items = next(iter(sheet.with_role("item", "productId")), None)
    grows = stays = 0
    for row, item in enumerate(items.values if items else ()):
        other = first.setdefault(item, row)
        many, few = quantity.amount(row), quantity.amount(other)
        if many != few and many > 0 and few > 0 and price.amount(row):
            stays += price.amount(row) == price.amount(other)
            grows += abs(price.amount(row) * few - price.amount(other) * many) <= _CENT * few
    return grows, stays


def _role_on_lines(column: SampleColumn) -> str:
    return LINES_ROLE if column.role in ("amount", "total", "paid") else column.role or ""
