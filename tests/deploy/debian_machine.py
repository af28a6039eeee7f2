"""A machine on which commands of a page can be run as printed: with its own files, users, network and processes.

It consists of Linux namespaces of this machine, so it needs root. Real are the users, modes, ports, pip and all our
programs. Four commands stand for what such a machine cannot have: `apt-get` finds everything installed, `git clone`
copies the working tree, `ssh HOST` runs its command on the machine HOST, and `systemctl` runs units with their user,
groups, environment, modes and limits, but without systemd's sandbox.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from deploy.programs import ROOT
from waiting import until

COMMANDS = Path(__file__).with_name("commands")
CLONED = ("packages", "deploy", "docs", "constraints.txt")
HOME = str(Path("~root").expanduser())
NAMESPACES = ("--mount", "--pid", "--net", "--uts")
# The folders that the commands of a page change. Each machine has its own.
OWN_FOLDERS = ("opt", "home", "root", "var/lib", "var/spool", "var/log", "run", "usr/local/sbin", "usr/local/src")

SET_UP = """
set -eu
machine=$1
mount --make-rprivate /
mkdir -p $machine/python $machine/packages $machine/commands $machine/clone
mount --bind {python} $machine/python
mount --bind {packages} $machine/packages
mount --bind {commands} $machine/commands
mount --bind {clone} $machine/clone
cp -a /etc $machine/etc
for folder in {folders}; do mkdir -p $machine/$folder; done
chmod 755 $machine
mount -t tmpfs tmpfs /mnt
mkdir /mnt/machine
mount --rbind $machine /mnt/machine
mount --bind $machine/etc /etc
for folder in {folders}; do mkdir -p /$folder; mount --bind $machine/$folder /$folder; done
# The libraries of a Python in one of these folders are still looked for there.
if [ ! -d {python} ]; then
    mkdir -p {python}
    mount --bind $machine/python {python}
fi
mount -t proc proc /proc
hostname machine
python3 - <<'END'
import fcntl, socket, struct
with socket.socket() as loopback:
    # SIOCSIFFLAGS: bring the loopback interface of the new network up.
    fcntl.ioctl(loopback, 0x8914, struct.pack("16sH", b"lo", 1))
END
touch $machine/ready
exec sleep infinity
"""


def can_have_namespaces() -> bool:
    try:
        done = subprocess.run(["unshare", *NAMESPACES, "true"], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or not can_have_namespaces(),
    reason="only root can create namespaces, so the commands of these pages were NOT run",
)


class Machine:
    """A machine with root's shell, which remembers its folder. `variables` are set before each command."""

    def __init__(self, folder: Path, pid: int) -> None:
        self.folder = folder
        self.pid = pid
        self.variables = ""

    def path(self, path: str) -> Path:
        """Return where a file of the machine is on this one."""
        return self.folder / path.lstrip("/")

    def run(self, commands: str, *, status: int = 0, stdin: str = "") -> str:
        """Run commands in a shell of root, and return what they print on both streams."""
        script = "cd \"$(cat /run/folder 2>/dev/null || echo ~)\"\ntrap 'pwd >/run/folder' EXIT\n"
        done = subprocess.run(
            [*enter(self.pid), "bash", "-euo", "pipefail", "-c", script + self.variables + commands],
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == status, f"{commands}\n{done.stdout}"
        return done.stdout


@contextmanager
def reachable(from_: Machine, name: str, machine: Machine) -> Iterator[None]:
    """Let `ssh` on one machine reach another one under this name, until the block ends."""
    folder = from_.path("/hosts")
    folder.mkdir(exist_ok=True)

    def answer(listener: socket.socket) -> None:
        with suppress(OSError):  # The listener was closed.
            while True:
                connection, _ = listener.accept()
                with connection, connection.makefile("rwb") as file:
                    command = file.readline().decode()
                    words = [*enter(machine.pid), "sh", "-c", command]
                    output = subprocess.PIPE
                    done = subprocess.run(
                        words, input=file.read(), stdout=output, stderr=subprocess.STDOUT, check=False
                    )
                    file.write(f"{done.returncode}\n".encode() + done.stdout)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / name))
        listener.listen()
        threading.Thread(target=answer, args=[listener], daemon=True).start()
        yield
        listener.shutdown(socket.SHUT_RDWR)


def enter(pid: int) -> list[str]:
    """Return the words that run a command on the machine with this first process, with nothing of our environment."""
    clean = [
        "PATH=/mnt/machine/commands:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        f"HOME={HOME}",
        "LANG=C.UTF-8",
        # No index is asked: the packages of the test environment are used.
        *(
            "PIP_NO_INDEX=1",
            "PIP_NO_BUILD_ISOLATION=0",
            "PIP_DISABLE_PIP_VERSION_CHECK=1",
            "PIP_ROOT_USER_ACTION=ignore",
        ),
    ]
    return ["nsenter", f"--target={pid}", "--mount", "--pid", "--net", "--uts", "env", "-i", *clean]


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """Start a machine whose files are in this folder, and end all its processes."""
    folder.mkdir(mode=0o755)
    for parent in folder.parents:
        if parent.owner() == "root" and parent.stat().st_mode & 0o001 == 0:
            parent.chmod(parent.stat().st_mode | 0o011)
    clone = folder / "working-tree"
    clone.mkdir()
    for name in CLONED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, clone / name)
    script = SET_UP.format(
        python=sys.base_prefix,
        packages=sysconfig.get_path("purelib"),
        commands=COMMANDS,
        clone=clone,
        folders=" ".join(OWN_FOLDERS),
    )
    words = ["unshare", *NAMESPACES, "--fork", "--kill-child", "bash", "-c", script, "machine", str(folder)]
    with (folder / "set-up.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        until((folder / "ready").exists, "the machine is ready")
        (first,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        yield Machine(folder, int(first))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
