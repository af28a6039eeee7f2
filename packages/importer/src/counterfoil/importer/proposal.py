"""Returns the form of an export: the questions that are left, each option with its money, or what would be loaded."""

import re
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.importer.accepted.accepted import mapping_text
from counterfoil.importer.bills.days import named_days
from counterfoil.importer.columns import SCALE, ExportTable, TableColumn
from counterfoil.importer.form import (
    FIRST_ROWS,
    MOST_OPTIONS,
    MOST_QUESTIONS,
    AnswerOption,
    ColumnView,
    DayTotals,
    Form,
    FormFiles,
    KnownShop,
    LeftOutBills,
    Question,
    RefusedAnswer,
    Standing,
    Totals,
    joined,
    sentence,
)
from counterfoil.importer.interview import Doubt, NeedsOtherReport, Refuted
from counterfoil.importer.kept import KeptReadings
from counterfoil.importer.members.members import ROWS, members_form
from counterfoil.importer.other_roles import OtherRoles
from counterfoil.importer.ranks import REFUND, SALE, VOID
from counterfoil.importer.shops.shop_questions import assumptions
from counterfoil.importer.shops.shop_zones import DEFAULT_ZONE
from counterfoil.importer.shops.shops import ExportShop
from counterfoil.importer.solver import ExportReading, Left, Record
from counterfoil.importer.states.states import EACH
from counterfoil.importer.sums.series import AmountSeries
from counterfoil.importing.formats import open_export
from counterfoil.importing.mapping import KnownBase
from counterfoil.importing.results import ImportFailed, RejectedRow
from counterfoil.importing.sheets import CsvFile
from counterfoil.importing.tables import ImportOptions
from counterfoil.importing.values import decimal_places, read_zone
from counterfoil.model.calendar import trading_day
from counterfoil.model.text import counted, display_width

MOST_ROUNDS = 20
MOST_VALUES, MOST_NUMBERS = 6, 3
MOST_SAME_NUMBER = 2
_SHOP, _STATE = "shop", "state"
# A column with another heading may be that of the time, because its values are times.
_ROLES_OF_TIMES = ("datetime", "time", "tradingDay")
# What joins the names of columns in an answer, such as `Total + Tip` or `sum of Amount`.
_PARTS = re.compile(r" [+-] |sum of ")
_MARKS = {",": sentence("comma"), ";": sentence("semicolon"), "\t": sentence("tab"), "|": sentence("pipe")}


def form(
    files: FormFiles,
    answers: Mapping[str, str],
    shops: Sequence[KnownShop] = (),
    bases: Sequence[KnownBase] = (),
    *,
    base: str | None = None,
    today: date,
    currency: str = "THB",
    timezone: str | None = None,
    usual_timezone: str = DEFAULT_ZONE,
    kept: KeptReadings | None = None,
) -> Form:
    """Return the form of an export with the answers that were given. The same arguments give the same form.

    `kept` has what forms of the same files have in common. Raise `ImportFailed` if a file cannot be read at all.
    """
    of_members = partial(members_form, files, bases=bases, base=base, today=today, timezone=timezone)
    found = of_members(answers)
    if found:
        return found
    about_bills = {name: answer for name, answer in answers.items() if name != ROWS}
    is_asked_about_members = ROWS in answers and of_members(about_bills) is not None
    if not is_asked_about_members:
        about_bills = dict(answers)
    of_bills = _Former(files, about_bills, shops, today, currency, timezone, usual_timezone, kept).form()
    if is_asked_about_members:
        return replace(of_bills, answers={ROWS: answers[ROWS], **of_bills.answers})
    return of_bills


