"""Fills a store with the demo's restaurant group, by a clock that advances with the records, and issues its keys."""

import hashlib
from collections.abc import Callable
from contextlib import closing
from datetime import date, timedelta
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any

from msgspec import Struct, json, to_builtins
from msgspec.structs import replace

from counterfoil import bootstrap, key_issuing
from counterfoil.demo.worldgen.group import DemoShop, Franchise, Group, plan_group
from counterfoil.demo.worldgen.plan import WorldPlan
from counterfoil.demo.worldgen.records import dirty_lines
from counterfoil.demo.worldgen.world import demo_world
from counterfoil.domain import credentials
from counterfoil.domain.access import DEFAULT_PER_DAY, DEFAULT_PER_MIN, Key, Scope
from counterfoil.domain.audit import Act, AuditEntry
from counterfoil.http.reference import PATH, Reference
from counterfoil.http.reference import build as build_reference
from counterfoil.ingest.pipeline import LoadRules, Pipeline, RejectsFile
from counterfoil.ingest.sources import File
from counterfoil.key_issuing import Grant, KeyStore, Randomness
from counterfoil.machine.addresses import url
from counterfoil.machine.operator import operator
from counterfoil.model.calendar import compact, iso_utc, thai_midnight
from counterfoil.program.clock import SystemClock
from counterfoil.settings import Settings

BATCH = 500
GENEROUS = {"per_min": 6_000, "per_day": 1_000_000}
RECENT_DAYS = 6
# Byte strings that occur in generated bills, used to recognise bills and their fields without parsing the lines.
BILL_START, SECOND_REVISION, MEMBER_FIELD, VOID_FIELD = b'{"kind":"bill"', b'"rev":2', b'"memberId":"', b'"void"'


class DemoKey(Struct, frozen=True, kw_only=True):
    """A key of the demo, with the shops and bases that it can read."""

    purpose: str
    key: Key
    text: str
    shop_ids: tuple[str, ...]
    provider_ids: tuple[str, ...]


class Samples(Struct, frozen=True, kw_only=True, rename="camel"):
    """Parameters for sample requests: IDs of records in the scope of the demo's franchise key, and recent days."""

    shop_id: str
    shop_ids: tuple[str, ...]
    provider_id: str
    provider_ids: tuple[str, ...]
    transaction_id: str
    member_id: str
    messaging_user_id: str
    from_: str
    to: str
    updated_since: str


class Showcase(Struct, frozen=True, kw_only=True):
    """The contents of the demo store."""

    keys: list[DemoKey]
    samples: Samples
    franchises: int
    shops: int
    members: int
    bills: int
    rejected: int
    first_day: date
    last_day: date

    def key(self, purpose: str) -> DemoKey:
        return next(demo_key for demo_key in self.keys if demo_key.purpose == purpose)


def seeded_randomness(seed: int, purpose: str) -> Randomness:
    """Return random bytes that anyone can reproduce who knows the seed, so only for a demo on a loopback address."""
    count = 0

    def random_bytes(size: int) -> bytes:
        nonlocal count
        count += 1
        return hashlib.shake_256(f"counterfoil demo/{seed}/{purpose}/{count}".encode()).digest(size)

    return random_bytes


def demo_secret(seed: int) -> str:
    return seeded_randomness(seed, "deployment secret")(32).hex()


def build(
    settings: Settings,
    plan: WorldPlan,
    randomness: Callable[[str], Randomness],
    on_progress: Callable[[int], None] = lambda _: None,
) -> Showcase:
    """Load the world, issue its keys, and return a summary. Existing records and keys do not change."""
    group = plan_group(plan)
    loaded = _load(settings, plan, group, on_progress)
    with closing(bootstrap.store(settings).key_store()) as key_store:
        if not bootstrap.store(settings).reads().keys():
            key_store.record(AuditEntry(at=SystemClock().now_ms(), act=Act.STORE_CREATED, actor=operator()))
        keys = _issue_keys(key_store, group, randomness, thai_midnight(plan.trading_days[0]))
    return Showcase(
        keys=keys,
        samples=_samples(settings, plan, group, loaded.sample_bill),
        franchises=len(group.franchises),
        shops=len(group.shops),
        members=plan.members,
        bills=loaded.bills,
        rejected=loaded.rejected,
        first_day=plan.trading_days[0],
        last_day=plan.until,
    )


