"""Small typed clients for the API: one blocking, one for asyncio. They use only the HTTP interface of the service."""

from typing import TYPE_CHECKING, Any

from counterfoil.client.api import Client
from counterfoil.client.errors import CounterfoilError, NotThisService, QuotaSpent, Refusal, Unreachable
from counterfoil.client.models import Bill, Change, DayDigest, Member, Page, Shop, Usage

if TYPE_CHECKING:
    from counterfoil.client.async_api import AsyncClient

__all__ = [
    "AsyncClient",
    "Bill",
    "Change",
    "Client",
    "CounterfoilError",
    "DayDigest",
    "Member",
    "NotThisService",
    "Page",
    "QuotaSpent",
    "Refusal",
    "Shop",
    "Unreachable",
    "Usage",
]


def __getattr__(name: str) -> Any:
    """Import the client for asyncio when it is first used, because importing asyncio is slow."""
    if name != "AsyncClient":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from counterfoil.client.async_api import AsyncClient  # noqa: PLC0415 - imported late on purpose

    return AsyncClient
