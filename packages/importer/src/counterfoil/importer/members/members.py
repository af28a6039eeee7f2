"""Returns the form of a table of members: its questions or, once all are answered, what would be imported.

What the form proposes is converted before it is shown, so its totals are those of the import.
"""

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from counterfoil.importer.columns import ExportTable, TableColumn
from counterfoil.importer.form import (
    FIRST_ROWS,
    MOST_QUESTIONS,
    AnswerOption,
    ColumnView,
    Form,
    FormFiles,
    LeftOutBills,
    MemberTotals,
    OtherRole,
    Question,
    RefusedAnswer,
    Standing,
    sentence,
)
from counterfoil.importer.interview import Doubt, Interview, NeedsOtherReport, Refuted
from counterfoil.importer.members.member_columns import MemberColumns
from counterfoil.importer.members.member_headings import is_of_bills, is_of_members, names_people, role_of
from counterfoil.importer.reading import read_table
from counterfoil.importer.shops.shop_questions import assumptions
from counterfoil.importing.mapping import FileLayout, KnownBase, parse_mapping
from counterfoil.importing.members import member_records
from counterfoil.importing.results import ImportedRecord, ImportFailed, ImportNote, RejectedRow, SkippedRow
from counterfoil.importing.sheets import is_in_old_encoding, open_table, start_in_lines
from counterfoil.importing.tables import ImportOptions
from counterfoil.importing.values import decimal_text

ROWS = "rows"
MEMBERS, BILLS = "members", "bills"
_NOTHING_LEFT_OUT = LeftOutBills(bills=0, net="")


def members_form(
    files: FormFiles,
    answers: Mapping[str, str],
    bases: Sequence[KnownBase] = (),
    *,
    base: str | None = None,
    today: date,
    timezone: str | None = None,
) -> Form | None:
    """Return the form of tables of members, or None if the files are bills, or an answer says so.

    `base` is the base to which they belong unless an answer names another one.
    """
    if files.lines or files.payments or not all(_may_be_members(path) for path in files.bills):
        return None
    given, refused = dict(answers), list[RefusedAnswer]()
    while True:
        interview = Interview(given)
        try:
            table = read_table(files.bills, interview)
            if not _is_members(table, interview):
                return None
            return _MembersFormer(table, files.bills, interview, bases, base, today, timezone).form(refused)
        except Refuted as refuted:
            refused.append(RefusedAnswer(id=refuted.doubt, answer=refuted.answer, reason=refuted.reason))
            del given[refuted.doubt]


def _may_be_members(path: Path) -> bool:
    """Return whether the headings may be those of members. Of most bills, no row is read for this."""
    encodings = (None, "cp874") if is_in_old_encoding(start_in_lines(path)) else (None,)
    for encoding in encodings:
        try:
            file = open_table(path, FileLayout(encoding=encoding), is_of_members)
        except (ImportFailed, UnicodeError):
            continue
        if is_of_members(file.sheet.columns) and names_people(file.sheet.columns):
            return True
    return False


def _is_members(table: ExportTable, interview: Interview) -> bool:
    """Return whether each row is a member. If bills are possible, too, that is asked."""
    if not is_of_bills(table.columns):
        return True
    if not any(_is_different_on_each_row(column) for column in table.columns.values()):
        return False
    text = sentence("What is a row of this file?")
    choices = {MEMBERS: sentence("Each row is a member"), BILLS: sentence("Each row is a bill, or a part of one")}
    return interview.choose(ROWS, "file", text, choices, must_confirm=True) == MEMBERS


def _is_different_on_each_row(column: TableColumn) -> bool:
    """Return whether a column of an ID or a contact has another value on each of several rows."""
    if role_of(column.name) not in ("id", "tel", "email") or not column.is_filled:
        return False
    return len(column.counts) == len(column.values) > 1


