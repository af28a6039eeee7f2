"""Tests for warnings about keys: unused, not rotated, with an unused permission, or with a used-up quota."""

from typing import Any

import pytest

from counterfoil.domain.access import Key, KeyUse, KeyWarning, Scope, key_warnings
from counterfoil.model.calendar import DAY_MS

NOW = 1_800_000_000_000


def key(age_days: float = 10, **fields: Any) -> Key:
    return Key(key_id="k_1", scope=Scope("shop", "sh_1"), created_at=NOW - round(age_days * DAY_MS), **fields)


def used(days_ago: float, **fields: Any) -> KeyUse:
    return KeyUse(last_used=NOW - round(days_ago * DAY_MS), **fields)


@pytest.mark.parametrize(
    ("of", "use", "warnings"),
    [
        (key(), used(1), []),
        (key(6.9), KeyUse(), []),
        (key(7), KeyUse(), [KeyWarning.NEVER_USED]),
        (key(100), used(89.9), []),
        (key(100), used(90), [KeyWarning.IDLE]),
        (key(364), used(1), []),
        (key(365), used(1), [KeyWarning.NOT_ROTATED]),
        (key(per_day=100), used(0, requests_today=99), []),
        (key(per_day=100), used(0, requests_today=100), [KeyWarning.AT_QUOTA]),
        (key(29, personal_data=True), used(1), []),
        (key(30, personal_data=True), used(1), [KeyWarning.PERSONAL_DATA_UNUSED]),
        (key(30, personal_data=True), used(1, last_disclosed=NOW - DAY_MS), []),
        (
            key(400, personal_data=True),
            used(200),
            [KeyWarning.IDLE, KeyWarning.NOT_ROTATED, KeyWarning.PERSONAL_DATA_UNUSED],
        ),
        (key(400, revoked_at=NOW - 1), KeyUse(), []),
        (key(400, revokes_at=NOW), KeyUse(), []),
    ],
)
def test_a_key_in_force_should_be_used_soon_and_often_rotated_every_year_and_use_its_permission_and_quota(
    of: Key, use: KeyUse, warnings: list[KeyWarning]
) -> None:
    assert key_warnings(of, use, NOW) == warnings