class _Former:
    def __init__(
        self,
        files: FormFiles,
        answers: Mapping[str, str],
        shops: Sequence[KnownShop],
        today: date,
        currency: str,
        timezone: str | None,
        usual_timezone: str,
        kept: KeptReadings | None,
    ) -> None:
        self._files = files
        self._kept = kept or KeptReadings()
        self._source = self._kept.begin(files, tuple(shops), today, currency, timezone, usual_timezone)
        self._answers = dict(answers)
        self._shops = shops
        self._today = today
        self._currency = currency
        self._places = decimal_places(currency)
        self._timezone = timezone
        self._usual_timezone = usual_timezone
        self._refused: list[RefusedAnswer] = []
        self._settled: dict[str, str] = {}
        """The answers of doubts of which only one is left: the others are refuted, or lead to the same records."""
        self._rejected: Sequence[RejectedRow] = ()
        """The rows that cannot be converted with the mapping of this form."""

    def form(self) -> Form:
        found = self._form_of_readings()
        if found.mapping and not found.is_sample:
            accepted = tomllib.loads(found.mapping)
            self._rejected = self._kept.rejected(accepted, partial(self._rows_rejected_by, accepted))
        if self._rejected:
            # The totals are those of the load, which leaves out the bills with these rows.
            found = self._form_of_readings()
        advice = self._advice_on_missing_bills(found)
        if advice:
            found = replace(found, advice=advice, totals=None, mapping="")
        self._kept.finish()
        return found

    def _advice_on_missing_bills(self, found: Form) -> str:
        """Return why no totals are shown if no bill, or only a few of them, would be loaded, or an empty text."""
        if found.totals is None:
            return ""
        rejected = len({(row.file, row.bill or row.line) for row in self._rejected})
        if rejected <= found.totals.bills and found.totals.bills:
            return ""
        if not rejected:
            reasons = "; ".join(left.reason for left in found.left_out)
            return sentence(
                "No bill is left to load: {reasons}. Answer otherwise, or export another report.", reasons=reasons
            )
        first = self._rejected[0]
        return sentence(
            "{rejected} of {bills} bills cannot be read, and what is left would not be the sales. The first one is on "
            "line {line} of {file}, which {detail}. Correct the export, or export another report.",
            rejected=f"{rejected:,}",
            bills=f"{rejected + found.totals.bills:,}",
            line=f"{first.line:,}",
            file=first.file,
            detail=first.detail,
        )

    def _rows_rejected_by(self, accepted: Mapping[str, Any]) -> list[RejectedRow]:
        """Convert the files with the accepted mapping, and return the rows that cannot be converted."""
        options = ImportOptions(currency=self._currency, timezone=self._timezone, today=self._today)
        files = self._files
        try:
            export = open_export(None, files.bills, files.lines, files.payments, dict(accepted), "the mapping", options)
            return [result for result in export.records() if isinstance(result, RejectedRow)]
        except ImportFailed:
            # The load says so itself.
            return []

    def _form_of_readings(self) -> Form:
        try:
            reading, questions = self._settle()
        except NeedsOtherReport as needed:
            return self._without_reading(needed.reason)
        self._refuse_unasked(reading)
        asked = [question for question in questions if question.kind != _SHOP]
        given = [name for name in self._answers if name not in self._shop_answers(reading)]
        if not asked or len(given) + len(asked) <= MOST_QUESTIONS:
            return self._of(reading, questions, "")
        advice = sentence(
            "This file needs more than {most} answers: {names}. Export a report with the total of "
            "each bill, or with fewer columns.",
            most=MOST_QUESTIONS,
            names=", ".join(question.id for question in asked),
        )
        return self._of(reading, [], advice)

    # --- questions -------------------------------------------------------------------------

    def _reading(self, answers: Mapping[str, str]) -> ExportReading:
        key = tuple(sorted(answers.items())), tuple((row.file, row.line) for row in self._rejected)
        return self._kept.reading(key, partial(self._read, answers))

    def _read(self, answers: Mapping[str, str]) -> ExportReading:
        return ExportReading(
            self._source,
            answers,
            known=self._shops,
            today=self._today,
            timezone=self._timezone,
            usual_timezone=self._usual_timezone,
            places=self._places,
            rejected=self._rejected,
        )

    def _settle(self) -> tuple[ExportReading, list[Question]]:
        """Return the reading and the questions that are left, when each has options with different records."""
        for _ in range(MOST_ROUNDS):
            try:
                reading = self._reading(self._answers | self._settled)
            except Refuted as refuted:
                self._refuse(refuted)
                continue
            questions = self._questions(reading)
            if questions is not None:
                return reading, questions
        raise NeedsOtherReport(sentence("The file contradicts itself. Export it again."))

    def _refuse(self, refuted: Refuted) -> None:
        """Take back an answer that the file refutes. If none was given for it, the file cannot be read at all."""
        if refuted.doubt in self._settled:
            del self._settled[refuted.doubt]
        if refuted.doubt not in self._answers:
            raise NeedsOtherReport(refuted.reason)
        del self._answers[refuted.doubt]
        self._refused.append(RefusedAnswer(id=refuted.doubt, answer=refuted.answer, reason=refuted.reason))

    def _questions(self, reading: ExportReading) -> list[Question] | None:
        """Return the questions of a reading, or None if one of its doubts was settled without asking."""
        questions = []
        for doubt in reading.interview.doubts:
            options = self._options(doubt, reading)
            is_asked = doubt.kind == _SHOP or doubt.must_confirm or _leaves_money_out(doubt, options, reading)
            if is_asked or len(options) > 1:
                questions.append(_question(doubt, options, self._values(doubt, reading)))
                continue
            if not options:
                raise NeedsOtherReport(
                    sentence("{text} No answer fits the sums. Export another report.", text=doubt.text)
                )
            self._settled[doubt.id] = options[0].answer
            return None
        return questions

    def _options(self, doubt: Doubt, base: ExportReading) -> list[AnswerOption]:
        """Return the options of a doubt that no sum refutes, one for each set of records."""
        if doubt.default is not None:
            # A fact of the shops changes no record.
            first = list(doubt.choices)[:MOST_OPTIONS]
            return [self._option(doubt, answer, base, None) for answer in first]
        readings = self._readings_by_answer(doubt, base)
        number = _number_of_difference(list(readings.values()))
        return [self._option(doubt, answer, reading, number) for answer, reading in readings.items()]

    def _readings_by_answer(self, doubt: Doubt, base: ExportReading) -> dict[str, ExportReading]:
        """Return the readings with the answers to a doubt, without those that are refuted or change no record."""
        readings: dict[str, ExportReading] = {}
        known_records = set[tuple[Record, ...]]()
        others = base.interview.other_sales(doubt)
        for answer in doubt.choices:
            reading = self._reading_with(doubt, answer, others)
            if reading is None:
                continue
            if answer == SALE:
                reading = self._reading_of_sales(doubt, base, reading)
            # What an answer to be confirmed changes may be in no record, such as the lines that belong to a bill. What
            # the values mean that are asked about one by one is not known yet.
            is_kept = doubt.must_confirm or doubt.kind == _SHOP or answer == EACH
            if not is_kept and reading.records in known_records:
                continue
            known_records.add(reading.records)
            readings[answer] = reading
            if len(readings) == MOST_OPTIONS:
                break
        return readings

    def _reading_with(self, doubt: Doubt, answer: str, others: dict[str, str]) -> ExportReading | None:
        """Return the reading with another answer to a doubt, or None if the file refutes it.

        What was settled without asking may only hold for the present answer, so it does not refute another one.
        `others` are answers to other doubts, which refute it no more.
        """
        settled = self._settled | others
        while True:
            try:
                return self._reading(self._answers | settled | {doubt.id: answer})
            except NeedsOtherReport:
                return None
            except Refuted as refuted:
                if refuted.doubt == doubt.id or refuted.doubt not in settled:
                    return None
                del settled[refuted.doubt]

    def _reading_of_sales(self, doubt: Doubt, base: ExportReading, reading: ExportReading) -> ExportReading:
        """Return the reading in which all was sold, also if other columns are only asked about after this answer."""
        known = set[str]()
        if reading.counted:
            known = {other.id for other in base.interview.doubts}
        sold = base.interview.other_sales(doubt)
        for _ in range(MOST_ROUNDS):
            new = [other.id for other in reading.interview.doubts if other.may_be_sale and other.id not in known]
            if not new:
                break
            sold |= dict.fromkeys(new, SALE)
            known.update(new)
            try:
                reading = self._reading(self._answers | self._settled | {doubt.id: SALE} | sold)
            except (NeedsOtherReport, Refuted):
                break
        return reading

    def _option(self, doubt: Doubt, answer: str, reading: ExportReading, number: str | None) -> AnswerOption:
        """Return an answer with what it makes of the file and of the bill with a number."""
        # A cell without digits, such as `UNKNOWN`, is no time.
        times = [self._local(reading, bill) for bill in reading.counted if reading.times[bill][:1].isdigit()]
        left_bills = sum(left.bills for left in reading.left_out)
        left_net = sum(left.net for left in reading.left_out)
        return AnswerOption(
            answer=answer,
            text=doubt.choices[answer],
            bills=len(reading.counted),
            net=self._money(reading.total),
            left_out=LeftOutBills(bills=left_bills, net=self._money(left_net)),
            first=min(times, default=None),
            last=max(times, default=None),
            example=self._example(doubt, reading, number),
        )

    def _example(self, doubt: Doubt, reading: ExportReading, number: str | None) -> str:
        """Return what a reading makes of the bills with a number, as in `bill 1002: 628.50`."""
        if doubt.kind == "money":
            return self._example_of_money(doubt, reading)
        if number is None:
            return ""
        found = [bill for bill in reading.counted if reading.bills.name_of(bill) == number]
        if not found:
            return sentence("bill {number}: left out", number=number)
        texts = []
        for bill in found[:MOST_SAME_NUMBER]:
            text: str = sentence("void") if reading.state_of_bill[bill] == VOID else self._money(reading.net_of(bill))
            if reading.times[bill]:
                minute = self._local(reading, bill)[:16].replace("T", " ")
                text = sentence("{amount} on {minute}", amount=text, minute=minute)
            texts.append(text)
        what = texts[0]
        for text in texts[1:]:
            what = sentence("{bills} and {bill}", bills=what, bill=text)
        more = len(found) - MOST_SAME_NUMBER
        if more > 0:
            what = sentence("{bills} and {count} more", bills=what, count=f"{more:,}")
        return sentence("bill {number}: {what}", number=number, what=what)

    def _example_of_money(self, doubt: Doubt, reading: ExportReading) -> str:
        """Return what an answer about money makes of a bill on which the answers differ most."""
        named = []
        for name, column in reading.bills.table.columns.items():
            is_named = any(name in choice for choice in doubt.choices)
            if is_named and column.is_number:
                named.append(column)

        def filled(bill: int) -> int:
            """Return how many of the columns have an amount on the bill."""
            rows = reading.bills.rows[bill]
            return sum(any(column.amount(row) for row in rows) for column in named)

        bill = max(reading.amounts.sales, key=filled, default=None)
        if bill is None:
            return ""
        total = self._money(reading.net.values[bill] or 0)
        terms = self._terms(reading, bill)
        return sentence("bill {number}: {what}", number=reading.bills.name_of(bill), what=f"{terms}{total}")

    def _terms(self, reading: ExportReading, bill: int) -> str:
        """Return what is added to the net of a bill, as in `588.50 + 40.00 = `, or an empty text."""
        net, columns = reading.net, reading.bills.table.columns
        are_columns_added = len(net.columns) > 1 and not net.is_product
        if not are_columns_added or not all(name in columns for name in net.columns):
            return ""
        terms = []
        for name in net.columns:
            value = reading.amounts.of(columns[name], "").values[bill] or 0
            is_subtracted = f"- {name}" in net.name or f"- sum of {name}" in net.name
            terms.append(-value if is_subtracted else value)
        if sum(terms) != net.values[bill]:
            return ""
        text = self._money(terms[0])
        for term in terms[1:]:
            sign = "+" if term >= 0 else "-"
            text = f"{text} {sign} {self._money(abs(term))}"
        return f"{text} = "

    def _values(self, doubt: Doubt, reading: ExportReading) -> str:
        """Return the values of a column that a question is about, with their bills and money."""
        name = doubt.id.removeprefix("state.")
        column = reading.bills.table.columns.get(name)
        if not doubt.id.startswith("state.") or column is None or column is reading.bills.number:
            return doubt.example
        bills_of: dict[str, list[int]] = {}
        for bill, rows in enumerate(reading.bills.rows):
            bills_of.setdefault(column.values[rows[0]], []).append(bill)
        cells: list[tuple[str, str, str, str]] = []
        for value, bills in islice(bills_of.items(), MOST_VALUES):
            net = sum(reading.net.values[bill] or 0 for bill in bills)
            numbers = ""
            if len(bills) <= MOST_NUMBERS:
                numbers = ", ".join(map(reading.bills.name_of, bills))
            amount = f"{Decimal(self._money(net)):,f}"
            cells.append((value or "empty", counted(len(bills), "bill"), amount, numbers))
        lines = _in_columns(cells)
        if len(bills_of) > MOST_VALUES:
            lines.append(f"and {len(bills_of) - MOST_VALUES:,} more values")
        return "\n".join(lines)

    def _refuse_unasked(self, reading: ExportReading) -> None:
        unused = [name for name in self._answers if name not in reading.interview.used]
        for name in unused:
            answer = self._answers.pop(name)
            self._refused.append(RefusedAnswer(id=name, answer=answer, reason=sentence("Nothing asks this.")))

    def _shop_answers(self, reading: ExportReading) -> set[str]:
        facts = {"timezone", "franchise", "closing"}
        return facts if reading.bills.shop else facts | {"shop"}

    # --- the form ---------------------------------------------------------------------------

    def _without_reading(self, advice: str) -> Form:
        answers = dict(self._answers)
        return Form(
            file="", columns=(), rows=(), questions=(), answers=answers, refused=tuple(self._refused), advice=advice
        )

    def _of(self, reading: ExportReading, questions: list[Question], advice: str) -> Form:
        table = reading.source_table
        has_open_question = any(question.default is None for question in questions)
        is_open = has_open_question or bool(advice) or bool(self._refused)
        assumed = [*reading.interview.assumed, *assumptions(questions)]
        first_cells = [column.values[:FIRST_ROWS] for column in table.columns.values()]
        return Form(
            file=_about(table, reading),
            is_sample=table.is_sample,
            columns=tuple(self._columns(reading, questions)),
            rows=tuple(zip(*first_cells, strict=True)),
            questions=tuple(questions),
            answers=dict(self._answers),
            refused=tuple(self._refused),
            proven=tuple(reading.interview.proven),
            assumed=tuple(assumed),
            left_out=tuple(map(self._left, reading.left_out)),
            totals=None if is_open else self._totals(reading),
            advice=advice,
            mapping="" if is_open else mapping_text(reading),
        )

    def _left(self, left: Left) -> LeftOutBills:
        return LeftOutBills(bills=left.bills, net=self._money(left.net), reason=left.reason)

    def _columns(self, reading: ExportReading, questions: Sequence[Question]) -> list[ColumnView]:
        asked = self._columns_asked_about(reading, questions)
        is_net_asked = any(question.kind == "money" for question in questions)
        other_roles = OtherRoles(reading, self._money, is_net_asked)
        found = []
        for name, column in reading.source_table.columns.items():
            equations = [text for text in reading.interview.proven if name in text]
            role = self._role(reading, column)
            standing: Standing = "unread"
            if name in asked:
                standing = "asked"
            elif equations or role == "id":
                standing = "proven"
            elif role:
                standing = "visible"
            equation = equations[0] if equations else ""
            others = tuple(other_roles.of(name, role))
            found.append(ColumnView(heading=name, role=role, standing=standing, equation=equation, others=others))
        return found

    def _columns_asked_about(self, reading: ExportReading, questions: Sequence[Question]) -> set[str]:
        """Return the columns that open questions, or the answers that were given, are about."""
        columns = reading.source_table.columns
        asked: set[str] = set()
        for question in questions:
            asked.update(name for name in columns if name in question.text)
        for question_id, answer in self._answers.items():
            parts = {question_id.partition(".")[2], *_PARTS.split(answer)}
            asked.update(parts.intersection(columns))
        return asked

    def _role(self, reading: ExportReading, column: TableColumn) -> str:
        """Return what a column is read as, or an empty text."""
        name = column.name
        if name in reading.net.columns:
            return "net"
        if name in reading.states.of_bills or name in reading.states.marks:
            return "state"
        if name == reading.bills.number.name:
            return "id"
        role = reading.bills.ranks.role(column) or ""
        if role not in _ROLES_OF_TIMES and any(column is time for time in reading.days.columns):
            return "datetime"
        return role

    def _totals(self, reading: ExportReading) -> Totals:
        tip = reading.tip
        tax = reading.amounts.parts_of_role("tax", reading.net)
        of_days: dict[tuple[str, str], _ShopDay] = defaultdict(_ShopDay)
        total = _ShopDay()
        shops = _shops_of_bills(reading)
        named = named_days(reading.bills, reading.days)
        for bill in reading.counted:
            shop = shops[bill]
            day = named[bill] or _business_day(reading, bill, shop)
            of_bill = _shop_day_of_bill(reading, bill, tip, tax)
            of_days[day, shop.name if shop else ""].add(of_bill)
            total.add(of_bill)
        shop_days = [self._day(day, shop, of_days[day, shop]) for day, shop in sorted(of_days)]
        rows = len(reading.source_table.rows)
        rows_left_out = sum(len(left.rows) for left in reading.bills.left_out)
        return Totals(
            bills=total.bills,
            voids=total.voids,
            refunds=total.refunds,
            net=self._money(total.net),
            tip=self._money(total.tip),
            tax=self._money(total.tax),
            rows_read=rows - rows_left_out,
            rows=rows,
            days=tuple(shop_days),
        )

    def _day(self, day: str, shop: str, total: "_ShopDay") -> DayTotals:
        return DayTotals(
            day=day,
            shop=shop,
            bills=total.bills,
            voids=total.voids,
            refunds=total.refunds,
            net=self._money(total.net),
            tip=self._money(total.tip),
            tax=self._money(total.tax),
        )

    def _money(self, units: int) -> str:
        """Return an amount as text, with at least the decimals of the currency."""
        number = Decimal(units) / SCALE
        rounded = round(number, self._places)
        if rounded == number:
            return f"{rounded:.{self._places}f}"
        return f"{number.normalize():f}"

    def _local(self, reading: ExportReading, bill: int) -> str:
        """Return the local time of a bill with its offset."""
        text = reading.times[bill]
        return _local_moment(reading, bill, reading.shops.shops[0]).isoformat() if _has_time(text) else text


