"""The stored progress of a pull, which shows how current and how complete the copy is.

This module does not use `client/pull_state.py`, because a copy may have been
written by an earlier or a slightly later release. Format 1 has a mark for each
shop; format 2 has one instant for all shops.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct, field

FORMAT = 2


class UnknownFormat(Exception):
    """The stored progress has a format that this release cannot read."""


class ShopProgress(Struct):
    mark: str | None = None


class FeedProgress(Struct):
    as_of: str | None = None


class BaseProgress(Struct):
    passed: str | None = None


class Progress(Struct):
    """The stored progress. `selection` says which part of the data the copy is limited to, if any."""

    format: int = 1
    shops: dict[str, ShopProgress] = field(default_factory=dict)
    feed: FeedProgress = field(default_factory=FeedProgress)
    bases: dict[str, BaseProgress] = field(default_factory=dict)
    selection: dict[str, Any] = field(default_factory=dict)

    def mark_of(self, shop_id: str) -> str | None:
        """Return the instant up to which all changes of a shop are in the copy, or None before its first pass ends."""
        if self.format > 1:
            return self.feed.as_of
        shop = self.shops.get(shop_id)
        return shop.mark if shop else None

    def members_mark_of(self, provider_id: str) -> str | None:
        """Return the start of the last complete pass over the members of a base, or None before its first pass ends."""
        base = self.bases.get(provider_id)
        return base.passed if base else None


def parse(state: bytes | None) -> Progress:
    if not state:
        return Progress()
    try:
        progress = msgspec.json.decode(state, type=Progress)
    except msgspec.MsgspecError as error:
        raise UnknownFormat(f"the progress that is stored in the copy cannot be read: {error}") from error
    if progress.format > FORMAT:
        raise UnknownFormat(
            f"the copy has format {progress.format}, but this version supports only formats up to {FORMAT}. "
            "Upgrade Counterfoil."
        )
    return progress


def earliest(instants: Iterable[str | None]) -> str | None:
    return min((instant for instant in instants if instant), default=None)
