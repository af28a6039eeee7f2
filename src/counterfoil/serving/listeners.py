"""Checks that the addresses of the API and the admin listener can be used, and names the flags that change them."""

import errno

from counterfoil.machine.addresses import listening_problem
from counterfoil.settings import SettingsError

LAST_RESERVED_PORT = 1023


def require_free_ports(host: str, port: int, admin_host: str, admin_port: int) -> None:
    """Raise if an address cannot be used. Without this check, two services could share a port, as workers do."""
    _require_free_port(host, port, "host", "port", "")
    if admin_port:
        _require_free_port(admin_host, admin_port, "admin-host", "admin-port", " (0 turns the admin listener off)")


def _require_free_port(host: str, port: int, host_flag: str, port_flag: str, alternative: str) -> None:
    error = listening_problem(host, port)
    if error is None:
        return
    match error.errno:
        case errno.EADDRINUSE:
            reason = "the port is in use"
            advice = f"Choose another with --{port_flag}{alternative}, or stop the process that uses it."
        case errno.EACCES if port <= LAST_RESERVED_PORT:
            reason = f"only root may use ports up to {LAST_RESERVED_PORT}"
            advice = f"Choose another with --{port_flag}{alternative}."
        case errno.EADDRNOTAVAIL:
            reason, advice = "this machine does not have that address", f"Choose another with --{host_flag}."
        case _:
            reason, advice = error.strerror or str(error), f"Check --{host_flag} and --{port_flag}."
    raise SettingsError(f"cannot listen on {host}:{port}: {reason}. {advice}")
