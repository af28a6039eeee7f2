"""A small typed client for the API, blocking and asynchronous. It depends only on the HTTP interface."""

from counterfoil.client.api import AsyncClient, Client
from counterfoil.client.errors import CounterfoilError, NotThisService, QuotaSpent, Refusal, Unreachable
from counterfoil.client.models import Bill, Change, DayDigest, Member, Page, Shop, Usage

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
