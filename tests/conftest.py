import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from running_service import DEPLOYMENTS, RunningService, backend_settings


def pytest_configure() -> None:
    # Drawing examples takes longer on a busy machine, and one store serves all examples of a test.
    tolerated = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    settings.register_profile("counterfoil", suppress_health_check=tolerated, deadline=None)
    settings.load_profile("counterfoil")
    # Shells start background jobs with Ctrl-C ignored, and the commands that a test interrupts would inherit this.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # No test uses TLS, and reading all certificate authorities takes a client longer than its requests.
    os.environ.pop("SSL_CERT_FILE", None)
    os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)


@pytest.fixture(params=DEPLOYMENTS)
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningService]:
    """An empty deployment, once per back end."""
    with backend_settings(request.param) as place:
        service = RunningService(tmp_path, **place)
        yield service
        service.close()
