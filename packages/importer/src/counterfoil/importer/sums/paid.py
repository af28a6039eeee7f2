"""What the customer paid, as far as the amounts of a table prove it."""

import re
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from itertools import accumulate, pairwise, zip_longest
from math import prod

from msgspec.structs import replace

from counterfoil.importer.columns import SCALE, ExportTable, TableColumn
from counterfoil.importer.form import joined, sentence
from counterfoil.importer.interview import NeedsOtherReport, Refuted
from counterfoil.importer.ranks import CHARGES, REFUND, TOTAL_ROLES
from counterfoil.importer.sums.amount_columns import EITHER, ROW
from counterfoil.importer.sums.amounts import StatedAmounts, price_changes
from counterfoil.importer.sums.relations import without_parts_of_sums
from counterfoil.importer.sums.series import (
    BILL,
    LINE,
    LINES_ROLE,
    MIXED,
    UNKNOWN_ROLE,
    AmountSeries,
    differing,
    sums_of,
)
from counterfoil.importer.sums.totals import TotalFinding, TotalSearch
from counterfoil.model.text import counted

SMALLEST_SHARE = 200
"""Whole numbers that are a smaller part of what was paid, such as those of guests, are neither tips nor discounts."""
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
            self._note_evidence(finding.evidence)
            return self._with_tips(finding) if finding.tips else finding.chosen
        choices: dict[str, AmountSeries] = {}
        for total in finding.choices:
            if total.cell is not None and not self._refutation(total, finding):
                choices[total.name] = total
        if not choices:
            reason = finding.question or sentence(
                "No column of {table} is what the customer paid.", table=self._table.name
            )
            advice = sentence("Export a report with the total of each bill, or with the price of each item.")
            raise NeedsOtherReport(joined(reason, advice))
        text = joined(finding.question, sentence("What did the customer pay, tip included?"))
        typed = sentence("If it is something else, type the columns to add up, such as Total + Tip.")
        name = self._interview.choose(
            "net", "money", text, list(choices), free=True, typed=typed, must_confirm=finding.must_confirm
        )
        self._leave_out_tips(choices[name], finding)
        return choices[name]

    def _note_evidence(self, evidence: Sequence[str]) -> None:
        for line in evidence:
            if " = " in line:
                self._interview.prove(line)
            else:
                # Such as a tax that no sum has, so that it is added to what the customer paid.
                self._interview.assume(line)

    # --- tips that no sum has -----------------------------------------------------------------------

    def _with_tips(self, finding: TotalFinding) -> AmountSeries:
        """Ask whether the customer paid tips that no sum has, and return what the customer paid."""
        with_tips, without_tips = finding.chosen, finding.without_tips
        if with_tips is None or without_tips is None:
            raise ValueError("the finding has no tips that no sum has")
        tips = finding.tips
        choices = {with_tips.name: with_tips, without_tips.name: without_tips}
        texts = {with_tips.name: sentence("Yes"), without_tips.name: sentence("No")}
        if len(tips) > 1:
            for tip in tips:
                total = without_tips.plus(tip)
                choices[total.name] = total
                texts[total.name] = sentence("Only {tip}", tip=tip.name)
        tipped = [bill for bill in self.sales if any(tip.values[bill] for tip in tips)]
        values = {
            "names": " and ".join(f"“{tip.name}”" for tip in tips),
            "total": without_tips.name,
            "bills": counted(len(tipped), "bill"),
            "money": money(sum(sums_of(tips, self.sales))),
        }
        if len(tips) == 1:
            text = sentence("{names} is not in {total} ({bills}, {money}). Did the customer pay it on top?", **values)
        else:
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

    # --- the finding --------------------------------------------------------------------------------

    def _finding(self) -> TotalFinding:
        """Find the total. Its choices have charges, too, unless they are shown to be included."""
        bills = self.sales
        finding = self._find_total(bills)
        self._add_charges(finding, bills)
        if finding.chosen is None:
            finding.choices = [*self._sums_of_departments(), *finding.choices]
        finding.choices = [total for total in finding.choices if self._is_possible(total, bills)]
        first = finding.chosen or next(iter(finding.choices), None)
        if first and _is_mostly_negative(first, bills):
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

    def _add_charges(self, finding: TotalFinding, bills: Sequence[int]) -> None:
        """Add each choice with the charges that it may lack, if the first choice may lack some."""
        missing = [self._other_parts(total, bills) for total in finding.choices]
        if not missing or not missing[0]:
            return
        named = {name for total in finding.choices for name in total.columns}
        for total, parts in zip(list(finding.choices), missing, strict=True):
            others = [part for part in parts if named.isdisjoint(part.columns)]
            if others:
                finding.choices.append(total.plus(*others))

    def _is_possible(self, total: AmountSeries, bills: Sequence[int]) -> bool:
        """Return whether a choice is negative only where other amounts are, and not what was left after fees."""
        if self._first_negative(total, bills) is not None:
            return False
        if len(total.columns) < 2:
            return True
        left = [candidate for candidate in self.candidates() if candidate.role == "payout"]
        return all(differing(total, payout, bills) for payout in left)

    def _sums_of_departments(self) -> list[AmountSeries]:
        """Return the sum of amounts of departments, such as `Food` and `Drinks`, if no column has a total."""
        candidates = [candidate for candidate in self.candidates() if candidate.cell is not None]
        are_departments = all(
            candidate.role in ("gross", "amount", UNKNOWN_ROLE) and candidate.level == BILL for candidate in candidates
        )
        if not are_departments or not 1 < len(candidates) <= MOST_DEPARTMENTS:
            return []
        if all(department.values[bill] for department in candidates for bill in self.sales):
            return []
        whole = candidates[0].plus(*candidates[1:])
        charges = [part for part in self.parts() if part.role in CHARGES and part.cell is not None]
        return [whole.plus(*charges), whole] if charges else [whole]

    def _empty_beside_others(self, total: AmountSeries, bills: Sequence[int]) -> int:
        """Return on how many bills a total is empty or 0, although another one is not."""
        totals = [candidate for candidate in self.candidates() if candidate.role in ("paid", "total")]
        empty = 0
        for bill in bills:
            has_other = any(other.values[bill] for other in totals)
            if has_other and not total.values[bill]:
                empty += 1
        return empty

    def _first_negative(self, total: AmountSeries, bills: Sequence[int]) -> int | None:
        """Return a bill on which a total is negative, although no amount of the bill is."""
        if total.name.startswith("- "):
            # The export writes sales as negative amounts.
            return None
        candidates = self.candidates()
        for bill in bills:
            is_negative = (total.values[bill] or 0) < 0
            # A bill with a negative amount is a refund. What is added to it, such as a tip, is negative, too.
            if is_negative and not any((candidate.values[bill] or 0) < 0 for candidate in candidates):
                return bill
        return None

    def _other_parts(self, total: AmountSeries, bills: Sequence[int]) -> list[AmountSeries]:
        """Return what is not added to a total, and what the sample does not show to be in it."""
        role = total.role if total.role in TOTAL_ROLES else UNKNOWN_ROLE
        candidates = [*self.candidates(), replace(total, role=role)]
        return TotalSearch(candidates, self.parts(), bills).other_parts(total)

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
        totals = finding.choices
        if product:
            totals = [product, finding.without_tips] if finding.without_tips else [product]
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
        charges = [charge for charge in self._ranks.with_role(*CHARGES) if charge.name in product.columns]
        with_charges = []
        for price in readings:
            added = []
            for charge in charges:
                role = self._ranks.role(charge) or ""
                # A tax is that of a line if the price is.
                added.append(self.of(charge, role, price.level if role == "tax" else ""))
            with_charges.append(price.plus(*added))
        return TotalFinding(choices=[*with_charges, *(readings if charges else ())], question=text)

    # --- what nothing relates to the total ----------------------------------------------------------

    def _add_doubts(self, finding: TotalFinding, totals: Sequence[AmountSeries], bills: Sequence[int]) -> None:
        """Add choices for amounts that nothing relates to the total."""
        if not totals:
            return
        named = {name for total in totals for name in total.columns}
        doubts = [doubt for doubt in self._unexplained(totals[0], bills) if named.isdisjoint(doubt.columns)]
        if not doubts:
            return
        choices = [[total, *_with_or_instead(total, doubts, bills)] for total in totals]
        by_name: dict[str, AmountSeries] = {}
        # The first answers to each doubt come before the second ones.
        for answers in zip_longest(*choices):
            for choice in answers:
                if choice is not None:
                    by_name[choice.name] = choice
        finding.choices = list(by_name.values())[:MOST_ANSWERS]
        finding.chosen = None
        finding.doubts = doubts
        finding.question = joined(finding.question, *self._texts_of_doubts(doubts, totals[0], choices[0], bills))

    def _texts_of_doubts(
        self, doubts: Sequence[AmountSeries], total: AmountSeries, choices: Sequence[AmountSeries], bills: Sequence[int]
    ) -> list[str]:
        """Return what is said of amounts that may be the total, and of others that it may contain."""
        texts: list[str] = []
        others = []
        for doubt in doubts:
            if doubt not in choices:
                others.append(doubt.name)
                continue
            count = len(differing(doubt, total, bills))
            texts.append(
                sentence(
                    "{one} differs from {totals} on {count} of {bills} bills.",
                    one=doubt.name,
                    totals=total.name,
                    count=f"{count:,}",
                    bills=f"{len(bills):,}",
                )
            )
        if others:
            names = ", ".join(others)
            texts.append(
                sentence("Nothing shows whether {totals} takes {names} into account.", totals=total.name, names=names)
            )
        return texts

    def _unexplained(self, total: AmountSeries, bills: Sequence[int]) -> list[AmountSeries]:
        """Return amounts that nothing relates to the total, unless the payments equal it on all bills."""
        payments = [payment for payment in self.payments() if payment.columns != total.columns]
        if not all(differing(payment, total, bills) for payment in payments):
            return []
        explained = {*self.search.relations.explained_columns(), *total.columns, *self._states.amounts}
        for part in self.parts():
            explained.update(part.columns)
        found = self._only_on_refunds(total)
        for table in filter(None, (self._table, self._lines)):
            explained.update(price.name for price in self.ranks(table).with_role("unitPrice")[:1])
            others = [column for name, column in table.columns.items() if name not in explained]
            found += self._doubtful_amounts(table, others, total, bills)
        rates = [amounts for amounts in self._stated if self._is_rate(amounts)]
        found += [rate for rate in rates if rate.columns[-1] not in explained]
        if (
            payments
            and not explained.issuperset(payments[-1].columns)
            and _is_other_payment(payments[-1], total, bills)
        ):
            found.append(payments[-1])
        return found

    def _only_on_refunds(self, total: AmountSeries) -> list[AmountSeries]:
        """Return discounts and charges that only refunds have, and that no other amount of these shows to be in it."""
        refunds = [bill for bill, state in enumerate(self.state_of_bill) if state == REFUND]
        found = []
        for part in self.parts():
            columns = [self._table.columns[name] for name in part.columns if name in self._table.columns]
            is_plain = len(columns) == 1 and part.cell is not None and part.name not in total.columns
            if not is_plain or self.is_shown_by_refunds(columns[0]):
                continue
            is_of_sales = any(part.values[bill] for bill in self._all_sales)
            is_of_refunds = any(part.values[bill] for bill in refunds)
            if is_of_refunds and not is_of_sales:
                found.append(part)
        return found

    def _doubtful_amounts(
        self, table: ExportTable, columns: Sequence[TableColumn], total: AmountSeries, bills: Sequence[int]
    ) -> list[AmountSeries]:
        """Return the columns with sums of money that may change what was paid."""
        money_columns = [column for column in columns if self.may_be_money(column, table)]
        amounts = [self._doubtful_amount(table, column, total, bills) for column in money_columns]
        return [series for series in amounts if series is not None]

    def _is_rate(self, amounts: AmountSeries) -> bool:
        """Return whether amounts are quantity by price, less a discount in per cent."""
        if not amounts.columns:
            return False
        table = self._lines or self._table
        column = table.columns.get(amounts.columns[-1])
        return column is not None and self.ranks(table).is_rate_of_discount(column)

    def _doubtful_amount(
        self, table: ExportTable, column: TableColumn, total: AmountSeries, bills: Sequence[int]
    ) -> AmountSeries | None:
        """Return the amounts of a column that may change what was paid, or None if they are counts or prices."""
        ranks = self.ranks(table)
        level = LINE if table is self._lines else self.levels[column.name]
        role = ranks.role(column) or ""
        if role == "refunded" or ranks.heading_state(column) == REFUND:
            role = "refunded"
        amounts = self.series(table, [column.name], role, BILL if level == EITHER else level)
        values = [amounts.values[bill] or 0 for bill in bills]
        is_count = ranks.role(column) is None and all(values) and _are_counts(column, amounts, total, bills)
        # Prices of lines without tax, for example, are no totals.
        is_price = level == LINE and _is_alike(amounts, total, bills)
        is_payout = ranks.role(column) == "payout" and all(values)
        is_same = not differing(amounts, total, bills)
        is_known = is_count or is_price or is_payout or is_same
        return amounts if any(values) and not is_known else None

    def _unreadable_rate(self, total: AmountSeries) -> str | None:
        """Return a column with discounts such as `10%`, if the total is quantity by price, without them."""
        table = self._lines or self._table
        ranks = self.ranks(table)
        known = {*self.search.relations.explained_columns(), *total.columns}
        prices = [column.name for column in (*ranks.with_role("qty")[:1], *ranks.with_role("unitPrice")[:1])]
        if not known.issuperset(prices):
            return None
        for column in table.columns.values():
            is_discount = ranks.may_be(column, "discount") or ranks.is_rate_of_discount(column)
            if is_discount and any(value.endswith("%") for value in column.distinct):
                return column.name
        return None

    def _item_with_parts(self, total: AmountSeries) -> int | None:
        """Return the row of a set that costs as much as the rows below it: its items, with prices of their own."""
        table = self._lines or self._table
        items = self.ranks(table).first("item")
        columns = [table.columns[name] for name in total.columns if name in table.columns]
        if items is None:
            return None
        are_sets: dict[str, dict[int, bool]] = {}
        for rows in self._rows_in(table) if self._lines else self._bills.rows:
            amounts = [_combined(columns, row, is_product=total.is_product) for row in rows]
            for place, row in enumerate(rows):
                sums_below = list(accumulate(amounts[place + 1 :]))
                is_set = amounts[place] > 0 and amounts[place] in sums_below[1:]
                are_sets.setdefault(items.values[row], {})[row] = is_set
        for is_set_in_row in are_sets.values():
            first = min(is_set_in_row)
            if all(is_set_in_row.values()) and (len(is_set_in_row) > 1 or items.values[first + 1][:1] in _MARKS):
                return first
        return None

    # --- answers ------------------------------------------------------------------------------------

    def expression(self, text: str) -> AmountSeries:
        """Return the total that an answer names, such as `Total + Tip` or `sum of Amount + Tip`."""
        known = {amounts.name: amounts for amounts in (*self.parts(), *self.candidates())}
        if text in known:
            return known[text]
        terms = []
        for term in _TERMS.split(text.strip()):
            name = re.sub(r"^[+-] ?", "", term)
            amounts = known.get(name) or self._named(text, name)
            terms.append(amounts.minus() if term.startswith("-") else amounts)
        return terms[0].plus(*terms[1:])

    def _named(self, answer: str, text: str) -> AmountSeries:
        name = text.removeprefix("sum of ")
        factors = [factor.strip() for factor in re.split(" [×*] ", name)]
        lines = self._lines
        table = lines or self._table
        if len(factors) > 1 and all(factor in table.columns for factor in factors):
            return self.series(table, factors, LINES_ROLE, LINE, is_product=True)
        if name in self._table.columns:
            column = self._table.columns[name]
            if not column.is_number:
                raise Refuted("net", answer, sentence("{name} is not a column of amounts", name=name))
            is_sum = text != name and self._bills.is_flat
            return self.of(column, UNKNOWN_ROLE, LINE if is_sum else "")
        if lines and name in lines.columns:
            return self.series(lines, [name], LINES_ROLE, LINE)
        raise Refuted("net", answer, sentence("there is no column {name}", name=name))

    def _refutation(self, total: AmountSeries, finding: TotalFinding) -> str | None:
        """Return why a total cannot be what the customer paid, or None. Such a total is not offered either."""
        bills = self.sales
        shown = finding.shown or total
        doubts = [*finding.doubts, *finding.tips]
        named = [doubt for doubt in doubts if not {*doubt.columns}.isdisjoint(total.columns)]
        if finding.is_proved:
            clear = [bill for bill in bills if _is_clear(bill, shown, doubts, named)]
            others = differing(shown, total, clear)
            if len(others) * 20 > (0 if finding.is_exact else len(bills)):
                return self._other_values(others[0], total, shown, finding)
        fees = [part.name for part in self.parts() if part.role == "fee" and any(part.values)]
        if fees and total.role == "payout":
            return sentence("is what was left after {fees}. The customer paid more", fees=", ".join(fees))
        empty = self._empty_beside_others(total, bills)
        if empty * 10 > len(bills) and not named:
            return sentence("is empty or 0 on {count} bills, although other totals are not", count=f"{empty:,}")
        negative = self._first_negative(total, bills)
        if negative is not None:
            return sentence(
                "is negative on bill {name}, although none of its amounts is: it takes something off twice",
                name=self._bills.name_of(negative),
            )
        return None

    def _other_values(self, bill: int, total: AmountSeries, shown: AmountSeries, finding: TotalFinding) -> str:
        """Return that a total is another amount on a bill than the amounts show."""
        values = sentence("{money} on bill {bill}", money=money(total.values[bill]), bill=self._bills.name_of(bill))
        return sentence(
            "is {values}, but the amounts show that the customer paid {paid}: {evidence}",
            values=values,
            paid=money(shown.values[bill]),
            evidence="; ".join(finding.evidence),
        )

    # --- parts of the bill --------------------------------------------------------------------------

    def may_be_part(self, part: AmountSeries, total: AmountSeries) -> bool:
        """Return whether a part is small enough: under `Price incl. tax` is what a tax is paid on, not the tax."""
        size = abs(sum(sums_of([part], self.sales)))
        whole = abs(sum(sums_of([total], self.sales)))
        if part.role == "gross":
            return True
        return size * (3 if part.role == "tax" else 1) <= whole

    def parts_of_role(self, role: str, net: AmountSeries) -> AmountSeries | None:
        """Return the amounts of a role, such as the tax, or None if it is not clear which they are."""
        found = []
        for part in without_parts_of_sums(self.parts(), self.sales):
            is_unpaid = not self._unpaid_tips.isdisjoint(part.columns)
            if part.role == role and not is_unpaid and self.may_be_part(part, net):
                found.append(part)
        in_sums = self.search.relations.names_of_parts
        summed = [part for part in found if part.name in in_sums or not {*net.columns}.isdisjoint(part.columns)]
        if not summed:
            # The same amounts under two headings count once, unless the total has both.
            first = {part.values: part for part in reversed(found)}
            summed = list(first.values())[::-1]
        if len({part.level for part in summed}) != 1:
            return None
        whole = summed[0].plus(*summed[1:])
        return whole if whole.cell is not None and self.may_be_part(whole, net) else None

    def subtotal(self, net: AmountSeries) -> AmountSeries | None:
        others = [column for column in self._ranks.with_role("gross") if column.name not in net.columns]
        if not others:
            return None
        column = others[0]
        # Amounts that may be of a bill or of its payments are as the total.
        is_of_rows = self.levels[column.name] == EITHER and net.level == ROW
        return self.of(column, "gross", ROW if is_of_rows else "")

    def equals(self, first: AmountSeries, second: AmountSeries) -> bool:
        """Return whether amounts are equal on nearly all bills."""
        return len(differing(first, second, self.sales)) * 10 <= len(self.sales)


