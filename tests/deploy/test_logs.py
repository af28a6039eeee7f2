"""Tests for log files: a service keeps writing after logrotate has run."""

import shutil
from pathlib import Path

import pytest

from deploy.programs import DEPLOY, needs_program, output_of
from e2e.serve_process import SHOP, Deployment

pytestmark = pytest.mark.programs

LOGS = DEPLOY / "logs"


@needs_program("logrotate", "logrotate")
def test_logrotate_finds_nothing_wrong_with_its_file(tmp_path: Path) -> None:
    config = Path(shutil.copy(LOGS / "logrotate", tmp_path))
    config.chmod(0o644)
    said = output_of("logrotate", "--debug", "--state", tmp_path / "state", config)
    assert "error" not in said.lower()
    assert "/var/log/counterfoil/counterfoil.log" in said


@pytest.mark.long
@needs_program("logrotate", "logrotate")
def test_a_running_service_continues_to_write_after_its_log_was_rotated(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    deployment.load(SHOP)
    config = tmp_path / "logrotate"
    text = (LOGS / "logrotate").read_text("utf-8")
    config.write_text(text.replace("/var/log/counterfoil/counterfoil.log", str(deployment.log)), "utf-8")
    config.chmod(0o644)
    running = deployment.start()
    try:
        running.get("shops", headers={"x-request-id": "before-rotation"})
        output_of("logrotate", "--force", "--state", tmp_path / "state", config)
        running.get("shops", headers={"x-request-id": "after-rotation"})
    finally:
        running.stop()
    (rotated,) = tmp_path.glob("log-*")
    before, after = rotated.read_bytes(), deployment.log.read_bytes()
    assert b"before-rotation" in before + after
    assert b"after-rotation" in after
    # If the service did not append to its log, the log would begin with zero bytes after the rotation.
    assert b"\0" not in after
    assert after.startswith(b"{")
