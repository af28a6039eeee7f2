"""A deliverer who attacks the watched folder for some seconds changes nothing else, and good files are loaded."""

import os

import pytest

from hostile.deliverer import ATTACKER, attack_folder, usable_python

# On a busy machine, the burst of ten thousand files alone takes this long.
LONGEST_WAIT_SEC, LONGEST_STOP_SEC = 60, 15

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or usable_python(ATTACKER) is None,
    reason="only root can attack as another user, with a Python that this user can run, so this was NOT tested",
)


@pytest.mark.parametrize("kept_outside", [True, False], ids=["outside", "inside"])
@pytest.mark.parametrize("seconds", [10, pytest.param(600, marks=pytest.mark.long)])
def test_an_attack_on_the_watched_folder_changes_and_delays_nothing_else(seconds: float, kept_outside: bool) -> None:
    report = attack_folder(seconds, kept_outside=kept_outside, seed=1)
    assert report.faults == [], "\n".join(report.faults)
    assert report.good_slowest_sec < LONGEST_WAIT_SEC
    assert report.slowest_stop_sec < LONGEST_STOP_SEC


@pytest.mark.parametrize("seconds", [20, pytest.param(600, marks=pytest.mark.long)])
def test_workbooks_that_would_fill_the_memory_delay_no_good_file_of_somebody_else(seconds: float) -> None:
    report = attack_folder(seconds, seed=2, with_exports=True)
    assert report.attacks["workbook"] > 5
    assert report.faults == [], "\n".join(report.faults)
    assert report.good_slowest_sec < LONGEST_WAIT_SEC
    assert report.slowest_stop_sec < LONGEST_STOP_SEC
