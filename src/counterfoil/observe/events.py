"""The events from which both the log and the metrics are produced.

No event contains a secret, a query string, or anything that identifies a
person.
"""

from msgspec import Struct


class RequestServed(Struct, frozen=True, kw_only=True, tag="request"):
    """A request was served. `took_us` is the time in microseconds between the HTTP server's call and the response."""

    request_id: str
    method: str
    route: str
    status: int
    error: str | None
    key_id: str | None
    took_us: int
    sent: int
    encoding: str | None
    personal_base: str | None = None
    personal_members: int = 0


class HandlerCrashed(Struct, frozen=True, kw_only=True, tag="crash"):
    """A handler failed unexpectedly. The event contains the location of the error, but no values."""

    request_id: str
    route: str
    exception: str
    where: list[str]


class StoreFailed(Struct, frozen=True, kw_only=True, tag="store_failed"):
    """A store could not be read or written."""

    request_id: str | None
    route: str
    reason: str


class ServiceChanged(Struct, frozen=True, kw_only=True, tag="service"):
    """The service became ready or stopped, a part of it failed or recovered, or a chore deleted expired data."""

    what: str
    detail: str = ""


class CountsReseeded(Struct, frozen=True, kw_only=True, tag="counts_reseeded"):
    """The shared meter lost a key's daily count and restored it from the store, which is at most a second behind."""

    key_id: str
    day: str
    count: int


class ServerChanged(Struct, frozen=True, kw_only=True, tag="server"):
    """A server of the store has a new role, for example after a failover, or was checked for the first time."""

    server: str
    role: str


class ServerMessage(Struct, frozen=True, kw_only=True, tag="server"):
    """A worker process ended or was killed, or a line that it or its HTTP server wrote to standard error."""

    level: str
    message: str


Event = RequestServed | HandlerCrashed | StoreFailed | ServiceChanged | CountsReseeded | ServerChanged | ServerMessage
