from collections.abc import Iterator
from typing import Any

import pytest

from listings import DayList
from running_service import RunningService, backend_settings

# On PostgreSQL, `make test` runs only these files of tests/http, because their tests depend most on the store.
OF_THE_BOOKS = {"test_transactions_by_change.py", "test_transaction.py", "test_lookup.py", "test_shared_cursors.py"}
# Full pages of 200 rows need 600 rows per test. Pages of one and two rows already cover every position of a cursor,
# including a last page that is not full, so only `make test-long` reads large pages.
REPEATED_LIMIT = 200


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        # On PostgreSQL, `make test` runs only some variants of the tests with the parameters `kind` and `limit`: those
        # with a limit of 1, which produces the most cursors, except `DayList`, which reads the same table as the other
        # list of bills. `make test-long` runs the other variants.
        limit = params.get("limit", 1) if "kind" in params else 1
        is_repeated = limit != 1 or ("limit" in params and params.get("kind") is DayList)
        on_postgres = params.get("shared_service") == "postgres"
        if (on_postgres and (item.path.name not in OF_THE_BOOKS or is_repeated)) or limit == REPEATED_LIMIT:
            item.add_marker(pytest.mark.long)


class SharedService(RunningService):
    """A service that the tests in a file share. Each test uses its own shops and keys."""

    def key(self, *, shop: str = "", franchise: str = "", **terms: Any) -> str:
        written = super().key(shop=shop, franchise=franchise, **terms)
        # The service checks for changed keys every half second, so after this step its first lookup finds the new key.
        self.clock.advance(1)
        return written


@pytest.fixture(scope="module", params=("sqlite", "postgres"))
def shared_service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    with backend_settings(request.param) as place:
        shared_service = SharedService(tmp_path_factory.mktemp("shared"), **place)
        yield shared_service
        shared_service.close()
