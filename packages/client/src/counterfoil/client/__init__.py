"""A small typed client for the API. It uses only the HTTP interface of the service."""

from counterfoil.client.api import Client
from counterfoil.client.errors import (
    CounterfoilError,
    NotThisService,
    QuotaSpent,
    Refusal,
    ResponseTooLarge,
    Unreachable,
)
from counterfoil.client.models import Bill, Change, DayDigest, Member, Page, Shop, Usage

__all__ = [
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
    "ResponseTooLarge",
    "Shop",
    "Unreachable",
    "Usage",
]
