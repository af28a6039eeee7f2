"""What happens, said once: the log and the metrics both read these events.

No event carries a secret, a query string, or anything that identifies a person.
"""

from msgspec import Struct


class RequestServed(Struct, frozen=True, kw_only=True, tag="request"):
    """One request, from its first byte read to its answer handed over."""

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
    """A handler failed in a way nobody foresaw. Where, but never with which values."""

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
    """The process as a whole: started, ready, stopping, a chore done or failed."""

    what: str
    detail: str = ""


class CountsReseeded(Struct, frozen=True, kw_only=True, tag="counts_reseeded"):
    """The shared meter had forgotten a key's day and goes on from the store's total, which is a second old at most."""

    key_id: str
    day: str
    count: int


class ServerChanged(Struct, frozen=True, kw_only=True, tag="server"):
    """A worker sees one of the store's servers in another role: a failover, a replica lost or back."""

    server: str
    role: str


Event = RequestServed | HandlerCrashed | StoreFailed | ServiceChanged | CountsReseeded | ServerChanged
