"""Proposes a mapping for tables of an unknown export, based on their headings, their values and their arithmetic.

What the sample does not settle becomes a question. An entry that would change the money is left out of the proposal
until its question is answered, so that the mapping cannot be used before.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from counterfoil.importing import answers as set_answers
from counterfoil.importing import bill_totals, column_doubts, headings
from counterfoil.importing.answers import ENCODING, MEANINGS, NET, UNIT, ZONE, Answers
from counterfoil.importing.bill_amounts import EITHER, PAYMENT_AMOUNTS, ROW, BillAmounts
from counterfoil.importing.bill_numbers import rows_by, shop_ids
from counterfoil.importing.bill_sample import BillSample
from counterfoil.importing.bill_totals import BILL, LINE, SCALE, SampleFinding, SampleSeries, absolute
from counterfoil.importing.column_profiles import MANY_VALUES, SampleColumn, SheetSample, sample_of
from counterfoil.importing.mapping import REFUND, SALE, VOID
from counterfoil.importing.proposals import Proposal, quoted, toml
from counterfoil.importing.results import ImportFailed, message
from counterfoil.importing.sheets import CsvFile
from counterfoil.importing.shop_zones import ShopZones
from counterfoil.importing.time_entries import TimeEntries

MANY_SHOPS = 10
FRANCHISE, DEFAULT_SHOP = "my-group", "my-shop"
TEXT_ENTRIES, AMOUNT_ENTRIES, LINE_ENTRIES = map(headings.entries_of, ("texts", "amounts", "lines"))


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
    answers = Answers(answers or {})
    answers.check()
    result = Proposal(
        sample_of(bills, answers, answers.get("file.sheet")),
        sample_of(lines, answers) if lines else None,
        sample_of(payments, answers) if payments else None,
    )
    for entry, files in zip(set_answers.KEYS, (lines, payments), strict=True):
        if entry in answers and not files:
            raise ImportFailed(f"--set {entry}: there is no such file. Add it with --{entry.partition('.')[0]}s.")
    for entry in sorted(set_answers.ROLE_ANSWERS.keys() & answers.keys()):
        result.bills.give_role(entry, answers[entry], set_answers.ROLE_ANSWERS[entry])
    column_doubts.refuse_other_columns(result.bills, answers)
    _Inference(result, shop, today, timezone or answers.get(ZONE), answers).fill()
    return result


class _Inference:
    def __init__(self, result: Proposal, shop: str | None, today: date, timezone: str | None, answers: Answers) -> None:
        self._result, self._check = result, result.undecided.append
        self._sheet, self._lines, self._payments = result.bills, result.lines, result.payments
        self._samples = [each for each in (result.bills, result.lines, result.payments) if each]
        self._shop = shop
        self._today = today
        self._answers = answers
        if not self._sheet.rows:
            name = self._sheet.file.sheet.name
            first = "".join(f" Line {one.line} {one.detail}." for one in self._sheet.problems[:1])
            raise ImportFailed(f"{name} has a header row, but no rows below it that can be read.{first}")
        bills_of = partial(
            BillSample,
            has_line_file=bool(self._lines),
            names_shop=bool(shop),
            answers=answers,
            today=today,
            timezone=timezone,
        )
        self._sample = bills_of(self._sheet)
        if voided := self._sample.voided_sales():
            # The import reads both rows as one voided bill.
            self._sheet.leave_out(voided)
            self._sample = bills_of(self._sheet, unreduced=self._sample)
        self._amounts = BillAmounts(self._sample, self._lines, self._payments, answers)
        self._zones = ShopZones(self._sample, result, timezone)
        self._times = TimeEntries(self._sample, result, answers, today, self._zones)
        self._total: SampleSeries | None = None

    def fill(self) -> None:
        self._file()
        self._number_format()
        self._times.propose_format()
        self._shops()
        self._bill_id()
        self._times.propose_times()
        self._statuses()
        self._total_entry()
        self._part_entries()
        self._texts()
        self._line_entries()
        self._payment_entries()
        for column, values in self._sample.skipped.items():
            self._result.add("[skip]", "column", column)
            self._result.add("[skip]", "values", values)
        column_doubts.propose_checks(self._sample, self._amounts, self._result, self._answers, self._today)
        column_doubts.refuse_answers_without_effect(self._sample, self._result, self._answers)
        self._missing()

    # --- file, numbers, dates ----------------------------------------------------------

    def _file(self) -> None:
        sheet, file, add = self._sheet, self._sheet.file, self._result.add
        if isinstance(file, CsvFile):
            encodings = {name: words for each in self._samples for name, words in each.encodings.items()}
            if len(encodings) > 1:
                text = "In which encoding is the export? Choose the one in which its words are readable."
                self._result.ask(ENCODING, text, tuple(encodings), tuple(encodings.values()))
            else:
                encoding = next(iter(encodings), file.encoding)
                for words in filter(None, encodings.values()):
                    self._check(message("encoding_guessed", encoding=encoding, words=words))
                add("[file]", "encoding", encoding)
            add("[file]", "delimiter", file.delimiter)
        if name := self._answers.get("file.sheet"):
            add("[file]", "sheet", name)
        if file.heading_line > 1:
            add("[file]", "headingLine", file.heading_line)
        if self._sample.filled_down:
            add("[file]", "fillDown", self._sample.filled_down, "only the first row of a bill has these cells")
        if self._sample.has_no_times and not self._sample.first_bill_in_parts():
            add("[file]", "together", value=True, comment="without times, a number that occurs again is another bill")
        names = [name for each in self._samples for name in each.columns]
        add("[file]", "columns", list(dict.fromkeys(names)), "a file with other columns is refused")
        for first in sheet.problems[:1]:
            count = len(sheet.problems)
            self._check(f"what to do about unreadable rows ({count:,}). Line {first.line} {first.detail}.")

    def _number_format(self) -> None:
        sheet = self._sheet
        if sheet.question:
            example = next(value for value in sheet.columns[sheet.question].distinct if re.search("[.,]", value))
            text = f"{sheet.question} has {example}. Which mark separates the decimals?"
            thousands = f"{re.sub('[.,]', '', example)} without decimals"
            examples = ("the point", thousands) if "." in example else (thousands, "the comma")
            self._result.ask("numbers.decimal", text, (".", ","), examples)
            return
        is_sure = sheet.are_numbers_sure or "numbers.decimal" in self._answers
        comment = "" if is_sure else "assumed; the numbers in the export do not prove it"
        self._result.add("[numbers]", "decimal", sheet.numbers.decimal, comment)
        self._result.add("[numbers]", "thousands", sheet.numbers.thousands)

    # --- shops and IDs --------------------------------------------------------------------

    def _shops(self) -> None:
        column = self._sample.shop
        names = [name for name in column.distinct if not headings.names_no_shop(name)] if column else []
        if not column or not names:
            self._only_shop()
            return
        is_table = sum(map(headings.names_area, names)) * 2 > len(names) > 1
        is_many = len(names) >= MANY_SHOPS and len(self._sample.bills) < 3 * len(names)
        if (is_table or is_many) and "bill.shopId" not in self._answers:
            text = f"{column.name} has {len(names):,} values, as {names[0]}. Are they shops? If not, use --shop ID."
            self._result.ask("bill.shopId", text, (column.name,), ("each is a shop",))
            return
        if column.role not in ("shopId", None):
            self._check(message("answered_shop", name=column.name))
        others = [name for name in column.distinct if headings.names_no_shop(name)]
        if len(column.filled) < len(column.values):
            others.append("")
        if others:
            values = ", ".join(one or "an empty cell" for one in others)
            self._check(message("no_shops", name=column.name, values=values))
            self._result.add("[[status]]#shop", "column", column.name)
            for name in names:
                comment = "a value that is not listed is no shop"
                self._result.add("[status.values]#shop", quoted(name), "sale", comment)
        franchise = self._answers.get("shop.franchiseId", FRANCHISE) if len(names) > 1 else None
        ids = shop_ids(names)
        for number, (name, shop) in enumerate(ids.items(), start=1):
            self._shop_section(f"[[shop]]#{number}", shop, name, franchise)
        for name, shop in ids.items():
            self._result.add("[shopIds]", quoted(name), shop)
        self._result.add("[bill]", "shopId", column.name)
        if franchise and "shop.franchiseId" not in self._answers:
            self._check(message("franchise", count=len(names), franchise=franchise))

    def _only_shop(self) -> None:
        if not self._shop and self._are_sheets_shops():
            self._result.ask("bill.shopId", message("sheets", name=self._sheet.file.same[0]))
        elif not self._shop:
            self._check(f"the shop. Its ID is {DEFAULT_SHOP}, unless you use --shop.")
        self._shop_section("[shop]", self._shop or DEFAULT_SHOP, self._shop or "My shop")

    def _are_sheets_shops(self) -> bool:
        """Return whether sheets of a workbook have bills of the same days, as those of several shops do."""
        names = [row.sheet.name for row in self._sheet.rows]
        shared = [rows for rows in rows_by(self._sample.days) if len({names[row] for row in rows}) > 1]
        return bool(self._sheet.file.same) and sum(map(len, shared)) * 2 > len(names)

    def _shop_section(self, section: str, shop: str, name: str, franchise: str | None = None) -> None:
        self._result.add(section, "id", shop)
        self._result.add(section, "name", name)
        if franchise:
            self._result.add(section, "franchiseId", franchise)
        self._zones.propose(section, name)
        self._result.comment(section, 'closingTime = "02:00"  # if the business day ends after midnight')

    def _bill_id(self) -> None:
        key, number = self._sample.key, self._sample.number
        if key is None or number is None:
            day = self._sample.day or self._sample.trading_day
            columns = [
                one for one in self._sheet.columns.values() if one.role in (None, "productId") and one.is_like_an_id
            ]
            choices = {f"{day.name} + {one.name}" if day else one.name: f"as in {one.filled[0]}" for one in columns[:4]}
            for one in columns[:4] if len({*self._sample.days}) > 1 else ():
                if len({*zip(one.values, self._sample.days, strict=True)}) == len({*one.values}):
                    choices[one.name] = f"as in {one.filled[0]}, if they never start again"
            text = "No column with the number of a bill was found. Which columns, joined, identify a bill?"
            self._result.ask("bill.id", text, [*choices], [*choices.values()])
            self._result.comment("[bill]", 'id = "..."  # which column identifies a bill?')
            return
        if self._sample.is_number_guessed:
            self._check(f"whether {number.name} is the number of a bill. Its values grow like one.")
        words = [value for value in number.distinct if not any(map(str.isdigit, value))]
        words = [value for value in words if not self._answers.about(number.name, value)]
        are_hexadecimal = all(re.fullmatch(r"[\dA-F]{4,}", value) for value in number.distinct)
        if 0 < len(words) * 2 < len(number.distinct) and not are_hexadecimal:
            line = self._sheet.rows[number.values.index(words[0])].line
            text = f"{number.name} has {words[0]} on line {line}, unlike the others. Is it a bill?"
            self._result.ask("skip", text, MEANINGS, column_doubts.EXPLAINED, f"status.{words[0]}")
        if apart := self._sample.first_bill_in_parts():
            lines = " and ".join(str(self._sheet.rows[row].line) for row in apart)
            text = message("bills_between", name=number.name, value=number.values[apart[0]], lines=lines)
            self._result.ask("bill.id", text, (" + ".join(key.columns),), ("if they are",))
            return
        if not key.is_proved:
            days = [one.name for one in (self._sample.trading_day, self._sample.day) if one]
            joined = " and ".join(name for name in key.columns if name != number.name)
            what = f"so bill.id joins {joined} to it" if joined else "and no day can be joined to it"
            kept = " + ".join(name for name in key.columns if name not in days)
            self._check(message("numbers_restart", name=number.name, what=what, kept=kept))
        self._result.add("[bill]", "id", key.columns if len(key.columns) > 1 else number.name, key.reason)
        if number.may_be("receiptNumber"):
            self._result.add("[bill]", "receiptNumber", number.name)

    def _statuses(self) -> None:
        column_doubts.add_statuses_in_advance(self._sample, self._result, self._answers)
        others = [column for column in self._sheet.columns.values() if self._sample.has_other_values(column)]
        listed = {column.name: self._ways_of_paying(column) for column in others if column.filled}
        for number, (name, all_meanings) in enumerate((listed | self._sample.statuses).items(), start=1):
            # Of many values, such as numbers of bills, only those are listed that were explained.
            explained = {value: all_meanings[value] for value in all_meanings if self._answers.about(name, value)}
            meanings = explained if name in listed and len(all_meanings) > MANY_VALUES else all_meanings
            unknown = [value for value, meaning in meanings.items() if not meaning]
            for value in [one for one, meaning in headings.statuses_of(name, unknown).items() if meaning == VOID]:
                unknown.remove(value)
                text = (
                    f"{name} has {value} for negative amounts. Does it return what an earlier bill sold, or did none?"
                )
                answer, examples = self._sample.answer_name(name, value), column_doubts.EXPLAINED[2:0:-1]
                self._result.ask("bill.void", text, (REFUND, VOID), examples, answer)
            values = ", ".join(value or "an empty cell" for value in unknown)
            first = self._sample.answer_name(name, unknown[0]) if unknown else ""
            note = ""
            if any(headings.is_one_of(one, "refunded") for one in (name, *unknown)):
                note = " A sale that was refunded is a sale if a row of its own returns the amount, otherwise void."
            if unknown and len(unknown) == len(meanings):
                text = message("unknown_values", name=name, values=values, note=note)
                text += " Otherwise answer for each of them." if len(unknown) > 1 else ""
                self._result.ask(f"status.{name}", text, MEANINGS, column_doubts.EXPLAINED, first)
                continue
            if unknown:
                self._check(message("unknown_words", name=name, values=values, first=first, note=note))
            self._result.add(f"[[status]]#{number}", "column", name)
            if (whole := self._answers.get(f"status.{name}", SALE)) != SALE:
                meanings = {"": SALE, **{value: meaning for value, meaning in meanings.items() if meaning != whole}}
                self._result.add(f"[[status]]#{number}", "others", whole, "as answered, if the cell has a value")
            elif name in listed:
                is_way = self._sheet.columns[name].role == "method"
                comment = "a value that is not listed is a sale, "
                comment += "if it is a known way of paying" if is_way else "unless its words say otherwise"
                self._result.add(f"[[status]]#{number}", "others", "payment" if is_way else SALE, comment)
            section = f"[status.values]#{number}"
            for value, meaning in meanings.items():
                if meaning:
                    self._result.add(section, quoted(value), meaning)
                else:
                    self._result.comment(section, f'{quoted(value)} = "..."  # "sale", "void", "refund" or "skip"?')
        column_doubts.ask_about_states(self._sample, self._result)

    def _ways_of_paying(self, column: SampleColumn) -> dict[str, str | None]:
        """Return what the values of a column of words say. A way of paying that is not known may be no payment."""
        found: dict[str, str | None] = dict.fromkeys(column.distinct, SALE)
        if column.role == "method":
            # Those with words of a void, a refund or a gift are asked about one by one.
            unknown = [
                value for value in found if not (headings.names_payment(value) or headings.may_be_no_sale(value))
            ]
            found |= {value: self._answers.about(column.name, value) for value in unknown}
            if len(column.filled) < len(column.values):
                found[""] = SALE
        return found

    # --- amounts -----------------------------------------------------------------------------

    def _total_entry(self) -> None:
        """Propose the total of a bill, with the evidence for it, or ask for it."""
        bills = self._amounts.sales
        finding = self._answered_total(bills) or self._amounts.find_total(bills)
        self._result.doubted.update(name for doubt in finding.doubts for name in doubt.columns)
        self._result.used |= self._result.doubted
        is_proved = UNIT in self._answers and self._amounts.find_total(bills).is_proved
        column_doubts.refuse_other_unit(self._sheet, self._answers, is_proved=is_proved)
        if UNIT not in self._answers and (column := column_doubts.column_in_doubtful_unit(self._sheet)):
            number = next(number for row in range(len(self._sheet.rows)) if (number := column.number(row)))
            examples = [f"{number} is {number * factor:,.2f}" for factor in set_answers.UNITS.values()]
            text = f"Is {column.name} in the currency's unit, or in cents? Nothing shows it."
            self._result.ask(UNIT, text, tuple(set_answers.UNITS), examples)
            return
        chosen, text = finding.chosen, finding.question
        if chosen and chosen.cell is not None:
            self._total = chosen
            for line in finding.evidence:
                self._result.comment("[bill]", line)
            self._result.add("[bill]", "amounts.net", chosen.cell)
            self._reject_unseen(chosen, bills)
            self._note_negative(chosen)
            return
        if chosen and not text:
            text = "The export has a row per payment, but no column with the total of a bill. Export the total too."
        choices = [total for total in finding.choices if total.cell is not None]
        choices = [total for total in choices if not self._refusal(total.name, total, finding, bills)]
        text = f"What did the customer pay, tip included? {text}"
        self._result.ask(NET, text, [total.name for total in choices], self._examples(choices, bills))
        for total in choices:
            self._result.comment("[bill]", f"amounts.net = {toml(total.cell)}  # Choose one and remove the first #")

    def _note_negative(self, total: SampleSeries) -> None:
        """Note that bills with a negative total are refunds, unless a status says so."""
        negative = [bill for bill, value in zip(self._sample.bills, total.values, strict=True) if (value or 0) < 0]
        if negative := [bill for bill in negative if self._sample.status_of(bill) == SALE]:
            line = self._sheet.rows[negative[0][0]].line
            self._check(message("negative_bills", name=total.name, line=line))

    def _examples(self, totals: Sequence[SampleSeries], bills: Sequence[int]) -> list[str]:
        """Return what each total gives on a bill on which they differ, and on all bills of the sample."""
        place = max(bills, key=lambda bill: len({total.values[bill] for total in totals}), default=None)
        if place is None:
            return []
        line = self._sheet.rows[self._sample.bills[place][0]].line
        sums = [sum(total.values[bill] or 0 for bill in bills) for total in totals]
        return [
            f"{_money(total.values[place])} on line {line}, {_money(amount)} in all"
            for total, amount in zip(totals, sums, strict=True)
        ]

    def _reject_unseen(self, total: SampleSeries, bills: Sequence[int]) -> None:
        """Propose to reject bills with amounts of which the sample has no example."""
        roles = ["tip", "refunded"] if total.role == "paid" else ["tip", "refunded", *AMOUNT_ENTRIES, "fee"]
        unseen = [
            column.name
            for column in self._sheet.columns.values()
            if (is_void := headings.heading_status(column.name) in (VOID, REFUND) and column.has_amounts)
            or (column.heading_role in roles or self._amounts.may_be_money(column))
            if column.name not in total.columns and (values := self._amounts.of(column, "").values)
            if not any(values if is_void else map(values.__getitem__, bills))
        ]
        for number, name in enumerate(unseen, start=1):
            reason = f"the sample does not show whether {total.name} includes it"
            self._result.add(f"[[reject]]#{number}", "column", name)
            self._result.add(f"[[reject]]#{number}", "reason", reason)
        if unseen:
            self._check(message("unseen_amounts", name=total.name, unseen=", ".join(unseen)))

    def _answered_total(self, bills: Sequence[int]) -> SampleFinding | None:
        """Return the total that was named on the command line, unless the arithmetic shows another one."""
        answer = self._answers.get(NET)
        if answer is None:
            return None
        finding, total = self._amounts.find_total(bills), self._amounts.expression(answer)
        if refusal := self._refusal(answer, total, finding, bills):
            raise ImportFailed(refusal)
        doubtful = [one for one in finding.doubts if not set(one.columns) & set(total.columns)]
        others = [one.name.removeprefix("- ") for one in (*self._amounts.other_parts(total, bills), *doubtful)]
        if others:
            self._check(f"whether {answer} takes {', '.join(others)} into account. Nothing in the sample shows it.")
        return SampleFinding(chosen=total, evidence=["as answered"], doubts=finding.doubts)

    def _refusal(self, answer: str, total: SampleSeries, finding: SampleFinding, bills: Sequence[int]) -> str | None:
        """Return why an answer cannot be what the customer paid. Such an answer is not offered either."""
        if finding.is_impossible:
            return f"--set {NET}: {finding.question}"
        shown = finding.shown or total
        clear = [
            bill for bill in bills if all(one.values[bill] in (None, 0, shown.values[bill]) for one in finding.doubts)
        ]
        others = bill_totals.differing(shown, total, clear)
        if finding.is_proved and len(others) * 20 > (0 if finding.is_exact else len(bills)):
            paid, evidence = _money(shown.values[others[0]]), "; ".join(finding.evidence)
            values = self._answered_values(answer, total, others[0])
            return message("answer_contradicted", paid=paid, evidence=evidence, **values)
        fees = ", ".join(one.name for one in self._amounts.parts() if one.role == "fee" and any(one.values))
        if fees and total.role == "payout":
            return f"--set {NET}: {answer} is what was left after {fees}. The customer paid more."
        totals = [one.values for one in self._amounts.candidates() if one.role in ("paid", "total")]
        empty = [bill for bill in bills if not total.values[bill] and any(one[bill] for one in totals)]
        if len(empty) * 10 > len(bills):
            values = self._answered_values(answer, total, empty[0])
            return message("answer_empty", count=len(empty), **values)
        if (negative := self._amounts.first_negative(total, bills)) is not None:
            return message("answer_negative", **self._answered_values(answer, total, negative))
        return None

    def _answered_values(self, answer: str, total: SampleSeries, bill: int) -> dict[str, object]:
        line = self._sheet.rows[self._sample.bills[bill][0]].line
        return {"answer": answer, "answered": _money(total.values[bill]), "line": line}

    def _part_entries(self) -> None:
        net = self._total.columns if self._total else ()
        subtotals = [column for column in self._sheet.with_role("gross") if column.name not in net]
        parts = bill_totals.without_parts_of_sums(self._amounts.parts(), self._amounts.sales)
        for column in subtotals[:1]:
            # Amounts that may be of a bill or of its payments are as the total, if it is known.
            is_of_rows = self._amounts.levels[column.name] == EITHER and self._total and self._total.level == ROW
            parts.append(self._amounts.of(column, "gross", ROW if is_of_rows else ""))
        for role, entry in AMOUNT_ENTRIES.items():
            found = [part for part in parts if part.role == role and self._amounts.may_be_part(part, self._total)]
            if answer := self._answers.get(f"bill.{entry}"):
                found = [self._amounts.of(self._sheet.columns[name], role) for name in answer.split(" + ")]
            # The same amounts under two headings count once, unless the total has both.
            first = {part.values: part for part in reversed(found)}
            sums = self._amounts.search.parts_of_sums
            summed = [part for part in found if part.name in sums or not {*net}.isdisjoint(part.columns)]
            found = summed or list(first.values())[::-1]
            if len({part.level for part in found}) != 1:
                continue
            whole = found[0].plus(*found[1:])
            is_negative = role == "discount" and any((value or 0) < 0 for one in found for value in one.values)
            if not self._amounts.may_be_part(whole, self._total):
                text = message("part_too_large", entry=entry, name=whole.name)
                if answer:
                    raise ImportFailed(f"--set {text}")
                self._check(text)
            elif whole.cell is not None:
                self._result.add("[bill]", entry, absolute(whole.cell) if is_negative else whole.cell)

    # --- texts, lines and payments -------------------------------------------------------------

    def _texts(self) -> None:
        for role, entry in TEXT_ENTRIES.items():
            column = next((one for one in self._sheet.with_role(role) if one.filled), None)
            if column and self._sample.is_of_bill(column):
                self._result.add("[bill]", entry, column.name)
        self._channel()
        column_doubts.ask_about_currencies(self._sample, self._result, self._answers)
        has_total = bool(self._total and self._total.level != LINE)
        column_doubts.ask_about_words(self._sample, self._result, self._answers, has_total=has_total)
        column_doubts.propose_voids(self._sample, self._result)
        column_doubts.ask_about_references(self._sample, self._result)

    def _channel(self) -> None:
        for column in self._sheet.with_role("channel", "type"):
            codes = {value: headings.channel_of(value) for value in column.distinct}
            known = {value: code for value, code in codes.items() if code}
            unknown = [value for value, code in codes.items() if not code]
            is_channel = column.role == "channel" or not unknown
            is_free = column.name not in self._result.used and self._sample.is_of_bill(column)
            if is_free and is_channel and 0 < len(codes) <= MANY_VALUES:
                if unknown:
                    self._check(f"which sales channels these values of {column.name} stand for: {', '.join(unknown)}.")
                cell = {"column": column.name, "values": known} if known else column.name
                self._result.add("[bill]", "channel.id", cell)
                return

    def _line_entries(self) -> None:
        sheet = self._sheet if self._sample.is_flat else self._lines
        if sheet is None or (sheet is self._lines and not self._key_entry("[line]", sheet, "line")):
            return
        is_own = sheet is self._sheet
        for method in sheet.with_role("method") if is_own else ():
            if (row := self._sample.first_repeated_line(method)) is not None:
                names = {"name": sheet.file.sheet.name, "method": method.name, "line": sheet.rows[row].line}
                raise ImportFailed(message("joined_rows", **names))
        for role, entry in LINE_ENTRIES.items():
            columns = [one.name for one in sheet.with_role(role) if not is_own or one.name not in self._result.used]
            for name in columns[:1]:
                cell = self._amounts.cell(sheet, name) if role in ("qty", "unitPrice") else name
                self._result.add("[line]", entry, cell)
        if total := self._line_total(sheet):
            self._result.add("[line]", "total", self._amounts.cell(sheet, total))
            self._charge_entries(sheet, self._amounts.cell(sheet, total))
        elif self._total and self._total.level == LINE:
            self._charge_entries(sheet, self._total.cell["sum"])
        cancelled = self._sample.cancelled
        if cancelled and not cancelled.unknown:
            self._result.add("[line]", "cancelled", {"column": cancelled.column.name, "values": cancelled.values})

    def _charge_entries(self, sheet: SheetSample, amount: Any) -> None:
        """Propose which lines are tips or taxes, by the names of their items."""
        for column in sheet.with_role("item")[:1]:
            for role in ("tip", "tax"):
                found = [one for one in column.distinct if headings.charge_of(one) == role]
                found = [one for one in found if role == "tax" or f"status.{one}" not in self._answers]
                if found and not self._result.has("[bill]", AMOUNT_ENTRIES[role]):
                    self._result.allowed += found
                    share = {"column": column.name, "values": dict.fromkeys(found, "1"), "others": "0"}
                    self._result.add("[bill]", AMOUNT_ENTRIES[role], {"sum": {"multiply": [amount, share]}})
                    if role == "tip":
                        cell = {"column": column.name, "values": dict.fromkeys(found, True), "others": False}
                        self._result.add("[line]", "tip", cell, "other items are no tips")

    def _key_entry(self, section: str, sheet: SheetSample, what: str) -> bool:
        """Propose how the rows of another file are joined to their bills; return False if that is not known."""
        own, foreign = self._amounts.shared_key(sheet)
        if not own:
            columns = [one.name for one in sheet.columns.values() if one.role in (None, "id") and one.is_like_an_id]
            text = (
                f"No column of {sheet.file.sheet.name} says which bill a {what} belongs to. Which one has its number?"
            )
            if self._sample.number:
                self._result.ask(f"{what}.key", text, columns[:4])
            return False
        self._result.add(section, "key", foreign if len(foreign) > 1 else foreign[0])
        key = self._sample.key
        if key and list(key.columns) != own and not self._result.has("[bill]", "key"):
            self._result.add("[bill]", "key", own if len(own) > 1 else own[0], "what the other file has")
        return True

    def _line_total(self, sheet: SheetSample) -> str | None:
        """Return the column with the total of a line: the one that the bill's total sums, or the first one."""
        total, is_own = self._total, sheet is self._sheet
        levels = (LINE,) if total and total.level == BILL else (LINE, EITHER)
        of_lines = [name for name in sheet.columns if not is_own or self._amounts.levels[name] in levels]
        summed = total.columns if total and total.level in (LINE, bill_totals.MIXED) and not total.is_product else ()
        others = [one.name for one in sheet.with_role("amount", "total", "gross", "net", "paid")]
        others = [name for name in others if not (is_own and total and name in total.columns)]
        return next((name for name in (*summed[:1], *others) if name in of_lines), None)

    def _payment_entries(self) -> None:
        if self._payments and not self._key_entry("[[payment]]#1", self._payments, "payment"):
            return
        for number, payment in enumerate(self._found_payments(), start=1):
            for entry, value in payment.items():
                self._result.add(f"[[payment]]#{number}", entry, value)

    def _found_payments(self) -> list[dict[str, Any]]:
        """Return the entries of each payment: of a file, of each way of paying, or of the column with the method."""
        sheet, total = self._sheet, self._total
        if other := self._payments:
            amounts = {"amount": other.with_role(*PAYMENT_AMOUNTS), "change": other.with_role("change")}
            cells = {entry: self._amounts.cell(other, columns[0].name) for entry, columns in amounts.items() if columns}
            methods = other.with_role("method")
            cells |= column_doubts.payment_states(other, self._result, self._answers)
            return [({"name": methods[0].name} if methods else {}) | cells]
        ways = [column.name for column in sheet.with_role("wayOfPaying") if column.filled]
        sums = [one for one in self._amounts.payments() if self._equals_total(one)]
        given = next((one for one in sums if len(one.columns) > 1), None)
        change = next((column.name for column in sheet.with_role("change")), None) if given else None
        if ways and sums:
            found = [{"name": {"constant": name}, "amount": self._amounts.cell(sheet, name)} for name in ways]
            return [found[0] | ({"change": self._amounts.cell(sheet, change)} if change else {}), *found[1:]]
        if ways:
            names = ", ".join(ways)
            self._check(f"which of these are payments: {names}. They do not add up to the total, so they are not used.")
        method = next((column for column in sheet.with_role("method") if column.filled), None)
        if method is None:
            return []
        if not self._sample.is_of_bill(method):
            varying = [one for one in sheet.with_role(*PAYMENT_AMOUNTS) if not self._sample.is_of_bill(one)]
            if total and total.level == ROW:
                return [{"name": method.name, "amount": total.cell["sum"]}]
            if varying and not self._sample.is_flat:
                columns = zip(("amount", "change"), [varying[0], *sheet.with_role("change")], strict=False)
                return [{"name": method.name} | {key: self._amounts.cell(sheet, one.name) for key, one in columns}]
            self._check(f"the payments. {method.name} differs between the rows of a bill, so it is not used.")
        elif total is None:
            self._check(f"the payments. {method.name} is mapped once the bill's total is known.")
        elif given and change:
            received = self._amounts.cell(sheet, given.columns[0])
            return [{"name": method.name, "amount": received, "change": self._amounts.cell(sheet, change)}]
        else:
            return [{"name": method.name, "amount": total.cell}]
        return []

    def _equals_total(self, payments: SampleSeries) -> bool:
        if self._total is None:
            return False
        pairs = [(self._total.values[bill], payments.values[bill]) for bill in self._amounts.sales]
        equal = [one is not None and other is not None and abs(one - other) <= SCALE // 50 for one, other in pairs]
        return sum(equal) * 10 >= len(pairs) * 9

    def _missing(self) -> None:
        missing = self._result.missing
        if "[line]" not in self._result.sections:
            missing.append("the lines. If they are in another file, pass it with --lines.")
        if not any(name.startswith("[[payment]]") for name in self._result.sections):
            missing.append("the payments. If they are in another file, pass it with --payments.")
        if not self._sample.has_status and not self._result.has("[bill]", "voidReason"):
            missing.append("whether a bill was voided. A bill that is voided after the import will stay completed.")


def _money(value: int | None) -> str:
    return "empty" if value is None else f"{value / SCALE:,.2f}"
