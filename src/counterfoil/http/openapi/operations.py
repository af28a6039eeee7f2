"""The operations: their purpose, their parameters, and the refusals specific to each."""

from typing import Any

from msgspec import Struct

from counterfoil.domain.problems import (
    BAD_CURSOR,
    BAD_QUERY,
    LOOKUP_NOT_ENABLED,
    MARK_EXPIRED,
    NOT_FOUND,
    NOT_SUPPORTED,
    PROVIDER_NOT_IN_SCOPE,
    SHOP_NOT_IN_SCOPE,
    Problem,
)
from counterfoil.domain.resources import (
    Bill,
    ChangedBill,
    ChangedShop,
    DayDigest,
    Member,
    MemberReference,
    RemovedBill,
    RemovedShop,
    Shop,
    Usage,
)

TAGS = {
    "Shops": "The branches that a key covers, each with its category tree. Most integrations start here: the lists "
    "of bills and of members take a `shopId` or a `providerId` from this one.",
    "Transactions": "Closed bills of a branch: by calendar day, by last change, or one by its ID.",
    "Changes": "One list of everything that changed in a key's scope, including removals.",
    "Digests": "Totals per shop and day, to check that a copy is complete.",
    "Members": "Loyalty members of a membership base, as they are now: all, one by its token, or the token for a "
    "messaging user ID.",
    "Usage": "The limits of the calling key, and how much of them it has used.",
    "OpenAPI document": "This description of the API, for generating clients and checking responses. It needs no key.",
}


class Operation(Struct, frozen=True, kw_only=True):
    """One GET operation. `path` is written as in the route table.

    An operation without `data` is public and returns the OpenAPI document. If
    `data` is a tuple, the operation returns a list of elements of these types.
    """

    path: str
    id: str
    tag: str
    summary: str
    description: str
    response_schema: str
    data: Any = None
    paged: bool = False
    parameters: tuple[str, ...] = ()
    refusals: tuple[Problem, ...] = ()

    @property
    def public(self) -> bool:
        return self.data is None

    @property
    def marked(self) -> bool:
        """True if the responses have a `mark`."""
        return "since" in self.parameters


# Every operation has these two parameters.
_COMMON_PARAMETERS = ("requestId", "ifNoneMatch")

