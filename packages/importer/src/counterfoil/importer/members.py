"""Returns the form of a table of members: which column is the ID, which base, and what is a balance.

Balances have no default: a column of points or credit is read only if somebody says so. What the form proposes is
converted before it is shown, so its totals are those of the import.
"""

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

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
    Question,
    RefusedAnswer,
    sentence,
)
from counterfoil.importer.interview import Doubt, Interview, NeedsOtherReport, Refuted
from counterfoil.importer.member_headings import (
    is_balance_of_now,
    is_of_bills,
    is_of_members,
    may_be_credit,
    may_be_points,
    names_people,
    rank_of,
    role_of,
)
from counterfoil.importer.reading import read_table
from counterfoil.importer.shop_questions import assumptions
from counterfoil.importer.toml_text import TomlText, quoted
from counterfoil.importing.mapping import FileLayout, KnownBase, parse_mapping
from counterfoil.importing.members import member_records
from counterfoil.importing.results import ImportedRecord, ImportFailed, ImportNote, RejectedRow, SkippedRow
from counterfoil.importing.sheets import CsvFile, open_table
from counterfoil.importing.tables import ImportOptions
from counterfoil.importing.values import decimal_text, order_of, ordered_date, shown_all

ROWS = "rows"
MEMBERS, BILLS, NONE, ALL = "members", "bills", "none", "all"
MOST_STATES, MOST_TIERS = 6, 20
MOSTLY, NEARLY_ALL = Decimal("0.5"), Decimal("0.9")
_NATIONAL_DIGITS = 9
_DATED = ("createdAt", "lastVisit", "pointsExpireAt", "creditExpireAt")
_ENCODINGS = (None, "cp874")


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
    for encoding in _ENCODINGS:
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
    ids = [column for column in table.columns.values() if role_of(column.name) in ("id", "tel", "email")]
    if not any(column.is_filled and len(column.counts) == len(column.values) > 1 for column in ids):
        return False
    choices = {MEMBERS: sentence("Each row is a member"), BILLS: sentence("Each row is a bill, or a part of one")}
    return (
        interview.choose(ROWS, "file", sentence("What is a row of this file?"), choices, must_confirm=True) == MEMBERS
    )


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
        self._base = base
        self._today = today
        self._timezone = timezone
        self._roles: dict[str, str] = {}
        """The roles of the columns that are read."""

    def form(self, refused: Sequence[RefusedAnswer]) -> Form:
        try:
            mapping = self._mapping()
        except NeedsOtherReport as reason:
            return self._form([], refused, advice=str(reason))
        interview = self._interview
        unasked = [
            RefusedAnswer(id=name, answer=answer, reason=sentence("Nothing asks this."))
            for name, answer in interview.answers.items()
            if name not in interview.used
        ]
        questions = [_question(doubt) for doubt in interview.doubts]
        asked = [question for question in questions if question.kind != "shop"]
        given = [name for name in interview.used if name != "base"]
        if asked and len(asked) + len(given) > MOST_QUESTIONS:
            names = ", ".join(question.id for question in asked)
            advice = sentence(
                "This file needs more than {most} answers: {names}. Export fewer columns.",
                most=MOST_QUESTIONS,
                names=names,
            )
            return self._form(questions, [*refused, *unasked], advice=advice)
        if any(question.default is None for question in questions) or refused or unasked:
            return self._form(questions, [*refused, *unasked])
        return self._complete(questions, mapping)

    # --- what is decided -------------------------------------------------------------------

    def _mapping(self) -> str:
        toml = TomlText("Accepted answers about a table of members, and what they lead to.")
        member_id = self._find_id()
        points = self._find_balance("points", "points", [name for name in self._table.columns if may_be_points(name)])
        credit = self._find_balance(
            "credit", "store credit", [name for name in self._table.columns if may_be_credit(name)]
        )
        self._take_first("tel", "email")
        self._take_dates(has_points=bool(points), has_credit=bool(credit))
        self._take_visits()
        order = self._find_date_order()
        tiers = self._find_tiers()
        prefix = self._find_phone_prefix()
        states = self._find_states()
        coupons = self._find_coupon_status()
        base = self._find_base()
        for name, answer in self._interview.answers.items():
            toml.add("[answers]", quoted(name), answer)
        self._write_file(toml, order)
        toml.add("[base]", "id", base)
        if credit:
            toml.add("[base]", "creditEnabled", value=True)
        if tiers:
            toml.add("[base]", "tiers", [{"code": tier} for tier in tiers], "the lowest first")
        toml.add("[member]", "id", member_id)
        for name, role in self._roles.items():
            if role != "id":
                toml.add("[member]", role, self._cell(name, role))
        if prefix:
            toml.add("[member]", "telPrefix", {"constant": prefix})
        if states:
            [(name, values)] = states.items()
            toml.add("[member]", "leftOut", {"column": name, "values": values})
        if coupons:
            toml.add("[member]", "couponStatus", {"constant": coupons})
        return toml.text()

    def _cell(self, name: str, role: str) -> Any:
        numbers = self._table.columns[name].numbers
        if role in ("points", "credit", "visits") and numbers.decimal != ".":
            return {"column": name, "decimal": numbers.decimal}
        return {"column": name, "split": ","} if role == "coupons" else name

    def _write_file(self, toml: TomlText, order: str | None) -> None:
        file = self._table.file
        if isinstance(file, CsvFile):
            toml.add("[file]", "encoding", file.encoding)
            toml.add("[file]", "delimiter", file.delimiter)
        if file.heading_line > 1:
            toml.add("[file]", "headingLine", file.heading_line)
        toml.add("[file]", "columns", list(self._table.columns), "a file with other columns is refused")
        if order:
            toml.add("[dates]", "order", order)

    def _with_role(self, role: str) -> list[TableColumn]:
        found = [column for column in self._table.columns.values() if role_of(column.name) == role and column.filled]
        return sorted(found, key=lambda column: rank_of(column.name, role))

    def _find_id(self) -> str:
        """Return the column of the ID. If several tell the members apart, it is asked which one bills name."""
        named = [column for column in self._with_role("id") if _tells_apart(column, MOSTLY)]
        contacts = [*self._with_role("tel"), *self._with_role("email")]
        others = [column for column in contacts if _tells_apart(column, NEARLY_ALL)]
        candidates = [column.name for column in (named or others)]
        if not candidates:
            raise NeedsOtherReport(
                sentence(
                    "No column tells the members apart: each row needs an ID that no other row has, or a phone "
                    "number or an email address. Export a report with the number of each member."
                )
            )
        if named and len(candidates) == 1:
            [column] = named
            rows = f"{column.filled:,} of {len(column.values):,} rows, with {len(column.counts):,} different values"
            self._interview.prove(
                sentence("{column} is the ID of a member: it is filled on {rows}", column=column.name, rows=rows)
            )
            found = column.name
        else:
            text = sentence("Which column is the ID of a member, as bills name it?")
            found = self._interview.choose("id", "member", text, candidates, must_confirm=True)
        self._roles[found] = "id"
        return found

    def _find_balance(self, doubt: str, what: str, names: Sequence[str]) -> str | None:
        """Return the column with the balance that somebody named, or None."""
        candidates = [
            column
            for column in self._table.columns.values()
            if column.name in names and column.name not in self._roles and column.filled and column.is_number
        ]
        if not candidates:
            return None
        candidates.sort(key=lambda column: not is_balance_of_now(column.name))
        choices = {
            column.name: sentence("{column}: {sum} in all", column=column.name, sum=_sum(column))
            for column in candidates[:3]
        }
        choices[NONE] = sentence("None of them: leave them out")
        text = sentence("Which column has the {what} that a member can use now?", what=what)
        found = self._interview.choose(doubt, "money", text, choices, must_confirm=True)
        if found == NONE:
            return None
        self._roles[found] = doubt
        return found

    def _take_first(self, *roles: str) -> None:
        for role in roles:
            columns = [column for column in self._with_role(role) if column.name not in self._roles]
            if columns:
                self._roles[columns[0].name] = role

    def _take_dates(self, *, has_points: bool, has_credit: bool) -> None:
        wanted = {"createdAt": True, "pointsExpireAt": has_points, "creditExpireAt": has_credit}
        for role, is_wanted in wanted.items():
            columns = [column for column in self._with_role(role) if column.is_date]
            if columns and is_wanted:
                self._roles[columns[0].name] = role

    def _take_visits(self) -> None:
        """Take the number of visits and the latest one, if both are there: neither is stored without the other."""
        counts = [column for column in self._with_role("visits") if column.is_number and column.is_whole]
        latest = [column for column in self._with_role("lastVisit") if column.is_date]
        if counts and latest:
            self._roles[counts[0].name] = "visits"
            self._roles[latest[0].name] = "lastVisit"

    def _find_date_order(self) -> str | None:
        """Return the order of day, month and year, or None if no date depends on it."""
        columns = [name for name, role in self._roles.items() if role in _DATED]
        dates: list[str] = []
        for name in columns:
            days = map(ordered_date, self._table.columns[name].distinct)
            dates += [day for day in days if day]
        if not dates:
            return None
        proved = {order for order in map(order_of, dates) if order}
        if len(proved) > 1:
            raise NeedsOtherReport(
                sentence(
                    "Some dates of {columns} can only be day/month, and others only month/day. A spreadsheet may "
                    "have changed them: export the members again, without opening the file in between.",
                    columns=shown_all(columns),
                )
            )
        if proved:
            found = proved.pop()
            self._interview.prove(
                sentence(
                    "{columns}: a date can only be read as {order}", columns=shown_all(columns), order=_ORDERS[found]
                )
            )
            return found
        text = sentence("{column} has {date}. Which number is the day?", column=columns[0], date=dates[0])
        return self._interview.choose(
            "dates",
            "day",
            text,
            {"dmy": sentence("The first one"), "mdy": sentence("The second one")},
            must_confirm=True,
        )

    def _find_tiers(self) -> list[str]:
        """Return the tiers, that with the most members first. Their order changes nothing that the API returns."""
        columns = [column for column in self._with_role("rank") if len(column.counts) <= MOST_TIERS]
        if not columns:
            return []
        self._roles[columns[0].name] = "rank"
        tiers = columns[0].distinct
        if len(tiers) > 1:
            self._interview.assume(
                sentence("Tiers, the lowest first: {tiers}, by the number of their members", tiers=", ".join(tiers))
            )
        return tiers

    def _find_phone_prefix(self) -> str | None:
        """Return what to put before phone numbers from which a spreadsheet has taken the first zero."""
        columns = [self._table.columns[name] for name, role in self._roles.items() if role == "tel"]
        if not columns:
            return None
        digits = [value for value in columns[0].distinct if value.isdigit()]
        has_zero = any(value.startswith(("0", "+", "(")) for value in columns[0].distinct)
        if has_zero or not digits or any(len(value) != _NATIONAL_DIGITS for value in digits):
            return None
        text = sentence(
            "No number of {column} begins with 0. Did a spreadsheet take the zero away?", column=columns[0].name
        )
        choices = {"0": sentence("Yes: put a 0 before each of them"), NONE: sentence("No: leave them as they are")}
        found = self._interview.choose("phones", "member", text, choices, must_confirm=True)
        return None if found == NONE else found

    def _find_states(self) -> dict[str, dict[str, str]]:
        """Return which values of a column of states say that a row is no member, by the column."""
        columns = [column for column in self._with_role("state") if 1 < len(column.counts) <= MOST_STATES]
        if not columns:
            return {}
        [column, *_] = columns
        counted = ", ".join(f"{value} {count:,}" for value, count in column.counts.most_common())
        choices = {ALL: sentence("All of them")}
        for value in reversed(column.distinct):
            choices[value] = sentence(
                "All but {value}: leave out {counts}", value=value, counts=f"{column.counts[value]:,}"
            )
        text = sentence("{column} has {counted}. Which of them are members?", column=column.name, counted=counted)
        found = self._interview.choose(
            "state", "state", text, dict(list(choices.items())[:4]), free=True, must_confirm=True
        )
        if found == ALL:
            return {}
        left_out = {part.strip() for part in found.split(",")} if found not in column.counts else {found}
        unknown = left_out - set(column.counts)
        if unknown:
            raise Refuted(
                "state",
                found,
                sentence("{column} has no {unknown}.", column=column.name, unknown=shown_all(sorted(unknown))),
            )
        listed = list(column.distinct)
        if not column.is_filled:
            listed.append("")
        values = {value: str(value in left_out).lower() for value in listed}
        self._interview.prove(
            sentence(
                "Left out: members whose {column} is {left_out}",
                column=column.name,
                left_out=" or ".join(sorted(left_out)),
            )
        )
        return {column.name: values}

    def _find_coupon_status(self) -> str | None:
        columns = self._with_role("coupons")
        if not columns:
            return None
        choices = {
            "available": sentence("Coupons that can still be used"),
            "unknown": sentence("Coupons, used or not"),
            NONE: sentence("Something else: leave it out"),
        }
        text = sentence("What are the codes in {column}?", column=columns[0].name)
        found = self._interview.choose("coupons", "state", text, choices, must_confirm=True)
        if found != NONE:
            self._roles[columns[0].name] = "coupons"
        return found if found == "available" else None

    def _find_base(self) -> str:
        known = [base.id for base in self._bases]
        text = sentence("To which membership base do they belong? A new one gets the name that you type.")
        default = self._base or (known[0] if len(known) == 1 else None)
        found = self._interview.choose("base", "shop", text, known, free=True, default=default)
        if "base" in self._interview.used and not found.strip():
            raise Refuted("base", found, sentence("A base needs a name."))
        return found or "?"

    # --- the form ------------------------------------------------------------------------------

    def _complete(self, questions: Sequence[Question], mapping: str) -> Form:
        """Return the form with the totals of the members as they would be imported."""
        options = ImportOptions(timezone=self._timezone, today=self._today, bases=tuple(self._bases))
        records, reasons, left_out, notes = list[dict[str, Any]](), Counter[str](), Counter[str](), list[str]()
        try:
            for result in member_records(parse_mapping(tomllib.loads(mapping), "the answers"), options, self._paths):
                match result:
                    case ImportedRecord():
                        records.append(result.record)
                    case RejectedRow():
                        reasons[result.reason] += 1
                    case SkippedRow():
                        left_out[result.reason] += 1
                    case ImportNote():
                        notes.append(result.text)
        except ImportFailed as error:
            return self._form(questions, (), advice=str(error))
        people = [record for record in records if record["kind"] == "member"]
        tiers = Counter(record["rank"] for record in people if "rank" in record)
        totals = MemberTotals(
            members=len(people),
            rejected=reasons.total(),
            points=_total(people, "points"),
            credit=_total(people, "credit"),
            phones=sum("tel" in record for record in people),
            emails=sum("email" in record for record in people),
            tiers=dict(tiers.most_common()),
        )
        skipped = tuple(
            LeftOutBills(bills=0, net="", reason=sentence("{count} rows: {reason}", count=f"{count:,}", reason=reason))
            for reason, count in left_out.items()
        )
        return self._form(questions, (), members=totals, mapping=mapping, notes=notes, left_out=skipped)

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
        never = [name for name in table.columns if name not in self._roles and role_of(name) == "person"]
        assumed = [*interview.assumed, *notes, *assumptions(questions)]
        asked = {*interview.used, *(question.id for question in questions)}
        return Form(
            file=sentence(
                "{table}: {rows} rows, {columns} columns, members",
                table=table.name,
                rows=f"{len(table.rows):,}",
                columns=len(table.columns),
            ),
            columns=tuple(self._view(name, asked) for name in table.columns),
            rows=tuple(
                tuple(column.values[row] for column in table.columns.values())
                for row in range(min(FIRST_ROWS, len(table.rows)))
            ),
            questions=tuple(questions),
            answers=dict(interview.answers),
            refused=tuple(refused),
            proven=tuple(interview.proven),
            assumed=tuple(assumed),
            left_out=left_out,
            advice=advice,
            mapping=mapping,
            members=members,
            never_stored=tuple(never),
        )

    def _view(self, name: str, asked: set[str]) -> ColumnView:
        role = self._roles.get(name, "")
        if not role:
            return ColumnView(heading=name, role="", standing="unread")
        return ColumnView(heading=name, role=role, standing="asked" if role in asked else "visible")