class _MembersFormer:
    def __init__(
        self,
        table: ExportTable,
        paths: Sequence[Path],
        interview: Interview,
        bases: Sequence[KnownBase],
        base: str | None,
        today: date,
        timezone: str | None,
    ) -> None:
        self._table = table
        self._paths = paths
        self._interview = interview
        self._bases = bases
        self._today = today
        self._timezone = timezone
        self._columns = MemberColumns(table, interview, bases, base)

    def form(self, refused: Sequence[RefusedAnswer]) -> Form:
        """Return the form, beside the answers that the table refutes."""
        try:
            mapping = self._columns.mapping()
        except NeedsOtherReport as reason:
            return self._form([], refused, advice=str(reason))
        refused = [*refused, *self._unasked_answers()]
        questions = [_question(doubt) for doubt in self._interview.doubts]
        asked = [question for question in questions if question.kind != "shop"]
        given = [name for name in self._interview.used if name != "base"]
        if asked and len(asked) + len(given) > MOST_QUESTIONS:
            advice = sentence(
                "This file needs more than {most} answers: {names}. Export fewer columns.",
                most=MOST_QUESTIONS,
                names=", ".join(question.id for question in asked),
            )
            return self._form(questions, refused, advice=advice)
        is_open = any(question.default is None for question in questions)
        if is_open or refused:
            return self._form(questions, refused)
        return self._complete_form(questions, mapping)

    def _unasked_answers(self) -> list[RefusedAnswer]:
        """Return the answers to which no question belongs."""
        unasked = []
        for name, answer in self._interview.answers.items():
            if name not in self._interview.used:
                unasked.append(RefusedAnswer(id=name, answer=answer, reason=sentence("Nothing asks this.")))
        return unasked

    def _complete_form(self, questions: Sequence[Question], mapping: str) -> Form:
        """Return the form with the totals of the members as they would be imported."""
        try:
            converted = self._converted(mapping)
        except ImportFailed as error:
            return self._form(questions, (), advice=str(error))
        left_out = []
        for reason, count in converted.left_out.items():
            text = sentence("{count} rows: {reason}", count=f"{count:,}", reason=reason)
            left_out.append(LeftOutBills(bills=0, net="", reason=text))
        totals = _totals(converted.members, converted.rejected)
        return self._form(
            questions, (), members=totals, mapping=mapping, notes=converted.notes, left_out=tuple(left_out)
        )

    def _converted(self, mapping: str) -> "ConvertedMembers":
        """Return what an import with a mapping makes of the files."""
        options = ImportOptions(timezone=self._timezone, today=self._today, bases=tuple(self._bases))
        checked = parse_mapping(tomllib.loads(mapping), "the answers")
        converted = ConvertedMembers()
        for result in member_records(checked, options, self._paths):
            match result:
                case ImportedRecord() if result.record["kind"] == "member":
                    converted.members.append(result.record)
                case RejectedRow():
                    converted.rejected += 1
                case SkippedRow():
                    converted.left_out[result.reason] += 1
                case ImportNote():
                    converted.notes.append(result.text)
        return converted

    def _form(
        self,
        questions: Sequence[Question],
        refused: Sequence[RefusedAnswer],
        *,
        advice: str = "",
        members: MemberTotals | None = None,
        mapping: str = "",
        notes: Sequence[str] = (),
        left_out: tuple[LeftOutBills, ...] = (),
    ) -> Form:
        table, interview = self._table, self._interview
        roles = self._columns.roles
        never_stored = [name for name in table.columns if name not in roles and role_of(name) == "person"]
        assumed = [*interview.assumed, *notes, *assumptions(questions)]
        asked = {*interview.used, *(question.id for question in questions)}
        first_cells = [column.values[:FIRST_ROWS] for column in table.columns.values()]
        return Form(
            file=sentence(
                "{table}: {rows} rows, {columns} columns, members",
                table=table.name,
                rows=f"{len(table.rows):,}",
                columns=len(table.columns),
            ),
            columns=tuple(self._view(name, asked) for name in table.columns),
            rows=tuple(zip(*first_cells, strict=True)),
            questions=tuple(questions),
            answers=dict(interview.answers),
            refused=tuple(refused),
            proven=tuple(interview.proven),
            assumed=tuple(assumed),
            left_out=left_out,
            advice=advice,
            mapping=mapping,
            members=members,
            never_stored=tuple(never_stored),
        )

    def _view(self, name: str, asked: set[str]) -> ColumnView:
        role = self._columns.roles.get(name, "")
        standing: Standing = "unread"
        if role:
            standing = "asked" if role in asked else "visible"
        column = self._table.columns[name]
        others = () if role == "id" or not column.filled else (OtherRole("id", self._shared_value(column)),)
        return ColumnView(heading=name, role=role, standing=standing, others=others)

    def _shared_value(self, column: TableColumn) -> str:
        """Return a sentence about two rows with the same value, or an empty text if each row has its own."""
        first: dict[str, int] = {}
        for row, value in enumerate(column.values):
            other = first.setdefault(value, row)
            if other == row:
                continue
            lines = {"first": self._table.line(other), "second": self._table.line(row)}
            if not value:
                return sentence("lines {first} and {second} have no value", **lines)
            return sentence("lines {first} and {second} have the same value", **lines)
        return ""


class ConvertedMembers(Struct):
    """What an import makes of tables of members."""

    members: list[dict[str, Any]] = field(default_factory=list)
    rejected: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """How many rows were left out, by the reason."""
    notes: list[str] = field(default_factory=list)


def _totals(members: Sequence[dict[str, Any]], rejected: int) -> MemberTotals:
    tiers = Counter(member["rank"] for member in members if "rank" in member)
    return MemberTotals(
        members=len(members),
        rejected=rejected,
        points=_sum_of_balances(members, "points"),
        credit=_sum_of_balances(members, "credit"),
        phones=sum("tel" in member for member in members),
        emails=sum("email" in member for member in members),
        tiers=dict(tiers.most_common()),
    )


def _sum_of_balances(members: Sequence[dict[str, Any]], name: str) -> str:
    """Return the sum of a balance. That of a member is a number, or a list of lots that expire at different times."""
    total = Decimal()
    for member in members:
        balance = member.get(name, "0")
        lots = balance if isinstance(balance, list) else [{"amount": balance}]
        for lot in lots:
            total += Decimal(lot["amount"])
    return decimal_text(total)


def _question(doubt: Doubt) -> Question:
    options = []
    for answer, text in doubt.choices.items():
        options.append(AnswerOption(answer=answer, text=text, bills=0, net="", left_out=_NOTHING_LEFT_OUT))
    return Question(
        id=doubt.id,
        text=doubt.text,
        kind=doubt.kind,
        options=tuple(options),
        example=doubt.example,
        free=doubt.free,
        default=doubt.default,
    )
