"""Tests for warnings about keys: unused, not rotated, with an unused permission, or with a used-up quota."""

from typing import Any

import pytest

from counterfoil.domain.access import Key, KeyUse, KeyWarning, Scope, key_warnings
from counterfoil.domain.calendar import DAY_MS

NOW = 1_800_000_000_000


def key(age_days: float = 10, **fields: Any) -> Key:
    return Key(key_id="k_1", scope=Scope("shop", "sh_1"), created_at=NOW - round(age_days * DAY_MS), **fields)


def used(days_ago: float, **fields: Any) -> KeyUse:
    return KeyUse(last_used=NOW - round(days_ago * DAY_MS), **fields)


def test_a_key_in_regular_use_has_no_warnings() -> None:
    assert key_warnings(key(), used(1), NOW) == []


@pytest.mark.parametrize(("age_days", "warnings"), [(6.9, []), (7, [KeyWarning.NEVER_USED])])
def test_a_key_counts_as_never_used_after_a_week(age_days: float, warnings: list[KeyWarning]) -> None:
    assert key_warnings(key(age_days), KeyUse(), NOW) == warnings


@pytest.mark.parametrize(("days_ago", "warnings"), [(89.9, []), (90, [KeyWarning.IDLE])])
def test_a_key_counts_as_idle_90_days_after_its_last_use(days_ago: float, warnings: list[KeyWarning]) -> None:
    assert key_warnings(key(100), used(days_ago), NOW) == warnings


@pytest.mark.parametrize(("age_days", "warnings"), [(364, []), (365, [KeyWarning.NOT_ROTATED])])
def test_a_key_should_be_rotated_every_year(age_days: float, warnings: list[KeyWarning]) -> None:
    assert key_warnings(key(age_days), used(1), NOW) == warnings


def test_personal_data_that_a_key_never_reads_is_pointed_out() -> None:
    granted = key(30, personal_data=True)
    assert key_warnings(granted, used(1), NOW) == [KeyWarning.PERSONAL_DATA_UNUSED]
    assert key_warnings(granted, used(1, last_disclosed=NOW - DAY_MS), NOW) == []
    assert key_warnings(key(29, personal_data=True), used(1), NOW) == []


@pytest.mark.parametrize(
    ("requests", "warnings"), [(99, []), (100, [KeyWarning.AT_QUOTA]), (250, [KeyWarning.AT_QUOTA])]
)
def test_a_key_that_has_used_up_its_quota_is_pointed_out(requests: int, warnings: list[KeyWarning]) -> None:
    assert key_warnings(key(per_day=100), used(0, requests_today=requests), NOW) == warnings


@pytest.mark.parametrize("revoked", [{"revoked_at": NOW - 1}, {"revokes_at": NOW}])
def test_a_revoked_key_has_no_warnings(revoked: dict[str, int]) -> None:
    assert key_warnings(key(400, **revoked), KeyUse(), NOW) == []


def test_a_key_can_have_several_issues() -> None:
    forgotten = key(400, personal_data=True)
    assert key_warnings(forgotten, used(200), NOW) == [
        KeyWarning.IDLE,
        KeyWarning.NOT_ROTATED,
        KeyWarning.PERSONAL_DATA_UNUSED,
    ]
