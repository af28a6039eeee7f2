"""Decides whether the Host header of a request is allowed on a private listener, such as the console."""

import re
from typing import Literal

from counterfoil.machine.addresses import WILDCARD_HOSTS, is_ip_address, is_loopback

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
