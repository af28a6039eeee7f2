"""The age of `serverTime`, measured on real processes, one of them frozen inside its transaction."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_server_time_is_less_than_a_second_old_and_stops_rather_than_be_wrong() -> None:
    command = [sys.executable, "-m", "bench.horizon", "--seconds", "10", "--loaders", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["promiseHeld"]
    assert max(told["idle"]["p99"], told["3 loaders"]["p99"]) < 1
