"""A small typed client of the API, blocking and asynchronous. It knows nothing of the server but its HTTP."""

from counterfoil.client.api import AsyncClient, Client
from counterfoil.client.errors import CounterfoilError, NotThisService, QuotaSpent, Refusal, Unreachable
from counterfoil.client.shapes import Bill, Member, Page, Shop, Usage

__all__ = [
    "AsyncClient",
    "Bill",
    "Client",
    "CounterfoilError",
    "Member",
    "NotThisService",
    "Page",
    "QuotaSpent",
    "Refusal",
    "Shop",
    "Unreachable",
    "Usage",
]