def _shops_of_bills(reading: ExportReading) -> list[ExportShop | None]:
    """Return the shop of each bill, or None if it is of none."""
    shops, column = reading.shops.shops, reading.bills.shop
    if column is None:
        return [shops[0]] * len(reading.bills.rows)
    by_value = {shop.column_value: shop for shop in shops}
    return [by_value.get(column.values[rows[0]]) for rows in reading.bills.rows]


def _business_day(reading: ExportReading, bill: int, shop: ExportShop | None) -> str:
    """Return the day of a bill whose export names none: the calendar day if its shop has no closing time."""
    text = reading.times[bill]
    if shop is None or not _has_time(text):
        return text[:10]
    timestamp = _local_moment(reading, bill, shop).isoformat()
    return trading_day(timestamp, shop.closing_time) or timestamp[:10]


def _local_moment(reading: ExportReading, bill: int, shop: ExportShop) -> datetime:
    """Return the time of a bill on the clock of a shop."""
    zone = ZoneInfo(shop.timezone)
    moment = datetime.fromisoformat(reading.times[bill])
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=_zone_without_offset(reading, bill) or zone)
    return moment.astimezone(zone)


def _zone_without_offset(reading: ExportReading, bill: int) -> tzinfo | None:
    """Return the zone of a time that names none, or None if it is that of the shop."""
    if reading.shops.is_utc:
        return UTC
    if reading.shops.zone_column is None:
        return None
    column = reading.bills.table.columns[reading.shops.zone_column]
    return read_zone(column.values[reading.bills.rows[bill][0]])


