"""What the operator may say with --set about entries of a mapping that is proposed."""

from collections.abc import Collection, Iterator
from decimal import Decimal

from counterfoil.domain.calendar import zone_named
from counterfoil.importing import headings
from counterfoil.importing.mapping import ENCODINGS, REFUND, SALE, SKIP, VOID
from counterfoil.importing.results import ImportFailed
from counterfoil.importing.values import DATE_ORDERS, NIGHT_ENDS

DEFAULT_ZONE = "Asia/Bangkok"
# What a value may mean for a bill.
MEANINGS = (SALE, VOID, REFUND, SKIP)
UNITS = {"units": Decimal(1), "cents": Decimal("0.01"), "thousands": Decimal(1000)}
NET, UNIT, NIGHT, ZONE = "bill.amounts.net", "numbers.unit", "dates.nightUntil", "shop.timezone"
ENCODING = "file.encoding"
KEYS = ("line.key", "payment.key")
COLUMN_ANSWERS = ("bill.id", "bill.closedAt", "bill.shopId", "line.cancelled")
CHOICES = {"dates.order": DATE_ORDERS, "dates.calendar": ("gregorian", "buddhist"), "numbers.decimal": (".", ",")}
CHOICES |= {NIGHT: (f"{NIGHT_ENDS:%H:%M}", "00:00"), "void": ("line", "bill"), UNIT: tuple(UNITS), ENCODING: ENCODINGS}
ROLE_ANSWERS = {f"bill.{entry}": role for role, entry in headings.entries_of("amounts").items()}
ANSWERS = (NET, *ROLE_ANSWERS, *COLUMN_ANSWERS, *KEYS, *CHOICES, ZONE, "shop.franchiseId", "file.sheet", "skip")


class Answers(dict[str, str]):
    """What the operator said about entries of the mapping, such as `status.Parked` or `status.State.Parked`."""

    def about(self, column: str, value: str) -> str | None:
        """Return what a value means, in this column or in all."""
        return self.get(f"status.{column}.{value}", self.get(f"status.{value}"))

    def statuses(self, columns: Collection[str]) -> Iterator[tuple[str, str | None, str, str]]:
        """Yield each entry about a status with its column, if it names one, its value, and what the value means."""
        for entry, answer in self.items():
            section, _, text = entry.partition(".")
            column = next((name for name in columns if text.startswith(f"{name}.")), None)
            if section == "status":
                yield entry, column, text.removeprefix(f"{column}."), answer

    def check(self) -> None:
        """Refuse an answer that would have no effect, because nobody asked or it is none of the choices."""
        for name, answer in self.items():
            section = name.partition(".")[0]
            if name not in ANSWERS and section != "status":
                raise ImportFailed(
                    f"--set {name}: only these can be set: {', '.join(ANSWERS)}, status.VALUE and status.COLUMN.VALUE."
                )
            if name == ZONE and zone_named(answer) is None:
                raise ImportFailed(f"--set {name}: {answer} is not the name of a time zone, such as {DEFAULT_ZONE}.")
            choices = MEANINGS if section == "status" else CHOICES.get(name)
            if choices and answer not in choices:
                raise ImportFailed(f"--set {name}: {answer} is none of {', '.join(choices)}.")
