"""Tests for the share of today's quota that each active key has used, which the metrics report."""

from msgspec.structs import replace

from counterfoil.domain.access import Key, Scope
from counterfoil.ports import StoredKey
from ports.backends import Store
from ports.conftest import Run
from running_service import ManualClock

KEY = Key(key_id="k_1", scope=Scope("shop", "sh_1"), per_min=100, per_day=10)
DAY = 86_400


def test_each_active_key_has_the_share_that_it_used_today(store: Store, clock: ManualClock, run: Run) -> None:
    keys = [KEY, replace(KEY, key_id="k_2", per_day=4), replace(KEY, key_id="idle")]
    revoked = replace(KEY, key_id="gone", revoked_at=1)
    key_store, usage = store.key_store(), store.usage(clock)
    for key in (*keys, revoked):
        key_store.add(StoredKey(key, b"digest"), [])
    for key, requests in ((keys[0], 8), (keys[1], 5), (revoked, 9)):
        for _ in range(requests):
            run(usage.admit(key))
    usage.flush()
    assert sorted(store.operator_reads().quota_use(clock.now_ms())) == [0, 0.8, 1.25]
    clock.advance(DAY)
    assert store.operator_reads().quota_use(clock.now_ms()) == [0, 0, 0]
    run(usage.admit(keys[0]))
    usage.flush()
    assert sorted(store.operator_reads().quota_use(clock.now_ms())) == [0, 0, 0.1]