def _issue_keys(
    key_store: KeyStore, group: Group, randomness: Callable[[str], Randomness], now_ms: int
) -> list[DemoKey]:
    """Issue one key of each kind, except those that an earlier run has issued, and return all of them."""
    franchise = _main_franchise(group)
    shop = next(shop for shop in group.shops if shop.id == franchise.shop_ids[0])
    independents = [shop for shop in group.shops if shop.franchise_id is None]
    independent = next(shop for shop in independents if shop.base)
    without_members = next(shop for shop in independents if not shop.base)
    of_two_bases = [other for other in group.franchises if len(other.provider_ids) > 1]
    two_bases = of_two_bases[0] if of_two_bases else franchise

    def key(purpose: str, label: str, owner: Franchise | DemoShop, **terms: Any) -> DemoKey:
        """Return a key for a franchise or a shop. Its limits are generous, unless `terms` has others."""
        if isinstance(owner, Franchise):
            scope = Scope("franchise", owner.id)
            shop_ids, provider_ids = owner.shop_ids, owner.provider_ids
        else:
            scope = Scope("shop", owner.id)
            shop_ids = (owner.id,)
            provider_ids = (owner.base.id,) if owner.base else ()
        grant = Grant(scope=scope, label=label, **GENEROUS | terms)
        credential = credentials.generate(randomness(purpose))
        found = next((key for key in key_store.all() if key.key_id == credential.key_id), None)
        return DemoKey(
            purpose=purpose,
            key=found or key_issuing.import_key(key_store, grant, credential, now_ms, operator()).key,
            text=credentials.format_key(credential),
            shop_ids=shop_ids,
            provider_ids=provider_ids,
        )

    keys = [
        key("franchise", "Head office ERP", franchise),
        key("shop", "Branch dashboard", shop),
        key("personal data", "Loyalty engine", franchise, personal_data=True),
        key("lookup", "Chat bot", franchise, messaging_lookup=True),
        key("independent", "Independent shop", independent),
        key("no members", "Shop without members", without_members),
        key("default limits", "Analytics warehouse", two_bases, per_min=DEFAULT_PER_MIN, per_day=DEFAULT_PER_DAY),
        key("tiny limits", "Trial account", franchise, per_min=3, per_day=20),
        key("revoked", "Former partner", shop),
    ]
    keys[-1] = replace(keys[-1], key=key_issuing.revoke(key_store, keys[-1].key.key_id, now_ms, operator()))
    return keys


def _main_franchise(group: Group) -> Franchise:
    """Return the franchise whose base contains the sample member, or the first franchise if there is none."""
    wanted = group.sample.base.id if group.sample else None
    return next((franchise for franchise in group.franchises if wanted in franchise.provider_ids), group.franchises[0])


class MovingClock(SystemClock):
    """A clock that shows the time of the delivery or the request being written."""

    moment_ms = 0

    def now_ms(self) -> int:
        return self.moment_ms


def delivery_of(lines: list[bytes]) -> File:
    return File(Path("demo"), None, lambda: BufferedReader(BytesIO(b"\n".join(lines))))


class Loaded(Struct):
    bills: int = 0
    rejected: int = 0
    sample_bill: bytes = b""


def _load(settings: Settings, plan: WorldPlan, group: Group, on_progress: Callable[[int], None]) -> Loaded:
    """Load each delivery with the clock set to its time, and then lines that are invalid on purpose."""
    clock, loaded = MovingClock(), Loaded()
    pseudonyms = bootstrap.pseudonyms(settings)
    shop_field = b'"shopId":"%s"' % _main_franchise(group).shop_ids[0].encode()
    with closing(bootstrap.store(settings, clock).ledger()) as ledger:

        def deliver(lines: list[bytes]) -> None:
            rejects = RejectsFile(settings.store / "rejects" / f"demo-{clock.moment_ms}.ndjson")
            summary = Pipeline(ledger, pseudonyms, rejects, LoadRules(batch=BATCH)).load(delivery_of(lines))
            loaded.rejected += summary.rejected.total()

        for clock.moment_ms, lines in demo_world(plan, SystemClock().now_ms()):
            deliver(lines)
            bills = [line for line in lines if line.startswith(BILL_START) and SECOND_REVISION not in line]
            loaded.bills += len(bills)
            for line in bills:
                # The sample is a bill of this shop, preferably with a member and not void.
                is_better = (MEMBER_FIELD in line and VOID_FIELD not in line) or not loaded.sample_bill
                if shop_field in line and is_better:
                    loaded.sample_bill = line
            on_progress(loaded.bills)
        deliver(dirty_lines())
    return loaded


def _samples(settings: Settings, plan: WorldPlan, group: Group, sample_bill: bytes) -> Samples:
    franchise, sample = _main_franchise(group), group.sample
    if sample is None:
        raise ValueError("the plan must have at least one member, because the demo needs a sample member")
    return Samples(
        shop_id=franchise.shop_ids[0],
        shop_ids=franchise.shop_ids,
        provider_id=sample.base.id,
        provider_ids=franchise.provider_ids,
        transaction_id=json.decode(sample_bill)["id"],
        member_id=bootstrap.pseudonyms(settings).member_token(sample.member_id),
        messaging_user_id=sample.messaging_user_id,
        from_=compact(plan.until - timedelta(days=RECENT_DAYS)),
        to=compact(plan.until),
        updated_since=iso_utc(thai_midnight(plan.until - timedelta(days=RECENT_DAYS))),
    )


def reference_url(settings: Settings) -> str:
    return url(settings.host, settings.port, settings.prefix + PATH)


def demo_reference(settings: Settings, demo: Showcase) -> Reference:
    """Return the reference with the demo's IDs in its examples."""
    ids = demo.samples
    values = {**to_builtins(ids), "billId": ids.transaction_id, "memberToken": ids.member_id, "limit": "2"}
    return build_reference(settings.prefix, url(settings.host, settings.port, f"{settings.prefix}/v1"), values)
