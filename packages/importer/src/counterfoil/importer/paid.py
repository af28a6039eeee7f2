"""What the customer paid, as far as the amounts of a table prove it."""

import re
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from itertools import accumulate, zip_longest
from math import prod

from msgspec.structs import replace

from counterfoil.importer.amount_columns import EITHER, ROW
from counterfoil.importer.amounts import StatedAmounts, price_changes
from counterfoil.importer.columns import SCALE, ExportTable, TableColumn
from counterfoil.importer.form import joined, sentence
from counterfoil.importer.interview import NeedsOtherReport, Refuted
from counterfoil.importer.ranks import CHARGES, REFUND, TOTAL_ROLES
from counterfoil.importer.relations import without_parts_of_sums
from counterfoil.importer.series import BILL, LINE, LINES_ROLE, MIXED, UNKNOWN_ROLE, AmountSeries, differing, sums_of
from counterfoil.importer.totals import TotalFinding, TotalSearch
from counterfoil.model.text import counted

MOST_ANSWERS = 8
MOST_DEPARTMENTS = 6
BANKNOTE = 5 * SCALE
_TERMS = re.compile(r" (?=[+-] )")
# What tills write before the name of an item that is a part of the one above it.
_MARKS = frozenset("-+*>•·└~")


class PaidAmounts(StatedAmounts):
    """The amounts of the bills of a table, with what the customer paid."""

    _unpaid_tips: frozenset[str] = frozenset()
    """The columns of tips that the customer did not pay."""

    @cached_property
    def search(self) -> TotalSearch:
        return TotalSearch(self.candidates(), self.parts(), self.sales, self._all_sales)

    def decide_net(self) -> AmountSeries:
        """Return what the customer paid, as the sums prove it, or ask. Only totals that no sum refutes are offered."""
        finding = self._finding()
        if finding.is_impossible:
            raise NeedsOtherReport(finding.question)
        answer = self._interview.answer("net")
        if answer is not None:
            total = self.expression(answer)
            if reason := self._refutation(total, finding):
                raise Refuted("net", answer, joined(answer, reason))
            self._leave_out_tips(total, finding)
            return total
        if finding.chosen and finding.chosen.cell is not None:
            for line in finding.evidence:
                if " = " in line:
                    self._interview.prove(line)
                else:
                    # Such as a tax that no sum has, so that it is added to what the customer paid.
                    self._interview.assume(line)
            return self._with_tips(finding) if finding.tips else finding.chosen
        choices = {total.name: total for total in finding.choices if total.cell is not None}
        choices = {name: total for name, total in choices.items() if not self._refutation(total, finding)}
        if not choices:
            text = finding.question or sentence(
                "No column of {table} is what the customer paid.", table=self._table.name
            )
            raise NeedsOtherReport(
                joined(text, sentence("Export a report with the total of each bill, or with the price of each item."))
            )
        text = joined(finding.question, sentence("What did the customer pay, tip included?"))
        name = self._interview.choose("net", "money", text, list(choices), free=True, must_confirm=finding.must_confirm)
        self._leave_out_tips(choices[name], finding)
        return choices[name]

    def _with_tips(self, finding: TotalFinding) -> AmountSeries:
        """Ask whether the customer paid tips that no sum has, and return what the customer paid."""
        with_tips, without_tips = finding.chosen, finding.without_tips
        if with_tips is None or without_tips is None:
            raise ValueError("the finding has no tips that no sum has")
        choices = {with_tips.name: with_tips, without_tips.name: without_tips}
        texts = {with_tips.name: sentence("Yes"), without_tips.name: sentence("No")}
        if finding.tips[1:]:
            for tip in finding.tips:
                only = without_tips.plus(tip)
                choices[only.name] = only
                texts[only.name] = sentence("Only {tip}", tip=tip.name)
        paid = sum(sum(sums_of([tip], self.sales)) for tip in finding.tips)
        tipped = [bill for bill in self.sales if any(tip.values[bill] for tip in finding.tips)]
        names = " and ".join(f"“{tip.name}”" for tip in finding.tips)
        is_one = len(finding.tips) == 1
        values = {
            "names": names,
            "total": without_tips.name,
            "bills": counted(len(tipped), "bill"),
            "money": money(paid),
        }
        text = sentence("{names} is not in {total} ({bills}, {money}). Did the customer pay it on top?", **values)
        if not is_one:
            text = sentence(
                "{names} are not in {total} ({bills}, {money}). Did the customer pay them on top?", **values
            )
        total = choices[self._interview.choose("net", "money", text, texts, free=True)]
        self._leave_out_tips(total, finding)
        return total

    def _leave_out_tips(self, total: AmountSeries, finding: TotalFinding) -> None:
        """Forget the tips that are in no sum and not in what the customer paid, which contains each tip of a bill."""
        if finding.without_tips is None:
            return
        paid = [tip for tip in finding.tips if not {*tip.columns}.isdisjoint(total.columns)]
        if not differing(total, finding.without_tips.plus(*paid), self.sales):
            unpaid = [tip for tip in finding.tips if tip not in paid]
            self._unpaid_tips = frozenset(name for tip in unpaid for name in tip.columns)

    def _finding(self) -> TotalFinding:
        """Find the total. Its choices have charges, too, unless they are shown to be included."""
        bills = self.sales
        finding = self._find_total(bills)
        named = {name for total in finding.choices for name in total.columns}
        parts = [(total, self._other_parts(total, bills)) for total in finding.choices]
        for total, missing in parts if parts and parts[0][1] else ():
            others = [part for part in missing if named.isdisjoint(part.columns)]
            finding.choices += [total.plus(*others)] if others else []
        if finding.chosen is None:
            finding.choices = [*self._sums_of_departments(), *finding.choices]
        finding.choices = [total for total in finding.choices if self._first_negative(total, bills) is None]
        # A sum of columns may be what was left after fees.
        left = [one for one in self.candidates() if one.role == "payout"]
        finding.choices = [
            one for one in finding.choices if not one.columns[1:] or all(differing(one, other, bills) for other in left)
        ]
        first = finding.chosen or next(iter(finding.choices), None)
        if first and sum((first.values[bill] or 0) < 0 for bill in bills) * 2 > len(bills):
            finding.chosen = None
            finding.choices = [first.minus(), *(finding.choices or [first])]
            if finding.without_tips:
                finding.choices += [finding.without_tips.minus(), finding.without_tips]
            # The sums prove the amounts, but not their sign.
            finding.is_proved = False
            finding.question = joined(
                finding.question, sentence("{column} is negative on most bills.", column=first.name)
            )
        return finding

    def _sums_of_departments(self) -> list[AmountSeries]:
        """Return the sum of amounts of departments, such as `Food` and `Drinks`, if no column has a total."""
        candidates = [one for one in self.candidates() if one.cell is not None]
        departments = [one for one in candidates if one.role in ("gross", "amount", UNKNOWN_ROLE)]
        is_alone = len(departments) == len(candidates) and all(one.level == BILL for one in departments)
        if not is_alone or not 1 < len(departments) <= MOST_DEPARTMENTS:
            return []
        if all(one.values[bill] for one in departments for bill in self.sales):
            return []
        whole = departments[0].plus(*departments[1:])
        charges = [part for part in self.parts() if part.role in CHARGES and part.cell is not None]
        return [whole.plus(*charges), whole] if charges else [whole]

    def _first_negative(self, total: AmountSeries, bills: Sequence[int]) -> int | None:
        """Return a bill on which a total is negative, although no amount of the bill is."""
        if total.name.startswith("- "):
            # The export writes sales as negative amounts.
            return None
        candidates = self.candidates()
        for bill in bills:
            is_negative = (total.values[bill] or 0) < 0
            # A bill with a negative amount is a refund. What is added to it, such as a tip, is negative, too.
            is_refund = any((one.values[bill] or 0) < 0 for one in candidates)
            if is_negative and not is_refund:
                return bill
        return None

    def _other_parts(self, total: AmountSeries, bills: Sequence[int]) -> list[AmountSeries]:
        """Return what is not added to a total, and what the sample does not show to be in it."""
        candidate = total if total.role in TOTAL_ROLES else replace(total, role="unknown")
        return TotalSearch([*self.candidates(), candidate], self.parts(), bills).other_parts(total)

    def _find_total(self, bills: Sequence[int]) -> TotalFinding:
        """Find the total. If it is quantity by price, the sample must show that the price is that of one unit."""
        finding = self.search.finding()
        product = finding.chosen
        if product and product.level == LINE:
            if rate := self._unreadable_rate(product):
                text = sentence("{rate} has percentages as text. Export them without %, or as amounts.", rate=rate)
                return TotalFinding(question=text, is_impossible=True)
            if (row := self._item_with_parts(product)) is not None:
                return TotalFinding(choices=[product], question=self._parts_of_sets(row), must_confirm=True)
        totals = [total for total in (product, finding.without_tips) if total] if product else finding.choices
        self._add_doubts(finding, totals, bills)
        if product is None or finding.doubts:
            return finding
        either = [name for name in product.columns if self.levels.get(name) == EITHER]
        if either and (self._has_single_lines or not self.search.relations.is_level_shown(product.level, either)):
            return self._level_question(product, either[0])
        if not product.is_product or product.level == MIXED:
            return finding
        table, (quantity, price) = self._lines or self._table, product.columns
        grows, stays = price_changes(self.ranks(table), table.columns[quantity], table.columns[price])
        if stays and not grows:
            return finding
        of_lines = self.series(table, [price], LINES_ROLE, LINE)
        text = sentence("Nothing shows whether {price} is the price of one unit or of the whole line.", price=price)
        return TotalFinding(choices=[product, of_lines], question=text)

    def _parts_of_sets(self, row: int) -> str:
        table = self._lines or self._table
        item = self.ranks(table).with_role("item")[0].values[row]
        return sentence(
            "{item} on line {line} costs as much as the rows below it, which seem to be its parts.",
            item=item,
            line=table.line(row),
        )

    def _level_question(self, product: AmountSeries, name: str) -> TotalFinding:
        column = self._table.columns[name]
        text = sentence(
            "No bill has lines that differ in {name}. Is {name} the amount of a line, or of the whole bill?", name=name
        )
        readings = [self.of(column, LINES_ROLE, LINE), self.of(column, "paid", BILL)]
        charges = [one for one in self._ranks.with_role(*CHARGES) if one.name in product.columns]
        with_charges = []
        for price in readings:
            # A tax is that of a line if the price is.
            added = []
            for one in charges:
                role = self._ranks.role(one) or ""
                added.append(self.of(one, role, price.level if role == "tax" else ""))
            with_charges.append(price.plus(*added))
        return TotalFinding(choices=[*with_charges, *(readings if charges else ())], question=text)

    def _add_doubts(self, finding: TotalFinding, totals: Sequence[AmountSeries], bills: Sequence[int]) -> None:
        """Add choices for amounts that nothing relates to the total."""
        named = {name for total in totals for name in total.columns}
        doubts = self._unexplained(totals[0], bills) if totals else []
        doubts = [one for one in doubts if named.isdisjoint(one.columns)]
        if not doubts:
            return
        choices = [[total, *_with_or_instead(total, doubts, bills)] for total in totals]
        # The first answers to each doubt come before the second ones.
        answers = {one.name: one for some in zip_longest(*choices) for one in some if one}
        finding.choices = list(answers.values())[:MOST_ANSWERS]
        others = [one for one in doubts if one not in choices[0]]
        texts = [finding.question]
        for one in doubts:
            if one not in others:
                count = len(differing(one, totals[0], bills))
                texts.append(
                    sentence(
                        "{one} differs from {totals} on {count} of {bills} bills.",
                        one=one.name,
                        totals=totals[0].name,
                        count=f"{count:,}",
                        bills=f"{len(bills):,}",
                    )
                )
        if others:
            names = ", ".join(one.name for one in others)
            texts.append(
                sentence(
                    "Nothing shows whether {totals} takes {names} into account.", totals=totals[0].name, names=names
                )
            )
        finding.chosen = None
        finding.doubts = doubts
        finding.question = joined(*texts)

    def _unexplained(self, total: AmountSeries, bills: Sequence[int]) -> list[AmountSeries]:
        """Return amounts that nothing relates to the total, unless the payments equal it on all bills."""
        payments = [one for one in self.payments() if one.columns != total.columns]
        if not all(differing(one, total, bills) for one in payments):
            return []
        related = self.search.relations.explained_columns()
        explained = {*related, *total.columns, *(name for part in self.parts() for name in part.columns)}
        explained.update(self._states.amounts)
        found = []
        for table in filter(None, (self._table, self._lines)):
            ranks = self.ranks(table)
            explained.update(one.name for one in ranks.with_role("unitPrice")[:1])
            for column in [one for one in table.columns.values() if self.may_be_money(one, table)]:
                amounts = self._doubtful_amount(table, column, total, bills)
                found += [amounts] if amounts and column.name not in explained else []
        rates = [one for one in self._stated if self._is_rate(one)]
        found += [one for one in rates if one.columns[-1] not in explained]
        for one in payments[-1:]:
            # What was given in cash may be more than what was paid.
            pairs = [(one.values[bill] or 0, total.values[bill] or 0) for bill in differing(one, total, bills)]
            is_other = any(given and (given < paid or given % BANKNOTE) for given, paid in pairs)
            found += [one] if is_other and not explained.issuperset(one.columns) else []
        return found

    def _is_rate(self, one: AmountSeries) -> bool:
        table = self._lines or self._table
        column = table.columns.get(one.columns[-1]) if one.columns else None
        return column is not None and self.ranks(table).is_rate_of_discount(column)

    def _doubtful_amount(
        self, table: ExportTable, column: TableColumn, total: AmountSeries, bills: Sequence[int]
    ) -> AmountSeries | None:
        """Return the amounts of a column that may change what was paid, or None if they are counts or prices."""
        level = LINE if table is self._lines else self.levels[column.name]
        role = self.ranks(table).role(column) or ""
        is_back = role == "refunded" or self.ranks(table).heading_state(column) == REFUND
        amounts = self.series(table, [column.name], "refunded" if is_back else role, BILL if level == EITHER else level)
        values = [amounts.values[bill] or 0 for bill in bills]
        # A whole number on all bills may be that of the guests.
        has_cents = len(set(values)) > 1 and any(value % SCALE for value in values)
        is_count = role == "" and not has_cents and all(values)
        # Prices of lines without tax, for example, are no totals.
        is_price = level == LINE and _is_alike(amounts, total, bills)
        is_known = is_count or is_price or (role == "payout" and all(values))
        return amounts if any(values) and not is_known else None

    def _unreadable_rate(self, total: AmountSeries) -> str | None:
        """Return a column with discounts such as `10%`, if the total is quantity by price, without them."""
        table = self._lines or self._table
        ranks = self.ranks(table)
        known = {*self.search.relations.explained_columns(), *total.columns}
        prices = [one.name for one in (*ranks.with_role("qty")[:1], *ranks.with_role("unitPrice")[:1])]
        rates = [one for one in table.columns.values() if ranks.may_be(one, "discount")]
        with_signs = [one.name for one in rates if any(value.endswith("%") for value in one.distinct)]
        return next(iter(with_signs), None) if known.issuperset(prices) else None

    def _item_with_parts(self, total: AmountSeries) -> int | None:
        """Return the row of a set that costs as much as the rows below it: its items, with prices of their own."""
        table = self._lines or self._table
        items = self.ranks(table).first("item")
        columns = [table.columns[name] for name in total.columns if name in table.columns]
        if items is None:
            return None
        found: dict[str, dict[int, bool]] = {}
        for rows in self._rows_in(table) if self._lines else self._bills.rows:
            amounts = [_combined(columns, row, is_product=total.is_product) for row in rows]
            for place, row in enumerate(rows):
                below = list(accumulate(amounts[place + 1 :]))
                is_set = amounts[place] > 0 and amounts[place] in below[1:]
                found.setdefault(items.values[row], {})[row] = is_set
        for places in found.values():
            first = min(places)
            if all(places.values()) and (len(places) > 1 or items.values[first + 1][:1] in _MARKS):
                return first
        return None

    def expression(self, text: str) -> AmountSeries:
        """Return the total that an answer names, such as `Total + Tip` or `sum of Amount + Tip`."""
        known = {one.name: one for one in (*self.parts(), *self.candidates())}
        if text in known:
            return known[text]
        found = []
        for term in _TERMS.split(text.strip()):
            name = re.sub(r"^[+-] ?", "", term)
            series = known.get(name) or self._named(text, name)
            found.append(series.minus() if term.startswith("-") else series)
        return found[0].plus(*found[1:])

    def _named(self, answer: str, text: str) -> AmountSeries:
        name = text.removeprefix("sum of ")
        factors = [factor.strip() for factor in re.split(" [×*] ", name)]
        lines = self._lines
        if len(factors) > 1 and all(factor in (lines or self._table).columns for factor in factors):
            return self.series(lines or self._table, factors, LINES_ROLE, LINE, is_product=True)
        if name in self._table.columns:
            column = self._table.columns[name]
            if not column.is_number:
                raise Refuted("net", answer, sentence("{name} is not a column of amounts", name=name))
            return self.of(column, "unknown", LINE if text != name and self._bills.is_flat else "")
        if lines and name in lines.columns:
            return self.series(lines, [name], LINES_ROLE, LINE)
        raise Refuted("net", answer, sentence("there is no column {name}", name=name))

    def _refutation(self, total: AmountSeries, finding: TotalFinding) -> str | None:
        """Return why a total cannot be what the customer paid, or None. Such a total is not offered either."""
        bills = self.sales
        shown = finding.shown or total
        doubts = [*finding.doubts, *finding.tips]
        named = [one for one in doubts if not {*one.columns}.isdisjoint(total.columns)]
        clear = []
        for bill in bills:
            is_same = all(one.values[bill] in (None, 0, shown.values[bill]) for one in doubts)
            if is_same and not any(one.values[bill] for one in named):
                clear.append(bill)
        others = differing(shown, total, clear)
        if finding.is_proved and len(others) * 20 > (0 if finding.is_exact else len(bills)):
            values = sentence(
                "{money} on bill {bill}", money=money(total.values[others[0]]), bill=self._bills.name_of(others[0])
            )
            paid = money(shown.values[others[0]])
            return sentence(
                "is {values}, but the amounts show that the customer paid {paid}: {evidence}",
                values=values,
                paid=paid,
                evidence="; ".join(finding.evidence),
            )
        fees = ", ".join(one.name for one in self.parts() if one.role == "fee" and any(one.values))
        if fees and total.role == "payout":
            return sentence("is what was left after {fees}. The customer paid more", fees=fees)
        totals = [one.values for one in self.candidates() if one.role in ("paid", "total")]
        empty = [bill for bill in bills if not total.values[bill] and any(one[bill] for one in totals)]
        if len(empty) * 10 > len(bills) and not named:
            return sentence("is empty or 0 on {count} bills, although other totals are not", count=f"{len(empty):,}")
        if (negative := self._first_negative(total, bills)) is not None:
            name = self._bills.name_of(negative)
            return sentence(
                "is negative on bill {name}, although none of its amounts is: it takes something off twice", name=name
            )
        return None

    # --- parts of the bill --------------------------------------------------------------------------

    def may_be_part(self, part: AmountSeries, total: AmountSeries) -> bool:
        """Return whether a part is small enough: under `Price incl. tax` is what a tax is paid on, not the tax."""
        size, whole = (abs(sum(sums_of([one], self.sales))) for one in (part, total))
        return part.role == "gross" or size * (3 if part.role == "tax" else 1) <= whole

    def parts_of_role(self, role: str, net: AmountSeries) -> AmountSeries | None:
        """Return the amounts of a role, such as the tax, or None if it is not clear which they are."""
        parts = without_parts_of_sums(self.parts(), self.sales)
        found = [part for part in parts if part.role == role and self.may_be_part(part, net)]
        found = [part for part in found if self._unpaid_tips.isdisjoint(part.columns)]
        # The same amounts under two headings count once, unless the total has both.
        first = {part.values: part for part in reversed(found)}
        related = self.search.relations.names_of_parts
        summed = [part for part in found if part.name in related or not {*net.columns}.isdisjoint(part.columns)]
        found = summed or list(first.values())[::-1]
        if len({part.level for part in found}) != 1:
            return None
        whole = found[0].plus(*found[1:])
        return whole if whole.cell is not None and self.may_be_part(whole, net) else None

    def subtotal(self, net: AmountSeries) -> AmountSeries | None:
        column = next((one for one in self._ranks.with_role("gross") if one.name not in net.columns), None)
        if column is None:
            return None
        # Amounts that may be of a bill or of its payments are as the total.
        is_of_rows = self.levels[column.name] == EITHER and net.level == ROW
        return self.of(column, "gross", ROW if is_of_rows else "")

    def equals(self, one: AmountSeries, other: AmountSeries) -> bool:
        """Return whether amounts are equal on nearly all bills."""
        return len(differing(one, other, self.sales)) * 10 <= len(self.sales)


