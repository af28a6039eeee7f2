"""The shared tests detect connectors that lose data. Each fault is planted in the dlt connector."""

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from connectors.tests.faulty_dlt import FAULTS
from connectors.tests.shared_tests import ConnectorTests, World
from connectors.tests.test_dlt import Dlt

# For each fault, the shared test that must fail.
DETECTED_BY: dict[str, Callable[[ConnectorTests, World], None]] = {
    "IgnoresRemovals": ConnectorTests.test_additions_changes_voids_and_removals_are_copied,
    "IgnoresShopsThatJoin": ConnectorTests.test_a_shop_that_joins_leaves_and_returns_is_copied_exactly,
    "IgnoresAPage": ConnectorTests.test_the_first_pass_copies_everything,
    "StoresTheMarkFirst": ConnectorTests.test_a_connector_that_is_killed_between_two_pages_loses_nothing,
}


class FaultyDlt(Dlt):
    fault: ClassVar[str]

    def command(self) -> list[str]:
        python, *words = super().command()
        return [python, str(Path(__file__).parent / "faulty_dlt.py"), self.fault, *words]


def test_every_fault_has_a_test_that_detects_it() -> None:
    assert DETECTED_BY.keys() == FAULTS.keys()


@pytest.mark.parametrize("fault", DETECTED_BY)
def test_a_connector_with_this_fault_fails_a_shared_test(fault: str, tmp_path: Path) -> None:
    world = World(tmp_path, type(fault, (FaultyDlt,), {"fault": fault}))
    try:
        world.copy.run()
        # These are the messages of `assert_same`. A connector that crashes would fail with another message.
        with pytest.raises(AssertionError, match=r"only in the copy|only in the service|differs"):
            DETECTED_BY[fault](ConnectorTests(), world)
    finally:
        world.service.close()
