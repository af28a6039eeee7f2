"""Ranks what the headings and values of a table may mean. Only this module reads the word list, and words only rank.

A word decides alone in one place: under a bare heading of state, such as `Status` or `Void?`, of which all values are
in the short list. Everywhere else a word orders the options of a question, or is the reason why it is asked.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property, lru_cache

from counterfoil.importer.columns import FEW_VALUES, ExportTable, TableColumn
from counterfoil.importing import headings
from counterfoil.importing import values as cell_values
from counterfoil.importing.headings import (
    AMOUNT_ROLES,
    CHARGES,
    DEDUCTIONS,
    LONGEST_CODE,
    LONGEST_READ,
    TOTAL_ROLES,
    RoleMatch,
    stated_rates,
)
from counterfoil.importing.mapping import REFUND, SALE, SKIP, VOID

NUMBER_ROLES = AMOUNT_ROLES | {"qty", "unitPrice", "wayOfPaying"}
DATE_ROLES = frozenset({"datetime", "tradingDay"})
# A voucher that is taken off is no payment, and what a platform keeps, or the tax on that, no charge of the customer.
_TAKEN_OFF = {"wayOfPaying": "discount"} | dict.fromkeys(set(CHARGES) - {"rounding"}, "fee")
_NAMES = ("method", "item", "status", "type", "shopId", "channel")
# Columns in which a word such as *return* is a name, or that are read as numbers and times.
_NO_STATES = NUMBER_ROLES | DATE_ROLES | {"time", "memberId", "shopId", "timezone", "currency", "deviceId"}
MOST_STATES = 6
LARGEST_TAX = 3
"""No tax is a larger part of what was paid."""
# What a heading may have beside the word of a state and still be bare.
_SMALL_WORDS = frozenset({"is", "was", "by", "at", "date", "time", "reason", "of", "flag", "code", "por", "von", "le"})
_WHO_OR_WHY = frozenset({"by", "at", "date", "time", "reason", "por", "von", "par", "da"})
# What may happen to a bill, or what a customer does, is not its state: `Refundable`, `Stornierbar`, `Is returning`.
_NO_STATE_ENDINGS = ("able", "ible", "ing", "bar", "avel", "ivel")
# A heading of one of these, such as `Settlement`, is not that of the state of a bill.
_OF_SOMETHING_ELSE = (AMOUNT_ROLES - {"tendered", "refunded"}) | {"method", "channel", "memberId"}
CLOSING, OPENING, OTHER_TIME = 0, 2, headings.OTHER_TIME


class Ranks:
    """The roles of the columns of a table, by their headings, as far as their values fit.

    `given` are roles that an answer gives to columns. No other column has such a role then.
    """

    def __init__(self, table: ExportTable, given: Mapping[str, str] | None = None) -> None:
        self.table = table
        self._given = dict(given or {})
        self._matches = {name: self._matches_of(name) for name in table.columns}
        self._roles = {name: self._role_by_values(column) for name, column in table.columns.items()}
        for name in self._prices_of_lines():
            self._roles[name] = "amount"
        for name in self._taxed():
            self._roles[name] = "net"
        for name in self._deducted():
            self._roles[name] = _TAKEN_OFF.get(self._roles[name] or "", self._roles[name])

    def _matches_of(self, name: str) -> tuple[RoleMatch, ...]:
        if name in self._given:
            return (RoleMatch(len(name), 0, self._given[name]),)
        return tuple(match for match in headings.roles_of(name) if match.role not in self._given.values())

    def role(self, column: TableColumn) -> str | None:
        """Return the most probable role that the values fit, and their sign."""
        return self._roles[column.name]

    def heading_role(self, column: TableColumn) -> str | None:
        """Return the role that the values have or, if there are none, the one that the heading says."""
        if column.filled:
            return self.role(column)
        return next((match.role for match in self._matches[column.name]), None)

    def may_be(self, column: TableColumn, *roles: str) -> bool:
        """Return whether the heading may have one of these roles, whatever the values are."""
        return any(match.role in roles for match in self._matches[column.name])

    def rank(self, column: TableColumn, role: str) -> int:
        return next((match.rank for match in self._matches[column.name] if match.role == role), 99)

    def with_role(self, *roles: str) -> list[TableColumn]:
        """Return the columns with one of the roles, ordered by role, then by how common the heading is."""
        found = [column for column in self.table.columns.values() if self.role(column) in roles]
        return sorted(found, key=lambda one: (roles.index(self.role(one) or ""), self.rank(one, self.role(one) or "")))

    def first(self, *roles: str) -> TableColumn | None:
        return next(iter(self.with_role(*roles)), None)

    def is_clock(self, column: TableColumn) -> bool:
        return column.is_clock or (column.is_compact_clock and self.may_be(column, "time"))

    def _role_by_values(self, column: TableColumn) -> str | None:
        found = next((match.role for match in self._matches[column.name] if self._fits(column, match.role)), None)
        if found is None and self.is_amount_paid_back(column):
            return "refunded"
        return None if found == "unknown" else found

    def _fits(self, column: TableColumn, role: str) -> bool:
        """Return whether the values of a column can be those of a role."""
        if role in NUMBER_ROLES:
            return column.is_number
        if role in DATE_ROLES:
            return column.is_date or column.is_serial or column.is_epoch
        if role == "time":
            return self.is_clock(column)
        if role == "options":
            return not column.is_number
        if role in ("id", "cashier") and len(column.distinct) > 1 and is_flag_column(column):
            # `Demo order` and `Staff meal` with yes and no.
            return False
        if role == "id":
            return self._fits_id(column)
        if role == "shopId":
            return self._fits_shop(column)
        if role == "timezone":
            # `Order Time (local timezone)` has times.
            return not column.is_date and not self.is_clock(column)
        return role not in ("currency", *_NAMES) or self._fits_name(column, role)

    def _fits_name(self, column: TableColumn, role: str) -> bool:
        """Return whether a column may have names of what a role says. Codes may be numbers, amounts not."""
        if role == "currency":
            # Some tills call the way of paying a currency.
            return not any(map(headings.names_payment, column.distinct[:FEW_VALUES]))
        is_other = role == "method" and self._is_no_method(column)
        return not is_other and not column.looks_like_money

    def _fits_shop(self, column: TableColumn) -> bool:
        is_time = column.is_date or self.is_clock(column)
        if is_time and self.may_be(column, *DATE_ROLES, "time"):
            # `Local` is a shop in some languages, but not in `Date (local)` and `TIMESTAMP_LOCAL_TIME`.
            return False
        # `Location` with `In-store` and `Takeaway` says where the guests ate.
        named = [value for value in column.distinct if not headings.names_no_shop(value)]
        are_channels = bool(named) and all(map(headings.channel_of, named))
        return not are_channels and not column.looks_like_money

    def _is_no_method(self, column: TableColumn) -> bool:
        """Return whether a column has IDs of payments, or amounts, instead of ways of paying."""
        is_id = column.is_like_an_id and "id" in headings.words_of(column.name)
        return is_id or (column.is_number and column.filled > 0)

    def _fits_id(self, column: TableColumn) -> bool:
        is_time = column.is_date or self.is_clock(column)
        has_clocks = all(":" in value for value in column.distinct)
        is_code = any(map(str.isdigit, "".join(column.distinct))) or len(column.distinct) * 2 > column.filled
        is_named_time = is_time and (self.may_be(column, *DATE_ROLES, "time") or has_clocks)
        return is_code and not column.has_decimals and not is_named_time

    def _prices_of_lines(self) -> list[str]:
        """Return the prices that may be those of a whole line, as `Sale price` without any quantity."""
        if "qty" in self._roles.values():
            return []
        columns = self.table.columns.values()
        return [column.name for column in columns if self.role(column) == "unitPrice" and self.may_be(column, "amount")]

    def _taxed(self) -> list[str]:
        """Return the amounts on which a tax is paid, under headings such as `Value before tax`: no tax is so high."""
        sizes: dict[str, Decimal] = {}
        for name, column in self.table.columns.items():
            if self._roles[name] in ("tax", *TOTAL_ROLES):
                sizes[name] = sum((abs(column.amount(row)) for row in range(len(column.values))), Decimal())
        largest = max((size for name, size in sizes.items() if self._roles[name] != "tax"), default=None)
        if largest is None:
            return []
        return [name for name, size in sizes.items() if self._roles[name] == "tax" and size * LARGEST_TAX > largest]

    def _deducted(self) -> list[str]:
        """Return the charges and payments that nearly always have the sign opposite to that of the row's total."""
        columns = self.table.columns
        totals = [column for name, column in columns.items() if self._roles[name] in TOTAL_ROLES]
        total_of_row: list[Decimal] = []
        for row in range(len(self.table.rows)):
            amounts = (total.amount(row) for total in totals)
            total_of_row.append(next(filter(None, amounts), Decimal()))
        found = []
        for name, column in columns.items():
            if self._roles[name] in _TAKEN_OFF and _has_opposite_sign(column, total_of_row):
                found.append(name)
        return found

    # --- times, places and counts ------------------------------------------------------

    def closing(self, column: TableColumn) -> int:
        """Return 0 for the time of closing, 2 for that of opening, 3 for that of a payout, for example, else 1."""
        return headings.closing_rank(column.name)

    def is_of_ordering(self, column: TableColumn) -> bool:
        """Return whether a heading names when something was ordered, as in `Order date` and `Created`."""
        is_named = headings.names(column.name, "times", "ordering")
        return self.closing(column) != CLOSING and (is_named or self.closing(column) == OPENING)

    def is_planned(self, column: TableColumn) -> bool:
        """Return whether a heading names the day for which something was ordered, as in `Scheduled for`."""
        return headings.names(column.name, "times", "planned")

    def is_duration(self, column: TableColumn) -> bool:
        return headings.names(column.name, "times", "duration")

    def is_in_utc(self, column: TableColumn) -> bool:
        return "utc" in headings.words_of(column.name)

    def counts_bills(self, column: TableColumn) -> bool:
        return column.is_number and headings.is_count(column.name)

    def names_group(self, column: TableColumn) -> bool:
        return headings.names(column.name, "groups")

    def is_bare_number(self, column: TableColumn) -> bool:
        """Return whether a heading is wholly that of some number, such as `No` and `Transaction`."""
        return headings.is_one_of(column.name, "bare_numbers")

    def names_unit(self, column: TableColumn) -> bool:
        return headings.names(column.name, "units")

    def is_no_amount(self, column: TableColumn) -> bool:
        """Return whether a heading names no amounts. Those under a stated rate, as in `Base 10%`, have decimals."""
        is_of_rate = bool(stated_rates(column.name)) and column.has_decimals
        return headings.names(column.name, "not_amounts") and not is_of_rate

    def names_person(self, column: TableColumn) -> bool:
        """Return whether a column has people, such as customers and cashiers."""
        return headings.names_person(column.name)

    def is_harmless(self, column: TableColumn) -> bool:
        """Return whether a heading is of people, remarks, or flags that say nothing about a bill."""
        return any(headings.names(column.name, table) for table in ("people", "remarks", "harmless_flags"))

    def is_rate_of_discount(self, column: TableColumn) -> bool:
        return self.is_no_amount(column) and headings.names(column.name, "headings", "discount")

    def is_amount_paid_back(self, column: TableColumn) -> bool:
        """Return whether a column has what was paid back of each bill, such as `Refunded` with 0.00 and 8.56."""
        is_named = headings.heading_status(column.name) == REFUND
        return is_named and column.is_number and column.has_decimals

    def is_named_as_amount(self, column: TableColumn) -> bool:
        if self.is_amount_paid_back(column):
            return True
        return self.may_be(column, *NUMBER_ROLES) and (column.is_number or not column.filled)

    @cached_property
    def countries(self) -> dict[str, str]:
        """The language of the headings and the currency, which show where the export is from, by what they show."""
        currency = self._currency_of_country()
        return {
            "the headings are not in English": headings.language_of(self.table.columns),
            f"amounts are in {currency}": currency,
        }

    def _currency_of_country(self) -> str:
        """Return the first currency in amounts, or in their headings, that shows a country, or an empty text."""
        for column in self.table.columns.values():
            if not self.is_named_as_amount(column) and self.role(column) != "currency":
                continue
            for text in (column.name, *column.distinct[:FEW_VALUES]):
                found = cell_values.COUNTRY_CURRENCY.search(text)
                if found:
                    return found[0]
        return ""

    # --- states --------------------------------------------------------------------------

    def heading_state(self, column: TableColumn) -> str | None:
        """Return what a mark in a column with this heading says about a bill, as in `Void?` or `Voided by`."""
        return headings.heading_status(column.name)

    def is_bare(self, column: TableColumn) -> bool:
        """Return whether a heading is wholly that of a state of bills, as in `Status`, `Void?` and `Receipt type`."""
        # Without a column of items, `Voided item` is about something of the bill, and not about its row.
        has_items = any(item is not column for item in self.with_role("item"))
        is_of_part = headings.names(column.name, "parts") and not has_items
        return not is_of_part and _is_bare(column.name)

    def is_void_mark(self, column: TableColumn) -> bool:
        """Return whether a bare heading says that a bill with any mark here is void or refunded, as in `Voided by`."""
        is_named = self.heading_state(column) in (VOID, REFUND)
        return is_named and self.is_bare(column) and not self.is_named_as_amount(column)

    def says_who_or_why(self, column: TableColumn) -> bool:
        """Return whether any text under a heading is a mark, as in `Voided by` and `Void reason`, or is a time."""
        roles = [match.role for match in headings.roles_of(column.name)]
        is_named = "voidReason" in roles or not _WHO_OR_WHY.isdisjoint(headings.words_of(column.name))
        return is_named or not headings.words_of(column.name)[0].isascii() or column.is_date or column.is_clock

    def states(self, column: TableColumn) -> dict[str, str | None]:
        """Return what each value of a column says by the short list, or None. An empty cell is a value, too."""
        values = list(column.distinct)
        if not column.is_filled:
            values.append("")
        found = headings.statuses_of(column.name, values)
        for value, meaning in found.items():
            if meaning and not is_flag(value) and headings.says_more(value):
                found[value] = None
        return found

    def is_state_of_sale(self, column: TableColumn, value: str) -> bool:
        """Return whether a value says that the sale of its row was refunded, which another row may return."""
        text = column.name if headings.flag_of(value) else value
        return headings.is_one_of(text, "refunded")

    def may_begin_refund(self, prefix: str) -> bool:
        """Return whether numbers of credit notes often begin with these letters, as in `CN1001`."""
        return headings.is_one_of(prefix, "refund_prefixes")

    def may_begin_void(self, prefix: str) -> bool:
        """Return whether numbers of voided bills may begin with these letters, as in `V1001`."""
        return headings.is_one_of(prefix, "void_prefixes")

    def says_nothing(self, value: str) -> bool:
        return headings.says_nothing(value)

    def is_placeholder(self, value: str) -> bool:
        return headings.is_placeholder(value)

    def probable_state(self, column: TableColumn, value: str) -> str:
        """Return what a value most probably says about a bill, to order the options of a question."""
        if headings.names_person(column.name):
            # `Returning` says something about the customer.
            return SALE
        meaning = headings.statuses_of(column.name, [value])[value] or headings.status_of(value)
        if meaning:
            return meaning
        exception = headings.exception_in(value)
        if exception in (VOID, REFUND):
            return exception
        return SKIP if exception else SALE

    def doubtful_values(self, column: TableColumn, *, is_item: bool) -> list[str]:
        """Return the values with a word that may say that a bill is no sale, or a row no item."""
        is_name = headings.names_person(column.name)
        role = self.heading_role(column)
        if role in _NO_STATES and not is_name:
            return []
        if self.heading_state(column) in (VOID, REFUND):
            return []
        is_spoken = role in ("method", "channel", "type")
        are_few_ways = role == "method" and len(column.distinct) <= FEW_VALUES
        found = []
        for value in column.distinct:
            if is_item and headings.charge_of(value) == "tip":
                continue
            is_exception = headings.exception_in(value, is_item=is_item, is_name=is_name)
            # A remark such as `hold the ice` says nothing about the bill.
            is_open = is_spoken and not headings.channel_of(value) and headings.status_of(value) == SKIP
            is_unknown_way = are_few_ways and not (headings.names_payment(value) or headings.flag_of(value))
            if is_exception or is_open or is_unknown_way:
                found.append(value)
        return found

    def charge_of(self, value: str) -> str | None:
        """Return `tip` or `tax` if that is the name of an item, as in `VAT 7%`."""
        return headings.charge_of(value)

    def is_payment(self, value: str) -> bool:
        return headings.is_payment(value)

    def may_be_state(self, column: TableColumn) -> bool:
        """Return whether a column of few values may say if a bill counts, so that it is asked about."""
        role, values = self.heading_role(column), column.distinct
        is_part = role in (*CHARGES, *DEDUCTIONS)
        if values and not is_part and self.is_bare(column) and all(map(is_flag, values)):
            return True
        if role in _NO_STATES - {"currency"} or len(values) > FEW_VALUES or not values:
            return False
        if role == "type":
            return self._may_be_type(column)
        if role == "status":
            return True
        if role == "currency":
            return False
        of_heading = self.heading_state(column)
        if of_heading in (VOID, REFUND):
            return not self.is_named_as_amount(column) and role != "refunded"
        if role in CHARGES and self.is_named_as_amount(column):
            return False
        if (of_heading or headings.names(column.name, "no_sale")) and all(map(is_flag, values)):
            return True
        return role is None and self._may_be_unknown_state(column)

    def _may_be_type(self, column: TableColumn) -> bool:
        """Return whether a type is no channel, and nothing that is the same for all bills, or of customers or rooms."""
        values = column.distinct
        is_group = headings.names(column.name, "groups") or headings.names(column.name, "people")
        meanings = {meaning for meaning in headings.statuses_of(column.name, values).values() if meaning}
        known = bool(meanings - {SALE} if is_group else meanings)
        are_known_names = all(headings.channel_of(value) or headings.names_payment(value) for value in values)
        return known or (len(values) > 1 and not is_group and not are_known_names)

    def _may_be_unknown_state(self, column: TableColumn) -> bool:
        values = column.distinct
        known = [meaning for meaning in headings.statuses_of(column.name, values).values() if meaning]
        if len(known) == len(values) and (VOID in known or REFUND in known):
            return True
        are_flags = all(map(is_flag, values))
        harmless = ("tax_modes", "harmless_flags") if are_flags else ("tax_modes", "groups", "people")
        is_harmless = any(headings.names(column.name, table) for table in harmless)
        if is_harmless and not any(map(headings.exception_in, values)):
            return False
        if headings.are_names(values) or len(values) > MOST_STATES or len({*column.values}) == 1:
            return False
        if are_flags:
            return True
        if _are_numbered(values):
            return False
        rows = len(column.values)
        is_everywhere = column.filled * 10 >= rows * 9 and len(values) * 2 <= rows
        # Such as a star on some bills.
        is_rare_mark = len(values) == 1 and len(values[0]) <= LONGEST_CODE and column.filled * 2 < rows
        return is_everywhere or is_rare_mark or self._are_headings_unknown()

    def _are_headings_unknown(self) -> bool:
        """Return whether so many headings say nothing that they may be in a language that is not known."""
        filled = [column for column in self.table.columns.values() if column.filled]
        unknown = [column for column in filled if self.role(column) is None]
        return len(filled) > 2 and len(unknown) * 3 >= len(filled)

    def is_reference(self, column: TableColumn) -> bool:
        return headings.names(column.name, "references")

    def word_among_codes(self, value: str) -> str:
        """Return a value that is a word of the list between codes such as T4, or an empty text."""
        return headings.word_among_codes(value)

    def are_names(self, values: Collection[str]) -> bool:
        return headings.are_names(values)

    def is_yes_or_no(self, value: str) -> bool:
        return headings.flag_of(value) is not None and not value.isdigit()

    # --- shops and channels ---------------------------------------------------------------

    def names_no_shop(self, value: str) -> bool:
        return headings.names_no_shop(value)

    def names_area(self, value: str) -> bool:
        return headings.names_area(value)

    def are_areas(self, values: Sequence[str]) -> bool:
        return sum(map(headings.names_area, values)) * 2 > len(values) > 1

    def channel_of(self, value: str) -> str | None:
        return headings.channel_of(value)

    def is_prepaid(self, column: TableColumn) -> bool:
        """Return whether a heading names what was paid before, or is still to be paid, such as a deposit."""
        return headings.names(column.name, "headings", "unknown")

    def smallest_in_cents(self, values: Iterable[str]) -> int | None:
        return headings.smallest_in_cents(list(self.table.columns), values)