def money(value: int | None) -> str:
    return "empty" if value is None else f"{value / SCALE:,.2f}"


def _combined(columns: Sequence[TableColumn], row: int, *, is_product: bool) -> Decimal:
    numbers = [column.amount(row) for column in columns]
    return prod(numbers, start=Decimal(1)) if is_product else sum(numbers, Decimal())


def _is_alike(one: AmountSeries, total: AmountSeries, bills: Sequence[int]) -> bool:
    """Return whether amounts are between half a total and twice as much on most bills."""
    pairs = [(one.values[bill] or 0, total.values[bill] or 0) for bill in bills]
    return sum(amount <= 2 * size <= 4 * amount for amount, size in pairs) * 2 > len(pairs)


def _with_or_instead(total: AmountSeries, doubts: Sequence[AmountSeries], bills: Sequence[int]) -> list[AmountSeries]:
    """Return what the customer may have paid: a total with an amount more or less or, if that is alike, the amount."""
    found = []
    for one in doubts:
        if _is_alike(one, total, bills):
            found.append(one)
        elif one.role == "refunded":
            found.append(total.plus(one.minus() if any((value or 0) > 0 for value in one.values) else one))
        else:
            # What a negative amount has taken off is more probably added again than taken off twice.
            is_negative = sum((one.values[bill] or 0) < 0 for bill in bills) * 2 > len(bills)
            added, taken_off = total.plus(one), total.plus(one.minus())
            found += [taken_off, added] if is_negative else [added, taken_off]
    return found
