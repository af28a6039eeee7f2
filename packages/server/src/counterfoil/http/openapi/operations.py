"""The operations: their purpose, their parameters, and the refusals specific to each.

`document.toml` has what else the OpenAPI document says in words: an introduction, parameters, envelopes and headers.
"""

import tomllib
from importlib.resources import files
from typing import Any

from msgspec import Struct

from counterfoil.domain.problems import (
    AUTH_UNAVAILABLE,
    BAD_CURSOR,
    BAD_QUERY,
    CROSS_ORIGIN_REFUSED,
    INTERNAL,
    INVALID_KEY,
    KEY_REVOKED,
    LOOKUP_NOT_ENABLED,
    MARK_EXPIRED,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    NOT_SUPPORTED,
    PROVIDER_NOT_IN_SCOPE,
    QUOTA_EXCEEDED,
    RATE_LIMITED,
    SHOP_NOT_IN_SCOPE,
    Problem,
)
from counterfoil.model.resources import (
    Bill,
    ChangedBill,
    ChangedShop,
    DayDigest,
    Member,
    MemberReference,
    RemovedBill,
    RemovedShop,
    Resource,
    Shop,
    Usage,
)

Json = dict[str, Any]

# What the OpenAPI document says in words, apart from the operations.
DOCUMENT: Json = tomllib.loads((files("counterfoil.http.openapi") / "document.toml").read_text("utf-8"))
STEPS_WITHOUT_THE_FEED: str = DOCUMENT["steps_without_the_feed"]
TAGS: dict[str, str] = DOCUMENT["tags"]


class DescriptionPart(Struct, frozen=True):
    """A part of the description of the API, which follows the introduction. The reference has it at its anchor."""

    anchor: str
    title: str
    text: str


PARTS = tuple(
    DescriptionPart(part["anchor"], part["title"], part["text"].format(steps_without_the_feed=STEPS_WITHOUT_THE_FEED))
    for part in DOCUMENT["info"]["parts"]
)
# Every operation has these two parameters.
COMMON_PARAMETERS = ("requestId", "ifNoneMatch")
# Every operation can return the first two errors, and every operation that needs a key the others, too.
_PUBLIC_REFUSALS = (CROSS_ORIGIN_REFUSED, METHOD_NOT_ALLOWED)
_REFUSALS_WITH_KEY = (INVALID_KEY, KEY_REVOKED, RATE_LIMITED, QUOTA_EXCEEDED, INTERNAL, AUTH_UNAVAILABLE)


class Operation(Struct, frozen=True, kw_only=True):
    """One GET operation. `path` is written as in the route table.

    `data` has the types that the operation returns: one object, or with `is_list` a list of elements of these types.
    An operation without `data` is public and returns the OpenAPI document. `own_parameters` are names of tables in
    `parameters` of `document.toml`.
    """

    path: str
    id: str
    tag: str
    summary: str
    description: str
    response_schema: str
    data: tuple[type[Resource], ...] = ()
    is_list: bool = False
    own_parameters: tuple[str, ...] = ()
    refusals: tuple[Problem, ...] = ()

    @property
    def public(self) -> bool:
        return not self.data

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*self.own_parameters, *COMMON_PARAMETERS)

    @property
    def cursor(self) -> str | None:
        """The parameter that continues a list, if the list has pages."""
        return next((name for name in self.parameters if name.endswith("Cursor")), None)

    @property
    def marked(self) -> bool:
        """True if the responses have a `mark`."""
        return "since" in self.parameters


def common_refusals(*, is_public: bool) -> list[Problem]:
    """Return the errors that all operations can return, or all that need a key."""
    refusals = _PUBLIC_REFUSALS if is_public else (*_PUBLIC_REFUSALS, *_REFUSALS_WITH_KEY)
    return sorted(refusals, key=lambda problem: problem.status)