@lru_cache(maxsize=2000)
def _is_bare(heading: str) -> bool:
    roles = headings.roles_of(heading)
    if roles and roles[0].role in _OF_SOMETHING_ELSE:
        return False
    is_listed = headings.is_one_of(heading, "headings", "status") or headings.is_one_of(heading, "headings", "type")
    if is_listed:
        return True
    # Under `Open` or `Pending`, a yes may be about something else than the sale.
    if headings.heading_status(heading) in (None, SKIP):
        return False
    words = [word for word in headings.words_of(heading) if word not in _SMALL_WORDS]
    if any(word.endswith(_NO_STATE_ENDINGS) for word in words):
        return False
    # `Voids` and `Cancelled orders` are counts, and the whole of 退菜数 is not the state that it begins with.
    is_of_bill = not headings.is_plural(heading) and not headings.says_more_unspaced(heading)
    return is_of_bill and not headings.says_more(" ".join(words))


def is_flag(value: str) -> bool:
    is_amount = any(map(str.isdigit, value)) and not value.isdigit()
    return not is_amount and (headings.flag_of(value) is not None or headings.is_placeholder(value))


def _are_numbered(values: Sequence[str]) -> bool:
    """Return whether all values have digits and some are longer than a code, as in `Table 12`."""
    are_codes = all(value.isalnum() and len(value) <= LONGEST_CODE and value != "0" for value in values)
    if are_codes:
        return False
    texts = [value for value in values if not headings.is_placeholder(value)]
    return all(any(map(str.isdigit, text)) for text in texts)


def _has_opposite_sign(column: TableColumn, totals: Sequence[Decimal]) -> bool:
    """Return whether a column nearly always has the sign opposite to that of the total of the row."""
    equal = opposite = 0
    for row, total in enumerate(totals):
        product = column.amount(row) * total
        equal += product > 0
        opposite += product < 0
    return opposite > 4 * equal


def is_flag_column(column: TableColumn) -> bool:
    return all(headings.flag_of(value) is not None for value in column.distinct)


def recognised_headings(cells: Collection[str]) -> int:
    return headings.recognised_headings(cells)


def role_of_heading(name: str) -> tuple[str, ...]:
    return tuple(match.role for match in headings.roles_of(name))


__all__ = [
    "AMOUNT_ROLES",
    "CHARGES",
    "DEDUCTIONS",
    "LONGEST_CODE",
    "LONGEST_READ",
    "REFUND",
    "SALE",
    "SKIP",
    "TOTAL_ROLES",
    "VOID",
    "Ranks",
    "stated_rates",
]