def _has_time(text: str) -> bool:
    return text[10:11] == "T" and len(text) >= len("2026-11-14T18:05")


class _ShopDay(Struct):
    """The bills of a day in a shop, and their money."""

    bills: int = 0
    voids: int = 0
    refunds: int = 0
    net: int = 0
    tip: int = 0
    tax: int = 0

    def add(self, other: "_ShopDay") -> None:
        self.bills += other.bills
        self.voids += other.voids
        self.refunds += other.refunds
        self.net += other.net
        self.tip += other.tip
        self.tax += other.tax


def _shop_day_of_bill(
    reading: ExportReading, bill: int, tip: AmountSeries | None, tax: AmountSeries | None
) -> _ShopDay:
    state, net = reading.state_of_bill[bill], reading.net_of(bill)
    if state == VOID:
        return _ShopDay(bills=1, voids=1, net=net)
    is_positive_refund = state == REFUND and (reading.net.values[bill] or 0) > 0
    # The parts of a refund are negative, too, if the export writes it as positive.
    sign = -1 if is_positive_refund else 1
    return _ShopDay(
        bills=1,
        refunds=int(state == REFUND or net < 0),
        net=net,
        tip=sign * (tip.values[bill] or 0) if tip else 0,
        tax=sign * (tax.values[bill] or 0) if tax else 0,
    )


