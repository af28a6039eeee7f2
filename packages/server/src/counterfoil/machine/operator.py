"""Identifies the operator who runs a command, and the machine."""

import os
import pwd
import socket

from counterfoil.domain.audit import Actor
from counterfoil.model.text import printable


def operator() -> Actor:
    """Return the user who runs this command, and the user who called sudo if there is one."""
    # Users can set `SUDO_USER` to any name, but whoever runs this command could also write to the store directly.
    user, caller = _user_name(os.getuid()), os.environ.get("SUDO_USER", "")
    name = f"{caller} as {user}" if caller not in ("", user) else user
    return Actor(printable(name), "cli", machine_name())


def machine_name() -> str:
    return socket.gethostname()


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        # In a container, the user often has no name.
        return f"uid {number}"
