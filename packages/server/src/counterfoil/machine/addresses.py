"""Functions for hosts, ports and URLs."""

import errno
import ipaddress
import re
import socket
from contextlib import ExitStack
from typing import Literal

# Maps a wildcard address to the loopback address that reaches its listener.
WILDCARD_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - only compared, not bound
CONNECT_SEC = 1.0


def reachable_host(host: str) -> str:
    return WILDCARD_HOSTS.get(host, host)


def url(host: str, port: int, path: str = "") -> str:
    """Return the URL at which this machine can reach a listener that is bound to `host`."""
    address = reachable_host(host)
    return f"http://{f'[{address}]' if ':' in address else address}:{port}{path}"


# The header of the admin listener's response to `/ready` that contains the ID of the store.
STORE_HEADER = "counterfoil-store"


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_free(host: str, port: int) -> bool:
    """Return whether the port can be bound."""
    try:
        bound_socket(host, port).close()
    except OSError:
        return False
    return True


def is_listening(host: str, port: int) -> bool:
    """Return whether a connection to this address is accepted."""
    try:
        socket.create_connection((reachable_host(host), port), timeout=CONNECT_SEC).close()
    except OSError:
        return False
    return True


def reserved_port(host: str, stack: ExitStack, port: int = 0) -> int:
    """Reserve a free port until the stack is closed: the system does not assign the port to other processes."""
    # A process that knows the port can still listen on it, because the reserving socket does not listen, and both set
    # SO_REUSEADDR, as all our listeners do.
    found: int = stack.enter_context(bound_socket(host, port)).getsockname()[1]
    return found


def bound_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except (TypeError, UnicodeError) as error:
        bound.close()
        # Python raises these errors for a string that cannot be a host name.
        raise OSError(errno.EINVAL, "Not a valid host name", host) from error
    except OSError:
        bound.close()
        raise
    return bound


# --- which Host headers a private listener, such as the console, allows -----

# A Host header: a name, an IPv4 address or an IPv6 address in brackets, with an optional port.
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._~%!$&'()*+;=-]*))(?::[0-9]{0,5})?")

HostProblem = Literal["malformed", "unknown", "loopback"]


class HostNames:
    """The names under which a private listener may be reached.

    With DNS rebinding, a web page can reach a private address through a domain name of its own. The name in `Host` must
    therefore be `localhost`, the listener's own host or a configured name. Loopback addresses are allowed too, and any
    IP address if the listener's host is a wildcard, because DNS rebinding needs a domain name.

    If the listener has a name of its own, that name is allowed instead of `localhost` and the loopback addresses.
    """

    def __init__(self, host: str, names: str, own_name: str | None = None) -> None:
        self._has_loopback_names = own_name is None
        self._names = {name.strip().lower() for name in names.split(",")} - {""}
        if own_name:
            self._names.add(own_name)
        if not is_loopback(host):
            self._names.add(host.lower())
        self._any_address = host in WILDCARD_HOSTS

    def problem(self, host: str) -> HostProblem | None:
        """Return what is wrong with a Host header, or None if it is allowed."""
        found = _HOST.fullmatch(host.strip().lower())
        if not found or (found[1] and not is_ip_address(found[1])):
            return "malformed"
        name = (found[1] or found[2]).rstrip(".")
        if name in self._names:
            return None
        if is_loopback(name):
            return None if self._has_loopback_names else "loopback"
        return None if self._any_address and is_ip_address(name) else "unknown"
