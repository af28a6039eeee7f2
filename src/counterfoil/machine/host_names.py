"""Decides whether the Host header of a request is allowed on a private listener, such as the console."""

import re
from ipaddress import ip_address

from counterfoil.machine.addresses import WILDCARD_HOSTS

# A Host header: a name, an IPv4 address or an IPv6 address in brackets, with an optional port.
_HOST = re.compile(r"(?:\[([^\]]*)\]|([^:]*))(?::[0-9]{0,5})?", re.ASCII)


class HostNames:
    """The names under which a private listener may be reached.

    With DNS rebinding, a web page can reach a private address through a domain
    name of its own. The name in `Host` must therefore be `localhost`, the
    listener's own host or a configured name. Loopback addresses are allowed too,
    and any IP address if the listener's host is a wildcard, because DNS rebinding
    needs a domain name.
    """

    def __init__(self, host: str, names: str) -> None:
        self._names = {host.lower(), "localhost", *(name.strip().lower() for name in names.split(",") if name.strip())}
        self._any_address = host in WILDCARD_HOSTS

    def allows(self, host: str) -> bool:
        """Return whether this Host header is allowed."""
        name = _name_in(host)
        if name in self._names:
            return True
        try:
            address = ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or self._any_address


def _name_in(host: str) -> str:
    """Return the name or address in a Host header without the port, or "" if the header is malformed."""
    found = _HOST.fullmatch(host.strip().lower())
    return (found[1] or found[2]).rstrip(".") if found else ""
