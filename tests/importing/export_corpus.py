"""Invented exports in the styles of many POS systems, all written from lists of true bills, so that the truth is known.

A style names its columns and how it writes them; `write` writes the files, and `truth` gives the figures that an import
must arrive at: bills, voids, refunds, net, tip and tax per shop and day.
"""

import csv
import io
import random
import tomllib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

from openpyxl import Workbook

from importing.exports import Outcome

FIRST_DAY = date(2026, 11, 14)
MENU = [("Khao soi", 95), ("Iced tea", 50), ("Papaya salad", 80), ("Sea bass", 420), ("Rice", 15), ("Coffee", 65)]
CENT = Decimal("0.01")
Figures = dict[tuple[str, str], dict[str, Decimal]]


@dataclass
class TrueLine:
    name: str
    qty: int
    price: Decimal
    cancelled: bool = False

    @property
    def total(self) -> Decimal:
        return self.qty * self.price


@dataclass
class TrueBill:
    """What really happened at the till."""

    shop: str
    till: str
    number: int
    closed: datetime
    lines: list[TrueLine]
    status: str
    discount: Decimal
    service: Decimal
    delivery: Decimal
    tax: Decimal
    tax_on_top: bool
    rounding: Decimal
    tip: Decimal
    method: str
    is_split: bool

    @property
    def gross(self) -> Decimal:
        return sum((line.total for line in self.lines if not line.cancelled), Decimal())

    @property
    def before_tax(self) -> Decimal:
        base = self.gross - self.discount + self.service
        return base if self.tax_on_top else base - self.tax

    @property
    def total(self) -> Decimal:
        added = self.tax if self.tax_on_top else 0
        return self.gross - self.discount + self.service + self.delivery + added + self.rounding

    @property
    def paid(self) -> Decimal:
        return self.total + self.tip

    @property
    def fee(self) -> Decimal:
        return (self.paid * 3 / 100).quantize(CENT)

    @property
    def payout(self) -> Decimal:
        return self.paid - self.fee

    @property
    def after_discount(self) -> Decimal:
        return self.gross - self.discount

    @property
    def received(self) -> Decimal:
        """What the customer handed over: notes, if it was cash."""
        return (self.paid // 100 + 1) * 100 if self.method == "Cash" else self.paid

    @property
    def change(self) -> Decimal:
        return self.received - self.paid

    def payments(self) -> dict[str, Decimal]:
        if not self.is_split:
            return {self.method: self.paid}
        first = (self.paid / 2).quantize(Decimal(1))
        return {"Cash": first, "Card": self.paid - first}


@dataclass
class Style:
    """How one POS writes its exports. `columns` and the others are written as `meaning=Heading; meaning=Heading`."""

    name: str
    columns: str
    lines: str = ""
    payments: str = ""
    seed: int = 1
    first_day: date = FIRST_DAY
    days: int = 3
    bills_per_day: int = 8
    shops: Sequence[str] = ("Riverside",)
    tills: Sequence[str] = ("POS1",)
    tax: int = 0
    tax_on_top: bool = False
    tips: bool = False
    discounts: bool = False
    service: int = 0
    delivery: bool = False
    rounding: bool = False
    splits: bool = False
    cancelled_lines: bool = False
    line_statuses: tuple[str, str] = ("Void Item", "Order Success")
    is_row_per_payment: bool = False
    unit: int = 1
    restarts: str = "day"
    """When numbers start again: `day`, `till`, or never (an empty text)."""
    statuses: dict[str, str] = field(default_factory=lambda: {"sale": "Paid", "void": "Void"})
    date: str = "%d/%m/%Y"
    time: str = "%H:%M"
    year_offset: int = 0
    money: str = "{:.2f}"
    has_decimal_comma: bool = False
    quantity: str = "{}"
    negative_discounts: bool = False
    refund_sign: int = 1
    delimiter: str = ","
    encoding: str = "utf-8"
    title: Sequence[str] = ()
    totals_row: Sequence[str] = ()
    """Cells of a last row: `sum`, a label, or an empty text, one for each column."""
    first_row_only: bool = False
    one_file_per_day: bool = False
    is_workbook: bool = False
    """Whether the export is an Excel workbook, with typed cells and a second sheet."""

    def written(self, amount: Decimal) -> str:
        text = self.money.format(amount)
        return text.translate(str.maketrans(",.", ".,")) if self.has_decimal_comma else text


STYLES = [
    Style(**style)
    for style in tomllib.loads(Path(__file__).with_name("corpus_styles.toml").read_text("utf-8"))["style"]
]


def true_bills(style: Style) -> list[TrueBill]:
    """Return the bills of a style. The same style always has the same bills."""
    dice = random.Random(style.seed)  # noqa: S311 - invented data
    bills: list[TrueBill] = []
    counters: dict[tuple[object, ...], int] = defaultdict(int)
    statuses = [status for status in style.statuses if status != "sale"]
    for day in range(style.days):
        for place in range(style.bills_per_day):
            for shop in style.shops:
                till = style.tills[place % len(style.tills)]
                today = style.first_day + timedelta(days=day)
                counter = (shop, till if style.restarts == "till" else "", today if style.restarts else "")
                counters[counter] += 1
                status = (
                    statuses[place % len(statuses)]
                    if statuses and day < 2 and 2 <= place < 2 + len(statuses)
                    else "sale"
                )
                bills.append(_true_bill(style, dice, shop, till, counters[counter], today, place, status))
    return bills


def _rounded(style: Style, number: Decimal) -> Decimal:
    return number.quantize(Decimal(1) if style.unit > 1 else CENT, ROUND_HALF_UP)


def _true_bill(
    style: Style, dice: random.Random, shop: str, till: str, number: int, day: date, place: int, status: str
) -> TrueBill:
    lines = [
        TrueLine(name, dice.randint(1, 3), Decimal(price * style.unit))
        for name, price in dice.sample(MENU, dice.randint(1, 4))
    ]
    if style.cancelled_lines and len(lines) > 1 and place % 3 == 0:
        lines[-1].cancelled = True
    gross = sum((line.total for line in lines if not line.cancelled), Decimal())
    discount = Decimal(10 * style.unit) if style.discounts and place % 4 == 1 else Decimal()
    charged = gross - discount
    service = _rounded(style, charged * style.service / 100)
    taxed = charged + service
    tax = _rounded(style, taxed * style.tax / (100 if style.tax_on_top else 100 + style.tax))
    delivery = Decimal(20 * style.unit) if style.delivery and place % 3 == 1 else Decimal()
    tip = Decimal((20 + place) * style.unit) if style.tips and place % 2 == 0 else Decimal()
    total = taxed + delivery + (tax if style.tax_on_top else 0)
    rounding = ((total * 4).quantize(Decimal(1), ROUND_HALF_UP) / 4 - total) if style.rounding else Decimal()
    closed = datetime(day.year, day.month, day.day, 11 + place, (7 * place) % 60)  # noqa: DTZ001 - local time of the shop
    return TrueBill(
        shop, till, number, closed, lines, status, discount, service, delivery, tax, style.tax_on_top,
        rounding, tip, ["Cash", "Card"][place % 2], style.splits and place % 3 == 0,
    )  # fmt: skip


def truth(style: Style) -> Figures:
    """Return what an import of the style must arrive at, per shop and day."""
    figures: Figures = {}
    for bill in true_bills(style):
        if bill.status == "open":
            continue
        day = figures.setdefault((bill.shop, bill.closed.date().isoformat()), no_figures())
        day["bills"] += 1
        day["voids"] += bill.status == "void"
        day["refunds"] += bill.status == "refund"
        if bill.status == "void":
            continue
        sign = -1 if bill.status == "refund" else 1
        day["net"] += sign * bill.paid
        day["tip"] += sign * bill.tip
        day["tax"] += sign * bill.tax
    return figures


def no_figures() -> dict[str, Decimal]:
    return {name: Decimal() for name in ("bills", "voids", "refunds", "net", "tip", "tax")}


# --- writing -------------------------------------------------------------------------


def write(style: Style, folder: Path) -> tuple[list[Path], list[Path], list[Path]]:
    """Write the export; return its files of bills, of lines and of payments."""
    bills = true_bills(style)
    columns = _columns(style.columns)
    is_flat = any(meaning in ("item", "qty", "amount") for meaning, _ in columns)
    days = sorted({bill.closed.date() for bill in bills}) if style.one_file_per_day else [None]
    files = []
    for day in days:
        some = [bill for bill in bills if day is None or bill.closed.date() == day]
        rows = [row for bill in some for row in _rows(style, bill, columns, is_flat=is_flat)]
        if style.is_row_per_payment:
            rows = _payment_rows(style, some, columns)
        files.append(_save(style, folder / f"bills{f'-{day}' if day else ''}.csv", columns, rows))
    lines, payments = [], []
    if style.lines:
        columns = _columns(style.lines)
        rows = [row for bill in bills for row in _rows(style, bill, columns, is_flat=True)]
        lines.append(_save(style, folder / "lines.csv", columns, rows))
    if style.payments:
        columns = _columns(style.payments)
        payments.append(_save(style, folder / "payments.csv", columns, _payment_rows(style, bills, columns)))
    return files, lines, payments


def _payment_rows(style: Style, bills: list[TrueBill], columns: list[tuple[str, str]]) -> list[list[str]]:
    return [
        [_cell(style, bill, None, meaning, payment) for meaning, _ in columns]
        for bill in bills
        for payment in bill.payments().items()
    ]


def _columns(text: str) -> list[tuple[str, str]]:
    return [(meaning.strip(), heading) for meaning, _, heading in (part.partition("=") for part in text.split("; "))]


def _rows(style: Style, bill: TrueBill, columns: list[tuple[str, str]], *, is_flat: bool) -> list[list[str]]:
    rows = [
        [_cell(style, bill, line, meaning) for meaning, _ in columns] for line in (bill.lines if is_flat else [None])
    ]
    if style.first_row_only:
        of_lines = ("item", "qty", "price", "amount", "line_status")
        for row in rows[1:]:
            row[:] = [cell if columns[place][0] in of_lines else "" for place, cell in enumerate(row)]
    return rows


def _save_workbook(style: Style, path: Path, columns: list[tuple[str, str]], rows: list[list[str]]) -> Path:
    book = Workbook()
    sheet = book["Sheet"]
    for title in style.title:
        sheet.append([title])
    sheet.append([heading for _, heading in columns])
    for row in rows:
        sheet.append([_typed(style, columns[place][0], cell) for place, cell in enumerate(row)])
    book.create_sheet("About").append(["Printed by the invented till"])
    book.save(path)
    return path


def _typed(style: Style, meaning: str, cell: str) -> object:
    if meaning == "datetime":
        return datetime.strptime(cell, f"{style.date} {style.time}")  # noqa: DTZ007 - cells of a workbook have no zone
    if meaning in ("id", "table", "status", "method", "item"):
        return cell
    try:
        return float(cell)
    except ValueError:
        return cell


def _save(style: Style, path: Path, columns: list[tuple[str, str]], rows: list[list[str]]) -> Path:
    if style.is_workbook:
        return _save_workbook(style, path.with_suffix(".xlsx"), columns, rows)
    text = io.StringIO()
    writer = csv.writer(text, delimiter=style.delimiter, lineterminator="\n")
    for title in style.title:
        writer.writerow([title] + [""] * (len(columns) - 1))
    writer.writerow([heading for _, heading in columns])
    writer.writerows(rows)
    if style.totals_row:
        writer.writerow([_total_cell(style, label, columns[place][0]) for place, label in enumerate(style.totals_row)])
    path.write_bytes(text.getvalue().encode(style.encoding))
    return path


def _total_cell(style: Style, label: str, meaning: str) -> str:
    if label != "sum":
        return label
    bills = [bill for bill in true_bills(style) if bill.status == "sale"]
    if meaning == "amount":
        return style.written(sum((line.total for bill in bills for line in bill.lines), Decimal()))
    return style.written(sum((_amount(bill, meaning) for bill in bills), Decimal()))


def _amount(bill: TrueBill, meaning: str) -> Decimal:
    return Decimal(getattr(bill, meaning))


def _cell(
    style: Style, bill: TrueBill, line: TrueLine | None, meaning: str, payment: tuple[str, Decimal] | None = None
) -> str:
    sign = style.refund_sign if bill.status == "refund" else 1
    texts: dict[str, Callable[[], str]] = {
        "id": lambda: f"{bill.number:04}",
        "dated_id": lambda: f"INV{bill.closed:%y%m%d}-{bill.number:03}",
        "long_id": lambda: f"13{bill.closed:%Y%m%d}{bill.shop == 'Riverside':d}{bill.number:08}",
        "uuid": lambda: _uuid(bill),
        "date": lambda: _date(style, bill.closed),
        "time": lambda: bill.closed.strftime(style.time),
        "datetime": lambda: f"{_date(style, bill.closed)} {bill.closed.strftime(style.time)}",
        "shop": lambda: bill.shop,
        "till": lambda: bill.till,
        "zone": lambda: "Asia/Bangkok",
        "table": lambda: f"T{bill.number % 9 + 1}",
        "method": lambda: payment[0] if payment else bill.method,
        "amount_paid": lambda: style.written(sign * (payment[1] if payment else bill.paid)),
        "status": lambda: style.statuses.get(bill.status, style.statuses.get("sale", "")),
        "flag": lambda: style.statuses["void"] if bill.status == "void" else style.statuses["sale"],
    }
    if line is not None:
        texts |= {
            "item": lambda: line.name,
            "qty": lambda: style.quantity.format(sign * line.qty),
            "price": lambda: style.written(line.price),
            "amount": lambda: style.written(sign * line.total),
            "line_status": lambda: style.line_statuses[0 if line.cancelled else 1],
        }
    if meaning in texts:
        return texts[meaning]()
    if meaning.startswith("way "):
        return style.written(sign * bill.payments().get(meaning.removeprefix("way "), Decimal()))
    value = _amount(bill, meaning)
    if meaning == "discount" and style.negative_discounts:
        value = -value
    return style.written(sign * value)


def _date(style: Style, moment: datetime) -> str:
    year = moment.year + style.year_offset
    form = style.date.replace("%Y", str(year)).replace("%y", f"{year % 100:02}")
    return moment.strftime(form)


def _uuid(bill: TrueBill) -> str:
    dice = random.Random(f"{bill.shop}{bill.till}{bill.number}{bill.closed}")  # noqa: S311 - invented data
    letters = "".join(dice.choice("0123456789abcdef") for _ in range(32))
    return f"{letters[:8]}-{letters[8:12]}-{letters[12:16]}-{letters[16:20]}-{letters[20:]}"


def expected(style: Style) -> Figures:
    return {place: _shown(style, day) for place, day in truth(style).items()}


def figures(style: Style, found: Outcome) -> Figures:
    """Return what the imported bills add up to, per shop and day."""
    names = {shop["id"]: shop["name"] for shop in found.shops}
    result: Figures = {}
    for bill in found.bills:
        shop = names[bill["shopId"]] if len(names) > 1 or names[bill["shopId"]] in style.shops else style.shops[0]
        day = result.setdefault((shop, bill["closedAt"][:10]), no_figures())
        amounts: dict[str, Any] = bill["amounts"]
        net = Decimal(amounts["net"])
        day["bills"] += 1
        day["voids"] += bool(bill.get("void"))
        if bill.get("void"):
            continue
        day["refunds"] += net < 0
        day["net"] += net
        day["tip"] += Decimal(amounts.get("tip", 0))
        day["tax"] += Decimal(amounts.get("vat", 0))
    ids = {(bill["shopId"], bill["id"]) for bill in found.bills}
    assert len(ids) == len(found.bills)
    return {place: _shown(style, day) for place, day in result.items()}


def _shown(style: Style, day: dict[str, Decimal]) -> dict[str, Decimal]:
    left_out = set() if "tax=" in style.columns else {"tax"}
    left_out |= set() if "tip=" in style.columns else {"tip"}
    return {name: value for name, value in day.items() if name not in left_out}