def money(value: int | None) -> str:
    return "empty" if value is None else f"{value / SCALE:,.2f}"


def _combined(columns: Sequence[TableColumn], row: int, *, is_product: bool) -> Decimal:
    numbers = [column.amount(row) for column in columns]
    return prod(numbers, start=Decimal(1)) if is_product else sum(numbers, Decimal())


def _are_counts(column: TableColumn, amounts: AmountSeries, total: AmountSeries, bills: Sequence[int]) -> bool:
    """Return whether numbers are codes or counts, such as those of guests, which are too small or too large for money.

    Whole numbers may be tips, too, also beside totals with cents, so only their size shows it.
    """
    numbers, totals = sums_of([amounts], bills), sums_of([total], bills)
    if len(set(numbers)) == 1:
        return True
    if not column.is_whole:
        return False
    if all(following - number == SCALE for number, following in pairwise(numbers)):
        # They count the rows.
        return True
    size, whole = sum(map(abs, numbers)), sum(map(abs, totals))
    has_cents = any(amount % SCALE for amount in totals)
    return size * SMALLEST_SHARE < whole or (has_cents and size > whole)


def _is_mostly_negative(amounts: AmountSeries, bills: Sequence[int]) -> bool:
    negative = sum((amounts.values[bill] or 0) < 0 for bill in bills)
    return negative * 2 > len(bills)


