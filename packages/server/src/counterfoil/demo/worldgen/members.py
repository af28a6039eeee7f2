"""Generates fictitious members. A record follows from the member's number, so a demo can name one in advance."""

from collections.abc import Callable, Iterator
from datetime import date

from counterfoil.demo.worldgen.brands import DemoBase
from counterfoil.demo.worldgen.group import Group, is_double, person
from counterfoil.demo.worldgen.plan import WorldPlan, messaging_user_id, opaque, pick, stream
from counterfoil.demo.worldgen.records import Number, RawRecord, baht, without_none
from counterfoil.model.calendar import DAY_MS, THAI_TIME, compact, iso, iso_utc, thai_day, thai_midnight

OLDEST_SIGN_UP_DAYS = 900
MOST_VISITS = 24

LABELS = ("แพ้กุ้ง Shrimp allergy", "VIP", "มากับเด็ก With children", "ชอบริมหน้าต่าง Window seat", "Corporate")
PERSONA = ("สายบุฟเฟต์ Buffet fan", "Early bird", "นักชิม Foodie", "Weekend family")
COUPONS = ("คูปองวันเกิด Birthday treat", "ลด 50 บาท", "Free dessert ของหวานฟรี", "Welcome 100")
MAIL = ("example.com", "example.org")
VISIT_FORMATS: tuple[Callable[[int], object], ...] = (
    lambda instant: thai_day(instant).isoformat(),
    lambda instant: compact(thai_day(instant)),
    iso_utc,
    lambda instant: {"at": instant},
)


def members(plan: WorldPlan, group: Group, as_of: date) -> Iterator[RawRecord]:
    """Yield all members of all bases, as of the beginning of the day `as_of`."""
    for base in group.bases:
        for number in range(base.members):
            yield _MemberGenerator(plan, group, base, number, thai_midnight(as_of)).record()


class _MemberGenerator:
    """Generates one member of one base."""

    def __init__(self, plan: WorldPlan, group: Group, base: DemoBase, number: int, now_ms: int) -> None:
        self.plan = plan
        self.group = group
        self.base = base
        self.number = number
        self.now_ms = now_ms
        self.draw = stream(plan.seed, "member", base.id, number)
        span = OLDEST_SIGN_UP_DAYS * DAY_MS
        self.created_ms = now_ms - span + int(span * (number + self.draw.random()) / base.members)

    def record(self) -> RawRecord:
        draw, base = self.draw, self.base
        level = int(draw.random() * draw.random() * len(base.tiers))
        return without_none(
            kind="member",
            id=base.member_id(self.number),
            providerId=base.id,
            createdAt=iso(self.created_ms, THAI_TIME),
            rank=base.tiers[level][0] if base.tiers and draw.random() < 0.9 else None,
            rankLevel=level if base.auto_tiers else None,
            points=self._holding(600, step=100),
            credit=self._holding(300, step=25) if base.credit_enabled or draw.random() < 0.05 else None,
            coupons=[self._coupon(index) for index in range(int(draw.random() * draw.random() * 5))],
            labels=[label for label in LABELS if draw.random() < 0.12],
            persona=[persona for persona in PERSONA if draw.random() < 0.12],
            visits=self._visits(),
            # No real phone number starts with 000.
            tel=f"000-{int(draw.random() * 1_000):03}-{int(draw.random() * 10_000):04}"
            if draw.random() < 0.8
            else None,
            email=f"invented.member.{self.number}@{MAIL[self.number % len(MAIL)]}" if draw.random() < 0.45 else None,
            messaging=self._accounts(),
        )

    def _holding(self, most: int, step: int) -> Number | list[RawRecord]:
        """Return a balance of points or credit: a plain number, or lots that may expire."""
        draw = self.draw
        if draw.random() < 0.3:
            return int(draw.random() * most)
        return [
            without_none(amount=baht(int(draw.random() * most * 100 / step) * step), expireAt=self._expiry())
            for _ in range(int(draw.random() * 4))
        ]

    def _expiry(self) -> str | None:
        """Return an expiry time: past, in the next two weeks, or up to about a year ahead. None means no expiry."""
        draw = self.draw
        span = pick(draw, ((-200, -1), (0, 14), (15, 380), None))
        return None if span is None else iso(self.now_ms + int(draw.uniform(*span) * DAY_MS), THAI_TIME)

    def _coupon(self, index: int) -> RawRecord:
        draw = self.draw
        kind = int(draw.random() * len(COUPONS))
        other = pick(draw, self.group.bases)
        return without_none(
            code=opaque(self.base.id, "coupon", self.number, index)[:8].upper(),
            status="used" if draw.random() < 0.4 else "available",
            templateId=opaque(self.base.id, "coupon template", kind),
            name=COUPONS[kind],
            expireAt=self._expiry(),
            providerId=other.id if draw.random() < 0.15 else None,
        )

    def _visits(self) -> list[object]:
        """Return the visits since sign-up, in no particular order. The format depends on the member's number."""
        count = int(self.draw.random() * self.draw.random() * MOST_VISITS)
        written = VISIT_FORMATS[self.number % len(VISIT_FORMATS)]
        latest = self.now_ms - 1
        ages = ((latest - self.created_ms) * self.draw.random() * self.draw.random() for _ in range(count))
        return [written(latest - int(age)) for age in ages]

    def _accounts(self) -> list[RawRecord]:
        """Return at most one messaging account: of the base's channel, an older, an unrelated or no channel."""
        kind = 0 if is_double(self.number) or is_double(self.number + 1) else self.number % 10
        older = self.base.older_channels
        if kind == 7 and older:
            return [self._account(self.base.channel(self.number % older))]
        if kind == 8:
            return [self._account(opaque(self.plan.seed, "somebody else's bot"))]
        if kind >= 6:
            return []
        account = self._account(self.base.channel())
        return [account] if kind else [{"userId": account["userId"]}]

    def _account(self, channel: str) -> RawRecord:
        return {"channel": channel, "userId": messaging_user_id(self.plan.seed, channel, person(self.number))}
