"""A key may be older than its shop: bills loaded while its first requests are answered are not missed."""

from collections.abc import Callable
from pathlib import Path

from counterfoil.backends.sqlite.books import SqliteBooks
from records import EVER, bill, branch
from sync.in_process import InProcessService, StoreParts


class LoadedMeanwhile(SqliteBooks):
    """Runs a function just before the horizon is read on its own."""

    happens: Callable[[], None]

    async def horizon(self) -> int:
        self.happens()
        return await super().horizon()


def test_a_shop_loaded_during_a_request_gives_its_bills_then_or_at_the_next_poll(tmp_path: Path) -> None:
    service = InProcessService(tmp_path, StoreParts(books=LoadedMeanwhile))
    shop = branch()
    key, sold = service.key(shop=shop["id"]), bill(shop)

    def first_load() -> None:
        service.load(shop, sold)
        service.clock.advance(1)
        service.ledger.advance_horizon()

    service.books.happens = first_load  # type: ignore[attr-defined]
    first = service.ask(key, "transactions", shopId=shop["id"], updatedSince=EVER)
    then = service.ask(key, "transactions", shopId=shop["id"], updatedSince=first["serverTime"])
    service.close()
    assert sold["id"] in [one["id"] for one in first["data"] + then["data"]]
