"""Sets what tills do not export about shops: their franchise, closing time, time zone and membership base.

`counterfoil shops set` and the console show an operator what a change means, and then make it. What is set stays when
the shop's record is loaded again. The bills are then rewritten under the new facts, so that copies learn of it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.domain.access import Key
from counterfoil.domain.audit import Act, Actor, AuditEntry, FieldChange
from counterfoil.domain.changes import Outcome, Removal, SetShop
from counterfoil.domain.shops import SHOP_FIELDS, ShopFacts, ShopSettings, with_settings, without_settings
from counterfoil.key_issuing import KeyStore
from counterfoil.model.calendar import zone_named
from counterfoil.model.messages import MessageError
from counterfoil.model.pos_values import closing_time, record_id
from counterfoil.model.text import printable
from counterfoil.operator_reads import LoadedShop, OperatorReads
from counterfoil.ports import LoadLedger

# The fields that no bill has, so that no bill is rewritten.
_NOT_OF_BILLS = {"providerId"}
# The number of bills that one transaction rewrites.
BILLS_PER_BATCH = 500

Selection = Literal["named", "all", "missing"]


class ShopSettingsError(MessageError):
    """The settings or the shops are not valid. The message says why."""


def checked(settings: ShopSettings) -> ShopSettings:
    """Return the settings with the closing time as `02:00`, or raise `ShopSettingsError` if a value is not valid."""
    franchise_id, closing, timezone = settings.franchise_id, settings.closing, settings.timezone
    if franchise_id is not None and record_id(franchise_id) is None:
        raise ShopSettingsError(
            f"{franchise_id!r} cannot be the ID of a franchise: use up to 512 printable characters."
        )
    if settings.provider_id is not None and record_id(settings.provider_id) is None:
        raise ShopSettingsError(
            f"{settings.provider_id!r} cannot be the ID of a membership base: use up to 512 printable characters."
        )
    if closing is not None and closing_time(closing) is None:
        raise ShopSettingsError(
            f"{closing!r} is not a closing time. Write when the last bills of a day are closed, such as 04:00 or 22:30."
        )
    if timezone is not None and zone_named(timezone) is None:
        raise ShopSettingsError(f"{timezone!r} is not a time zone. Use a name such as Asia/Bangkok or Europe/London.")
    return replace(settings, closing=closing and closing_time(closing))


class ShopChange(Struct, frozen=True):
    """A shop, and its facts before and after a change."""

    shop: LoadedShop
    after: ShopFacts
    settings: ShopSettings
    reset: tuple[str, ...]

    @property
    def shop_id(self) -> str:
        return self.before.shop_id

    @property
    def before(self) -> ShopFacts:
        return self.shop.facts

    @property
    def is_change(self) -> bool:
        return self.before != self.after

    def fields(self) -> dict[str, FieldChange]:
        """Return the values that change, by their names in source records."""
        pairs = {field: (getattr(self.before, name), getattr(self.after, name)) for name, field in SHOP_FIELDS.items()}
        return {field: FieldChange(*values) for field, values in pairs.items() if values[0] != values[1]}


class KeyEffect(Struct, frozen=True):
    """The shops, and the membership bases, that a key begins or ceases to cover."""

    key: Key
    gains: list[str]
    loses: list[str]
    gains_bases: list[str]
    loses_bases: list[str]


class ShopChanges(Struct, frozen=True):
    """What a change would do: to the shops, to the keys, and at most to how many bills."""

    shops: list[ShopChange]
    keys: list[KeyEffect]

    @property
    def changed(self) -> list[ShopChange]:
        return [change for change in self.shops if change.is_change]

    @property
    def bills(self) -> int:
        """The number of bills that are read again under the new facts, and rewritten if these change them."""
        return sum(change.shop.bills for change in self.shops if change.fields().keys() - _NOT_OF_BILLS)


def plan(
    reads: OperatorReads,
    shop_ids: Sequence[str],
    settings: ShopSettings,
    now_ms: int,
    *,
    selection: Selection = "named",
    reset: Collection[str] = (),
) -> ShopChanges:
    """Return what the change would do. `missing` sets only what a shop does not have yet, for all shops."""
    settings = checked(settings)
    _require_base(reads, settings.provider_id)
    loaded = reads.loaded_shops()
    unknown = sorted(set(shop_ids) - {shop.facts.shop_id for shop in loaded})
    if unknown:
        raise ShopSettingsError(
            f"not loaded: {', '.join(map(printable, unknown))}. Run `counterfoil shops` to see the IDs of all shops. "
            "Nothing was changed."
        )
    chosen = [shop for shop in loaded if selection != "named" or shop.facts.shop_id in shop_ids]
    shops = [_change(shop, settings, tuple(reset), only_missing=selection == "missing") for shop in chosen]
    active = [key for key in reads.keys() if not key.is_revoked(now_ms)]  # noqa: SIM118 - not a dictionary
    return ShopChanges(shops, list(_effects(active, loaded, shops)))


def _require_base(reads: OperatorReads, base: str | None) -> None:
    """Raise `ShopSettingsError` if a base is not loaded, because no member could be in it."""
    if base is None:
        return
    known = sorted(loaded.provider_id for loaded in reads.bases())
    if base not in known:
        named = ", ".join(map(printable, known)) or "none"
        raise ShopSettingsError(
            f"no membership base {printable(base)} is loaded. Loaded bases: {named}. Import the members first."
        )


def _change(shop: LoadedShop, settings: ShopSettings, reset: tuple[str, ...], *, only_missing: bool) -> ShopChange:
    if only_missing:
        missing = {name: value for name, value in settings.given().items() if getattr(shop.facts, name) is None}
        settings = ShopSettings(**missing)
    after = with_settings(without_settings(shop.facts, reset), settings)
    return ShopChange(shop, after, settings, reset)


def _effects(keys: Iterable[Key], loaded: Iterable[LoadedShop], changes: Iterable[ShopChange]) -> Iterator[KeyEffect]:
    """Yield the keys that begin or cease to cover shops or bases. A key for one shop keeps it in whatever franchise."""
    before = {shop.facts.shop_id: shop.facts for shop in loaded}
    after = before | {change.shop_id: change.after for change in changes}
    for key in keys:
        had, had_bases = _covered(key, before.values())
        has, has_bases = _covered(key, after.values())
        if had == has and had_bases == has_bases:
            continue
        new_bases, lost_bases = sorted(has_bases - had_bases), sorted(had_bases - has_bases)
        yield KeyEffect(key, sorted(has - had), sorted(had - has), new_bases, lost_bases)


def _covered(key: Key, shops: Iterable[ShopFacts]) -> tuple[set[str], set[str]]:
    """Return the IDs of the shops that a key covers, and of their bases."""
    shop_ids, bases = set(), set()
    for shop in shops:
        scope_id = shop.franchise_id if key.scope.kind == "franchise" else shop.shop_id
        if scope_id != key.scope.id:
            continue
        shop_ids.add(shop.shop_id)
        if shop.provider_id:
            bases.add(shop.provider_id)
    return shop_ids, bases


def change_shops(ledger: LoadLedger, audit: KeyStore, planned: ShopChanges, now_ms: int, by: Actor) -> list[str]:
    """Make the change, and return the shops that were changed. Without the audit entries, nothing is changed.

    The bills are not rewritten yet: see `rewrite`.
    """
    for change in planned.changed:
        fields = change.fields()
        detail = _described(change, fields)
        shown = {"shop": FieldChange(None, change.shop_id), **fields}
        audit.record(AuditEntry(at=now_ms, act=Act.SHOP_CHANGED, actor=by, changes=shown, detail=detail))
    if not planned.changed:
        return []
    changes = [SetShop(change.shop_id, change.settings, change.reset) for change in planned.changed]
    outcomes = ledger.apply(changes)
    return [change.shop_id for change, outcome in zip(changes, outcomes, strict=True) if outcome is Outcome.CHANGED]


def remove_shop(ledger: LoadLedger, audit: KeyStore, shop_id: str, now_ms: int, by: Actor) -> None:
    """Remove a shop, as a source record with `removed` does. Without the audit entry, nothing is removed."""
    audit.record(AuditEntry(at=now_ms, act=Act.SHOP_REMOVED, actor=by, detail=shop_id))
    ledger.apply([Removal(("", "shop", shop_id), None)])


def _described(change: ShopChange, fields: dict[str, FieldChange]) -> str:
    values = [f"{name} {field.before or 'none'} -> {field.after or 'none'}" for name, field in fields.items()]
    return f"{change.shop_id}: {', '.join(values) or 'set to the value that it had'}"


def rewrite(ledger: LoadLedger, on_batch: Callable[[], None] = lambda: None) -> None:
    """Rewrite all bills under the current facts of their shops. Every load does this too, before it begins."""
    while ledger.rewrite_bills(BILLS_PER_BATCH):
        on_batch()
