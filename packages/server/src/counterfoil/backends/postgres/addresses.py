"""Parses the servers in an address; defines session settings and connection limits. Must import neither driver."""

from urllib.parse import parse_qsl, unquote

from msgspec import Struct

from counterfoil.model.messages import Message, quoted
from counterfoil.model.text import first_line
from counterfoil.ports import StoreUnavailable

SCHEMA = "counterfoil"
PORT = "5432"

SESSION_SETTINGS = {
    "search_path": SCHEMA,
    "application_name": "counterfoil",
    "timezone": "UTC",
    "jit": "off",
    "idle_in_transaction_session_timeout": "60s",
}


NO_ANSWER = Message("no_answer", "PostgreSQL: no answer within {seconds} s.")


# What frequent errors mean, by their SQLSTATE: other languages show it instead of the words of the server.
_MEANINGS = {
    "connection": Message("postgres.connection", "the server cannot be reached: {words}"),
    "57P03": Message("postgres.57P03", "the server is starting or stopping"),
    "57P01": Message("postgres.57P01", "an administrator ended the connection"),
    "53300": Message("postgres.53300", "the server has too many connections"),
    "28P01": Message("postgres.28P01", "the password is wrong: {words}"),
    "3D000": Message("postgres.3D000", "there is no such database: {words}"),
    "28000": Message("postgres.28000", "there is no such role: {words}"),
    "42501": Message("postgres.42501", "a permission is missing: {words}"),
    "25006": Message("postgres.25006", "this server is read-only: {words}"),
    "55P03": Message("postgres.55P03", "the statement was cancelled, because it waited too long for a lock"),
    "57014": Message("postgres.57014", "the statement was cancelled, because it took too long"),
    "53100": Message("postgres.53100", "the server's disk is full"),
}


def server_error(error: Exception) -> Message:
    """Return the first line of a driver's error, with its SQLSTATE or `connection`. Other lines may contain data."""
    state = getattr(error, "sqlstate", None) or "connection"
    words = first_line(error)
    meaning = _MEANINGS.get(state)
    return Message("postgres", "PostgreSQL: {reason}", reason=quoted(words).meaning(meaning and meaning(words=words)))


class ConnectionLimits(Struct, frozen=True):
    """Limits on a worker's connections to each server. The settings use the same defaults."""

    pool_size: int = 8
    pool_wait_ms: int = 2_000
    connect_timeout_ms: int = 3_000
    statement_timeout_ms: int = 5_000

    @property
    def pool_wait_sec(self) -> float:
        return self.pool_wait_ms / 1000

    @property
    def connect_sec(self) -> float:
        return self.connect_timeout_ms / 1000

    @property
    def answer_sec(self) -> float:
        """Seconds after which a connection without an answer is broken: one more than the server gives a statement."""
        return self.statement_timeout_ms / 1000 + 1.0


class Address(Struct, frozen=True):
    """One of the servers listed in a database address."""

    host: str
    port: str

    @property
    def name(self) -> str:
        return f"{self.host}:{self.port}"


def addresses(url: str) -> list[Address]:
    """Return the servers that the address lists, or an empty list if it lists only one server."""
    # The standard library cannot parse a host list that contains IPv6 addresses.
    location = url.partition("://")[2].partition("?")[0].partition("/")[0].rpartition("@")[2]
    named = [_host_and_port(place) for place in location.split(",")]
    hosts = _listed(url, "host") or [host for host, _ in named]
    ports = _listed(url, "port") or [port for _, port in named]
    if len(hosts) < 2:
        return []
    if len(ports) == 1:
        ports = ports * len(hosts)
    if len(ports) != len(hosts):
        raise StoreUnavailable(
            Message(
                "wrong_ports",
                "PostgreSQL: the address names {servers:server} but {ports:port}.",
                servers=len(hosts),
                ports=len(ports),
            )
        )
    return [Address(host, port or PORT) for host, port in zip(hosts, ports, strict=True)]


def parameter(url: str, name: str) -> str:
    """Return a parameter of the address, such as `options`, or an empty string if it is not set."""
    return dict(parse_qsl(url.partition("?")[2])).get(name, "")


def _listed(url: str, name: str) -> list[str]:
    value = parameter(url, name)
    return value.split(",") if value else []


def _host_and_port(place: str) -> tuple[str, str]:
    if place.startswith("["):
        host, _, port = place[1:].partition("]")
        return host, port.removeprefix(":")
    host, _, port = place.partition(":")
    return unquote(host), port