def _leaves_money_out(doubt: Doubt, options: Sequence[AnswerOption], reading: ExportReading) -> bool:
    """Return whether the only answer leaves out money because of a bill's number, so that a person must see it."""
    is_alone = doubt.id == f"rows.{reading.bills.number.name}" and len(options) == 1
    return is_alone and bool(Decimal(options[0].left_out.net or 0))


def _in_columns(rows: Sequence[tuple[str, str, str, str]]) -> list[str]:
    """Return a line for each row: a value, a number of bills and an amount below each other, and the bills."""
    widths = [max(display_width(row[position]) for row in rows) for position in range(3)]
    lines = []
    for value, bills, net, names in rows:
        left = value + " " * (widths[0] - display_width(value))
        lines.append(f"{left}  {bills.rjust(widths[1])}  {net.rjust(widths[2])}  {names}".rstrip())
    return lines


def _number_of_difference(readings: Sequence[ExportReading]) -> str | None:
    """Return the number of a bill that readings make different records of, or of any bill if they make none."""
    if not readings:
        return None
    first, *others = readings
    for other in others:
        different = set(first.records) ^ set(other.records)
        if different:
            return min(different)[0]
    return first.records[0][0] if first.records else None


def _question(doubt: Doubt, options: Sequence[AnswerOption], example: str) -> Question:
    text = joined(doubt.text, doubt.typed) if len(options) == 1 else doubt.text
    return Question(
        id=doubt.id,
        text=text,
        kind=doubt.kind,
        options=tuple(options),
        example=example,
        free=doubt.free,
        default=doubt.default,
    )


def _about(table: ExportTable, reading: ExportReading) -> str:
    file = table.file
    written = ""
    if isinstance(file, CsvFile):
        mark = _MARKS.get(file.delimiter, file.delimiter)
        written = sentence(", {encoding}, {mark}", encoding=file.encoding, mark=mark)
    values = {
        "table": table.name,
        "rows": f"{len(table.rows):,}",
        "columns": len(table.columns),
        "written": written,
        "bills": f"{len(reading.state_of_bill):,}",
        "number": reading.bills.number.name,
    }
    if table.is_sample:
        return sentence(
            "{table}: the first {rows} rows, {columns} columns{written}; {bills} bills by {number}", **values
        )
    return sentence("{table}: {rows} rows, {columns} columns{written}; {bills} bills by {number}", **values)
