"""Finds what the columns of a table of members have, asks about the rest, and writes it as a mapping.

Balances have no default: a column of points or credit is read only if somebody says so.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from counterfoil.importer.accepted.toml_text import TomlText, key
from counterfoil.importer.columns import ExportTable, TableColumn
from counterfoil.importer.form import sentence
from counterfoil.importer.interview import Interview, NeedsOtherReport, Refuted
from counterfoil.importer.members.member_headings import (
    is_balance_of_now,
    may_be_credit,
    may_be_points,
    rank_of,
    role_of,
)
from counterfoil.importing.mapping import KnownBase
from counterfoil.importing.sheets import CsvFile
from counterfoil.importing.values import order_of, ordered_date, shown_all

NONE, ALL = "none", "all"
MOST_STATES, MOST_TIERS, MOST_CHOICES = 6, 20, 4
MOSTLY, NEARLY_ALL = Decimal("0.5"), Decimal("0.9")
_NATIONAL_DIGITS = 9
_DATED = ("createdAt", "lastVisit", "pointsExpireAt", "creditExpireAt")
_NUMBERED = ("points", "credit", "visits")
_ORDERS = {"dmy": "day/month", "mdy": "month/day", "ymd": "year/month/day"}


class MemberColumns:
    """The roles of the columns of a table of members, as far as headings, values and answers show them."""

    def __init__(
        self, table: ExportTable, interview: Interview, bases: Sequence[KnownBase], usual_base: str | None
    ) -> None:
        self._table = table
        self._interview = interview
        self._bases = bases
        self._usual_base = usual_base
        self.roles: dict[str, str] = {}
        """The roles of the columns that are read."""

    def mapping(self) -> str:
        """Return the mapping of the table. Until all is answered, it is that of the most probable answers."""
        member_id = self._find_id()
        columns = self._table.columns
        points_of_now = [name for name in columns if may_be_points(name)]
        points = self._find_balance("points", "points", points_of_now)
        credit_of_now = [name for name in columns if may_be_credit(name)]
        credit = self._find_balance("credit", "store credit", credit_of_now)
        self._take_first("tel")
        self._take_first("email")
        self._take_dates(has_points=points is not None, has_credit=credit is not None)
        self._take_visits()
        order = self._find_date_order()
        tiers = self._find_tiers()
        phone_prefix = self._find_phone_prefix()
        left_out = self._find_states()
        coupon_status = self._find_coupon_status()
        base = self._find_base()

        toml = TomlText("Accepted answers about a table of members, and what they lead to.")
        for name, answer in self._interview.answers.items():
            toml.add("[answers]", key(name), answer)
        self._write_file(toml, order)
        toml.add("[base]", "id", base)
        if credit:
            toml.add("[base]", "creditEnabled", value=True)
        if tiers:
            toml.add("[base]", "tiers", [{"code": tier} for tier in tiers], "in any order: it changes no answer")
        toml.add("[member]", "id", member_id)
        for name, role in self.roles.items():
            if role != "id":
                toml.add("[member]", role, self._cell(name, role))
        if phone_prefix:
            toml.add("[member]", "telPrefix", {"constant": phone_prefix})
        if left_out:
            toml.add("[member]", "leftOut", left_out)
        if coupon_status:
            toml.add("[member]", "couponStatus", {"constant": coupon_status})
        return toml.text()

    def _cell(self, name: str, role: str) -> Any:
        """Return the entry of the mapping that reads a column."""
        decimal = self._table.columns[name].numbers.decimal
        if role in _NUMBERED and decimal != ".":
            return {"column": name, "decimal": decimal}
        if role == "coupons":
            return {"column": name, "split": ","}
        return name

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
        """Return the filled columns whose headings have a role, the most common heading first."""
        found = [column for column in self._table.columns.values() if role_of(column.name) == role and column.filled]
        return sorted(found, key=lambda column: rank_of(column.name, role))

    def _find_id(self) -> str:
        """Return the column of the ID. If several tell the members apart, it is asked which one bills name."""
        named = [column for column in self._with_role("id") if _tells_apart(column, MOSTLY)]
        contacts = [*self._with_role("tel"), *self._with_role("email")]
        others = [column for column in contacts if _tells_apart(column, NEARLY_ALL)]
        candidates = named or others
        if not candidates:
            raise NeedsOtherReport(
                sentence(
                    "No column tells the members apart: each row needs an ID that no other row has, or a phone "
                    "number or an email address. Export a report with the number of each member."
                )
            )
        if len(named) == 1:
            [column] = named
            rows = f"{column.filled:,} of {len(column.values):,} rows, with {len(column.counts):,} different values"
            self._interview.prove(
                sentence("{column} is the ID of a member: it is filled on {rows}", column=column.name, rows=rows)
            )
            found = column.name
        else:
            text = sentence("Which column is the ID of a member, as bills name it?")
            names = [column.name for column in candidates]
            found = self._interview.choose("id", "member", text, names, must_confirm=True)
        self.roles[found] = "id"
        return found

    def _find_balance(self, question: str, what: str, names: Sequence[str]) -> str | None:
        """Return the column with the balance that somebody named, or None."""
        candidates = []
        for name in names:
            column = self._table.columns[name]
            if name not in self.roles and column.filled and column.is_number:
                candidates.append(column)
        if not candidates:
            return None
        candidates.sort(key=lambda column: not is_balance_of_now(column.name))
        choices = {}
        for column in candidates[: MOST_CHOICES - 1]:
            total = sum((column.amount(row) for row in range(len(column.values))), Decimal())
            choices[column.name] = sentence("{column}: {sum} in all", column=column.name, sum=f"{total:,f}")
        choices[NONE] = sentence("None of them: leave them out")
        text = sentence("Which column has the {what} that a member can use now?", what=what)
        found = self._interview.choose(question, "money", text, choices, must_confirm=True)
        if found == NONE:
            return None
        self.roles[found] = question
        return found

    def _take_first(self, role: str) -> None:
        """Read the first column that has a role and no other one yet."""
        for column in self._with_role(role):
            if column.name not in self.roles:
                self.roles[column.name] = role
                return

    def _take_dates(self, *, has_points: bool, has_credit: bool) -> None:
        """Read when members signed up and, of balances that are read, when they expire."""
        self._take_date("createdAt")
        if has_points:
            self._take_date("pointsExpireAt")
        if has_credit:
            self._take_date("creditExpireAt")

    def _take_date(self, role: str) -> None:
        """Read the first column of dates that has a role."""
        for column in self._with_role(role):
            if column.is_date:
                self.roles[column.name] = role
                return

    def _take_visits(self) -> None:
        """Read the number of visits and the latest one, if both are there: neither is stored without the other."""
        counts = [column for column in self._with_role("visits") if column.is_number and column.is_whole]
        latest = [column for column in self._with_role("lastVisit") if column.is_date]
        if counts and latest:
            self.roles[counts[0].name] = "visits"
            self.roles[latest[0].name] = "lastVisit"

    def _find_date_order(self) -> str | None:
        """Return the order of day, month and year, or None if no date depends on it."""
        columns = [name for name, role in self.roles.items() if role in _DATED]
        dates: list[str] = []
        for name in columns:
            dates += filter(None, map(ordered_date, self._table.columns[name].distinct))
        if not dates:
            return None
        proven = set(filter(None, map(order_of, dates)))
        if len(proven) > 1:
            raise NeedsOtherReport(
                sentence(
                    "Some dates of {columns} can only be day/month, and others only month/day. A spreadsheet may "
                    "have changed them: export the members again, without opening the file in between.",
                    columns=shown_all(columns),
                )
            )
        if proven:
            [order] = proven
            self._interview.prove(
                sentence(
                    "{columns}: a date can only be read as {order}", columns=shown_all(columns), order=_ORDERS[order]
                )
            )
            return order
        text = sentence("{column} has {date}. Which number is the day?", column=columns[0], date=dates[0])
        choices = {"dmy": sentence("The first one"), "mdy": sentence("The second one")}
        return self._interview.choose("dates", "day", text, choices, must_confirm=True)

    def _find_tiers(self) -> list[str]:
        """Return the tiers in any order: no member of a file has a position in it, so it changes no answer."""
        columns = [column for column in self._with_role("rank") if len(column.counts) <= MOST_TIERS]
        if not columns:
            return []
        self.roles[columns[0].name] = "rank"
        return columns[0].distinct

    def _find_phone_prefix(self) -> str | None:
        """Return what to put before phone numbers from which a spreadsheet has taken the first zero."""
        columns = [self._table.columns[name] for name, role in self.roles.items() if role == "tel"]
        if not columns:
            return None
        [column] = columns
        has_zero = any(value.startswith(("0", "+", "(")) for value in column.distinct)
        lengths = {len(value) for value in column.distinct if value.isdigit()}
        if has_zero or lengths != {_NATIONAL_DIGITS}:
            return None
        text = sentence(
            "No number of {column} begins with 0. Did a spreadsheet take the zero away?", column=column.name
        )
        choices = {"0": sentence("Yes: put a 0 before each of them"), NONE: sentence("No: leave them as they are")}
        answer = self._interview.choose("phones", "member", text, choices, must_confirm=True)
        return None if answer == NONE else answer

    def _find_states(self) -> dict[str, Any] | None:
        """Return the entry that says which values of a column of states leave a row out, or None."""
        columns = [column for column in self._with_role("state") if 1 < len(column.counts) <= MOST_STATES]
        if not columns:
            return None
        column = columns[0]
        counted = ", ".join(f"{value} {count:,}" for value, count in column.counts.most_common())
        choices = {ALL: sentence("All of them")}
        rarest_first = column.distinct[::-1]
        for value in rarest_first[: MOST_CHOICES - 1]:
            choices[value] = sentence(
                "All but {value}: leave out {counts}", value=value, counts=f"{column.counts[value]:,}"
            )
        text = sentence("{column} has {counted}. Which of them are members?", column=column.name, counted=counted)
        answer = self._interview.choose("state", "state", text, choices, free=True, must_confirm=True)
        if answer == ALL:
            return None
        left_out = _states_in(answer, column)
        self._interview.prove(
            sentence(
                "Left out: members whose {column} is {left_out}",
                column=column.name,
                left_out=" or ".join(sorted(left_out)),
            )
        )
        listed = list(column.distinct)
        if not column.is_filled:
            listed.append("")
        return {"column": column.name, "values": {value: str(value in left_out).lower() for value in listed}}

    def _find_coupon_status(self) -> str | None:
        """Return the status of all coupons, or None if it is not known, or nobody says that these are coupons."""
        columns = self._with_role("coupons")
        if not columns:
            return None
        choices = {
            "available": sentence("Coupons that can still be used"),
            "unknown": sentence("Coupons, used or not"),
            NONE: sentence("Something else: leave it out"),
        }
        text = sentence("What are the codes in {column}?", column=columns[0].name)
        answer = self._interview.choose("coupons", "state", text, choices, must_confirm=True)
        if answer != NONE:
            self.roles[columns[0].name] = "coupons"
        return answer if answer == "available" else None

    def _find_base(self) -> str:
        """Return the membership base, or a question mark until it is named."""
        known = [base.id for base in self._bases]
        default = self._usual_base
        if not default and len(known) == 1:
            default = known[0]
        text = sentence("To which membership base do they belong? A new one gets the name that you type.")
        found = self._interview.choose("base", "shop", text, known, free=True, default=default)
        is_answered = "base" in self._interview.used
        if is_answered and not found.strip():
            raise Refuted("base", found, sentence("A base needs a name."))
        return found or "?"


def _tells_apart(column: TableColumn, share: Decimal) -> bool:
    """Return whether this share of the rows has a value that no other row has. The others are rejected by name."""
    if column.is_date or column.has_decimals:
        return False
    return 0 < share * len(column.values) <= len(column.counts)


def _states_in(answer: str, column: TableColumn) -> set[str]:
    """Return the states that an answer such as `Blocked` or `Blocked, Left` names, or refute it."""
    if answer in column.counts:
        return {answer}
    named = {part.strip() for part in answer.split(",")}
    unknown = named - set(column.counts)
    if unknown:
        reason = sentence("{column} has no {unknown}.", column=column.name, unknown=shown_all(sorted(unknown)))
        raise Refuted("state", answer, reason)
    return named
