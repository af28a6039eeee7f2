"""Proposes a mapping for CSV files, based on their column names and values.

If the values do not settle a question, a comment in the proposal asks the operator to decide.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct, field

from counterfoil.importing.column_profiles import (
    SheetSample,
    guess_date_order,
    guess_number_format,
    sample_of,
)
from counterfoil.importing.fields import BILL_FIELDS, NUMBER
from counterfoil.importing.headings import (
    BILL_HEADINGS,
    LINE_HEADINGS,
    PAYMENT_HEADINGS,
    WAYS_OF_PAYING,
    channel_of,
    meaning,
    plain,
)
from counterfoil.text import UNSAFE, printable

_ALL_WORDS = frozenset(
    word for table in (BILL_HEADINGS, LINE_HEADINGS, PAYMENT_HEADINGS) for words in table.values() for word in words
)
NOON = "12:00"
LINES, PAYMENTS = "--lines", "--payments"


class Proposal(Struct):
    """A proposed mapping, with the questions left to the operator and the data that the export lacks."""

    sections: dict[str, list[str]] = field(default_factory=dict)
    undecided: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    bills: SheetSample | None = None
    lines: SheetSample | None = None
    payments: SheetSample | None = None

    def add(self, section: str, entry: str, value: str, comment: str = "") -> None:
        note = f"  # {comment}" if comment else ""
        self.sections.setdefault(section, []).append(f"{entry} = {value}{note}")

    def comment(self, section: str, text: str) -> None:
        self.sections.setdefault(section, []).append(f"# {text}")

    def text(self) -> str:
        """Return the mapping as TOML."""
        head = ["# Proposed by `counterfoil import --infer`. Check it, then use it with --mapping."]
        head += [f"# To decide: {printable(one)}" for one in self.undecided]
        head += [f"# Missing: {printable(one)}" for one in self.missing]
        if self.unused:
            head.append(f"# Columns that are not used: {printable(', '.join(self.unused))}")
        parts = ["\n".join(head)]
        for section, lines in self.sections.items():
            name = section.partition("#")[0]
            parts.append("\n".join([name, *lines]))
        return "\n\n".join(parts) + "\n"


def looks_like_heading(cells: Sequence[str]) -> bool:
    return sum(plain(cell) in _ALL_WORDS for cell in cells) >= 2


def propose(bills: Path, lines: Path | None, payments: Path | None, shop: str | None) -> Proposal:
    """Return a proposal for a file of bills and, if given, the files with their lines and payments."""
    found = _Inference(
        sample_of(bills, looks_like_heading),
        sample_of(lines, looks_like_heading) if lines else None,
        sample_of(payments, looks_like_heading) if payments else None,
        shop,
    )
    return found.proposal()


class _Inference:
    """Infers a mapping from the columns of one export."""

    def __init__(
        self, bills: SheetSample, lines: SheetSample | None, payments: SheetSample | None, shop: str | None
    ) -> None:
        self._bills = bills
        self._lines = lines
        self._payments = payments
        self._shop = shop
        self._used: set[str] = set()
        self._result = Proposal(bills=bills, lines=lines, payments=payments)
        sheets = [sheet for sheet in (bills, lines, payments) if sheet]
        self._numbers, is_sure = guess_number_format([one for sheet in sheets for one in sheet.columns.values()])
        self._are_numbers_sure = is_sure
        self._id = self._find(bills, BILL_HEADINGS["id"], lambda _: True)
        self._is_flat = self._has_lines_in_bills()

    def proposal(self) -> Proposal:
        self._file()
        self._number_format()
        dates = self._dates()
        self._shops()
        self._bill_id()
        self._result.sections.setdefault("[bill]", []).extend(dates)
        line_total = self._line_fields()
        self._bill_fields(line_total)
        self._status()
        self._payment_fields()
        self._missing()
        return self._result

    # --- finding columns -------------------------------------------------------

    def _find(self, sheet: SheetSample, words: Sequence[str], fits: Callable[[str], bool]) -> str | None:
        """Return a column that fits and whose heading is one of the words. Earlier words take precedence.

        Columns of the bills file that are already used are left out.
        """
        for word in words:
            for name in sheet.columns:
                if plain(name) == word and fits(name) and (sheet is not self._bills or name not in self._used):
                    return name
        return None

    def _is_number(self, sheet: SheetSample) -> Callable[[str], bool]:
        return lambda name: sheet.columns[name].is_number(self._numbers)

    def _is_same_on_bill(self, name: str) -> bool:
        """Return whether a column of the bills file belongs to the bill and not to a line."""
        if not self._is_flat or self._id is None:
            return True
        return self._bills.is_same_within(name, self._id)

    def _has_lines_in_bills(self) -> bool:
        if self._lines is not None or self._id is None:
            return False
        name = self._find(self._bills, LINE_HEADINGS["name"], lambda _: True)
        qty = self._find(self._bills, LINE_HEADINGS["qty"], self._is_number(self._bills))
        return name is not None and (qty is not None or self._bills.repeats(self._id))

    # --- the parts of the mapping ------------------------------------------------

    def _file(self) -> None:
        sheet = self._bills
        comment = "" if sheet.is_encoding_sure else "guessed; check that the names below are readable"
        if comment:
            self._undecided(f"the encoding. {sheet.file.encoding} was guessed.")
        self._result.add("[file]", "encoding", _quoted(sheet.file.encoding), comment)
        self._result.add("[file]", "delimiter", _quoted(sheet.file.delimiter))
        if sheet.heading_line > 1:
            self._result.add("[file]", "headingLine", str(sheet.heading_line))
        if sheet.problems:
            first = sheet.problems[0]
            self._undecided(
                f"what to do about unreadable rows ({len(sheet.problems):,}). Line {first.line} {first.detail}."
            )

    def _number_format(self) -> None:
        comment = "" if self._are_numbers_sure else "assumed; the numbers in the export do not prove it"
        self._result.add("[numbers]", "decimal", _quoted(self._numbers.decimal), comment)
        self._result.add("[numbers]", "thousands", _quoted(self._numbers.thousands))

    def _dates(self) -> list[str]:
        """Propose how dates are read; return the entries for the [bill] section."""
        sheet = self._bills
        day = self._find(sheet, BILL_HEADINGS["closedAt"], lambda name: sheet.columns[name].is_date())
        trading = self._find(sheet, BILL_HEADINGS["tradingDay"], lambda name: sheet.columns[name].is_date())
        entries = []
        dated = [name for name in (day, trading) if name]
        if dated:
            self._date_order([value for name in dated for value in sheet.columns[name].filled])
        if day:
            self._used.add(day)
            columns = [day]
            if not sheet.columns[day].has_times():
                clock = self._find(sheet, BILL_HEADINGS["time"], lambda name: sheet.columns[name].has_times())
                if clock:
                    self._used.add(clock)
                    columns.append(clock)
            entries.append(f"closedAt = {_quoted(columns[0]) if len(columns) == 1 else _list(columns)}")
            if len(columns) == 1 and not sheet.columns[day].has_times():
                self._undecided("the time of day. The dates have no time, so every bill gets 12:00.")
                self._result.add("[dates]", "defaultTime", _quoted(NOON), "assumed; the export has no times")
        if trading:
            self._used.add(trading)
            entries.append(f"tradingDay = {_quoted(trading)}")
        if day:
            self._undecided("the time zone. Times without an offset are read as the shop's local time.")
        self._result.comment("[dates]", 'timezone = "UTC"  # only if the times are not the shop\'s local time')
        return entries

    def _date_order(self, values: Sequence[str]) -> None:
        order = guess_date_order(values)
        if order:
            self._result.add("[dates]", "order", _quoted(order))
            return
        example = next(iter(values), "")
        self._undecided(f"whether the day or the month comes first, for example in {example}. Set dates.order.")
        self._result.comment(
            "[dates]", 'order = "dmy"  # or "mdy"; the dates do not show which. Choose one and remove the first #'
        )

    def _shops(self) -> None:
        sheet = self._bills
        column = None if self._shop else self._find(sheet, BILL_HEADINGS["shopId"], self._is_same_on_bill)
        names = sheet.columns[column].distinct() if column else []
        if column and names:
            self._used.add(column)
            ids = {name: _slug(name, number) for number, name in enumerate(names, start=1)}
            for number, (name, shop) in enumerate(ids.items(), start=1):
                section = f"[[shop]]#{number}"
                self._result.add(section, "id", _quoted(shop))
                self._result.add(section, "name", _quoted(name))
                self._result.add(section, "timezone", _quoted("Asia/Bangkok"), "assumed")
                self._result.comment(section, 'closingTime = "02:00"  # if the business day ends after midnight')
            for name, shop in ids.items():
                self._result.add("[shopIds]", _quoted(name), _quoted(shop))
            self._result.add("[bill]", "shopId", _quoted(column))
            return
        if not self._shop:
            self._undecided("the shop. The export does not name it. Choose an ID in [shop].")
        self._result.add("[shop]", "id", _quoted(self._shop or "my-shop"))
        self._result.add("[shop]", "name", _quoted(self._shop or "My shop"))
        self._result.add("[shop]", "timezone", _quoted("Asia/Bangkok"), "assumed")
        self._result.comment("[shop]", 'closingTime = "02:00"  # if the business day ends after midnight')

    def _bill_id(self) -> None:
        if self._id is None:
            self._result.missing.append(
                "the bill ID. Set bill.id to a column, or to several columns that are unique together."
            )
            self._result.comment("[bill]", 'id = "..."  # which column identifies a bill?')
            return
        self._used.add(self._id)
        dated = [name for name in self._bills.columns if name in self._used and self._bills.columns[name].is_date()]
        if self._is_flat and not all(self._bills.is_same_within(name, self._id) for name in dated):
            self._undecided(
                f"whether {self._id} is unique: it repeats on several dates. If not, add a column: id = [..., ...]."
            )
        elif not self._is_flat and self._bills.repeats(self._id):
            self._undecided(
                f"whether {self._id} is unique: it repeats on several rows. If not, add a column: id = [..., ...]."
            )
        self._result.add("[bill]", "id", _quoted(self._id))

    def _line_fields(self) -> str | None:
        """Propose the mapping of bill lines. Return the column with their totals if it is in the bills file."""
        sheet = self._bills if self._is_flat else self._lines
        if sheet is None:
            return None
        chosen: dict[str, str] = {}
        if not self._is_flat:
            key = self._find(sheet, BILL_HEADINGS["id"], lambda _: True)
            if key is None:
                self._result.missing.append("the bill ID in the lines file. Set line.key.")
            else:
                chosen["key"] = key
        for name, words in LINE_HEADINGS.items():
            number = name in ("qty", "unitPrice", "total")
            fits = self._is_number(sheet) if number else (lambda _: True)
            found = self._varying(sheet, words, fits) if name == "total" and self._is_flat else None
            column = found or self._find(sheet, words, fits)
            if column and column not in chosen.values():
                chosen[name] = column
                if self._is_flat:
                    self._used.add(column)
        for name, column in chosen.items():
            self._result.add("[line]", name, _quoted(column))
        return chosen.get("total") if self._is_flat else None

    def _varying(self, sheet: SheetSample, words: Sequence[str], fits: Callable[[str], bool]) -> str | None:
        """Return a column whose value differs between the lines of a bill, as a line's total does."""
        return self._find(sheet, words, lambda name: fits(name) and not self._is_same_on_bill(name))

    def _bill_fields(self, line_total: str | None) -> None:
        sheet = self._bills
        done = {"id", "closedAt", "tradingDay", "shopId", "void"}
        for name, words in BILL_HEADINGS.items():
            if name in done or name not in BILL_FIELDS:
                continue
            number = self._is_number(sheet)
            is_amount = BILL_FIELDS[name] == NUMBER
            column = self._find(
                sheet,
                words,
                lambda one, n=number, a=is_amount: self._is_same_on_bill(one) and (not a or n(one)),  # type: ignore[misc]
            )
            if column:
                self._used.add(column)
                self._result.add("[bill]", name, self._bill_value(name, column))
            elif name == "amounts.net" and line_total:
                self._undecided("the bill's total. The export has no total, so it is the sum of the lines.")
                self._result.add("[bill]", name, f"{{ sum = {_quoted(line_total)} }}", "the sum of the lines")

    def _bill_value(self, name: str, column: str) -> str:
        if name != "channel.id":
            return _quoted(column)
        codes = {value: channel_of(value) for value in self._bills.columns[column].distinct()}
        known = {value: code for value, code in codes.items() if code}
        unknown = [value for value, code in codes.items() if not code]
        if unknown:
            self._undecided(f"which sales channels these values of {column} stand for: {', '.join(unknown)}.")
        return f"{{ column = {_quoted(column)}, values = {_inline(known)} }}" if known else _quoted(column)

    def _status(self) -> None:
        """Propose which values of a status or type column mean a void, a refund, or an open bill."""
        for heading in ("void", "type"):
            column = self._find(self._bills, BILL_HEADINGS[heading], self._is_same_on_bill)
            values = self._bills.columns[column].distinct() if column else []
            meanings = {value: meaning(value) for value in values}
            if not column or not any(meanings.values()):
                continue
            self._used.add(column)
            by_meaning = {word: [v for v, m in meanings.items() if m == word] for word in ("refund", "open")}
            if by_meaning["refund"]:
                self._rule("[refund]", column, by_meaning["refund"])
            if by_meaning["open"]:
                self._rule("[skip]", column, by_meaning["open"])
            unknown = [value for value, word in meanings.items() if word is None]
            if unknown:
                self._undecided(
                    f"what these values of {column} mean: {', '.join(unknown)}. Such bills are read as completed."
                )
            if heading == "void" or any(word == "void" for word in meanings.values()):
                flags = {value: word == "void" for value, word in meanings.items() if word != "open"}
                text = ", ".join(f"{_quoted(value)} = {str(is_void).lower()}" for value, is_void in flags.items())
                self._result.add("[bill]", "void", f"{{ column = {_quoted(column)}, values = {{ {text} }} }}")

    def _rule(self, section: str, column: str, values: Sequence[str]) -> None:
        if section not in self._result.sections:
            self._result.add(section, "column", _quoted(column))
            self._result.add(section, "values", _list(values))

    def _payment_fields(self) -> None:
        if self._payments:
            self._payments_file(self._payments)
            return
        sheet = self._bills
        kind = self._find(sheet, PAYMENT_HEADINGS["name"], lambda name: not self._is_number(sheet)(name))
        net = next((line for line in self._result.sections.get("[bill]", []) if line.startswith("amounts.net")), None)
        if kind and net and "sum" not in net:
            self._used.add(kind)
            self._result.add("[[payment]]#1", "name", _quoted(kind))
            self._result.add(
                "[[payment]]#1", "amount", net.partition(" = ")[2], "the export has one payment method per bill"
            )
            change = self._find(sheet, PAYMENT_HEADINGS["change"], self._is_number(sheet))
            if change:
                self._undecided(
                    f"whether payments include the change in {change}. They are read as amounts without change."
                )
            return
        ways = [name for name in sheet.columns if plain(name) in WAYS_OF_PAYING and self._is_number(sheet)(name)]
        for number, name in enumerate(ways, start=1):
            self._used.add(name)
            self._result.add(f"[[payment]]#{number}", "name", f"{{ constant = {_quoted(name)} }}")
            self._result.add(f"[[payment]]#{number}", "amount", _quoted(name))

    def _payments_file(self, sheet: SheetSample) -> None:
        key = self._find(sheet, BILL_HEADINGS["id"], lambda _: True)
        if key is None:
            self._result.missing.append("the bill ID in the payments file. Set payment.key.")
            return
        self._result.add("[[payment]]#1", "key", _quoted(key))
        for name, words in PAYMENT_HEADINGS.items():
            fits = (lambda _: True) if name == "name" else self._is_number(sheet)
            if column := self._find(sheet, words, fits):
                self._result.add("[[payment]]#1", name, _quoted(column))

    def _missing(self) -> None:
        bill = [line.partition(" = ")[0] for line in self._result.sections.get("[bill]", [])]
        missing = self._result.missing
        if "closedAt" not in bill:
            missing.append("the time of the bills. Without it, bills are not listed by day. Set bill.closedAt.")
        if "amounts.net" not in bill:
            missing.append("the total of the bills. Set bill.amounts.net.")
        if "[line]" not in self._result.sections:
            missing.append(f"the lines. If they are in another file, pass it with {LINES}.")
        if not any(name.startswith("[[payment]]") for name in self._result.sections):
            missing.append(f"the payments. If they are in another file, pass it with {PAYMENTS}.")
        if "void" not in bill:
            missing.append("whether a bill was voided. A bill that is voided after the import will stay completed.")
        self._result.unused = [name for name in self._bills.columns if name not in self._used]

    def _undecided(self, text: str) -> None:
        self._result.undecided.append(text)


def _quoted(text: str) -> str:
    """Return the text as a TOML string, with control characters escaped. TOML has no escapes for surrogates."""
    quoted = json.dumps(text, ensure_ascii=False)
    return UNSAFE.sub(lambda found: found[0] if "\ud800" <= found[0] <= "\udfff" else f"\\U{ord(found[0]):08x}", quoted)


def _list(values: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, values))}]"


def _inline(values: dict[str, str]) -> str:
    return "{ " + ", ".join(f"{_quoted(key)} = {_quoted(value)}" for key, value in values.items()) + " }"


def _slug(name: str, number: int) -> str:
    """Return an ID made from the name of a shop."""
    letters = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name.casefold())
    slug = "-".join(part for part in letters.split("-") if part)
    return slug or f"shop-{number}"
