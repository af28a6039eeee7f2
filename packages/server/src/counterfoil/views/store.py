"""The store as a whole: its size, servers and latest load, watched folders, and shops and keys to look at."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from counterfoil.domain.access import NEARLY_USED_UP, Key
from counterfoil.domain.activity import ShopActivity
from counterfoil.domain.audit import Backups
from counterfoil.domain.forgetting import ForgottenMember
from counterfoil.domain.intake import Intake
from counterfoil.domain.loads import LoadRow, WatchedFolder
from counterfoil.domain.open_items import KINDS, OpenItem, joined, oldest
from counterfoil.model.calendar import quiet_closing, thai_day
from counterfoil.model.text import translatable
from counterfoil.operator_reads import OperatorReads
from counterfoil.ports import DiskUse, ServerState, StoreExtent
from counterfoil.program.columns import ListColumn, json_row
from counterfoil.views import shops
from counterfoil.views.copies import copy_rows, summary


class KeyToday(Struct, frozen=True, rename="camel"):
    """A key that has used up most of today's quota."""

    key_id: str
    label: str
    count: int
    per_day: int


class StoreValues(Struct, frozen=True, kw_only=True):
    """What is known about a store; nothing if `extent` is None. `keys` are the active keys of integrators."""

    horizon: int | None = None
    load: LoadRow | None = None
    extent: StoreExtent | None = None
    shops: Sequence[ShopActivity] = ()
    proposed_closing: str | None = None
    """A closing time for the shops whose bills have no business day, if the bills suggest one."""
    keys: Sequence[Key] = ()
    near_quota: Sequence[KeyToday] = ()
    intake: Intake = Intake()
    folders: Sequence[WatchedFolder] = ()
    items: Sequence[OpenItem] = ()
    unfinished_forgettings: Sequence[ForgottenMember] = ()
    disk: DiskUse | None = None
    servers: Sequence[ServerState] = ()
    backups: Backups = Backups()
    copies_behind: int = 0


def read(reads: OperatorReads, now: int) -> StoreValues:
    active = [key for key in reads.keys() if not key.is_revoked(now)]  # noqa: SIM118 - not a dictionary
    keys = [key for key in active if not key.is_for_trying]
    loaded = reads.shops(now, count_all=False)
    return StoreValues(
        horizon=reads.horizon(),
        load=reads.latest_load(),
        extent=reads.extent(),
        shops=loaded,
        proposed_closing=_proposed_closing(reads, loaded),
        keys=keys,
        near_quota=_near_quota(reads, keys, now),
        intake=reads.intake(),
        folders=reads.watched_folders(now),
        items=joined(reads.open_items()),
        unfinished_forgettings=reads.unfinished_forgettings(),
        disk=reads.disk_use(),
        servers=reads.servers(),
        backups=reads.backups(),
        copies_behind=_copies_behind(reads, keys, loaded, now),
    )


def _proposed_closing(reads: OperatorReads, loaded: Sequence[ShopActivity]) -> str | None:
    lacking = [shop.shop_id for shop in loaded if shop.without_business_day]
    return quiet_closing(reads.bill_hours(lacking)) if lacking else None


def _near_quota(reads: OperatorReads, keys: Sequence[Key], now: int) -> list[KeyToday]:
    """Return the keys that have used at least 80 % of today's quota."""
    today = thai_day(now)
    requests = {day.key_id: day.requests for day in reads.days(today, today)}
    near_quota = []
    for key in keys:
        count = requests.get(key.key_id, 0)
        if count >= NEARLY_USED_UP * key.per_day:
            near_quota.append(KeyToday(key.key_id, key.label, count, key.per_day))
    return near_quota


def _copies_behind(reads: OperatorReads, keys: Sequence[Key], loaded: Sequence[ShopActivity], now: int) -> int:
    """Return the number of copies that are behind. Keys that replace each other have one copy."""
    copies = reads.copies()
    latest_keys = {key.lineage: key for key in keys}
    behind = 0
    for lineage, key in latest_keys.items():
        if lineage in copies:
            lists = copy_rows(key, copies[lineage], loaded, now)
            behind += summary(lists).state == "behind"
    return behind


FACTS: Sequence[ListColumn[StoreValues]] = (
    ListColumn(
        "storeBytes", lambda store: store.extent and store.extent.size_bytes, other_names={"console": "sizeBytes"}
    ),
    ListColumn("schema", lambda store: store.extent and store.extent.schema),
    ListColumn("software", lambda store: store.extent and store.extent.software),
    ListColumn("freeBytes", lambda store: store.disk and store.disk.free_bytes),
    ListColumn("lastBackupAt", lambda store: store.backups.latest_at, "time"),
    ListColumn("logBytes", lambda store: store.disk.log_bytes if store.disk else {}),
)
SERVERS: Sequence[ListColumn[ServerState]] = (
    ListColumn("name", kind="code", page=translatable("Server")),
    ListColumn("role", lambda server: server.role.value, page=translatable("Role")),
    ListColumn("horizon", kind="time", page=translatable("Horizon")),
)


def _load(now: int) -> Sequence[ListColumn[LoadRow]]:
    return (
        ListColumn("lines"),
        ListColumn("changed"),
        ListColumn("rejected"),
        ListColumn("finished"),
        ListColumn("stopped", lambda load: load.is_stopped),
        ListColumn("idleMs", lambda load: load.idle_ms(now)),
    )


def _folders(now: int) -> Sequence[ListColumn[WatchedFolder]]:
    return (
        ListColumn("name"),
        ListColumn("heartbeatAgeMs", lambda folder: max(0, now - folder.seen_at)),
        ListColumn("deliveryAgeMs", lambda folder: max(0, now - folder.delivered_at)),
        ListColumn("files"),
        ListColumn("quarantined"),
        ListColumn("stopped", lambda folder: folder.is_stopped),
    )


def _items(items: Sequence[OpenItem], now: int) -> dict[str, object]:
    since = oldest(items)
    counts = Counter(item.kind for item in items)
    return {
        **{kind: counts[kind] for kind in KINDS},
        "lines": sum(item.lines or 0 for item in items),
        "oldestAgeMs": None if since is None else max(0, now - since),
    }


def values_json(store: StoreValues, now: int) -> dict[str, object]:
    return {
        **json_row(FACTS, store),
        "servers": [json_row(SERVERS, server) for server in store.servers],
        "latestLoad": json_row(_load(now), store.load) if store.load else None,
        "watchedFolders": [json_row(_folders(now), folder) for folder in store.folders],
        "openItems": _items(store.items, now),
        "keysNearQuota": store.near_quota,
        "copiesBehind": store.copies_behind,
        "shops": len(store.shops),
        "billsWithoutBusinessDay": sum(shop.without_business_day for shop in store.shops),
        "silentShops": [json_row(shops.columns(), shop) for shop in store.shops if shop.is_silent],
    }
