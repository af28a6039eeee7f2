from collections.abc import Iterator
from typing import Any

import pytest

from house import DEPLOYMENTS, House, overrides_for


class Town(House):
    """A deployment that the tests of a file share. Each brings shops and keys of its own and leaves the clock alone."""

    def key(self, *, shop: str = "", franchise: str = "", **terms: Any) -> str:
        written = super().key(shop=shop, franchise=franchise, **terms)
        # The service has looked at the keys before; it looks again after a moment.
        self.clock.advance(1)
        return written


@pytest.fixture(scope="module", params=DEPLOYMENTS)
def town(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    town = Town(tmp_path_factory.mktemp("town"), **overrides_for(request.param))
    yield town
    town.close()
