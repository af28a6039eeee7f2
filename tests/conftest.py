import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from running_service import DEPLOYMENTS, RunningService, backend_settings


def pytest_configure() -> None:
    # A busy machine takes longer to draw examples, and a store serves all examples of a test.
    tolerated = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    settings.register_profile("counterfoil", suppress_health_check=tolerated, deadline=None)
    settings.load_profile("counterfoil")
    # A shell starts background jobs deaf to Ctrl-C, and so would be every command that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Nothing here speaks TLS. To read all certificate authorities takes a client longer than its requests.
    os.environ.pop("SSL_CERT_FILE", None)
    os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)


@pytest.fixture(params=DEPLOYMENTS)
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningService]:
    """An empty deployment, once on every back end."""
    with backend_settings(request.param) as place:
        service = RunningService(tmp_path, **place)
        yield service
        service.close()