_ORDERS = {"dmy": "day/month", "mdy": "month/day", "ymd": "year/month/day"}


def _tells_apart(column: TableColumn, share: Decimal) -> bool:
    """Return whether this share of the rows has a value that no other row has. The others are rejected by name."""
    return 0 < share * len(column.values) <= len(column.counts) and not column.is_date and not column.has_decimals


def _sum(column: TableColumn) -> str:
    total = sum((column.amount(row) for row in range(len(column.values))), Decimal())
    return f"{total:,f}"


def _total(records: Sequence[dict[str, Any]], name: str) -> str:
    total = Decimal()
    for record in records:
        value = record.get(name, "0")
        lots = value if isinstance(value, list) else [{"amount": value}]
        total += sum((Decimal(lot["amount"]) for lot in lots), Decimal())
    return decimal_text(total)


def _question(doubt: Doubt) -> Question:
    nothing = LeftOutBills(bills=0, net="")
    options = [
        AnswerOption(answer=answer, text=text, bills=0, net="", left_out=nothing)
        for answer, text in doubt.choices.items()
    ]
    return Question(
        id=doubt.id,
        text=doubt.text,
        kind=doubt.kind,
        options=tuple(options),
        example=doubt.example,
        free=doubt.free,
        default=doubt.default,
    )