# In the order of the document.
OPERATIONS = (
    Operation(
        path="shops",
        id="listShops",
        tag="Shops",
        summary="Branches that the key can read.",
        description=(
            "Returns all branches in one response: a single row for a key bound to a shop, or one row per branch for "
            "a key bound to a franchise. Removed branches are not listed."
        ),
        response_schema="ShopsAnswer",
        data=(Shop,),
        is_list=True,
    ),
    Operation(
        path="transactions",
        id="listTransactions",
        tag="Transactions",
        summary="Bills of one branch, oldest first.",
        description=(
            "There are two modes. With `from` and `to`, bills are listed by calendar day in the shop's time zone; a "
            "bill without `billDate` is never listed. With `updatedSince`, bills are listed by last change, "
            "including voided bills; a bill without `updatedAt` is never listed. A request with both modes, or with "
            "neither, is refused with `bad_query`."
        ),
        response_schema="BillsAnswer",
        data=(Bill,),
        is_list=True,
        own_parameters=("shopId", "from", "to", "updatedSince", "limit", "billCursor"),
        refusals=(BAD_QUERY, BAD_CURSOR, SHOP_NOT_IN_SCOPE),
    ),
    Operation(
        path="transactions/{id}",
        id="getTransaction",
        tag="Transactions",
        summary="One bill.",
        description=(
            "Returns `not_found` both for a bill that does not exist and for a bill of a shop that the key does not "
            "cover."
        ),
        response_schema="BillAnswer",
        data=(Bill,),
        own_parameters=("billId",),
        refusals=(NOT_FOUND,),
    ),
    Operation(
        path="changes",
        id="listChanges",
        tag="Changes",
        summary="Changes in the key's scope, including removals.",
        description=(
            "Returns one list for all shops that the key covers. Without `since`, the list contains every shop and "
            "every bill, including bills without `billDate` or `updatedAt`. With `since`, it contains the changes "
            "since the pass that returned this mark. Follow `nextCursor` until it is null. The last page also has a "
            "`mark`: once you have stored the whole pass, keep the mark, and send it as `since` on the next pass. "
            "Apply the elements in the order in which they are returned. If you apply a page again, continue with "
            "its `nextCursor`, so that all later pages are applied again too. When a shop joins the scope, all of "
            "its bills are returned. A change made during a pass is returned in this pass or in the next one. "
            "`serverTime` is the time of the pass, and is the same on all of its pages."
        ),
        response_schema="ChangesAnswer",
        data=(ChangedBill, RemovedBill, ChangedShop, RemovedShop),
        is_list=True,
        own_parameters=("since", "feedLimit", "feedCursor"),
        refusals=(BAD_CURSOR, MARK_EXPIRED),
    ),
    Operation(
        path="digests",
        id="listDigests",
        tag="Digests",
        summary="Bill totals per shop and day.",
        description=(
            "Returns one digest per shop and `billDate`, sorted by both: the number of bills and of voids, the sums "
            "of `net` and `tip`, the latest `updatedAt`, and a hash over the `id` and `updatedAt` of all bills. You "
            "can compute the same values from your copy. If a day differs, read that day again. Days without bills "
            "are left out. Bills without a date have their own digest, whose `day` is null. It is returned unless "
            "`from` or `to` is used. Digests include all changes up to `serverTime`, and may include later ones."
        ),
        response_schema="DigestsAnswer",
        data=(DayDigest,),
        is_list=True,
        own_parameters=("digestShopId", "digestFrom", "digestTo", "feedLimit", "digestCursor"),
        refusals=(BAD_QUERY, BAD_CURSOR, SHOP_NOT_IN_SCOPE),
    ),
    Operation(
        path="members",
        id="listMembers",
        tag="Members",
        summary="Members of one base, sorted by sign-up, oldest first.",
        description=(
            "To read a base, follow `nextCursor` until it is null. There is no incremental read: a request with "
            "`updatedSince` is refused with `not_supported`."
        ),
        response_schema="MembersAnswer",
        data=(Member,),
        is_list=True,
        own_parameters=("providerId", "limit", "memberCursor"),
        refusals=(BAD_QUERY, BAD_CURSOR, NOT_SUPPORTED, PROVIDER_NOT_IN_SCOPE),
    ),
    Operation(
        path="members/lookup",
        id="lookupMember",
        tag="Members",
        summary="Token of the member with a messaging user ID.",
        description=(
            "For callers that already know the messaging user ID. The key must have the permission "
            "`allowMessagingLookup`, which is checked first. If the person has several records in the base, the one "
            "created last is returned. If there is none, the response is `not_found`."
        ),
        response_schema="LookupAnswer",
        data=(MemberReference,),
        own_parameters=("providerId", "messagingUserId"),
        refusals=(BAD_QUERY, LOOKUP_NOT_ENABLED, PROVIDER_NOT_IN_SCOPE, NOT_FOUND),
    ),
    Operation(
        path="members/{memberToken}",
        id="getMember",
        tag="Members",
        summary="One member.",
        description=(
            "Returns `not_found` for an invalid token, for a member who does not exist, and for a member of a base "
            "that the key does not cover."
        ),
        response_schema="MemberAnswer",
        data=(Member,),
        own_parameters=("memberToken",),
        refusals=(NOT_FOUND,),
    ),
    Operation(
        path="usage",
        id="getUsage",
        tag="Usage",
        summary="Usage of the calling key.",
        description=(
            "Returns the key's limits, and its requests on each of the last seven days (Thailand time). This request "
            "is included, so `today.remaining` equals the header `X-RateLimit-Remaining`."
        ),
        response_schema="UsageAnswer",
        data=(Usage,),
    ),
    Operation(
        path="openapi.json",
        id="describe",
        tag="OpenAPI document",
        summary="This document.",
        description=(
            "Returns this description of the API in OpenAPI 3.1. It requires no key and does not count against a quota."
        ),
        response_schema="Description",
    ),
)
