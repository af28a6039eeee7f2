"""Binds the addresses of the API and the admin listener. If one cannot be used, names the flag that changes it."""

import errno
import socket

from counterfoil.machine.addresses import bound_socket, is_listening
from counterfoil.settings import SettingsError

LAST_RESERVED_PORT = 1023


def hold_port(host: str, port: int) -> socket.socket:
    """Return a socket that holds the API's port for the workers. It does not listen. Raise if the port is in use.

    While it is open, no other user can listen on the port, even if no worker runs: SO_REUSEPORT lets only sockets of
    the same user bind the port, and without SO_REUSEADDR a socket that does not listen conflicts with all others. Nor
    does the system give the port to an outgoing connection, which could block it for a minute.
    """
    held = _bound(host, port, "host", "port", "")
    # Set only now: while binding, the first option ignores connections of a service that has just ended, and without
    # the second one the port of a running service is refused.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return held


def require_free_ports(host: str, port: int, admin_host: str, admin_port: int) -> None:
    """Raise if an address cannot be used."""
    _bound(host, port, "host", "port", "").close()
    require_free_admin_port(admin_host, admin_port)


def require_free_admin_port(host: str, port: int) -> None:
    if port:
        _bound(host, port, "admin-host", "admin-port", " (0 turns the admin listener off)").close()


def _bound(host: str, port: int, host_flag: str, port_flag: str, alternative: str) -> socket.socket:
    try:
        return bound_socket(host, port)
    except OSError as error:
        match error.errno:
            case errno.EADDRINUSE if is_listening(host, port):
                reason = "the port is in use"
                advice = f"Choose another with --{port_flag}{alternative}, or stop the process that uses it."
            case errno.EADDRINUSE:
                reason = "the port is in use, but not by a service: probably by an outgoing connection"
                advice = f"Wait a minute, or choose a port below 32768 with --{port_flag}{alternative}."
            case errno.EACCES if port <= LAST_RESERVED_PORT:
                reason = f"only root may use ports up to {LAST_RESERVED_PORT}"
                advice = f"Choose another with --{port_flag}{alternative}."
            case errno.EADDRNOTAVAIL:
                reason, advice = "this machine does not have that address", f"Choose another with --{host_flag}."
            case _:
                reason, advice = error.strerror or str(error), f"Check --{host_flag} and --{port_flag}."
        raise SettingsError(f"cannot listen on {host}:{port}: {reason}. {advice}") from None