OPERATIONS = (
    Operation(
        path="shops",
        id="listShops",
        tag="Shops",
        summary="Branches that the key can read.",
        description="Returns all branches in one response: a single row for a key bound to a shop, or one row per "
        "branch for a key bound to a franchise. Removed branches are not listed.",
        response_schema="ShopsAnswer",
        data=list[Shop],
        parameters=_COMMON_PARAMETERS,
    ),
    Operation(
        path="transactions",
        id="listTransactions",
        tag="Transactions",
        summary="Bills of one branch, oldest first.",
        description="There are two modes. With `from` and `to`, bills are listed by calendar day in the shop's time "
        "zone; a bill without `billDate` is never listed. With `updatedSince`, bills are listed by last change, "
        "including voided bills; a bill without `updatedAt` is never listed. "
        "A request with both modes, or with neither, is refused with `bad_query`.",
        response_schema="BillsAnswer",
        data=list[Bill],
        paged=True,
        parameters=("shopId", "from", "to", "updatedSince", "limit", "billCursor", *_COMMON_PARAMETERS),
        refusals=(BAD_QUERY, BAD_CURSOR, SHOP_NOT_IN_SCOPE),
    ),
    Operation(
        path="transactions/{id}",
        id="getTransaction",
        tag="Transactions",
        summary="One bill.",
        description="Returns `not_found` both for a bill that does not exist and for a bill of a shop that the key "
        "does not cover.",
        response_schema="BillAnswer",
        data=Bill,
        parameters=("billId", *_COMMON_PARAMETERS),
        refusals=(NOT_FOUND,),
    ),
    Operation(
        path="changes",
        id="listChanges",
        tag="Changes",
        summary="Changes in the key's scope, including removals.",
        description="Returns one list for all shops that the key covers. Without `since`, the list contains every shop "
        "and every bill, including bills without `billDate` or `updatedAt`. With `since`, it contains the changes "
        "since the pass that returned this mark. Follow `nextCursor` until it is null. The last page also has a "
        "`mark`: once you have stored the whole pass, keep the mark, and send it as `since` on the next pass. Apply "
        "the elements in the order in which they are returned. If you apply a page again, continue with its "
        "`nextCursor`, so that all later pages are applied again too. When a shop joins the scope, all of its bills "
        "are returned. A change made during a pass is returned in this pass or in the next one. `serverTime` is the "
        "time of the pass, and is the same on all of its pages.",
        response_schema="ChangesAnswer",
        data=(ChangedBill, RemovedBill, ChangedShop, RemovedShop),
        paged=True,
        parameters=("since", "feedLimit", "feedCursor", *_COMMON_PARAMETERS),
        refusals=(BAD_CURSOR, MARK_EXPIRED),
    ),
    Operation(
        path="digests",
        id="listDigests",
        tag="Digests",
        summary="Bill totals per shop and day.",
        description="Returns one digest per shop and `billDate`, sorted by both: the number of bills and of voids, the "
        "sums of `net` and `tip`, the latest `updatedAt`, and a hash over the `id` and `updatedAt` of all bills. You "
        "can compute the same values from your copy. If a day differs, read that day again. Days without bills are "
        "left out. Bills without a date have their own digest, whose `day` is null. It is returned unless `from` or "
        "`to` is used. Digests include all changes up to `serverTime`, and may include later ones.",
        response_schema="DigestsAnswer",
        data=list[DayDigest],
        paged=True,
        parameters=("digestShopId", "digestFrom", "digestTo", "feedLimit", "digestCursor", *_COMMON_PARAMETERS),
        refusals=(BAD_QUERY, BAD_CURSOR, SHOP_NOT_IN_SCOPE),
    ),
    Operation(
        path="members",
        id="listMembers",
        tag="Members",
        summary="Members of one base, sorted by sign-up, oldest first.",
        description="To read a base, follow `nextCursor` until it is null. There is no incremental read: "
        "a request with `updatedSince` is refused with `not_supported`.",
        response_schema="MembersAnswer",
        data=list[Member],
        paged=True,
        parameters=("providerId", "limit", "memberCursor", *_COMMON_PARAMETERS),
        refusals=(BAD_QUERY, BAD_CURSOR, NOT_SUPPORTED, PROVIDER_NOT_IN_SCOPE),
    ),
    Operation(
        path="members/lookup",
        id="lookupMember",
        tag="Members",
        summary="Token of the member with a messaging user ID.",
        description="For callers that already know the messaging user ID. The key must have the permission "
        "`allowMessagingLookup`, which is checked first. If the person has several records in the base, the one "
        "created last is returned. If there is none, the response is `not_found`.",
        response_schema="LookupAnswer",
        data=MemberReference,
        parameters=("providerId", "messagingUserId", *_COMMON_PARAMETERS),
        refusals=(BAD_QUERY, LOOKUP_NOT_ENABLED, PROVIDER_NOT_IN_SCOPE, NOT_FOUND),
    ),
    Operation(
        path="members/{memberToken}",
        id="getMember",
        tag="Members",
        summary="One member.",
        description="Returns `not_found` for an invalid token, for a member who does not exist, and for a member of a "
        "base that the key does not cover.",
        response_schema="MemberAnswer",
        data=Member,
        parameters=("memberToken", *_COMMON_PARAMETERS),
        refusals=(NOT_FOUND,),
    ),
    Operation(
        path="usage",
        id="getUsage",
        tag="Usage",
        summary="Usage of the calling key.",
        description="Returns the key's limits, and its requests on each of the last seven days (Thailand time). This "
        "request is included, so `today.remaining` equals the header `X-RateLimit-Remaining`.",
        response_schema="UsageAnswer",
        data=Usage,
        parameters=_COMMON_PARAMETERS,
    ),
    Operation(
        path="openapi.json",
        id="describe",
        tag="OpenAPI document",
        summary="This document.",
        description="Returns this description of the API in OpenAPI 3.1. It requires no key and does not count against "
        "a quota.",
        response_schema="Description",
        parameters=_COMMON_PARAMETERS,
    ),
)