def _is_alike(amounts: AmountSeries, total: AmountSeries, bills: Sequence[int]) -> bool:
    """Return whether amounts are between half a total and twice as much on most bills."""
    alike = 0
    for bill in bills:
        size, whole = amounts.values[bill] or 0, total.values[bill] or 0
        alike += size <= 2 * whole <= 4 * size
    return alike * 2 > len(bills)


def _is_other_payment(payment: AmountSeries, total: AmountSeries, bills: Sequence[int]) -> bool:
    """Return whether a payment differs from a total by something else than the change of what was given in cash."""
    for bill in differing(payment, total, bills):
        given, paid = payment.values[bill] or 0, total.values[bill] or 0
        if given and (given < paid or given % BANKNOTE):
            return True
    return False


def _is_clear(bill: int, shown: AmountSeries, doubts: Sequence[AmountSeries], named: Sequence[AmountSeries]) -> bool:
    """Return whether no doubt changes a bill: each is nothing there, or the total, unless an answer names it."""
    if any(doubt.values[bill] for doubt in named):
        return False
    return all(doubt.values[bill] in (None, 0, shown.values[bill]) for doubt in doubts)


def _with_or_instead(total: AmountSeries, doubts: Sequence[AmountSeries], bills: Sequence[int]) -> list[AmountSeries]:
    """Return what the customer may have paid: a total with an amount more or less or, if that is alike, the amount."""
    found = []
    for doubt in doubts:
        if _is_alike(doubt, total, bills):
            found.append(doubt)
            continue
        added, taken_off = total.plus(doubt), total.plus(doubt.minus())
        if doubt.role == "refunded":
            is_positive = any((value or 0) > 0 for value in doubt.values)
            found.append(taken_off if is_positive else added)
        elif _is_mostly_negative(doubt, bills):
            # What a negative amount has taken off is more probably added again than taken off twice.
            found += [taken_off, added]
        else:
            found += [added, taken_off]
    return found
