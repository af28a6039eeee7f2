"""Proposes a mapping for tables of an unknown export, based on their headings, their values and their arithmetic.

What the sample does not settle becomes a question. An entry that would change the money is left out of the proposal
until its question is answered, so that the mapping cannot be used before.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from counterfoil.importing.bill_amounts import EITHER, PAYMENT_AMOUNTS, BillAmounts
from counterfoil.importing.bill_sample import BillSample, shop_ids
from counterfoil.importing.bill_totals import (
    BILL,
    LINE,
    SCALE,
    AmountSeries,
    Total,
    TotalFinding,
    example_bill,
    without_parts_of_sums,
)
from counterfoil.importing.column_doubts import (
    ask_about_currencies,
    ask_about_exceptions,
    propose_voids,
    zone_of_shop,
)
from counterfoil.importing.column_profiles import MANY_VALUES, SampleColumn, SheetSample, sample_of
from counterfoil.importing.headings import channel_of, is_refunded_state, names_no_shop
from counterfoil.importing.proposals import Proposal, Question, quoted, toml
from counterfoil.importing.results import ImportFailed
from counterfoil.importing.sheets import CsvFile

NOON = "12:00"
LINES, PAYMENTS = "--lines", "--payments"
BUDDHIST_SHIFT = 43
DEFAULT_ZONE = "Asia/Bangkok"
FRANCHISE = "my-group"
NET = "bill.amounts.net"
ANSWERS = (NET, "bill.id", "dates.order", "dates.calendar", "numbers.decimal", "shop.franchiseId", "file.sheet")
TEXT_ENTRIES = {
    "table": "table.name",
    "cashier": "cashier",
    "deviceId": "deviceId",
    "memberId": "memberId",
    "taxNumber": "taxNumber",
}
AMOUNT_ENTRIES = {
    "gross": "amounts.subtotal",
    "discount": "amounts.discountTotal",
    "service": "amounts.serviceCharge",
    "delivery": "amounts.deliveryFee",
    "surcharge": "amounts.cardSurcharge",
    "tax": "amounts.vat",
    "rounding": "amounts.rounding",
    "tip": "amounts.tip",
}
LINE_ENTRIES = {
    "item": "name",
    "productId": "productId",
    "qty": "qty",
    "unitPrice": "unitPrice",
    "options": "options",
    "category": "categoryIds",
}


def propose(
    bills: Sequence[Path],
    lines: Sequence[Path],
    payments: Sequence[Path],
    shop: str | None,
    *,
    today: date,
    timezone: str | None = None,
    answers: Mapping[str, str] | None = None,
) -> Proposal:
    """Return a proposal for files of bills and, if given, the files with their lines and payments."""
    for name in answers or {}:
        if name not in ANSWERS and not name.startswith("status."):
            raise ImportFailed(f"--set {name}: only these can be set: {', '.join(ANSWERS)} and status.VALUE.")
    inference = _Inference(
        sample_of(bills, (answers or {}).get("file.sheet")),
        sample_of(lines) if lines else None,
        sample_of(payments) if payments else None,
        shop,
        today,
        timezone,
        answers or {},
    )
    return inference.proposal()


class _Inference:
    """Writes a proposal for the samples of one export."""

    def __init__(
        self,
        sheet: SheetSample,
        lines: SheetSample | None,
        payments: SheetSample | None,
        shop: str | None,
        today: date,
        timezone: str | None,
        answers: Mapping[str, str],
    ) -> None:
        self._sheet = sheet
        self._lines = lines
        self._payments = payments
        self._shop = shop
        self._today = today
        self._timezone = timezone
        self._answers = answers
        if not sheet.rows:
            raise ImportFailed(f"{sheet.file.sheet.name} has a header row, but no rows below it that can be read.")
        self._sample = BillSample(sheet, has_line_file=lines is not None, names_shop=bool(shop), answers=answers)
        self._amounts = BillAmounts(self._sample, lines, payments)
        self._total: Total | None = None
        self._parts_of_total: frozenset[str] = frozenset()
        self._used: set[str] = set()
        self._result = Proposal(bills=sheet, lines=lines, payments=payments)

    def proposal(self) -> Proposal:
        self._file()
        self._number_format()
        self._dates()
        self._shops()
        self._bill_id()
        self._times()
        self._statuses()
        self._total_entry()
        self._part_entries()
        self._texts()
        self._line_entries()
        self._payment_entries()
        self._missing()
        return self._result

    def _check(self, text: str) -> None:
        """Note an assumption that the operator should check."""
        self._result.undecided.append(text)

    # --- file, numbers, dates ----------------------------------------------------------

    def _file(self) -> None:
        sheet, sample = self._sheet, self._sample
        if isinstance(sheet.file, CsvFile):
            comment = "" if sheet.is_encoding_sure else "guessed; check that the names below are readable"
            if comment:
                self._check(f"the encoding. {sheet.file.encoding} was guessed.")
            self._result.add("[file]", "encoding", quoted(sheet.file.encoding), comment)
            self._result.add("[file]", "delimiter", quoted(sheet.file.delimiter))
        if name := self._answers.get("file.sheet"):
            self._result.add("[file]", "sheet", quoted(name))
        if sheet.file.heading_line > 1:
            self._result.add("[file]", "headingLine", str(sheet.file.heading_line))
        if sample.filled_down:
            comment = "only the first row of a bill has these cells"
            self._result.add("[file]", "fillDown", toml(sample.filled_down), comment)
        sheets = [each for each in (sheet, self._lines, self._payments) if each]
        names = list(dict.fromkeys(name for each in sheets for name in each.columns))
        self._result.add("[file]", "columns", toml(names), "a file with other columns is refused")
        if sheet.problems:
            first = sheet.problems[0]
            self._check(
                f"what to do about unreadable rows ({len(sheet.problems):,}). Line {first.line} {first.detail}."
            )

    def _number_format(self) -> None:
        sheet = self._sheet
        decimal = self._answers.get("numbers.decimal")
        if sheet.question and not decimal:
            example = next(value for value in sheet.columns[sheet.question].distinct if "." in value)
            text = f"{sheet.question} has {example}. Is the point a decimal point, or does it separate thousands?"
            self._result.ask(Question("numbers.decimal", text, (".", ",")))
            self._result.comment("[numbers]", 'decimal = "."  # or "," if a point separates thousands')
            return
        comment = "" if sheet.are_numbers_sure or decimal else "assumed; the numbers in the export do not prove it"
        self._result.add("[numbers]", "decimal", quoted(decimal or sheet.numbers.decimal), comment)
        if not decimal:
            self._result.add("[numbers]", "thousands", quoted(sheet.numbers.thousands))

    def _dates(self) -> None:
        column, order = self._sample.day or self._sample.trading_day, self._sample.order
        if column is None:
            return
        if column.is_serial and not column.is_date:
            self._result.add("[dates]", "serial", "true", "days are numbers, as Excel writes them")
        elif order:
            self._result.add("[dates]", "order", quoted(order))
        else:
            self._check(
                f"whether the day or the month comes first in {column.name}, for example in {column.filled[0]}. "
                "Set dates.order, or use --date-order."
            )
            self._result.comment(
                "[dates]", 'order = "dmy"  # or "mdy"; the dates do not show which. Choose one and remove the first #'
            )
        self._calendar(column)
        self._result.comment("[dates]", 'timezone = "UTC"  # only if the times are not the shop\'s local time')

    def _calendar(self, column: SampleColumn) -> None:
        """Propose the Buddhist calendar if dates with two-digit years would be decades ahead."""
        days = [day for day in self._sample.days if day]
        if answer := self._answers.get("dates.calendar"):
            self._result.add("[dates]", "calendar", quoted(answer))
        elif not days or max(days) <= self._today + timedelta(days=2):
            pass
        elif min(days).year < self._today.year + 5:
            self._check(f"whether {column.name} is read correctly: it has dates in the future, such as {max(days)}.")
        elif max(days).year - BUDDHIST_SHIFT <= self._today.year:
            self._result.add("[dates]", "calendar", quoted("buddhist"), "otherwise the dates would be decades ahead")
            year = max(days).year - BUDDHIST_SHIFT
            self._check(
                f"whether the years in {column.name} are Buddhist. {column.filled[0]} is read as a day in {year}."
            )
        else:
            text = f"The dates in {column.name}, such as {column.filled[0]}, are decades ahead."
            self._result.ask(Question("dates.calendar", text, ("gregorian", "buddhist")))

    def _times(self) -> None:
        """Propose the entries for the time of a bill."""
        sample = self._sample
        day, clock, trading = sample.day, sample.clock, sample.trading_day
        self._used.update(column.name for column in (day, clock, trading) if column)
        if day:
            self._result.add("[bill]", "closedAt", toml([day.name, clock.name] if clock else day.name))
            if not clock and not day.has_times and not day.is_serial:
                self._check("the time of day. The dates have no time, so every bill gets 12:00.")
                self._result.add("[dates]", "defaultTime", quoted(NOON), "assumed; the export has no times")
        if trading:
            self._result.add("[bill]", "tradingDay", quoted(trading.name))
        zone = next((column for column in self._sheet.with_role("timezone") if column.filled), None)
        if zone and day:
            self._used.add(zone.name)
            self._result.add("[bill]", "timezone", quoted(zone.name))
        elif day:
            self._check("the time zone. Times without an offset are read as the shop's local time.")
        if not day and not trading:
            self._result.ask(Question("bill.closedAt", "No column with the date of a bill was found."))

    # --- shops and IDs --------------------------------------------------------------------

    def _shops(self) -> None:
        column = self._sample.shop
        names = [name for name in column.distinct if not names_no_shop(name)] if column else []
        if not column or not names:
            if not self._shop:
                self._check("the shop. The export does not name it. Choose an ID in [shop], or use --shop.")
            self._shop_section("[shop]", self._shop or "my-shop", self._shop or "My shop")
            return
        self._used.add(column.name)
        others = [name for name in column.distinct if names_no_shop(name)]
        if len(column.filled) < len(column.values):
            others.append("")
        if others:
            self._check(
                f"which shop these values of {column.name} stand for: "
                f"{', '.join(one or 'an empty cell' for one in others)}. Their bills are rejected. To load them, "
                "name a shop for them in [shopIds] and list them in [[status]]."
            )
            self._result.add("[[status]]#shop", "column", quoted(column.name))
            for name in names:
                self._result.add(
                    "[status.values]#shop", quoted(name), quoted("sale"), "a value that is not listed is no shop"
                )
        franchise = self._answers.get("shop.franchiseId", FRANCHISE) if len(names) > 1 else None
        ids = shop_ids(names)
        for number, (name, shop) in enumerate(ids.items(), start=1):
            self._shop_section(f"[[shop]]#{number}", shop, name, franchise)
        for name, shop in ids.items():
            self._result.add("[shopIds]", quoted(name), quoted(shop))
        self._result.add("[bill]", "shopId", quoted(column.name))
        if franchise and "shop.franchiseId" not in self._answers:
            self._check(
                f"the name of the group. The {len(names):,} shops get the franchise {franchise}, so that one key can "
                "read them all. Choose another ID with --set 'shop.franchiseId=ID'."
            )

    def _shop_section(self, section: str, shop: str, name: str, franchise: str | None = None) -> None:
        self._result.add(section, "id", quoted(shop))
        self._result.add(section, "name", quoted(name))
        if franchise:
            self._result.add(section, "franchiseId", quoted(franchise))
        self._shop_zone(section, name)
        self._result.comment(section, 'closingTime = "02:00"  # if the business day ends after midnight')

    def _shop_zone(self, section: str, name: str) -> None:
        """Propose the time zone of a shop: the one that was given, or the one that its rows name."""
        column = next((one for one in self._sheet.with_role("timezone") if one.filled), None)
        if self._timezone or column is None:
            comment = "" if self._timezone else "assumed"
            self._result.add(section, "timezone", quoted(self._timezone or DEFAULT_ZONE), comment)
            return
        if zone := zone_of_shop(self._sample, column, name):
            self._result.add(section, "timezone", quoted(zone))
        else:
            text = f"{column.name} of {name} does not name one known time zone. Use --timezone."
            self._result.ask(Question("shop.timezone", text))

    def _bill_id(self) -> None:
        key, number = self._sample.key, self._sample.number
        if key is None or number is None:
            text = (
                "No column with the number of a bill was found. Which column, or columns together, identify a bill? "
                f"The export has {', '.join(self._sheet.columns)}."
            )
            self._result.ask(Question("bill.id", text))
            self._result.comment("[bill]", 'id = "..."  # which column identifies a bill?')
            return
        self._used.update(key.columns)
        if not key.is_proved:
            joined = " and ".join(key.columns[:-1])
            what = (
                f"so bill.id joins {joined} to it" if joined else "but the export has no day that could be joined to it"
            )
            self._check(
                f"whether {number.name} is unique. {key.reason}, {what}. If it never starts again, use "
                f"--set 'bill.id={number.name}'."
            )
        self._result.add("[bill]", "id", toml(key.columns if len(key.columns) > 1 else number.name), key.reason)
        if any(match.role == "receiptNumber" for match in number.matches):
            self._result.add("[bill]", "receiptNumber", quoted(number.name))

    def _statuses(self) -> None:
        for number, (name, meanings) in enumerate(self._sample.statuses.items(), start=1):
            self._used.add(name)
            unknown = [value for value, meaning in meanings.items() if not meaning]
            values = ", ".join(value or "an empty cell" for value in unknown)
            advice = f"sale, void, refund or skip, as with --set 'status.{(unknown or [''])[0]}=...'."
            if any(map(is_refunded_state, (name, *unknown))):
                advice += " A sale that was refunded is a sale if a row of its own returns the amount, otherwise void."
            if len(unknown) == len(meanings):
                self._result.ask(Question("status", f"What do these values of {name} mean: {values}? Say {advice}"))
                continue
            if unknown:
                self._check(
                    f"what these values of {name} mean: {values}. Their bills are rejected until [status.values] says "
                    f"{advice}"
                )
            self._result.add(f"[[status]]#{number}", "column", quoted(name))
            section = f"[status.values]#{number}"
            for value, meaning in meanings.items():
                if meaning:
                    self._result.add(section, quoted(value), quoted(meaning))
                else:
                    self._result.comment(section, f'{quoted(value)} = "..."  # "sale", "void", "refund" or "skip"?')
        if skipped := self._sample.first_void_that_is_skipped():
            self._check(
                f"whether bills that are void by one of {' and '.join(self._sample.statuses)} and not finished by "
                f"another are void, as on line {self._sheet.rows[skipped.rows[0]].line}. They are skipped."
            )
        cancelled = self._sample.cancelled
        if cancelled and cancelled.unknown:
            values = ", ".join(cancelled.unknown)
            text = (
                f"What do these values of {cancelled.column.name} mean for a line: {values}? Say sale, or void if it "
                f"does not count, as with --set 'status.{cancelled.unknown[0]}=void'."
            )
            self._result.ask(Question("line.cancelled", text))

    # --- amounts -----------------------------------------------------------------------------

    def _total_entry(self) -> None:
        """Propose the total of a bill, with the evidence for it, or ask for it."""
        bills = self._amounts.sales
        finding = self._answered_total()
        if finding is None:
            finding = self._amounts.find_total(bills)
            self._doubt(finding, bills)
        cell = self._cell_of(finding.chosen) if finding.chosen else None
        if finding.chosen and cell is not None:
            self._total, self._parts_of_total = finding.chosen, finding.parts
            for line in finding.evidence:
                self._result.comment("[bill]", line)
            self._result.add("[bill]", "amounts.net", toml(cell))
            if NET not in self._answers:
                self._reject_unseen(finding.chosen, bills)
            names = [name for one in (self._total.base, *self._total.added) for name in one.columns]
            self._used.update(name.removeprefix("-") if name not in self._sheet.columns else name for name in names)
            return
        text = finding.question
        if finding.chosen and not finding.chosen.base.columns:
            text = (
                "The export has a row for each payment, but no column with the total of a bill. Export the total too."
            )
        elif finding.chosen:
            text = f"{finding.chosen.text} cannot be added, because its columns write numbers differently."
        elif (place := example_bill(finding.choices, bills)) is not None and finding.choices:
            row = self._sheet.rows[self._sample.bills[place].rows[0]]
            values = ", ".join(f"{total.text} is {_money(total.value(place))}" for total in finding.choices)
            text += f" On line {row.line} of {row.sheet.name}, {values}."
        choices = tuple(total.text for total in finding.choices if self._cell_of(total) is not None)
        self._result.ask(Question(NET, f"What did the customer pay, tip included? {text}", choices))
        for total in finding.choices:
            if (choice := self._cell_of(total)) is not None:
                self._result.comment("[bill]", f"amounts.net = {toml(choice)}  # Choose one and remove the first #")

    def _doubt(self, finding: TotalFinding, bills: Sequence[int]) -> None:
        """Turn a finding into a question if some bills were paid back in part."""
        total = finding.chosen
        if total is None:
            return
        for column in self._sheet.with_role("refunded"):
            amounts = self._amounts.of(column, "discount")
            if any(amounts.values[bill] for bill in bills):
                back = AmountSeries(
                    f"- {column.name}",
                    "discount",
                    BILL,
                    tuple(-abs(value or 0) for value in amounts.values),
                    (f"-{column.name}",),
                )
                finding.question = f"{column.name} has an amount on some bills. Is {total.text} before or after it?"
                finding.choices = [total, Total(total.base, (*total.added, back))]
                finding.chosen = None

    def _reject_unseen(self, total: Total, bills: Sequence[int]) -> None:
        """Propose to reject bills with amounts of which the sample has no example."""
        roles = ["tip", "refunded"] if total.base.role == "paid" else ["tip", "refunded", *AMOUNT_ENTRIES, "fee"]
        unseen = [
            column.name
            for column in self._sheet.with_role(*dict.fromkeys(roles))
            if column.filled and column.name not in total.base.columns
            if not any(self._amounts.of(column, "").values[bill] for bill in bills)
        ]
        for number, name in enumerate(unseen, start=1):
            reason = f"no bill of the sample had {name}, so it is not known whether {total.text} includes it"
            self._result.add(f"[[reject]]#{number}", "column", quoted(name))
            self._result.add(f"[[reject]]#{number}", "reason", quoted(reason))
        if unseen:
            self._check(
                f"whether {total.text} includes {', '.join(unseen)}. No bill of the sample shows it, so bills with "
                f"such an amount are rejected. If it does, use --set '{NET}={total.text}'."
            )

    def _answered_total(self) -> TotalFinding | None:
        """Return the total that was named on the command line."""
        answer = self._answers.get(NET)
        if answer is None:
            return None
        evidence = ["as answered"]
        product = next((one for one in self._amounts.candidates() if one.is_product), None)
        if product and answer == product.name:
            return TotalFinding(chosen=Total(product), evidence=evidence)
        terms = re.split(r" (?=[+-] )", answer.strip())
        is_line = answer.startswith("sum of ")
        names = [re.sub(r"^([+-]) ", lambda sign: sign[1].strip("+"), term) for term in terms]
        names = [name if name in self._sheet.columns else name.replace("sum of ", "", 1) for name in names]
        plain = [name if name in self._sheet.columns else name.removeprefix("-") for name in names]
        is_of_lines = bool(self._lines) and all(name in (self._lines.columns if self._lines else ()) for name in plain)
        if is_of_lines and not all(name in self._sheet.columns for name in plain):
            return TotalFinding(chosen=Total(AmountSeries(answer, "paid", LINE, (), tuple(names))), evidence=evidence)
        self._sample.require_columns(plain, NET)
        is_line = is_line or all(self._amounts.levels[name] == LINE for name in plain)
        return TotalFinding(
            chosen=Total(AmountSeries(answer, "paid", LINE if is_line else BILL, (), tuple(names))), evidence=evidence
        )

    def _cell_of(self, total: Total) -> Any:
        """Return the entry of a mapping that computes a total, or None if a mapping cannot."""
        amounts = (total.base, *total.added)
        if not all(one.columns for one in amounts):
            return None
        names = [name for one in amounts for name in one.columns]
        is_line = total.base.level != BILL
        sheet = self._lines if self._lines and is_line else self._sheet
        return self._cell(sheet, names, is_line=is_line, is_product=total.base.is_product)

    def _cell(
        self,
        sheet: SheetSample,
        names: Sequence[str],
        *,
        is_line: bool = False,
        is_product: bool = False,
        is_absolute: bool = False,
    ) -> Any:
        """Return an entry that adds or multiplies columns, or None if their numbers are written differently."""
        columns = [sheet.columns[name if name in sheet.columns else name.removeprefix("-")] for name in names]
        written = {column.numbers for column in columns}
        if len(written) != 1:
            return None
        extra: dict[str, Any] = {} if written == {self._sheet.numbers} else {"decimal": columns[0].numbers.decimal}
        if is_absolute:
            extra["absolute"] = True
        if is_product or len(names) > 1:
            inner: Any = {"multiply" if is_product else "add": list(names), **extra}
        else:
            inner = {"column": names[0], **extra} if extra else names[0]
        return {"sum": inner} if is_line else inner

    def _part_entries(self) -> None:
        """Propose the entries for the amounts beside the total."""
        by_role: dict[str, list[AmountSeries]] = {}
        for part in without_parts_of_sums(self._amounts.parts(), self._amounts.sales):
            by_role.setdefault(part.role, []).append(part)
        for role, parts in by_role.items():
            # The same amounts under two headings count once, unless the total has both.
            counted = [part for part in parts if part.name in self._parts_of_total] or parts
            by_role[role] = (
                list({part.values: part for part in reversed(counted)}.values())[::-1] if counted is parts else counted
            )
        net = self._total.base.columns if self._total else ()
        subtotals = [column for column in self._sheet.with_role("gross") if column.name not in net]
        by_role["gross"] = [self._amounts.of(column, "gross") for column in subtotals[:1]]
        for role, entry in AMOUNT_ENTRIES.items():
            found = by_role.get(role, [])
            names = [name for part in found for name in part.columns]
            if len({part.level for part in found}) != 1:
                continue
            has_negative = any((value or 0) < 0 for part in found for value in part.values)
            cell = self._cell(
                self._sheet, names, is_line=found[0].level == LINE, is_absolute=role == "discount" and has_negative
            )
            if cell is not None:
                self._result.add("[bill]", entry, toml(cell))
        self._used.update(column.name for column in self._sheet.with_role(*AMOUNT_ENTRIES))

    # --- texts, lines and payments -------------------------------------------------------------

    def _texts(self) -> None:
        """Propose the fields of a bill that are neither times nor amounts."""
        for role, entry in TEXT_ENTRIES.items():
            column = next((one for one in self._sheet.with_role(role) if one.filled), None)
            if column and self._sample.is_of_bill(column):
                self._used.add(column.name)
                self._result.add("[bill]", entry, quoted(column.name))
        self._channel()
        ask_about_currencies(self._sample, self._result)
        ask_about_exceptions(self._sample, self._result, self._answers)
        propose_voids(self._sample, self._result, self._used)

    def _channel(self) -> None:
        for column in self._sheet.with_role("channel", "type"):
            codes = {value: channel_of(value) for value in column.distinct}
            known = {value: code for value, code in codes.items() if code}
            unknown = [value for value, code in codes.items() if not code]
            is_channel = column.role == "channel" or not unknown
            if column.name in self._used or not 0 < len(codes) <= MANY_VALUES or not is_channel:
                continue
            if not self._sample.is_of_bill(column):
                continue
            if unknown:
                self._check(f"which sales channels these values of {column.name} stand for: {', '.join(unknown)}.")
            self._used.add(column.name)
            value = {"column": column.name, "values": known} if known else column.name
            self._result.add("[bill]", "channel.id", toml(value))
            return

    def _line_entries(self) -> None:
        """Propose the mapping of bill lines."""
        sheet = self._sheet if self._sample.is_flat else self._lines
        if sheet is None or (sheet is self._lines and not self._key_entry("[line]", sheet, "line")):
            return
        for role, entry in LINE_ENTRIES.items():
            column = next(
                (one for one in sheet.with_role(role) if sheet is not self._sheet or one.name not in self._used), None
            )
            if column:
                self._use(sheet, column.name)
                is_number = role in ("qty", "unitPrice")
                self._result.add("[line]", entry, toml(self._cell(sheet, [column.name]) if is_number else column.name))
        total = self._line_total(sheet)
        if total:
            self._use(sheet, total)
            self._result.add("[line]", "total", toml(self._cell(sheet, [total])))
        cancelled = self._sample.cancelled
        if cancelled and not cancelled.unknown:
            self._used.add(cancelled.column.name)
            value = {"column": cancelled.column.name, "values": cancelled.values}
            self._result.add("[line]", "cancelled", toml(value))

    def _key_entry(self, section: str, sheet: SheetSample, what: str) -> bool:
        """Propose how the rows of another file are joined to their bills; return False if that is not known."""
        own, foreign = self._amounts.shared_key(sheet)
        if not own:
            self._result.ask(
                Question(f"{what}.key", f"No column of {sheet.file.sheet.name} says which bill a {what} belongs to.")
            )
            return False
        self._result.add(section, "key", toml(foreign if len(foreign) > 1 else foreign[0]))
        key = self._sample.key
        if key and list(key.columns) != own and not self._result.has("[bill]", "key"):
            comment = "what the other file has"
            self._result.add("[bill]", "key", toml(own if len(own) > 1 else own[0]), comment)
        return True

    def _use(self, sheet: SheetSample, name: str) -> None:
        if sheet is self._sheet:
            self._used.add(name)

    def _line_total(self, sheet: SheetSample) -> str | None:
        """Return the column with the total of a line: the one that the bill's total sums, or the first one."""
        total = self._total
        if total and total.base.level == LINE and not total.base.is_product:
            return total.base.columns[0]
        of_bill = total.base.columns if total else ()
        for column in sheet.with_role("amount", "total", "gross", "net", "paid"):
            is_of_lines = sheet is not self._sheet or self._amounts.levels[column.name] in (LINE, EITHER)
            if is_of_lines and (sheet is not self._sheet or column.name not in of_bill):
                return column.name
        return None

    def _payment_entries(self) -> None:
        if self._payments:
            self._payments_file(self._payments)
            return
        ways = [column for column in self._sheet.with_role("wayOfPaying") if column.filled]
        sums = [one for one in self._amounts.payments() if self._equals_total(one)]
        if ways and sums:
            self._payments_by_way(ways, sums[0])
            return
        if ways:
            names = ", ".join(column.name for column in ways)
            self._check(f"whether {names} are payments. They do not add up to the total, so they are not used.")
        method = next((column for column in self._sheet.with_role("method") if column.filled), None)
        if method is None:
            return
        self._used.add(method.name)
        if not self._sample.is_of_bill(method):
            self._split_payments(method)
        elif self._total is None:
            self._check(f"the payments. {method.name} is mapped once the bill's total is known.")
        else:
            self._single_payment(method, self._total, sums)

    def _payments_by_way(self, ways: Sequence[SampleColumn], payments: AmountSeries) -> None:
        """Propose a payment for each column that is a way of paying."""
        change = next((name.removeprefix("-") for name in payments.columns if name not in self._sheet.columns), None)
        for number, column in enumerate(ways, start=1):
            self._used.add(column.name)
            section = f"[[payment]]#{number}"
            self._result.add(section, "name", toml({"constant": column.name}))
            self._result.add(section, "amount", toml(self._cell(self._sheet, [column.name])))
            if change and number == 1:
                self._used.add(change)
                self._result.add(section, "change", toml(self._cell(self._sheet, [change])))

    def _single_payment(self, method: SampleColumn, total: Total, sums: Sequence[AmountSeries]) -> None:
        section = "[[payment]]#1"
        self._result.add(section, "name", quoted(method.name))
        given = next((one for one in sums if len(one.columns) > 1), None)
        if given is None:
            comment = "the export has one payment method per bill"
            self._result.add(section, "amount", toml(self._cell_of(total)), comment)
            return
        received, change = given.columns[0], given.columns[1].removeprefix("-")
        self._used.update((received, change))
        self._result.add(section, "amount", toml(self._cell(self._sheet, [received])))
        self._result.add(section, "change", toml(self._cell(self._sheet, [change])))

    def _equals_total(self, payments: AmountSeries) -> bool:
        """Return whether payments equal the chosen total on nearly all bills."""
        if self._total is None or not self._total.base.values:
            return self._total is not None
        pairs = [(self._total.value(bill), payments.values[bill]) for bill in self._amounts.sales]
        equal = [one is not None and other is not None and abs(one - other) <= SCALE // 50 for one, other in pairs]
        return sum(equal) * 10 >= len(pairs) * 9

    def _split_payments(self, method: SampleColumn) -> None:
        """Propose payments for a file that has a row for each payment of a bill."""
        varying = [one for one in self._sheet.with_role(*PAYMENT_AMOUNTS) if not self._sample.is_of_bill(one)]
        if self._sample.is_flat or not varying:
            self._check(f"the payments. {method.name} differs between the rows of a bill, so it is not used.")
            return
        self._used.add(varying[0].name)
        self._result.add("[[payment]]#1", "name", quoted(method.name))
        self._result.add("[[payment]]#1", "amount", toml(self._cell(self._sheet, [varying[0].name])))

    def _payments_file(self, sheet: SheetSample) -> None:
        section = "[[payment]]#1"
        if not self._key_entry(section, sheet, "payment"):
            return
        for roles, entry in ((("method",), "name"), (PAYMENT_AMOUNTS, "amount"), (("change",), "change")):
            column = next(iter(sheet.with_role(*roles)), None)
            if column:
                self._result.add(
                    section, entry, toml(column.name if entry == "name" else self._cell(sheet, [column.name]))
                )

    def _missing(self) -> None:
        missing = self._result.missing
        if "[line]" not in self._result.sections:
            missing.append(f"the lines. If they are in another file, pass it with {LINES}.")
        if not any(name.startswith("[[payment]]") for name in self._result.sections):
            missing.append(f"the payments. If they are in another file, pass it with {PAYMENTS}.")
        if not self._sample.statuses and not self._result.has("[bill]", "voidReason"):
            missing.append("whether a bill was voided. A bill that is voided after the import will stay completed.")
        columns = self._sheet.columns.values()
        self._result.unused = [column.name for column in columns if column.name not in self._used and column.filled]


def _money(value: int | None) -> str:
    return "empty" if value is None else f"{value / SCALE:,.2f}"
