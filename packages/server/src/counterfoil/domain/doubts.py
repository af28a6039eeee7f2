"""What is odd about a delivery: its doubts. It is loaded once the operator accepts them, or he discards it.

Two rules raise doubts: sudden changes compared with earlier loads (`intake.py`), and bills that would replace stored
ones (`replacements.py`). A file with doubts in a watched folder is held, and its item waits (`open_items.py`). If the
doubts were accepted in the console before the file was handed over, it is loaded at once (`acceptances.py`).

Three things stand beside them and are no doubts:

- The control totals (`model/control_totals.py`) say what a delivery adds up to, whether it is odd or not.
- `--expect-net` compares them with an amount that the operator typed. Nobody can accept a difference: he corrects the
  amount, or the export.
- An open item is whatever waits for the operator. A held file is one kind of five, and the only one that he accepts.

An export can also be wrong in itself: its money does not add up, or the store has its sales under other IDs. Nothing of
it is loaded then, and a watched folder puts the file into quarantine (`cli/load_exports.py`).
"""

from collections.abc import Mapping
from typing import Final, Literal, get_args

from msgspec import Struct

from counterfoil.model.messages import Message

Measure = Literal["rejected", "undated", "no_items", "no_amounts", "unreadable", "unknown_field", "average", "replaced"]
MEASURES: Final[tuple[Measure, ...]] = get_args(Measure)[:-1]


class DeliveryDoubt(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """`count` of `total` records are affected; `before` is the highest share in earlier loads.

    Of a change of the average bill, `count` is the average of the load, and `total` the nearest one before.
    """

    measure: Measure
    count: int
    total: int
    before: float = 0.0
    field: str = ""

    @property
    def share(self) -> float:
        return self.count / self.total


_DESCRIPTIONS: Final[Mapping[Measure, Message]] = {
    "rejected": Message(
        "intake.rejected", "{share} of lines were rejected ({count} of {total}; at most {before} in earlier loads)"
    ),
    "undated": Message(
        "intake.undated", "{share} of bills have no date ({count} of {total}; at most {before} in earlier loads)"
    ),
    "no_items": Message(
        "intake.no_items", "{share} of bills have no items ({count} of {total}; at most {before} in earlier loads)"
    ),
    "no_amounts": Message(
        "intake.no_amounts", "{share} of bills have no amounts ({count} of {total}; at most {before} in earlier loads)"
    ),
    "unreadable": Message(
        "intake.unreadable",
        "{share} of {kind} records have an unreadable {path} ({count} of {total}; at most {before} in earlier loads)",
    ),
    "unknown_field": Message(
        "intake.unknown_field", "unknown field {field}, which earlier loads did not have ({count} of {total} records)"
    ),
    "average": Message("intake.average", "the average bill is {count}, but {total} in earlier loads"),
    # Not a share of earlier loads: see `domain/replacements.py`.
    "replaced": Message("intake.replaced", "{count} of {total} bills replace a stored bill by another one"),
}


def describe(doubt: DeliveryDoubt) -> Message:
    """Return a one-line description of a doubt, without a full stop."""
    kind, _, path = doubt.field.partition(": ")
    return _DESCRIPTIONS[doubt.measure](
        share=f"{doubt.share:.1%}",
        count=doubt.count,
        total=doubt.total,
        before=f"{doubt.before:.1%}",
        kind=kind,
        path=path,
        field=doubt.field,
    )
