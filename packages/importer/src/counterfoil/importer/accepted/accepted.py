"""Writes the mapping of a reading: what was accepted, what it leads to, and a few checks for later files."""

from typing import Any

from counterfoil.importer.accepted.later_checks import LaterChecks, days_of, tables_of
from counterfoil.importer.accepted.payment_entries import payments_of
from counterfoil.importer.accepted.toml_text import TomlText
from counterfoil.importer.accepted.toml_text import key as toml_key
from counterfoil.importer.bills.days import NOON
from counterfoil.importer.columns import FEW_VALUES, ExportTable, TableColumn
from counterfoil.importer.ranks import REFUND, SALE, SKIP, VOID, Ranks
from counterfoil.importer.shops.shops import ExportShop
from counterfoil.importer.solver import ExportReading
from counterfoil.importer.sums.amount_columns import EITHER
from counterfoil.importer.sums.paid import money
from counterfoil.importer.sums.series import BILL, LINE, MIXED, absolute
from counterfoil.importing.sheets import CsvFile

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
        checks = LaterChecks(self._reading, self._used, self._allowed)
        for entry, value in checks.entries().items():
            if value:
                self._toml.add("[checks]", entry, value)
        return self._toml.text()

    def _add(self, section: str, entry: str, value: Any, comment: str = "") -> None:
        self._used.update(_texts(value))
        self._toml.add(section, entry, value, comment)

    # --- what was accepted -----------------------------------------------------------------

    def _accepted(self) -> None:
        for doubt, answer in sorted(self._reading.interview.answers.items()):
            self._toml.add("[answers]", toml_key(doubt), answer)
        self._toml.add("[accepted]", "bills", len(self._reading.counted))
        self._toml.add("[accepted]", "net", money(self._reading.total).replace(",", ""))
        days = days_of(self._reading)
        if days:
            self._toml.add("[accepted]", "firstDay", days[0])
            self._toml.add("[accepted]", "lastDay", days[-1])

    def _file(self) -> None:
        file = self._table.file
        if isinstance(file, CsvFile):
            self._toml.add("[file]", "encoding", file.encoding)
            self._toml.add("[file]", "delimiter", file.delimiter)
        if file.heading_line > 1:
            self._toml.add("[file]", "headingLine", file.heading_line)
        if self._bills.filled_down:
            self._toml.add("[file]", "fillDown", self._bills.filled_down)
        if self._bills.has_no_times and not self._has_joined_key() and not self._bills.first_in_parts():
            self._toml.add("[file]", "together", value=True, comment="without times, a number that occurs again is new")
        if self._bills.repeated.meaning:
            self._toml.add("[file]", "repeated", self._bills.repeated.meaning)
        if self._reading.sums_are:
            self._toml.add("[file]", "sums", self._reading.sums_are)
        names: list[str] = []
        for table in tables_of(self._reading):
            names += table.columns
        self._toml.add("[file]", "columns", list(dict.fromkeys(names)), "a file with other columns is refused")

    def _has_joined_key(self) -> bool:
        """Return whether an answer names several columns that identify a bill."""
        answers = self._reading.interview.answers
        return any(" + " in answers.get(question, "") for question in ("bill", "together"))

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
            if not shop.is_known:
                self._new_shop(f"[[shop]]#{number}" if column else "[shop]", shop)
        if column is None:
            [shop] = shops.shops
            if shop.is_known:
                self._add("[bill]", "shopId", {"constant": shop.id})
            return
        for shop in shops.shops:
            self._toml.add("[shopIds]", toml_key(shop.column_value), shop.id)
        self._bills_without_shop(column.name)
        self._add("[bill]", "shopId", column.name)

    def _new_shop(self, section: str, shop: ExportShop) -> None:
        facts = {
            "id": shop.id,
            "name": shop.name,
            "franchiseId": shop.franchise,
            "timezone": shop.timezone,
            "closingTime": shop.closing_time,
        }
        for entry, value in facts.items():
            if value:
                self._toml.add(section, entry, value)

    def _bills_without_shop(self, column: str) -> None:
        """Say which shop the bills belong to whose cell names none, or leave them out."""
        names = self._reading.shops.no_shop
        shop_of_others = self._reading.shop_of_no_shop
        if shop_of_others is None and names:
            values = {shop.column_value: SALE for shop in self._reading.shops.shops}
            self._status("shop", column, values | dict.fromkeys(names, SKIP), None)
        elif shop_of_others:
            for name in names:
                self._toml.add("[shopIds]", toml_key(name), shop_of_others)

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
            elif name in self._states.signs:
                self._status_of_signs(name, values)
            else:
                self._status_of_bills(name, values)
        for name in self._states.later:
            self._status(name, name, {"": SALE}, None)
        if self._states.prefixes:
            number_column = self._bills.number.name
            key = f"prefix of {number_column}"
            self._toml.add(f"[[status]]#{key}", "prefix", value=True, comment="only the letters before the number")
            self._status(key, number_column, self._states.prefixes, None)
        for name, meaning in self._states.empty.items():
            column = self._table.columns[name]
            is_method = self._ranks.role(column) == "method"
            known = dict.fromkeys(column.distinct, SALE) if is_method else {}
            self._status(name, name, known | {"": meaning}, "payment" if is_method else SALE)
        for column in self._table.columns.values():
            self._ways_and_channels(column)
        self._marks()

    def _ways_and_channels(self, column: TableColumn) -> None:
        """Say that the bills with the ways of paying and channels of this file are sales."""
        role = self._ranks.role(column)
        if role not in ("method", "channel") or column.name in self._states.of_bills:
            return
        if column.name in self._states.empty:
            return
        if 0 < len(column.distinct) <= FEW_VALUES and self._bills.is_of_bill(column):
            values = dict.fromkeys(column.distinct, SALE)
            if not column.is_filled:
                values[""] = SALE
            self._status(column.name, column.name, values, "payment" if role == "method" else SALE)

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
        references = [value for value in values if value and self._bills.refers_to_bill(value)]
        if references:
            # Later files name other bills.
            meanings = {values[value] for value in references}
            is_mark = len(references) == len(column.distinct) and len(meanings) == 1 and SALE not in meanings
            if is_mark:
                self._status(name, name, {"": SALE}, meanings.pop())
            else:
                self._status(name, name, values, None)
            return
        others: str | None = SALE
        if self._ranks.role(column) == "method":
            others = "payment"
        elif self._ranks.may_be_state(column) or self._ranks.is_bare(column):
            others = None
        if len(values) > FEW_VALUES:
            others = others or SALE
            doubtful = self._ranks.doubtful_values(column, is_item=False)
            values = {value: meaning for value, meaning in values.items() if meaning != SALE or value in doubtful}
        self._status(name, name, values, others)

    def _status_of_numbers(self, values: dict[str, str]) -> None:
        """Name the numbers of bills that were not sold. Later files have others, which are checked for words."""
        listed = {value: meaning for value, meaning in values.items() if meaning != SALE}
        if listed:
            number = self._bills.number.name
            self._status(number, number, listed, SALE)

    def _status_of_signs(self, name: str, values: dict[str, str]) -> None:
        """Say what any number below 0 means, because later files have other numbers."""
        column = self._table.columns[name]
        negative = [meaning for value, meaning in values.items() if (column.units[value] or 0) < 0]
        key = f"sign of {name}"
        self._toml.add(f"[[status]]#{key}", "sign", value=True, comment="only whether it is below 0")
        self._status(key, name, {"-": negative[0], "+": SALE}, None)

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
        self._toml.add(f"[[status]]#{key}", "values", values)

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
        roles = {"tip", "refunded"}
        if self._net.role != "paid":
            roles |= {"fee", *AMOUNT_ENTRIES}
        read = {*self._net.columns, *self._states.of_bills}
        if self._states.cancelled:
            read.add(self._states.cancelled.column)
        found = []
        for column in self._table.columns.values():
            if column.name in read:
                continue
            is_undone = self._ranks.heading_state(column) in (VOID, REFUND) and self._ranks.is_named_as_amount(column)
            is_part = self._ranks.heading_role(column) in roles or self._amounts.may_be_money(column)
            if not is_undone and not is_part:
                continue
            values = self._amounts.of(column, "").values
            bills = range(len(values)) if is_undone else self._amounts.sales
            is_answered = "net" in self._reading.interview.answers and any(values)
            is_seen = any(values[bill] for bill in bills) or is_answered or self._amounts.is_shown_by_refunds(column)
            if not is_seen:
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
        self._channel()

    def _channel(self) -> None:
        """Say which column has the channel: the first one that is named so, or has only values that are known."""
        for column in self._ranks.with_role("channel", "type"):
            codes = {}
            for value in column.distinct:
                code = self._ranks.channel_of(value)
                if code:
                    codes[value] = code
            is_channel = self._ranks.role(column) == "channel" or len(codes) == len(column.distinct)
            is_free = column.name not in self._states.of_bills and self._bills.is_of_bill(column)
            if is_free and is_channel and 0 < len(column.distinct) <= FEW_VALUES:
                self._add("[bill]", "channel.id", {"column": column.name, "values": codes} if codes else column.name)
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
            if not names:
                continue
            if role in ("qty", "unitPrice"):
                self._add("[line]", entry, self._amounts.cell(table, names[0]))
            else:
                self._add("[line]", entry, names[0])
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
        net = self._net
        candidates: list[str] = []
        if net.level in (LINE, MIXED) and not net.is_product:
            candidates += net.columns[:1]
        for column in self._amounts.ranks(table).with_role("amount", "total", "gross", "net", "paid"):
            is_net_of_bills = table is self._table and column.name in net.columns
            if not is_net_of_bills:
                candidates.append(column.name)
        for name in candidates:
            if name in table.columns and self._is_of_lines(table, name):
                return name
        return None

    def _is_of_lines(self, table: ExportTable, name: str) -> bool:
        """Return whether a column of amounts belongs to the lines of bills."""
        if table is not self._table:
            return True
        level = self._amounts.levels[name]
        return level == LINE or (level == EITHER and self._net.level != BILL)

    def _payments(self) -> None:
        if self._reading.payments is not None:
            self._key("[[payment]]#0", self._reading.payments)
        for number, payment in enumerate(payments_of(self._reading)):
            for entry, value in payment.items():
                self._add(f"[[payment]]#{number}", entry, value)


def _texts(value: Any) -> set[str]:
    """Return the texts in a value, and without a minus sign what is subtracted."""
    if isinstance(value, str):
        return {value, value.removeprefix("-")}
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return set().union(*map(_texts, value))
    return set()
