"""Writes the mapping of a reading: what was accepted, what it leads to, and a few checks for later files."""

from collections.abc import Sequence
from itertools import permutations
from typing import Any

from counterfoil.importer.amount_columns import EITHER, ROW
from counterfoil.importer.amounts import PAYMENT_AMOUNTS
from counterfoil.importer.columns import FEW_VALUES, ExportTable, TableColumn
from counterfoil.importer.days import NOON
from counterfoil.importer.paid import money
from counterfoil.importer.ranks import DATE_ROLES, NUMBER_ROLES, SALE, SKIP, VOID, Ranks
from counterfoil.importer.series import BILL, LINE, MIXED, absolute
from counterfoil.importer.solver import ExportReading
from counterfoil.importer.toml_text import TomlText, quoted
from counterfoil.importing import headings
from counterfoil.importing.sheets import CsvFile
from counterfoil.importing.values import has_half_day, number_shape

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
SERVICE_TYPE = "alacarte"
"""The service type of a normal sale."""
ENOUGH_ROWS = 5
_NO_WORDS = NUMBER_ROLES | DATE_ROLES | {"time", "cashier", "memberId", "shopId", "timezone", "currency"}


def mapping_text(reading: ExportReading) -> str:
    """Return the mapping of a reading as TOML."""
    return _Writer(reading).text()


