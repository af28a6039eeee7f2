"""The handlers, one per route. Each turns a request into a question and passes it to `reads`."""

from collections.abc import Awaitable, Callable

from counterfoil.domain import requests
from counterfoil.reads import Answer, Caller, Reads, require_lookup

# The arguments are the `Reads` object, the caller, the last path segment if it is a parameter, and the query string.
Handler = Callable[[Reads, Caller, str, str], Awaitable[Answer]]


def shops(reads: Reads, caller: Caller, _: str, __: str) -> Awaitable[Answer]:
    return reads.shops(caller)


def transactions(reads: Reads, caller: Caller, _: str, query: str) -> Awaitable[Answer]:
    return reads.bills(caller, requests.bill_list(requests.parameters(query)))


def changes(reads: Reads, caller: Caller, _: str, query: str) -> Awaitable[Answer]:
    return reads.changes(caller, requests.change_feed(requests.parameters(query)))


def digests(reads: Reads, caller: Caller, _: str, query: str) -> Awaitable[Answer]:
    return reads.digests(caller, requests.digest_list(requests.parameters(query)))


def transaction(reads: Reads, caller: Caller, bill_id: str, _: str) -> Awaitable[Answer]:
    return reads.bill(caller, bill_id)


def members(reads: Reads, caller: Caller, _: str, query: str) -> Awaitable[Answer]:
    return reads.members(caller, requests.member_list(requests.parameters(query)))


def lookup(reads: Reads, caller: Caller, _: str, query: str) -> Awaitable[Answer]:
    require_lookup(caller.key)
    return reads.lookup(caller, requests.lookup(requests.parameters(query)))


def member(reads: Reads, caller: Caller, token: str, _: str) -> Awaitable[Answer]:
    return reads.member(caller, token)


def usage(reads: Reads, caller: Caller, _: str, __: str) -> Awaitable[Answer]:
    return reads.usage(caller)
