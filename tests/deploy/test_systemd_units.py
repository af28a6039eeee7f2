"""systemd reports no problems in our units, their commands work, and a rotated log goes on."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.command import PYTHON, SHOPS, Command
from deploy.programs import DEPLOY, ROOT, needs_program, output_of, printed_by_console
from e2e.serve_process import SHOP, Deployment
from running_service import free_port
from waiting import until

pytestmark = pytest.mark.programs

UNITS = DEPLOY / "systemd"
SERVICES = sorted(UNITS.glob("*.service"))
# The highest accepted score of `systemd-analyze security`. 100 means no protection at all; our units score 13.
MOST_EXPOSED = 20
INSTALLED = "/opt/counterfoil/bin/counterfoil"

needs_systemd = needs_program("systemd-analyze", "systemd")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with copies of the units, in which the command is replaced with one that exists on this machine."""
    for unit in UNITS.iterdir():
        text = unit.read_text("utf-8").replace(INSTALLED, shutil.which("true") or "/bin/true")
        (tmp_path / unit.name).write_text(text, "utf-8")
    return tmp_path


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_units(installed: Path) -> None:
    said = output_of("systemd-analyze", "verify", "--man=no", *sorted(installed.iterdir()))
    assert not re.search(r"counterfoil[^:]*:\d+:", said), said


@needs_systemd
@pytest.mark.parametrize("name", ["journal.conf", "file.conf"])
def test_systemd_finds_nothing_wrong_with_a_drop_in_for_the_log(name: str, installed: Path) -> None:
    unit = installed / "counterfoil.service"
    unit.with_suffix(".service.d").mkdir()
    shutil.copy(DEPLOY / "logs" / name, unit.with_suffix(".service.d") / "log.conf")
    assert "log.conf" not in output_of("systemd-analyze", "verify", "--man=no", unit)


@needs_systemd
@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_the_exposure_of_the_services_is_low(unit: Path) -> None:
    output_of("systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}", "--no-pager", unit)


