"""The operations: their purpose, their parameters, and the refusals specific to each."""

from typing import Any

from msgspec import Struct

from counterfoil.domain.problems import (
    BAD_CURSOR,
    BAD_QUERY,
    LOOKUP_NOT_ENABLED,
    NOT_FOUND,
    NOT_SUPPORTED,
    PROVIDER_NOT_IN_SCOPE,
    SHOP_NOT_IN_SCOPE,
    Problem,
)
from counterfoil.domain.resources import Bill, Member, MemberReference, Shop, Usage

TAGS = {
    "Shops": "The branches that a key covers, each with its category tree.",
    "Transactions": "Closed bills of a branch, by calendar day or by last change.",
    "Members": "Loyalty members of a membership base, as they stand now.",
    "Usage": "What the calling key has spent of its allowance.",
    "Description": "This document.",
}


class Operation(Struct, frozen=True, kw_only=True):
    """One GET operation. `path` is as in the route table. Without `data` it is public and returns this document."""

    path: str
    id: str
    tag: str
    summary: str
    description: str
    answer: str
    data: Any = None
    paged: bool = False
    parameters: tuple[str, ...] = ()
    refusals: tuple[Problem, ...] = ()

    @property
    def public(self) -> bool:
        return self.data is None


# Every operation has these two parameters.
_ANY = ("requestId", "ifNoneMatch")

OPERATIONS = (
    Operation(
        path="shops",
        id="listShops",
        tag="Shops",
        summary="Branches the key can read.",
        description="All of them in one answer: one row for a shop's key, one row a branch for a franchise's key. "
        "A branch whose record was removed is left out.",
        answer="ShopsAnswer",
        data=list[Shop],
        parameters=_ANY,
    ),
    Operation(
        path="transactions",
        id="listTransactions",
        tag="Transactions",
        summary="Bills of one branch, oldest first.",
        description="Choose one of two ways. With `from` and `to`: bills by calendar day on the shop's clock; "
        "a bill without `billDate` never appears. "
        "With `updatedSince`: bills by last change, voids included; a bill without `updatedAt` never appears. "
        "Both ways at once, or neither, is refused with `bad_query`.",
        answer="BillsAnswer",
        data=list[Bill],
        paged=True,
        parameters=("shopId", "from", "to", "updatedSince", "limit", "billCursor", *_ANY),
        refusals=(BAD_QUERY, BAD_CURSOR, SHOP_NOT_IN_SCOPE),
    ),
    Operation(
        path="transactions/{id}",
        id="getTransaction",
        tag="Transactions",
        summary="One bill.",
        description="A bill that does not exist and one of a shop that the key does not cover look the same: "
        "`not_found`.",
        answer="BillAnswer",
        data=Bill,
        parameters=("billId", *_ANY),
        refusals=(NOT_FOUND,),
    ),
    Operation(
        path="members",
        id="listMembers",
        tag="Members",
        summary="Members of one base, by sign-up, oldest first.",
        description="A base is read by following `nextCursor` to its end. There is no incremental read: "
        "a request that carries `updatedSince` is refused with `not_supported`.",
        answer="MembersAnswer",
        data=list[Member],
        paged=True,
        parameters=("providerId", "limit", "memberCursor", *_ANY),
        refusals=(BAD_QUERY, BAD_CURSOR, NOT_SUPPORTED, PROVIDER_NOT_IN_SCOPE),
    ),
    Operation(
        path="members/lookup",
        id="lookupMember",
        tag="Members",
        summary="Token of the member with a messaging user id.",
        description="For callers that already hold the messaging user id. Needs a key with the permission "
        "`allowMessagingLookup`, which is asked for before anything else. Of several records of one person in the base "
        "the one created last answers. No match is `not_found`.",
        answer="LookupAnswer",
        data=MemberReference,
        parameters=("providerId", "messagingUserId", *_ANY),
        refusals=(BAD_QUERY, LOOKUP_NOT_ENABLED, PROVIDER_NOT_IN_SCOPE, NOT_FOUND),
    ),
    Operation(
        path="members/{memberToken}",
        id="getMember",
        tag="Members",
        summary="One member.",
        description="A token that cannot be read, a member who does not exist and one of a base that the key does not "
        "cover look the same: `not_found`.",
        answer="MemberAnswer",
        data=Member,
        parameters=("memberToken", *_ANY),
        refusals=(NOT_FOUND,),
    ),
    Operation(
        path="usage",
        id="getUsage",
        tag="Usage",
        summary="Usage of the calling key.",
        description="The key's ceilings, and its requests on each of the last seven Thai days. This request is "
        "counted too, so `today.remaining` equals the header `X-RateLimit-Remaining`.",
        answer="UsageAnswer",
        data=Usage,
        parameters=_ANY,
    ),
    Operation(
        path="openapi.json",
        id="describe",
        tag="Description",
        summary="This document.",
        description="The description of the API in OpenAPI 3.1. Needs no key and counts for nobody.",
        answer="Description",
        parameters=_ANY,
    ),
)
