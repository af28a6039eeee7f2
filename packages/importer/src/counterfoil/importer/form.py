"""The form: what an export proves, what is shown to be confirmed, and what a person must answer.

`docs/import-form.md` describes its JSON. Amounts are texts, so that no reader rounds them.
"""

from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from counterfoil.importing.sentences import FormText, collect_texts
from counterfoil.importing.sentences import joined as joined  # noqa: PLC0414 - for what makes the form
from counterfoil.importing.sentences import sentence as sentence  # noqa: PLC0414 - for what makes the form

VERSION: Final = 1
MOST_QUESTIONS: Final = 5
"""A file that needs more answers is refused with advice on another report of the till."""
MOST_OPTIONS: Final = 4
FIRST_ROWS: Final = 20

Standing = Literal["proven", "visible", "asked", "unread"]
"""How a column was decided: by sums and values, shown to be confirmed, by an answer, or not read at all."""
Kind = Literal["file", "bill", "member", "state", "money", "day", "shop"]
"""What a question is about. Only questions about shops, and the base of members, have a default: class `shop`."""


class FormPart(Struct, frozen=True, rename="camel"):
    """A part of the form."""


class FormFiles(Struct, frozen=True):
    """The files of one export: bills and, if they are in files of their own, their lines and payments."""

    bills: tuple[Path, ...]
    lines: tuple[Path, ...] = ()
    payments: tuple[Path, ...] = ()


class KnownShop(Struct, frozen=True):
    """A shop that the store knows. Nothing is asked about it."""

    id: str
    name: str | None = None
    franchise_id: str | None = None
    timezone: str | None = None
    closing_time: str | None = None


class LeftOutBills(FormPart, frozen=True, kw_only=True):
    """Bills that are not imported, with the money that their rows name."""

    bills: int
    net: str
    reason: str = ""


class AnswerOption(FormPart, frozen=True, kw_only=True):
    """An answer that is offered, and what the file would be with it."""

    answer: str
    text: str
    bills: int
    net: str
    left_out: LeftOutBills
    first: str | None = None
    """The local time of the first bill, with its offset."""
    last: str | None = None
    example: str = ""
    """What the answer makes of one bill, as in `bill 1002: 588.50 + 40.00 = 628.50`."""


class Question(FormPart, frozen=True, kw_only=True):
    id: str
    """The same for the same file. `--answers` names it, and the mapping keeps it in `[answers]`."""
    text: str
    kind: Kind = field(name="class")
    options: tuple[AnswerOption, ...]
    example: str = ""
    """The values of the file that the question is about."""
    free: bool = False
    """Whether another answer than those of the options can be given, such as the name of a time zone."""
    default: str | None = None
    """The answer that stands if none is given. It is then listed in `assumed`. What changes money has none."""


class OtherRole(FormPart, frozen=True):
    """A role that a column does not have, although its values fit it."""

    role: str
    refuted: str = ""
    """What refutes it, with the first bill that does, or an empty text if only the answers or the heading decide."""


class ColumnView(FormPart, frozen=True, kw_only=True):
    heading: str
    role: str
    """What the column is read as, such as `total`, or an empty text if it is not read."""
    standing: Standing = field(name="class")
    equation: str = ""
    """The sum that proves it, as in `Total = Subtotal + VAT on 6 of 6 bills`."""
    others: tuple[OtherRole, ...] = ()


class RefusedAnswer(FormPart, frozen=True, kw_only=True):
    """An answer that the file refutes, or that nothing asks for."""

    id: str
    answer: str
    reason: str


class DayTotals(FormPart, frozen=True, kw_only=True):
    day: str
    shop: str
    bills: int
    voids: int
    refunds: int
    net: str
    tip: str
    tax: str


class Totals(FormPart, frozen=True, kw_only=True):
    """What would be loaded. Bills count voided ones, and net leaves them out."""

    bills: int
    voids: int
    refunds: int
    net: str
    tip: str
    tax: str
    rows_read: int
    rows: int
    days: tuple[DayTotals, ...]


class MemberTotals(FormPart, frozen=True, kw_only=True):
    """What would be loaded of a table of members."""

    members: int
    rejected: int
    points: str
    credit: str
    phones: int
    emails: int
    tiers: dict[str, int]
    """The number of members by the code of their tier."""


class Form(FormPart, frozen=True, kw_only=True):
    v: int = VERSION
    file: str
    """A sentence about the file: its rows, columns and encoding."""
    is_sample: bool = False
    """Whether the file has more rows than the form was made from. All bills and money are those of the first rows."""
    columns: tuple[ColumnView, ...]
    rows: tuple[tuple[str, ...], ...]
    """The first rows, with a cell for each of the columns."""
    questions: tuple[Question, ...]
    """Those that have no answer yet, the next one first. They may change with each answer."""
    answers: dict[str, str]
    refused: tuple[RefusedAnswer, ...] = ()
    proven: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    """What nobody said and nothing proves, although it cannot change money, such as the time zone of the shop."""
    left_out: tuple[LeftOutBills, ...] = ()
    totals: Totals | None = None
    """None while a question is open."""
    members: MemberTotals | None = None
    """The totals of a table of members, which has no `totals`. None while a question is open."""
    never_stored: tuple[str, ...] = ()
    """The columns about people that no store keeps, such as names and birthdays."""
    advice: str = ""
    """Why this file cannot be answered for, and which report of the till to export instead."""
    mapping: str = ""
    """The mapping that was accepted, as TOML. Empty while a question is open."""
    texts: tuple[FormText, ...] = ()
    """The texts above that were made of a template, for translations. All texts above are whole English ones."""

    @property
    def open(self) -> tuple[Question, ...]:
        """The questions without which nothing can be loaded."""
        return tuple(question for question in self.questions if question.default is None)

    @property
    def is_complete(self) -> bool:
        """Whether the files can be loaded: nothing is open, no answer was refused, and no other report is needed."""
        return not self.open and not self.refused and not self.advice


def json_of(form: Form) -> bytes:
    said: dict[str, FormText] = {text.text: text for text in form.texts}
    collect_texts(form, said)
    # A sentence is encoded as its text.
    return msgspec.json.encode(replace(form, texts=tuple(said.values())), enc_hook=str)


def form_of(text: bytes | str) -> Form:
    """Return the form that its JSON describes, or raise `msgspec.ValidationError`."""
    return msgspec.json.decode(text, type=Form)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a form."""
    return msgspec.json.schema(Form)
