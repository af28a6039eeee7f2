"""Finds which columns say that a bill was voided, refunded or never sold, or that a line was cancelled.

A column decides alone only under a bare heading of state of which all values are in the short list. Everything else
that may change what a bill is becomes a doubt about that column.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from itertools import accumulate, combinations

from msgspec import Struct

from counterfoil.importer.bill_rows import ALL_ROWS, ONLY, SEPARATOR, WITHOUT
from counterfoil.importer.bills import Bills
from counterfoil.importer.columns import FEW_VALUES, TableColumn
from counterfoil.importer.form import sentence
from counterfoil.importer.interview import Interview
from counterfoil.importer.ranks import NUMBER_ROLES, REFUND, SALE, SKIP, TOTAL_ROLES, VOID, Ranks, is_flag
from counterfoil.importing.values import prefix_of
from counterfoil.model.text import counted

EACH = "each"
MOST_OPTIONS = 4
MEANINGS = (SALE, SKIP, VOID, REFUND)
STRENGTH = (SALE, REFUND, VOID, SKIP)
"""If several columns have a state, the strongest one counts."""
MOST_SHOWN, LONGEST_SHOWN = 3, 20
MOST_KINDS = 6
"""More kinds of rows are no kinds, but items."""


class CancelledLines(Struct, frozen=True):
    """The column that says whether a line was cancelled, and the values that say so."""

    column: str
    values: dict[str, bool]


class States(Struct):
    """What the columns of state say: for bills, by column and value, and for lines."""

    of_bills: dict[str, dict[str, str]]
    marks: dict[str, dict[str, str]]
    """Columns in which any other value than those listed means that the bill is void, such as `Voided by`."""
    counted_lines: dict[str, list[str]]
    """Values of columns about lines that an answer says count, although they have a doubtful word."""
    cancelled: CancelledLines | None
    later: list[str]
    """Columns of state that are empty here. A value in a later file must be explained."""
    prefixes: dict[str, str]
    """What the letters before the number of a bill say, by these letters, if they say anything."""
    amounts: list[str]
    """Columns of amounts, such as `Voided amount`, in which any amount but 0 says the same about a bill."""

    def of(self, bills: Bills, bill: int) -> str:
        """Return the state of a bill."""
        rows = bills.rows[bill]
        found = self.of_row(bills, rows[0])
        others = {self.of_row(bills, row) for row in rows[1:]} - {found}
        if others:
            # Two rows with the same number: a sale, and its void.
            return max((found, *others), key=STRENGTH.index)
        return found

    def of_row(self, bills: Bills, row: int) -> str:
        columns = bills.table.columns
        strongest = self.of_prefix(bills.number.values[row])
        for name, meanings in (*self.of_bills.items(), *self.marks.items()):
            meaning = meanings.get(columns[name].values[row], SALE)
            strongest = max(strongest, meaning, key=STRENGTH.index)
        return strongest

    def of_prefix(self, number: str) -> str:
        return self.prefixes.get(prefix_of(number), SALE) if self.prefixes else SALE

    def by_bill(self, bills: Bills) -> list[str]:
        if not self.of_bills and not self.marks and not self.prefixes:
            return [SALE] * len(bills.rows)
        return [self.of(bills, bill) for bill in range(len(bills.rows))]

    def is_cancelled(self, bills: Bills, row: int) -> bool:
        cancelled = self.cancelled
        return cancelled is not None and cancelled.values.get(bills.table.columns[cancelled.column].values[row], False)


def find_states(bills: Bills, interview: Interview) -> States:
    return _StateSearch(bills, interview).states


class _StateSearch:
    def __init__(self, bills: Bills, interview: Interview) -> None:
        self._bills = bills
        self._ranks: Ranks = bills.ranks
        self._interview = interview
        self.states = States({}, {}, {}, None, [], {}, [])
        self._has_kinds = False
        """Whether the rows of a bill are of several kinds, so that it is not known yet which ones count."""
        columns = list(bills.table.columns.values())
        for column in columns:
            if self._is_bare(column):
                self._decide(column)
        for column in columns:
            is_free = not self._is_decided(column) and not self._is_known(column)
            if is_free and not self._doubt_kinds(column):
                self._doubt(column)
        self._doubt_items()
        self._doubt_prefixes()
        self._doubt_numbers()

    # --- what is decided ----------------------------------------------------------------------

    def _is_known(self, column: TableColumn) -> bool:
        """Return whether a column has something else, such as the number or the day of a bill."""
        bills = self._bills
        known = [bills.number, bills.closing.day, bills.closing.clock, bills.trading_day, bills.shop, *bills.tills]
        names = {one.name for one in known if one} | bills.skipped.keys()
        if column.name in names:
            return True
        if column.name in bills.key.columns and column not in bills.kinds:
            return True
        is_state = self._ranks.may_be_state(column) or self._is_void_heading(column)
        return self._ranks.role(column) in NUMBER_ROLES and not is_state

    def _is_decided(self, column: TableColumn) -> bool:
        cancelled = self.states.cancelled
        names = {*self.states.of_bills, *self.states.marks, *([cancelled.column] if cancelled else ())}
        return column.name in names or column.name in self.states.later

    def _is_bare(self, column: TableColumn) -> bool:
        if self._is_known(column) or f"state.{column.name}" in self._interview.answers:
            return False
        return self._ranks.is_bare(column) and not self._ranks.is_named_as_amount(column)

    def _decide(self, column: TableColumn) -> None:
        """Read a column under a bare heading, if all its values are in the short list."""
        if not column.filled:
            self.states.later.append(column.name)
            return
        if len(column.distinct) > FEW_VALUES:
            return
        meanings = self._listed(column)
        is_listed = None not in meanings.values()
        if not is_listed and self._ranks.is_void_mark(column):
            self._decide_mark(column)
        if not is_listed:
            return
        if not self._bills.is_of_bill(column) or column.name in self._bills.line_marks:
            self._decide_lines(column, meanings)
            return
        self.states.of_bills[column.name] = {value: meaning or SALE for value, meaning in meanings.items()}

    def _listed(self, column: TableColumn) -> dict[str, str | None]:
        """Return what the values of a column say by the short list, or None where the rows contradict it."""
        states = self._ranks.states(column)
        if set(states.values()) == {SKIP}:
            # It is improbable that no bill of an export counts.
            return dict.fromkeys(states)
        if "" in states and states[""] is None:
            are_flags = all(map(is_flag, column.distinct))
            are_exceptions = all(states[value] in (VOID, REFUND) for value in column.distinct)
            states[""] = SALE if are_flags or are_exceptions else None
        for value, meaning in states.items():
            is_of_payment = self._ranks.may_be(column, "method")
            is_denied = self._ranks.heading_state(column) == SALE
            if meaning == SKIP and (is_of_payment or is_denied):
                # A bill of which the payment is pending may have been sold, and one that is not valid may be void.
                states[value] = None
            rows = set(column.rows_with(value))
            is_negative = rows <= self._bills.negative_rows
            if meaning == REFUND and self._ranks.is_state_of_sale(column, value) and not is_negative:
                states[value] = None
            if meaning == VOID and is_negative and not self._voids_sales(rows):
                # The sale that it reverses is a bill of its own.
                states[value] = None
        return states

    def _voids_sales(self, rows: Iterable[int]) -> bool:
        """Return whether each of the rows is in a bill of two rows, of which the other one is the sale."""
        pairs = [set(bill) for bill in self._bills.rows if len(bill) == 2]
        return all(any(row in pair for pair in pairs) for row in rows)

    def _decide_mark(self, column: TableColumn) -> None:
        """Read marks such as the name of who voided a bill, unless most bills have one."""
        nothing = {value for value in column.distinct if self._says_nothing(column, value)} | {""}
        marked = {row for row, value in enumerate(column.values) if value not in nothing}
        is_rare = len(marked) * 2 <= len(column.values)
        is_void = self._ranks.heading_state(column) == VOID and not column.is_number
        if not is_rare or not is_void or not self._bills.is_of_bill(column):
            return
        if any(not self._is_explained(row) for row in marked) and self._has_other_state(marked):
            return
        meanings = {value: SALE if value in nothing else VOID for value in (*column.distinct, "")}
        self.states.marks[column.name] = meanings

    def _says_nothing(self, column: TableColumn, value: str) -> bool:
        return self._ranks.says_nothing(value) or self._ranks.states(column)[value] == SALE

    def _is_explained(self, row: int) -> bool:
        return self.states.of_row(self._bills, row) in (VOID, SKIP)

    def _has_other_state(self, rows: Iterable[int]) -> bool:
        """Return whether another column of state has a value on these rows."""
        columns = self._bills.table.columns
        return any(columns[name].values[row] for name in self.states.of_bills for row in rows)

    def _decide_lines(self, column: TableColumn, meanings: dict[str, str | None]) -> None:
        """Read which lines were cancelled, if no value says anything else."""
        if {*meanings.values()} <= {SALE}:
            return
        if {*meanings.values()} <= {SALE, VOID} and self._bills.is_flat and self.states.cancelled is None:
            values = {value: meaning == VOID for value, meaning in meanings.items()}
            self.states.cancelled = CancelledLines(column.name, values)
            return
        if self._are_void_pairs(column, meanings):
            self.states.of_bills[column.name] = {value: meaning or SALE for value, meaning in meanings.items()}

    def _are_void_pairs(self, column: TableColumn, meanings: dict[str, str | None]) -> bool:
        """Return whether the rows of a bill differ only where one row voids the sale of the other one."""
        if self._bills.is_flat:
            return False
        for rows in self._bills.rows:
            found = {meanings[column.values[row]] for row in rows}
            if len(found) > 1 and (found != {SALE, VOID} or not self._bills.are_pair(rows)):
                return False
        return True

    # --- what is asked ----------------------------------------------------------------------------

    def _doubt(self, column: TableColumn) -> None:
        """Ask what a column says about a bill, if it may say something."""
        values = [*column.distinct, *([] if column.is_filled else [""])]
        answered = [value for value in values if f"state.{column.name}.{value}" in self._interview.answers]
        is_named = f"state.{column.name}" in self._interview.answers or bool(answered)
        marked = self._marked(column, values)
        if not is_named and self._are_explained(column, marked):
            return
        if is_named and not marked:
            marked = [value for value in values if value and not self._ranks.says_nothing(value)]
        if not marked:
            return
        if column.name not in self._bills.line_marks and self._bills.is_of_bill(column):
            self._ask_about_bills(column, values, marked)
        elif self._bills.is_flat:
            self._ask_about_lines(column, values, marked)
        elif self._pays_back(column, marked):
            self._ask_about_bills(column, values, marked)
        else:
            self._ask_about_rows(column, marked)

    def _are_explained(self, column: TableColumn, marked: Sequence[str]) -> bool:
        """Return whether other columns already say of all bills with these values that they are no sales."""
        rows = {row for value in marked for row in column.rows_with(value)}
        return all(self.states.of_row(self._bills, row) != SALE for row in rows)

    def _marked(self, column: TableColumn, values: Sequence[str]) -> list[str]:
        """Return the values that may say that a bill does not count as it stands."""
        ranks = self._ranks
        if not column.filled:
            return []
        if column.is_constant:
            # It is improbable that no bill of an export counts.
            is_not_sold = ranks.is_bare(column) and ranks.states(column)[values[0]] not in (SALE, None)
            is_marked = ranks.is_void_mark(column) and not self._says_nothing(column, values[0])
            return list(values) if is_not_sold or is_marked else []
        if ranks.may_be_state(column):
            return self._other_than_sale(column, values)
        if self._is_void_heading(column):
            return [value for value in column.distinct if not self._says_nothing(column, value)]
        if self._has_whole_amounts(column):
            return _without_zeros(column)
        if self._names_other_bills(column):
            return [value for value in column.distinct if self._bills.refers_to_bill(value)]
        is_item = ranks.role(column) == "item" and self._bills.is_flat
        return [] if is_item else ranks.doubtful_values(column, is_item=False)

    def _is_void_heading(self, column: TableColumn) -> bool:
        """Return whether a mark, a number or an amount under a heading of a void has a value on some bills."""
        return self._ranks.heading_state(column) in (VOID, REFUND) and self._ranks.role(column) != "refunded"

    def _has_whole_amounts(self, column: TableColumn) -> bool:
        """Return whether a column of no known role has the whole amount of some bills, which may have been voided."""
        if self._ranks.role(column) is not None or not column.has_decimals or not self._bills.is_of_bill(column):
            return False
        for total in self._ranks.with_role("total", "paid", "net"):
            whole = self._rows_of_whole(column, total)
            if not whole or len(whole) * 2 >= len(column.values):
                continue
            # If others have the whole amount of all other bills, these are ways of paying.
            paid = set(whole)
            for other in self._bills.table.columns.values():
                if other is not total and other.is_number:
                    paid.update(self._rows_of_whole(other, total))
            if len(paid) < len(column.values):
                return True
        return False

    def _rows_of_whole(self, column: TableColumn, total: TableColumn) -> list[int]:
        """Return the rows with an amount, if on each of them it is the total."""
        rows = [row for row in range(len(column.values)) if column.amount(row)]
        return rows if all(column.amount(row) == total.amount(row) for row in rows) else []

    def _other_than_sale(self, column: TableColumn, values: Sequence[str]) -> list[str]:
        states = {value: self._ranks.probable_state(column, value) if value else SALE for value in values}
        listed = self._ranks.states(column)
        if all(meaning == SALE for meaning in listed.values()):
            return []
        sold = [value for value in values if listed[value] == SALE]
        if not any(value for value in sold) and "" in values:
            sold = [""]
        doubtful = [value for value in values if states[value] != SALE]
        if doubtful and len(doubtful) < len(values):
            return [value for value in values if value not in sold]
        if sold and len(sold) < len(values):
            return [value for value in values if value not in sold]
        return [value for value in values if value != values[0] and value] or [values[0]]

    def _names_other_bills(self, column: TableColumn) -> bool:
        """Return whether some bills name another one here, which they may return, replace or be merged into."""
        is_rare = 0 < column.filled * 2 < len(column.values)
        if not is_rare or self._ranks.role(column) in NUMBER_ROLES:
            return False
        return any(map(self._bills.refers_to_bill, column.distinct))

    def _pays_back(self, column: TableColumn, marked: Sequence[str]) -> bool:
        rows = {row for value in marked for row in column.rows_with(value)}
        return bool(rows & self._bills.negative_rows)

    def _ask_about_bills(self, column: TableColumn, values: Sequence[str], marked: Sequence[str]) -> None:
        known = self._known_states(column)
        if known:
            marked = [value for value in values if value not in known]
        meanings = self._meanings(marked)
        if known:
            meanings[SALE] = sentence("{marked} {was} sold", marked=_shown(marked), was=_was(marked))
        is_paid_back = self._pays_back(column, marked) and not self._bills.is_of_bill(column)
        order = self._ordered(column, marked, (VOID, REFUND) if is_paid_back else MEANINGS)
        listed = self._ranks.states(column)
        is_open = len(values) == 2 and all(values) and not any(listed[value] for value in values)
        is_amount = column.has_decimals and not self._ranks.may_be_state(column)
        if is_amount:
            self.states.amounts.append(column.name)
        elif len(marked) > 1 or is_open:
            order = [*order[: MOST_OPTIONS - 1], EACH]
        choices = {meaning: meanings[meaning] for meaning in order}
        text = sentence("What does “{column}” say about a bill?", column=column.name)
        example = "; ".join(self._counted(column, value) for value in values[:MOST_OPTIONS])
        doubt = f"state.{column.name}"
        given = self._interview.answers
        if doubt not in given and any(f"{doubt}.{value}" in given for value in values):
            answer = EACH
        else:
            answer = self._interview.choose(doubt, "state", text, choices, example=example)
        found = dict.fromkeys(values, SALE) | known
        if answer == EACH:
            found |= self._ask_each(column, values, marked)
        else:
            found |= dict.fromkeys(marked, answer)
        self.states.of_bills[column.name] = found

    def _meanings(self, marked: Sequence[str]) -> dict[str, str]:
        """Return what values of bills may say, with a text for each meaning."""
        shown, was = _shown(marked), _was(marked)
        return {
            SALE: sentence("Nothing: all were sold"),
            SKIP: sentence("{shown} {was} not sold: leave out", shown=shown, was=was),
            VOID: sentence("{shown} {was} cancelled: void", shown=shown, was=was),
            REFUND: sentence("{shown} {was} paid back: refund", shown=shown, was=was),
            EACH: sentence("Each value for itself"),
        }

    def _known_states(self, column: TableColumn) -> dict[str, str]:
        """Return what is known under a bare heading with listed values, if the rows contradict some of them."""
        doubt = f"state.{column.name}"
        given = self._interview.answers
        is_each = given.get(doubt) == EACH or any(f"{doubt}.{value}" in given for value in (*column.distinct, ""))
        if is_each or not self._ranks.is_bare(column) or None in self._ranks.states(column).values():
            return {}
        known = {value: meaning for value, meaning in self._listed(column).items() if meaning is not None}
        is_decided = SALE in known.values() and len(known) < len(self._ranks.states(column))
        return known if is_decided else {}

    def _ask_each(self, column: TableColumn, values: Sequence[str], marked: Sequence[str]) -> dict[str, str]:
        """Ask about each value that may be no sale."""
        asked = []
        for value in values:
            is_sold = not value or self._ranks.states(column)[value] == SALE
            if f"state.{column.name}.{value}" in self._interview.answers or not is_sold:
                asked.append(value)
        likely = {value: self._ordered(column, [value], MEANINGS)[0] for value in asked}
        unlike = _unlike_the_others(likely, marked)
        meanings = {
            SALE: "sold",
            SKIP: sentence("not sold: leave out"),
            VOID: sentence("cancelled: void"),
            REFUND: sentence("paid back: refund"),
        }
        found: dict[str, str] = {}
        for value in asked:
            text = sentence(
                "What is a bill of which “{column}” is “{value}”?", column=column.name, value=value or "empty"
            )
            order = self._ordered(column, [value], MEANINGS)
            if value == unlike:
                order = [order[1], order[0], *order[2:]]
            choices = {meaning: meanings[meaning] for meaning in order}
            doubt = f"state.{column.name}.{value}"
            found[value] = self._interview.choose(doubt, "state", text, choices, example=self._counted(column, value))
        return found

    def _ordered(self, column: TableColumn, marked: Sequence[str], meanings: Sequence[str]) -> list[str]:
        """Return the meanings, the most probable one first."""
        found = [self._ranks.probable_state(column, value) for value in marked if value]
        likely = max(found, key=found.count, default=SALE)
        if likely == SALE and all(value and self._bills.refers_to_bill(value) for value in marked):
            likely = REFUND
        return sorted(meanings, key=lambda meaning: (meaning != likely, meaning != SALE))

    def _counted(self, column: TableColumn, value: str) -> str:
        numbers = [
            self._bills.name_of(bill)
            for bill, rows in enumerate(self._bills.rows)
            if any(column.values[row] == value for row in rows)
        ]
        named = f" ({', '.join(numbers[:MOST_SHOWN])})" if len(numbers) <= MOST_SHOWN else ""
        return f"{value or 'empty'}: {counted(len(numbers), 'bill')}{named}"

    def _ask_about_lines(self, column: TableColumn, values: Sequence[str], marked: Sequence[str]) -> None:
        if self.states.cancelled is not None:
            return
        shown = _shown(marked)
        were = "was" if len(marked) == 1 else "were"
        choices = {
            SALE: sentence("Nothing: all lines count"),
            VOID: sentence("{shown} {were} cancelled: these lines do not count", shown=shown, were=were),
            EACH: sentence("Each value for itself"),
        }
        order = self._ordered(column, marked, (SALE, VOID))
        if len(values) > 2 or not self._is_clear(column, marked):
            order.append(EACH)
        text = sentence("What does “{column}” say about a line?", column=column.name)
        example = "; ".join(f"{value or 'empty'}: {len(column.rows_with(value)):,} lines" for value in values[:4])
        doubt = f"state.{column.name}"
        given = self._interview.answers
        is_each = doubt not in given and any(f"{doubt}.{value}" in given for value in values)
        if is_each:
            answer = EACH
        else:
            ordered = {meaning: choices[meaning] for meaning in order}
            answer = self._interview.choose(doubt, "state", text, ordered, example=example)
        found = dict.fromkeys(values, False)
        if answer == EACH:
            found |= self._ask_each_of_lines(column, values, marked)
        else:
            found |= dict.fromkeys(marked, answer != SALE)
        self.states.counted_lines[column.name] = [value for value, is_cancelled in found.items() if not is_cancelled]
        if any(found.values()):
            self.states.cancelled = CancelledLines(column.name, found)

    def _ask_each_of_lines(self, column: TableColumn, values: Sequence[str], marked: Sequence[str]) -> dict[str, bool]:
        """Ask of each value whether its lines were cancelled."""
        asked = [value for value in values if value or f"state.{column.name}." in self._interview.answers]
        unlike = _unlike_the_others(dict.fromkeys(asked, SALE), marked)
        found: dict[str, bool] = {}
        for value in asked:
            text = sentence(
                "Does a line count of which “{column}” is “{value}”?", column=column.name, value=value or "empty"
            )
            counts, not_counts = (SALE, "it counts"), (VOID, "it does not")
            choices = dict([not_counts, counts] if value == unlike else [counts, not_counts])
            answer = self._interview.choose(f"state.{column.name}.{value}", "state", text, choices)
            found[value] = answer != SALE
        return found

    def _is_clear(self, column: TableColumn, marked: Sequence[str]) -> bool:
        return all(self._ranks.probable_state(column, value) != SALE for value in marked)

    def _ask_about_rows(self, column: TableColumn, marked: Sequence[str]) -> None:
        """Ask whether rows of a bill, such as a payment that was declined, are a part of it."""
        text = sentence("“{column}” is not the same on all rows of a bill. Which rows count?", column=column.name)
        without = f"{WITHOUT}{SEPARATOR.join(marked)}"
        choices = {
            without: sentence("{marked}: leave out", marked=_shown(marked)),
            ALL_ROWS: sentence("all rows count"),
        }
        self._interview.choose(f"rows.{column.name}", "bill", text, choices)

    # --- prefixes of numbers ------------------------------------------------------------------------

    def _doubt_prefixes(self) -> None:
        """Ask about positive bills whose numbers begin like those of credit notes, unlike the others."""
        bills = self._bills
        rows_of: dict[str, list[int]] = {}
        for row, value in enumerate(bills.number.values):
            rows_of.setdefault(prefix_of(value), []).append(row)
        marked = [prefix for prefix in rows_of if self._ranks.may_begin_refund(prefix)]
        if not marked or len(marked) == len(rows_of) or len(rows_of) > MOST_KINDS:
            return
        rows = {row for prefix in marked for row in rows_of[prefix]}
        if not self._has_positive(rows) or self._is_prefix_explained(rows):
            return
        examples = [bills.number.values[rows_of[prefix][0]] for prefix in marked[:MOST_SHOWN]]
        text = sentence("Are bills such as {examples} refunds?", examples=" and ".join(examples))
        choices = {REFUND: sentence("Yes: refunds"), SALE: sentence("No: sales"), VOID: sentence("No: cancelled, void")}
        counts = []
        for prefix, some in rows_of.items():
            numbers = {bills.number.values[row] for row in some}
            counts.append(f"{prefix or 'no letters'}: {counted(len(numbers), 'bill')}")
        answer = self._interview.choose("prefix", "state", text, choices, example="; ".join(counts))
        self.states.prefixes = dict.fromkeys(rows_of, SALE) | dict.fromkeys(marked, answer)

    def _doubt_numbers(self) -> None:
        """Ask about bills whose numbers have a word, as in `1013 (VOID)`, unlike the others."""
        number = self._bills.number
        marked = self._ranks.doubtful_values(number, is_item=False)
        if not 0 < len(marked) * 2 < len(number.distinct) or self._are_explained(number, marked):
            return
        choices = {meaning: text for meaning, text in self._meanings(marked).items() if meaning != EACH}
        order = self._ordered(number, marked, MEANINGS)
        text = sentence("What does “{number}” say about a bill?", number=number.name)
        example = "; ".join(marked[:MOST_SHOWN])
        ordered = {meaning: choices[meaning] for meaning in order}
        answer = self._interview.choose(f"state.{number.name}", "state", text, ordered, example=example)
        self.states.of_bills[number.name] = dict.fromkeys(number.distinct, SALE) | dict.fromkeys(marked, answer)

    def _has_positive(self, rows: Iterable[int]) -> bool:
        amounts = self._ranks.with_role(*TOTAL_ROLES)
        return any((column.number(row) or 0) > 0 for column in amounts for row in rows)

    def _is_prefix_explained(self, marked: set[int]) -> bool:
        """Return whether a column of state, the shop or the till differs wherever the prefix does."""
        if all(self.states.of_row(self._bills, row) != SALE for row in marked):
            return True
        names = [*self.states.of_bills, *self.states.marks, *(column.name for column in self._bills.groups)]
        for name in names:
            values = self._bills.table.columns[name].values
            of_marked = {values[row] for row in marked}
            of_others = {value for row, value in enumerate(values) if row not in marked}
            if of_marked.isdisjoint(of_others):
                return True
        return False

    # --- rows of several kinds ----------------------------------------------------------------------

    def _doubt_kinds(self, column: TableColumn) -> bool:
        """Ask which rows count if a column shows rows of several kinds in a bill that state the same money twice."""
        values = [*column.distinct, *([] if column.is_filled else [""])]
        if not 1 < len(values) <= MOST_KINDS or self._bills.is_of_bill(column):
            return False
        if self._has_kinds or self._interview.answers.get(f"rows.{column.name}"):
            return self._has_kinds
        if self._ranks.role(column) == "method":
            # Guests often pay equal parts of a bill.
            return False
        halves = self._equal_halves(column, values)
        if not halves:
            return False
        # Rows with a state of the bill come first. Rows of items say more than those of payments and sums.
        halves.sort(
            key=lambda kinds: (-self._states_on(column, kinds), -sum(column.counts.get(kind, 0) for kind in kinds))
        )
        choices = {
            f"{ONLY}{SEPARATOR.join(kinds)}": sentence("only {kinds}", kinds=_shown(kinds))
            for kinds in halves[:MOST_OPTIONS]
        }
        text = sentence(
            "The rows of a bill have several kinds in “{column}”, which state the same money. Which count?",
            column=column.name,
        )
        self._has_kinds = True
        if not self._is_sum_of_several(column, halves[0]):
            choices[ALL_ROWS] = sentence("all rows count")
        self._interview.choose(f"rows.{column.name}", "bill", text, choices)
        return True

    def _states_on(self, column: TableColumn, kinds: Sequence[str]) -> int:
        """Return how many columns of state have values on the rows of some kinds only."""
        rows = [row for row, value in enumerate(column.values) if value in kinds]
        others = [row for row, value in enumerate(column.values) if value not in kinds]
        found = 0
        for other in self._bills.table.columns.values():
            if other is not column and self._ranks.may_be_state(other):
                found += any(other.values[row] for row in rows) and not any(other.values[row] for row in others)
        return found

    def _is_sum_of_several(self, column: TableColumn, kinds: Sequence[str]) -> bool:
        """Return whether some bill has several rows on one side and one on the other, so that one is the sum."""
        for rows in self._bills.rows:
            count = sum(column.values[row] in kinds for row in rows)
            if {count, len(rows) - count} not in ({1}, {0, 1}, {0}) and count != len(rows) - count:
                return True
        return False

    def _equal_halves(self, column: TableColumn, values: Sequence[str]) -> list[tuple[str, ...]]:
        """Return sets of kinds of rows that have the same sum as other kinds on each bill."""
        found: list[tuple[str, ...]] = []
        for amount in self._ranks.with_role(*TOTAL_ROLES):
            if self._bills.is_of_bill(amount):
                continue
            sums = [self._sums_by_kind(column, amount, values, rows) for rows in self._bills.rows]
            counted = [value for value in values if any(by_kind[value] for by_kind in sums)]
            sets = [some for size in range(1, len(counted)) for some in combinations(counted, size)]
            for one, other in combinations(sets, 2):
                is_disjoint = not set(one) & set(other)
                if is_disjoint and all(_are_equal_parts(by_kind, one, other) for by_kind in sums):
                    found += [kinds for kinds in (one, other) if kinds not in found]
            if found:
                return found
        return found

    def _sums_by_kind(
        self, column: TableColumn, amount: TableColumn, values: Sequence[str], rows: Sequence[int]
    ) -> dict[str, Decimal]:
        by_kind = dict.fromkeys(values, Decimal())
        for row in rows:
            by_kind[column.values[row]] += amount.amount(row)
        return by_kind

    # --- items ----------------------------------------------------------------------------------------

    def _doubt_items(self) -> None:
        """Ask about rows among the items that may be payments, sums or taxes."""
        items = self._ranks.first("item")
        if items is None or not self._bills.is_flat or items.name in self._bills.skipped or self._has_kinds:
            return
        if f"rows.{items.name}" in self._interview.answers:
            return
        marked = [
            value for value in self._ranks.doubtful_values(items, is_item=True) if not self._is_deduction(items, value)
        ]
        marked += [value for value in self._like_sums if value not in marked]
        marked += [value for value in items.distinct if self._ranks.charge_of(value) == "tax" and value not in marked]
        if not marked:
            return
        text = sentence("Are all rows items? “{items}” has {marked}.", items=items.name, marked=_shown(marked))
        without = f"{WITHOUT}{SEPARATOR.join(marked)}"
        choices = {
            without: sentence("{marked}: not sold, leave out", marked=_shown(marked)),
            ALL_ROWS: sentence("Yes, all were sold"),
        }
        if all(self._ranks.charge_of(value) == "tax" for value in marked):
            # The customer pays a tax, and its rows say how much it is.
            choices = {ALL_ROWS: choices[ALL_ROWS], without: choices[without]}
        if len(marked) > 1:
            for value in marked[: MOST_OPTIONS - 2]:
                choices[f"{WITHOUT}{value}"] = sentence("only {value}: leave out", value=value)
        self._interview.choose(f"rows.{items.name}", "bill", text, choices, free=True)

    def _is_deduction(self, items: TableColumn, value: str) -> bool:
        """Return whether all rows with an item are negative, so that they take something off, as they say."""
        return not self._ranks.is_payment(value) and set(items.rows_with(value)) <= self._bills.negative_rows

    @cached_property
    def _like_sums(self) -> list[str]:
        """The items that cost as much as all rows of the bill above them: payments and sums, not sold items."""
        items = self._ranks.first("item")
        amounts = [one for one in self._ranks.with_role(*TOTAL_ROLES) if not self._bills.is_of_bill(one)]
        found: list[str] = []
        for amount in amounts if items else ():
            places: dict[str, list[int]] = {}
            for bill in self._bills.rows:
                sums = accumulate(map(amount.amount, bill))
                for place, (row, above) in enumerate(zip(bill[1:], sums, strict=False), start=1):
                    is_sum = amount.amount(row) == above > 0
                    places.setdefault(items.values[row] if items else "", []).append(place if is_sum else 0)
            # The second of two equal items costs as much as the first.
            for name, counts in places.items():
                if max(counts) > 1 and 0 not in counts and len(counts) > 2 and name not in found:
                    found.append(name)
        return found


def _are_equal_parts(by_kind: dict[str, Decimal], one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two sets of kinds of rows have the same money in a bill, and not none of it."""
    first = sum(by_kind[kind] for kind in one)
    second = sum(by_kind[kind] for kind in other)
    return first == second and (bool(first) or not any(by_kind.values()))


def _unlike_the_others(likely: Mapping[str, str], marked: Sequence[str]) -> str | None:
    """Return the value of which another meaning than its likely one is offered first, or None.

    Whoever wants to say something of each value says neither the same of all nor of the marked ones alone.
    """
    others = [value for value in likely if value not in marked]
    of_others = {likely[value] for value in others}
    of_marked = {likely[value] for value in marked if value in likely}
    is_clear = len(of_marked) > 1 or bool(of_others - {SALE})
    if is_clear and len(of_marked | of_others) > 1:
        return None
    if others:
        return others[0]
    return list(likely)[-1] if len(likely) > 1 else None


def _was(values: Sequence[str]) -> str:
    return "was" if len(values) == 1 else "were"


def _without_zeros(column: TableColumn) -> list[str]:
    return [value for value in column.distinct if column.units[value]]


def _shown(values: Sequence[str]) -> str:
    """Return the first values, shortened, and how many more there are."""
    named = []
    for value in values[:MOST_SHOWN]:
        text = value or "empty"
        named.append(text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…")
    more = f" and {len(values) - MOST_SHOWN:,} more" if len(values) > MOST_SHOWN else ""
    return ", ".join(named) + more
