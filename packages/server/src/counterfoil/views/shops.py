"""The loaded shops: how busy they are today, and when each had its last bill."""

from collections.abc import Mapping, Sequence
from datetime import date

from counterfoil.domain.activity import LEARNING_DAYS, ShopActivity, ShopState
from counterfoil.model.calendar import days_until, thai_day
from counterfoil.model.text import translatable
from counterfoil.operator_reads import OperatorReads
from counterfoil.program.columns import DATA, ListColumn

DAYS = 14
# The names of the states in a terminal. Shops that need attention come first, and one in the normal state gets a dash.
STATES: dict[ShopState, str] = {
    "silent": "silent",
    "few": "fewer than usual",
    "open": "-",
    "imported": "imported once",
    "learning": "learning",
    "closed": "closed",
    "empty": "no bills",
}

Days = Mapping[str, Sequence[int]]


def bills_per_day(reads: OperatorReads, shops: Sequence[ShopActivity], now: int) -> tuple[date, Days]:
    """Return the first of the last 14 days (Thailand time), and the number of bills of each shop on each of them."""
    span = days_until(thai_day(now), DAYS)
    found = {(of_day.shop_id, of_day.day): of_day.bills for of_day in reads.bills(span[0], span[-1])}
    days: dict[str, Sequence[int]] = {}
    for shop in shops:
        days[shop.shop_id] = [found.get((shop.shop_id, day), 0) for day in span]
    return span[0], days


def state_text(shop: ShopActivity) -> str:
    known = f", {shop.days_known} of {LEARNING_DAYS} days" if shop.state == "learning" else ""
    return STATES[shop.state] + known


def columns(days: Days | None = None) -> Sequence[ListColumn[ShopActivity]]:
    """Return the columns. `days` are the bills of each shop per day, if they were read."""
    of_days: tuple[ListColumn[ShopActivity], ...] = ()
    if days is not None:
        of_days = (
            ListColumn("days", lambda shop: days[shop.shop_id], without=("json", "csv")),
            ListColumn(
                "days",
                lambda shop: sum(days[shop.shop_id]),
                kind="number",
                page=translatable("Last 14 days"),
                other_names={"csv": "bills_14_days"},
                without=("json", "console"),
            ),
        )
    return (
        ListColumn("shopId", terminal="shop ID", page=translatable("Shop")),
        ListColumn("shopName", lambda shop: shop.name, terminal="name", other_names={"csv": "name", "console": "name"}),
        ListColumn("franchiseId", terminal="franchise"),
        ListColumn("providerId", terminal="base", other_names={"csv": "base", "console": "base"}),
        ListColumn("closingTime", lambda shop: shop.closing, terminal="closes", without=("console",)),
        ListColumn("timezone", without=("console",)),
        ListColumn("bills", kind="number", terminal="bills", without=("console", "csv")),
        ListColumn("withoutBusinessDay", lambda shop: shop.without_business_day, without=("console", "csv")),
        ListColumn("daysKnown", without=("csv",)),
        ListColumn("state", terminal="state", page=translatable("State"), text=state_text),
        ListColumn("silent", lambda shop: shop.is_silent, without=("csv",)),
        ListColumn("lastBillAt", kind="time", terminal="last bill", page=translatable("Last bill")),
        ListColumn(
            "usualSinceLastBill",
            lambda shop: shop.usual_since_last,
            "number",
            terminal="usual since last bill",
            page=translatable("Usual since then"),
            other_names={"console": "usualSinceLast"},
        ),
        ListColumn(
            "billsToday",
            lambda shop: shop.today,
            "number",
            terminal="today",
            page=translatable("Bills today"),
            other_names={"console": "today"},
        ),
        ListColumn("usualByNow", kind="number", terminal="usual", page=translatable("Usual by now")),
        *of_days,
        ListColumn(
            "franchiseAndBase",
            lambda shop: (shop.franchise_id, shop.provider_id),
            page=translatable("Franchise"),
            without=DATA,
        ),
    )