def command(unit: str = "counterfoil-load.service") -> list[str]:
    """Return the command of a unit, changed to run with this interpreter."""
    text = (UNITS / unit).read_text("utf-8")
    (found,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    program, *words = found.split()
    assert program == INSTALLED
    return [*PYTHON, *words]


def value_of(name: str, unit: str = "counterfoil-load.service") -> list[str]:
    """Return the words of a directive of a unit, which may stand on several lines."""
    found: list[str] = re.findall(rf"^{name}=(.*)$", (UNITS / unit).read_text("utf-8"), re.MULTILINE)
    assert found
    return " ".join(found).split()


def environment(store: Path, **settings: str) -> dict[str, str]:
    """Return the environment of a command of a unit: nothing but the path and settings."""
    path = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    return {**path, "COUNTERFOIL_STORE": str(store), **settings}


def test_the_load_takes_what_is_delivered_until_it_is_stopped(tmp_path: Path) -> None:
    spool, store = tmp_path / "incoming", tmp_path / "store"
    spool.mkdir()
    (spool / ".half.ndjson").write_bytes(SHOPS[0][:9])
    (spool / "a.ndjson.gz").write_bytes(b"not gzip")
    text = (UNITS / "counterfoil-load.service").read_text("utf-8")
    set_here = dict(word.split("=") for line in re.findall(r"^Environment=(.*)$", text, re.M) for word in line.split())
    assert int(set_here.pop("COUNTERFOIL_IMPORT_MEMORY_MB")) < 1024
    assert set_here == {"COUNTERFOIL_STORE": "/var/lib/counterfoil", "COUNTERFOIL_KEPT": "/var/spool/counterfoil"}
    words = [word.replace("/var/spool/counterfoil", str(tmp_path)) for word in command()]
    here = environment(store, COUNTERFOIL_KEPT=str(tmp_path))
    process = subprocess.Popen(words, env=here, stdout=subprocess.PIPE)
    try:
        (spool / ".b.ndjson").write_bytes(SHOPS[0])
        (spool / ".b.ndjson").rename(spool / "b.ndjson")
        until(lambda: list(tmp_path.glob("done/*-b.ndjson")), "the delivery was loaded")
        until(lambda: list(tmp_path.glob("quarantine/*-a.ndjson.gz.reason.txt")), "the other one was quarantined")
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert sum(json.loads(line)["added"] for line in output.splitlines()) == 1
    assert [path.name for path in spool.iterdir()] == [".half.ndjson"]


def test_the_console_of_the_unit_keeps_links_out_of_the_journal_and_a_link_of_the_same_user_signs_in(
    tmp_path: Path,
) -> None:
    unit, store = "counterfoil-console.service", tmp_path / "store"
    assert value_of("User", unit) == value_of("User", "counterfoil.service")
    assert "COUNTERFOIL_STORE=/var/lib/counterfoil" in value_of("Environment", unit)
    Command(store)("load", "-", stdin=SHOPS[0])
    # Its administrator sets the port in console.env.
    here = environment(store, COUNTERFOIL_CONSOLE_PORT=str(free_port()))
    assert "console link" in printed_by_console(command(unit), here, store)


def test_the_backup_of_the_unit_makes_a_backup_keeps_the_newest_14_and_its_age_is_known(tmp_path: Path) -> None:
    unit, store, backups = "counterfoil-backup.service", tmp_path / "store", tmp_path / "backups"
    (folder,) = value_of("StateDirectory", unit)
    words = [word.replace(f"/var/lib/{folder}", str(backups)) for word in command(unit)]
    assert str(backups) in words
    counterfoil = Command(store)
    counterfoil("load", "-", stdin=SHOPS[0])
    counterfoil("backup", backups / "2026-01-01T200000Z")
    for day in range(2, 16):
        shutil.copytree(backups / "2026-01-01T200000Z", backups / f"2026-01-{day:02}T200000Z")
    subprocess.run(words, env=environment(store), cwd=store, check=True, stdout=subprocess.PIPE)
    kept = sorted(path.name for path in backups.iterdir())
    assert len(kept) == 14
    assert kept[0] == "2026-01-03T200000Z"
    Command(tmp_path / "elsewhere")("restore", backups / kept[-1])
    assert counterfoil.json("status", status=1)["lastBackupAt"] > "2026-01-16"


def test_the_timer_runs_the_backup_every_night_and_makes_up_for_a_missed_one() -> None:
    timer = "counterfoil-backup.timer"
    assert (UNITS / timer).with_suffix(".service").exists()
    assert value_of("Persistent", timer) == ["yes"]
    assert value_of("OnCalendar", timer) == ["*-*-*", "03:00:00", "Asia/Bangkok"]
    assert value_of("Type", "counterfoil-backup.service") == ["oneshot"]


def test_the_watcher_has_a_user_of_its_own_and_nobody_else_writes_to_its_folders() -> None:
    assert value_of("User") != value_of("User", "counterfoil.service")
    assert "StateDirectory" not in (UNITS / "counterfoil-load.service").read_text("utf-8")
    lines = (UNITS.parent / "tmpfiles" / "counterfoil.conf").read_text("utf-8").splitlines()
    folders = {line.split()[1]: line.split()[2:] for line in lines if line.startswith("d ")}
    (user,) = value_of("User")
    watched = command()[command().index("--watch") + 1]
    assert folders[watched] == ["3770", user, "counterfoil-deliver"]
    for name in ("done", "quarantine"):
        # Loaded deliveries contain personal data, so they are deleted in time.
        assert folders[f"/var/spool/counterfoil/{name}"] == ["0700", user, user, "30d"]
    # A held delivery is not in the store yet: it would be lost if it were deleted before the decision.
    assert folders["/var/spool/counterfoil/held"] == ["0700", user, user]
    assert folders["/var/lib/counterfoil"] == ["3770", "counterfoil", "counterfoil"]
    assert value_of("StateDirectoryMode", "counterfoil.service") == ["3770"]
    assert set(value_of("SupplementaryGroups")) == {"counterfoil", "counterfoil-deliver"}


def drop_in(unit: str, words: str) -> dict[str, list[str]]:
    """Return the directives of the drop-in that the comment of a unit shows for something."""
    comment = (UNITS / unit).read_text("utf-8").partition(words)[2].partition("#   [Service]\n")[2]
    shown = re.match(r"(?:#   .*\n)+", comment)
    assert shown
    found: dict[str, list[str]] = {}
    for line in shown[0].splitlines():
        name, _, value = line.removeprefix("#   ").partition("=")
        found.setdefault(name, []).append(value)
    return found


def test_a_watcher_with_a_mapping_starts_as_the_unit_shows(tmp_path: Path) -> None:
    shown = drop_in("counterfoil-load.service", "To load exports of the POS")
    name, _, source = shown["LoadCredential"][0].partition(":")
    assert Path(source).parent == Path("/etc/counterfoil")
    credentials = tmp_path / "credentials"
    credentials.mkdir(mode=0o500)
    example = ROOT / "docs" / "examples" / "foodstory-orders.csv"
    mappings = ROOT / "packages" / "importer" / "src" / "counterfoil" / "importing" / "mappings"
    mapping = mappings / "foodstory-orders.toml"
    (tmp_path / "incoming").mkdir()
    shutil.copy(mapping, credentials / name)
    _, command = shown["ExecStart"]
    words = command.replace("%d", str(credentials)).replace("/var/spool/counterfoil", str(tmp_path)).split()
    assert words[0] == INSTALLED
    process = subprocess.Popen(
        [*PYTHON, *words[1:], "--with-shops"],
        env=environment(tmp_path / "store", COUNTERFOIL_KEPT=str(tmp_path)),
        stdout=subprocess.PIPE,
    )
    try:
        shutil.copy(example, tmp_path / "incoming" / ".orders.csv")
        (tmp_path / "incoming" / ".orders.csv").rename(tmp_path / "incoming" / "orders.csv")
        until(lambda: list(tmp_path.glob("done/*-orders.csv")), "the export was loaded")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_every_unit_has_a_limit_on_its_memory() -> None:
    limits = {unit.name: value_of("MemoryMax", unit.name) for unit in SERVICES}
    assert set(limits) == {unit.name for unit in SERVICES}
    assert limits["counterfoil-load.service"] == ["1G"]


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
