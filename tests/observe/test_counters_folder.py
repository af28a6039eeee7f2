"""The name of the folder with the workers' counters contains the PID of its service.

The next service deletes the folders that killed services have left behind.
"""

import os
import subprocess
import sys
from pathlib import Path

from counterfoil.serving.supervisor import clear_abandoned, counters_folder


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_folders_of_killed_services_are_deleted_when_the_next_one_starts(tmp_path: Path) -> None:
    abandoned = tmp_path / f"counterfoil-{ended_process()}-abc"
    abandoned.mkdir()
    (abandoned / "page").write_bytes(b"counted")
    # In a container, a service has the same PID each time. This folder belongs to a previous service.
    (tmp_path / f"counterfoil-{os.getpid()}-abc").mkdir()
    with counters_folder(tmp_path) as counters:
        assert list(tmp_path.iterdir()) == [counters]


def test_folders_of_other_processes_are_kept(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    dead = ended_process()
    kept = {f"counterfoil-{os.getppid()}-abc", "counterfoil-demo-abc", f"other-{dead}-abc", "elsewhere"}
    for name in kept:
        (tmp_path / name).mkdir(exist_ok=True)
    (tmp_path / f"counterfoil-{dead}-link").symlink_to(elsewhere)
    (tmp_path / f"counterfoil-{dead}-file").touch()
    clear_abandoned(tmp_path)
    assert kept <= {path.name for path in tmp_path.iterdir()}
