"""Finds rows that a copy has lost and that cannot be read again: those of shops that have left the key's scope.

The rows of such a shop never change, so their numbers are stored with the progress when the shop leaves. If a row or a
column is missing later, the shop is incomplete until it returns, or until the operator of the copy accepts the loss.
"""

from collections.abc import Collection, Mapping

from counterfoil.client.pull_state import State
from counterfoil.client.sinks.sql import TABLES_OF_SHOPS, Sink

_NAMES = [table.name for table in TABLES_OF_SHOPS]


def note_lost_rows(sink: Sink, state: State, lost_tables: Collection[str]) -> None:
    """Add the shops that have lost rows since the last run to `state.incomplete`, with the names of the tables."""
    left = sink.shops_that_left() | (state.left.keys() - sink.shops_in_scope())
    held = sink.rows_of_shops(left)
    for shop_id in sorted(left):
        lost = _lost_tables(state, shop_id, held.get(shop_id, {}), lost_tables)
        _add(state, shop_id, lost)


def _lost_tables(state: State, shop_id: str, held: Mapping[str, int], lost_tables: Collection[str]) -> set[str]:
    counted = state.left.get(shop_id)
    if counted is None:
        # It is not known how many rows the shop had, so it may have lost some wherever the copy has.
        return set(lost_tables)
    lost = {name for name, rows in counted.items() if held.get(name, 0) < rows}
    return lost | {name for name in state.dropped if counted.get(name)}


def _add(state: State, shop_id: str, lost: Collection[str]) -> None:
    known = state.incomplete.get(shop_id, [])
    names = [name for name in _NAMES if name in lost or name in known]
    if names:
        state.incomplete[shop_id] = names


def count_rows_of_shops_that_left(sink: Sink, state: State) -> None:
    """Count the rows of the shops that left in this pass, and forget those that have returned. Call it at its end."""
    left = sink.shops_that_left()
    new = left - state.left.keys()
    for shop_id in sorted(new):
        _add(state, shop_id, state.feed.lost)
    for shop_id in state.incomplete.keys() - left:
        del state.incomplete[shop_id]
    sink.forget_completeness(state.incomplete)
    for shop_id in state.left.keys() - left:
        del state.left[shop_id]
    state.left |= _counts(sink, new)


def accept_losses(sink: Sink, state: State) -> None:
    """From now on, what the copy has of these shops is all that it should have."""
    state.left |= _counts(sink, state.incomplete)
    state.incomplete = {}


def _counts(sink: Sink, shop_ids: Collection[str]) -> dict[str, dict[str, int]]:
    held = sink.rows_of_shops(shop_ids)
    return {shop_id: held.get(shop_id, {}) for shop_id in sorted(shop_ids)}