class _Writer:
    def __init__(self, reading: ExportReading) -> None:
        self._reading = reading
        self._bills = reading.bills
        self._ranks: Ranks = reading.bills.ranks
        self._table: ExportTable = reading.bills.table
        self._amounts = reading.amounts
        self._states = reading.states
        self._net = reading.net
        self._used: set[str] = set()
        self._allowed: list[str] = []
        self._toml = TomlText("Accepted answers about an export, and what they lead to. See docs/mappings.md.")

    def text(self) -> str:
        self._accepted()
        self._file()
        self._formats()
        self._shops()
        self._bill()
        self._statuses()
        self._total()
        self._parts()
        self._texts()
        self._lines()
        self._payments()
        self._skips()
        self._checks()
        return self._toml.text()

    def _add(self, section: str, entry: str, value: Any, comment: str = "") -> None:
        self._used.update(_texts(value))
        self._toml.add(section, entry, value, comment)

    # --- what was accepted -----------------------------------------------------------------

    def _accepted(self) -> None:
        answers = self._reading.interview.answers
        for doubt, answer in answers.items():
            self._toml.add("[answers]", quoted(doubt), answer)
        self._toml.add("[accepted]", "bills", len(self._reading.counted))
        self._toml.add("[accepted]", "net", money(self._reading.total).replace(",", ""))
        days = self._days()
        if days:
            self._toml.add("[accepted]", "firstDay", days[0])
            self._toml.add("[accepted]", "lastDay", days[-1])

    def _days(self) -> list[str]:
        """Return the days of all bills whose time is known, in their order."""
        return sorted(time[:10] for time in self._reading.times if time)

    def _file(self) -> None:
        file = self._table.file
        if isinstance(file, CsvFile):
            self._toml.add("[file]", "encoding", file.encoding)
            self._toml.add("[file]", "delimiter", file.delimiter)
        if file.heading_line > 1:
            self._toml.add("[file]", "headingLine", file.heading_line)
        if self._bills.filled_down:
            self._toml.add("[file]", "fillDown", self._bills.filled_down)
        answers = self._reading.interview.answers
        is_joined = any(" + " in answers.get(question, "") for question in ("bill", "together"))
        if self._bills.has_no_times and not is_joined and not self._bills.first_in_parts():
            self._toml.add("[file]", "together", value=True, comment="without times, a number that occurs again is new")
        if self._bills.repeated.meaning:
            self._toml.add("[file]", "repeated", self._bills.repeated.meaning)
        if self._reading.sums_are:
            self._toml.add("[file]", "sums", self._reading.sums_are)
        names: dict[str, None] = {}
        for table in self._tables():
            names.update(dict.fromkeys(table.columns))
        self._toml.add("[file]", "columns", list(names), "a file with other columns is refused")

    def _tables(self) -> list[ExportTable]:
        return [table for table in (self._table, self._reading.lines, self._reading.payments) if table]

    def _formats(self) -> None:
        numbers = self._amounts.usual_numbers
        self._toml.add("[numbers]", "decimal", numbers.decimal)
        self._toml.add("[numbers]", "thousands", numbers.thousands)
        days = self._reading.days
        if days.written.serial:
            self._toml.add("[dates]", "serial", value=True)
        elif self._bills.order:
            self._toml.add("[dates]", "order", self._bills.order)
        if days.written.calendar != "gregorian":
            self._toml.add("[dates]", "calendar", days.written.calendar)
        if days.written.night_until:
            self._toml.add("[dates]", "nightUntil", days.written.night_until)
        if days.written.default_time and days.day:
            self._toml.add("[dates]", "defaultTime", NOON)
        if self._reading.shops.is_utc:
            self._toml.add("[dates]", "timezone", "UTC")

    def _shops(self) -> None:
        shops, column = self._reading.shops, self._bills.shop
        for number, shop in enumerate(shops.shops):
            if shop.is_known:
                continue
            section = f"[[shop]]#{number}" if column else "[shop]"
            facts = {"franchiseId": shop.franchise, "timezone": shop.timezone, "closingTime": shop.closing_time}
            for entry, value in ({"id": shop.id, "name": shop.name} | facts).items():
                if value:
                    self._toml.add(section, entry, value)
        if column is None:
            [shop] = shops.shops
            if shop.is_known:
                self._add("[bill]", "shopId", {"constant": shop.id})
            return
        for shop in shops.shops:
            self._toml.add("[shopIds]", quoted(shop.column_value), shop.id)
        other = self._reading.shop_of_no_shop
        belonging = shops.no_shop if other else ()
        for value in belonging:
            self._toml.add("[shopIds]", quoted(value), other)
        if shops.no_shop and other is None:
            values = {shop.column_value: SALE for shop in shops.shops} | dict.fromkeys(shops.no_shop, SKIP)
            self._status("shop", column.name, values, None)
        self._add("[bill]", "shopId", column.name)

    def _bill(self) -> None:
        key, number = self._bills.key, self._bills.number
        self._add("[bill]", "id", list(key.columns) if len(key.columns) > 1 else number.name, key.reason)
        if self._ranks.may_be(number, "receiptNumber"):
            self._add("[bill]", "receiptNumber", number.name)
        days = self._reading.days
        columns = days.columns or ([days.trading] if days.trading else [])
        names = [column.name for column in columns]
        if self._bills.closing.is_latest:
            self._add("[bill]", "closedAt", {"columns": names, "latest": True})
        else:
            self._add("[bill]", "closedAt", names if len(names) > 1 else names[0])
        if self._reading.shops.zone_column:
            self._add("[bill]", "timezone", self._reading.shops.zone_column)
        if days.trading:
            self._add("[bill]", "tradingDay", days.trading.name)
        self._toml.add("[bill]", "serviceType", {"constant": SERVICE_TYPE})

    # --- states -----------------------------------------------------------------------------

    def _statuses(self) -> None:
        for name, values in self._states.of_bills.items():
            if name == self._bills.number.name:
                self._status_of_numbers(values)
            elif name in self._states.amounts:
                self._status_of_amounts(name, values)
            else:
                self._status_of_bills(name, values)
        for name in self._states.later:
            self._status(name, name, {"": SALE}, None)
        if self._states.prefixes:
            number_column = self._bills.number.name
            key = f"prefix of {number_column}"
            self._toml.add(f"[[status]]#{key}", "prefix", value=True, comment="only the letters before the number")
            self._status(key, number_column, self._states.prefixes, None)
        for column in self._table.columns.values():
            role = self._ranks.role(column)
            is_open = role in ("method", "channel") and column.name not in self._states.of_bills
            if is_open and 0 < len(column.distinct) <= FEW_VALUES and self._bills.is_of_bill(column):
                values = dict.fromkeys(column.distinct, SALE)
                if not column.is_filled:
                    values[""] = SALE
                self._status(column.name, column.name, values, "payment" if role == "method" else SALE)
        self._marks()

    def _marks(self) -> None:
        """Say of which columns any value means that a bill is void. The first one has the reason."""
        for number, (name, meanings) in enumerate(self._states.marks.items()):
            nothing = {value: "" for value, meaning in meanings.items() if meaning == SALE and value}
            if number == 0:
                cell = {"column": name, "values": nothing} if nothing else name
                self._add("[bill]", "voidReason", cell, "a bill with a value here is void")
            else:
                self._status(name, name, dict.fromkeys([*nothing, ""], SALE), VOID)

    def _status_of_bills(self, name: str, values: dict[str, str]) -> None:
        column = self._table.columns[name]
        others: str | None = SALE
        if self._ranks.role(column) == "method":
            others = "payment"
        elif self._ranks.may_be_state(column) or self._ranks.is_bare(column):
            others = None
        listed = values
        if len(values) > FEW_VALUES:
            others = others or SALE
            doubtful = self._ranks.doubtful_values(column, is_item=False)
            listed = {value: meaning for value, meaning in values.items() if meaning != SALE or value in doubtful}
        named = [value for value in values if value and self._bills.refers_to_bill(value)]
        said = {values[value] for value in named}
        if named:
            # Later files name other bills.
            is_only = len(named) == len(column.distinct) and len(said) == 1 and SALE not in said
            listed, others = ({"": SALE}, said.pop()) if is_only else (values, None)
        self._status(name, name, listed, others)

    def _status_of_numbers(self, values: dict[str, str]) -> None:
        """Name the numbers of bills that were not sold. Later files have others, which are checked for words."""
        listed = {value: meaning for value, meaning in values.items() if meaning != SALE}
        if listed:
            number = self._bills.number.name
            self._status(number, number, listed, SALE)

    def _status_of_amounts(self, name: str, values: dict[str, str]) -> None:
        """Say what any amount but 0 means, because later files have other amounts."""
        column = self._table.columns[name]
        zeros = [value for value in ("", *column.distinct) if not column.units[value]]
        meanings = [meaning for value, meaning in values.items() if value not in zeros]
        self._status(name, name, dict.fromkeys(zeros, SALE), meanings[0])

    def _status(self, key: str, column: str, values: dict[str, str], others: str | None) -> None:
        self._used.add(column)
        self._toml.add(f"[[status]]#{key}", "column", column)
        if others:
            self._toml.add(f"[[status]]#{key}", "others", others)
        for value, meaning in values.items():
            self._toml.add(f"[status.values]#{key}", quoted(value), meaning)

    def _skips(self) -> None:
        """Leave out the rows that are no bills."""
        for name, values in self._bills.skipped.items():
            self._add(f"[[skip]]#{name}", "column", name)
            self._add(f"[[skip]]#{name}", "values", values)

    # --- amounts ------------------------------------------------------------------------------

    def _total(self) -> None:
        for line in self._reading.interview.proven:
            self._toml.comment("[bill]", line)
        self._add("[bill]", "amounts.net", self._net.cell)
        for number, name in enumerate(self._unseen()):
            reason = f"the sample does not show whether {self._net.name} includes it"
            self._toml.add(f"[[reject]]#{number}", "column", name)
            self._toml.add(f"[[reject]]#{number}", "reason", reason)

    def _unseen(self) -> list[str]:
        """Return columns of amounts that are 0 on all bills, so that nothing shows whether the total includes them."""
        paid = self._net.role == "paid"
        roles = {"tip", "refunded"} if paid else {"tip", "refunded", "fee", *AMOUNT_ENTRIES}
        found = []
        for column in self._table.columns.values():
            cancelled = self._states.cancelled
            is_state = column.name in self._states.of_bills or (cancelled and column.name == cancelled.column)
            if column.name in self._net.columns or is_state:
                continue
            is_void = self._ranks.heading_state(column) in (VOID, "refund") and self._ranks.is_named_as_amount(column)
            if not is_void and self._ranks.heading_role(column) not in roles and not self._amounts.may_be_money(column):
                continue
            values = self._amounts.of(column, "").values
            counted = values if is_void else [values[bill] for bill in self._amounts.sales]
            if not any(counted):
                found.append(column.name)
        return found

    def _parts(self) -> None:
        for role, entry in AMOUNT_ENTRIES.items():
            if role == "gross":
                part = self._amounts.subtotal(self._net)
            else:
                part = self._amounts.parts_of_role(role, self._net)
            if part is None:
                continue
            is_negative = role == "discount" and any((value or 0) < 0 for value in part.values)
            self._add("[bill]", entry, absolute(part.cell) if is_negative else part.cell)

    # --- texts, lines and payments --------------------------------------------------------------

    def _texts(self) -> None:
        for role, entry in TEXT_ENTRIES.items():
            filled = [column for column in self._ranks.with_role(role) if column.filled]
            if filled and self._bills.is_of_bill(filled[0]):
                self._add("[bill]", entry, filled[0].name)
        for column in self._ranks.with_role("channel", "type"):
            codes = {value: self._ranks.channel_of(value) for value in column.distinct}
            known = {value: code for value, code in codes.items() if code}
            is_channel = self._ranks.role(column) == "channel" or len(known) == len(codes)
            is_free = column.name not in self._states.of_bills and self._bills.is_of_bill(column)
            if is_free and is_channel and 0 < len(codes) <= FEW_VALUES:
                self._add("[bill]", "channel.id", {"column": column.name, "values": known} if known else column.name)
                return

    def _lines(self) -> None:
        is_own = self._bills.is_flat
        table = self._table if is_own else self._reading.lines
        if table is None:
            return
        if not is_own:
            self._key("[line]", table)
        ranks = self._amounts.ranks(table)
        for role, entry in LINE_ENTRIES.items():
            names = [column.name for column in ranks.with_role(role)]
            if is_own:
                names = [name for name in names if name not in self._used]
            if names:
                is_number = role in ("qty", "unitPrice")
                self._add("[line]", entry, self._amounts.cell(table, names[0]) if is_number else names[0])
        total = self._line_total(table)
        if total:
            self._add("[line]", "total", self._amounts.cell(table, total))
            self._charges(table, self._amounts.cell(table, total))
        elif self._net.level == LINE:
            self._charges(table, self._net.cell["sum"])
        cancelled = self._states.cancelled
        if cancelled:
            self._add("[line]", "cancelled", {"column": cancelled.column, "values": cancelled.values})

    def _charges(self, table: ExportTable, amount: Any) -> None:
        """Say which lines are tips or taxes, by the names of their items."""
        ranks = self._amounts.ranks(table)
        items = ranks.first("item")
        if items is None:
            return
        for role in ("tip", "tax"):
            found = [value for value in items.distinct if ranks.charge_of(value) == role]
            if not found or self._toml.has("[bill]", AMOUNT_ENTRIES[role]):
                continue
            self._allowed += found
            share = {"column": items.name, "values": dict.fromkeys(found, "1"), "others": "0"}
            self._add("[bill]", AMOUNT_ENTRIES[role], {"sum": {"multiply": [amount, share]}})
            if role == "tip":
                cell = {"column": items.name, "values": dict.fromkeys(found, True), "others": False}
                self._add("[line]", "tip", cell)

    def _key(self, section: str, table: ExportTable) -> None:
        """Say how the rows of another file are joined to their bills."""
        own, foreign = self._amounts.shared_key(table)
        self._add(section, "key", foreign if len(foreign) > 1 else foreign[0])
        if list(self._bills.key.columns) != own and not self._toml.has("[bill]", "key"):
            self._add("[bill]", "key", own if len(own) > 1 else own[0], "what the other file has")

    def _line_total(self, table: ExportTable) -> str | None:
        """Return the column with the total of a line: the one that the net sums, or the first one."""
        is_own, net = table is self._table, self._net
        levels = (LINE,) if net.level == BILL else (LINE, EITHER)
        of_lines = [name for name in table.columns if not is_own or self._amounts.levels[name] in levels]
        candidates: list[str] = []
        if net.level in (LINE, MIXED) and not net.is_product:
            candidates += net.columns[:1]
        for column in self._amounts.ranks(table).with_role("amount", "total", "gross", "net", "paid"):
            if not (is_own and column.name in net.columns):
                candidates.append(column.name)
        candidates = [name for name in candidates if name in of_lines]
        return candidates[0] if candidates else None

    def _payments(self) -> None:
        if self._reading.payments is not None:
            self._key("[[payment]]#0", self._reading.payments)
        for number, payment in enumerate(self._found_payments()):
            for entry, value in payment.items():
                self._add(f"[[payment]]#{number}", entry, value)

    def _found_payments(self) -> list[dict[str, Any]]:
        """Return the entries of each payment: of a file, of each way of paying, or of the column with the method."""
        other, table, net = self._reading.payments, self._table, self._net
        if other is not None:
            return [self._payments_of_file(other)]
        ways = [column.name for column in self._ranks.with_role("wayOfPaying") if column.filled]
        equal = [payment for payment in self._amounts.payments() if self._amounts.equals(payment, net)]
        given = next((payment for payment in equal if len(payment.columns) > 1), None)
        change = self._ranks.first("change") if given else None
        if ways and equal:
            found: list[dict[str, Any]] = [
                {"name": {"constant": name}, "amount": self._amounts.cell(table, name)} for name in ways
            ]
            if change:
                found[0]["change"] = self._amounts.cell(table, change.name)
            return found
        method = next((column for column in self._ranks.with_role("method") if column.filled), None)
        if method is None:
            return []
        if not self._bills.is_of_bill(method):
            return self._payment_per_row(method)
        if self._net.level == BILL and any(len(rows) > 1 for rows in self._bills.rows) and not self._bills.is_flat:
            # Each row has a payment, of which only the way is known.
            return [{"name": method.name}]
        if given and change:
            received = self._amounts.cell(table, given.columns[0])
            return [{"name": method.name, "amount": received, "change": self._amounts.cell(table, change.name)}]
        return [{"name": method.name, "amount": net.cell}]

    def _payment_per_row(self, method: TableColumn) -> list[dict[str, Any]]:
        if self._net.level == ROW:
            return [{"name": method.name, "amount": self._net.cell["sum"]}]
        if self._bills.is_flat:
            return []
        payment: dict[str, Any] = {"name": method.name}
        amounts = self._ranks.with_role(*PAYMENT_AMOUNTS)
        varying = [column for column in amounts if not self._bills.is_of_bill(column)]
        if varying:
            payment["amount"] = self._amounts.cell(self._table, varying[0].name)
            change = self._ranks.with_role("change")
            if change:
                payment["change"] = self._amounts.cell(self._table, change[0].name)
        return [payment]

    def _payments_of_file(self, other: ExportTable) -> dict[str, Any]:
        ranks = self._amounts.ranks(other)
        payment: dict[str, Any] = {}
        method = ranks.first("method")
        if method:
            payment["name"] = method.name
        amount = ranks.first(*PAYMENT_AMOUNTS)
        if amount:
            payment["amount"] = self._amounts.cell(other, amount.name)
        change = ranks.first("change")
        if change:
            payment["change"] = self._amounts.cell(other, change.name)
        states = self._reading.payment_states
        if states:
            payment["cancelled"] = {"column": states.column, "values": states.values}
        return payment

    # --- checks for later files -------------------------------------------------------------------

    def _checks(self) -> None:
        tables = self._tables()
        checks: dict[str, Any] = {
            "words": [],
            "codes": [],
            "filled": [],
            "decimals": {},
            "currencies": {},
            "halfDays": [],
            "known": {},
        }
        for table in tables:
            self._check_columns(table, checks)
        checks["words"] = list(dict.fromkeys(checks["words"]))
        checks["currencies"] = list(checks["currencies"])
        checks["allowed"] = self._allowed_values()
        checks["totals"] = self._bills.ends_in_totals
        checks["whole"] = self._converted(tables)
        checks["equal"] = [[left.cell, right.cell] for left, right in self._amounts.search.relations.equations()]
        checks["larger"] = []
        for table in tables:
            checks["larger"] += self._larger(table)
        days = self._days()
        checks["days"] = [days[0], days[-1]] if days and days[0][4:5] == "-" else []
        for entry, value in checks.items():
            if value:
                self._toml.add("[checks]", entry, value)

    def _check_columns(self, table: ExportTable, checks: dict[str, Any]) -> None:
        ranks = self._amounts.ranks(table)
        for column in table.columns.values():
            is_state = table is self._table and (
                column.name in self._states.of_bills
                or column.name in self._states.later
                or column.name in self._states.marks
            )
            if is_state and column is not self._bills.number:
                continue
            role = ranks.heading_role(column)
            is_void = ranks.heading_state(column) in (VOID, "refund")
            is_text = role not in _NO_WORDS and not is_void
            if is_text or headings.names_person(column.name):
                checks["words"].append(column.name)
            values = self._only_values(ranks, column)
            if values is not None:
                checks["known"].setdefault(column.name, []).extend(values)
            if self._are_codes(table, ranks, column):
                checks["codes"].append(column.name)
            if column.name in self._used:
                self._check_forms(table, ranks, column, checks)

    def _check_forms(self, table: ExportTable, ranks: Ranks, column: TableColumn, checks: dict[str, Any]) -> None:
        """Note how the numbers and times of a column are written."""
        if column.filled and all(map(has_half_day, column.distinct)):
            checks["halfDays"].append(column.name)
        if ranks.role(column) not in NUMBER_ROLES and column.name not in self._net.columns:
            return
        if column.is_filled and len(column.values) >= ENOUGH_ROWS:
            checks["filled"].append(column.name)
        if isinstance(table.file, CsvFile):
            shapes = [number_shape(value, column.numbers.decimal) for value in column.distinct]
            checks["decimals"][column.name] = sorted({decimals for decimals, _, _ in shapes})
            checks["currencies"] |= {currency: None for _, _, currency in shapes if currency}

    def _only_values(self, ranks: Ranks, column: TableColumn) -> list[str] | None:
        """Return what a column has on all rows, if another value may change a bill, as nobody knows what it means."""
        values = [value for value in column.distinct if not ranks.is_placeholder(value)]
        if column.name in self._used and ranks.role(column) != "type":
            return None
        are_flags = bool(values) and all(headings.flag_of(one) is not None and not one.isdigit() for one in values)
        harmless = ("people", "remarks", "harmless_flags", *(() if are_flags else ("groups",)))
        is_reference = not values and ranks.is_reference(column)
        has_role = ranks.role(column) not in (None, "type", "status", "currency")
        is_known = has_role or column.is_date or ranks.is_clock(column)
        if not is_reference and (is_known or any(headings.names(column.name, table) for table in harmless)):
            return None
        is_same = len({*column.values}) <= (6 if headings.are_names(values) else 1)
        are_codes = all(len(value) <= headings.LONGEST_CODE for value in values)
        if not is_same or not (are_codes or not any(map(str.isdigit, "".join(values)))):
            return None
        return [*values, *([""] if not column.is_filled or not values else [])]

    def _are_codes(self, table: ExportTable, ranks: Ranks, column: TableColumn) -> bool:
        """Return whether nearly all values are short codes, such as T4 and 12. Their other words are allowed."""
        if table is not self._table or column is self._bills.number or column.filled < ENOUGH_ROWS:
            return False
        if ranks.heading_role(column) in (*_NO_WORDS, "item", "productId", "category", "options"):
            return False
        codes = [
            value for value in column.values if value and headings.names_area(value) and any(map(str.isdigit, value))
        ]
        if len(codes) * 5 < column.filled * 4:
            return False
        self._allowed += [word for word in dict.fromkeys(map(headings.word_among_codes, column.distinct)) if word]
        return True

    def _allowed_values(self) -> list[str]:
        """Return the values with doubtful words that were explained, or that their numbers explain."""
        found = list(self._allowed)
        for name, values in self._states.of_bills.items():
            doubtful = self._ranks.doubtful_values(self._table.columns[name], is_item=False)
            if name == self._bills.number.name:
                found += doubtful
            elif doubtful:
                found += [value for value, meaning in values.items() if meaning == SALE and value]
        for name, counted in self._states.counted_lines.items():
            doubtful = self._ranks.doubtful_values(self._table.columns[name], is_item=False)
            found += [value for value in doubtful if value in counted]
        tables = [(self._table, self._bills.is_flat), (self._reading.lines, True)]
        for table, is_item in tables:
            items = self._amounts.ranks(table).first("item") if table and is_item else None
            if items and table:
                found += self._amounts.ranks(table).doubtful_values(items, is_item=True)
        return list(dict.fromkeys(found))

    def _converted(self, tables: Sequence[ExportTable]) -> list[str]:
        """Return the columns with whole numbers that are converted to the currency's unit."""
        found = []
        for table in tables:
            ranks = self._amounts.ranks(table)
            for column in table.columns.values():
                is_amount = ranks.role(column) in headings.AMOUNT_ROLES
                if is_amount and column.is_whole and self._amounts.is_converted(column, ranks):
                    found.append(column.name)
        return list(dict.fromkeys(found))

    def _larger(self, table: ExportTable) -> list[list[str]]:
        """Return pairs of columns of which the first never has a smaller number, without those that others imply."""
        ranks = self._amounts.ranks(table)
        amounts, others = [], []
        for column in table.columns.values():
            if ranks.role(column) in NUMBER_ROLES:
                amounts.append(column)
            elif column.is_number and not column.is_date and not column.is_like_an_id and not ranks.is_clock(column):
                # Numbers of bills grow, whatever the bills cost.
                others.append(column)
        used = [column for column in amounts if column.name in self._used]
        pairs: set[tuple[str, str]] = set()
        for larger, smaller in permutations([*amounts, *others], 2):
            if (larger in used or smaller in used) and _is_larger(larger, smaller):
                pairs.add((larger.name, smaller.name))
        larger_names = {name for name, _ in pairs}
        implied = set()
        for first, last in pairs:
            if any((first, name) in pairs and (name, last) in pairs for name in larger_names):
                implied.add((first, last))
        return [list(pair) for pair in sorted(pairs - implied)]


def _is_larger(larger: TableColumn, smaller: TableColumn) -> bool:
    """Return whether a column never has a smaller number than another one, and a larger one on most rows."""
    rows = len(larger.values)
    count = 0
    for row in range(rows):
        size, other = abs(larger.amount(row)), abs(smaller.amount(row))
        if size < other:
            return False
        count += size > other
    # Amounts that differ on few rows may do so the other way round in another file.
    return count >= max(ENOUGH_ROWS, rows / 2)


def _texts(value: Any) -> set[str]:
    """Return the texts in a value, and without a minus sign what is subtracted."""
    if isinstance(value, str):
        return {value, value.removeprefix("-")}
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return set().union(*map(_texts, value))
    return set()
