"""From a matched route to a question, and from there to `reads`."""

from collections.abc import Awaitable, Callable

from counterfoil.domain import requests
from counterfoil.reads import Answer, Caller, Reads, require_lookup

# (reads, caller, the path's last segment where it is a parameter, query string)
Handler = Callable[[Reads, Caller, str, str], Awaitable[Answer]]


async def shops(reads: Reads, caller: Caller, _: str, __: str) -> Answer:
    return await reads.shops(caller)


async def transactions(reads: Reads, caller: Caller, _: str, query: str) -> Answer:
    return await reads.bills(caller, requests.bill_list(requests.parameters(query)))


async def transaction(reads: Reads, caller: Caller, bill_id: str, _: str) -> Answer:
    return await reads.bill(caller, bill_id)


async def members(reads: Reads, caller: Caller, _: str, query: str) -> Answer:
    return await reads.members(caller, requests.member_list(requests.parameters(query)))


async def lookup(reads: Reads, caller: Caller, _: str, query: str) -> Answer:
    require_lookup(caller.key)
    return await reads.lookup(caller, requests.lookup(requests.parameters(query)))


async def member(reads: Reads, caller: Caller, token: str, _: str) -> Answer:
    return await reads.member(caller, token)


async def usage(reads: Reads, caller: Caller, _: str, __: str) -> Answer:
    return await reads.usage(caller)
