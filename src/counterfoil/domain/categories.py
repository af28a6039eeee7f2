"""A shop's category list: its order, its depths, and what is no category at all.

Promotional groupings (best sellers, promotions) stand among the categories of
a till but are none: they are neither listed nor kept on bill lines.
"""

from counterfoil.domain.resources import Category
from counterfoil.domain.tillvalues import Record, flag, ident, idents, number, objects, text


def categories_from(value: object) -> tuple[list[Category], frozenset[str]]:
    """The categories, by level and then as the shop arranged them, and the ids of the groupings."""
    # An id that comes twice keeps its first place and its last content, as a dict does.
    recorded = {found: record for record in objects(value) if (found := ident(record.get("id")))}
    groupings = frozenset(found for found, record in recorded.items() if flag(record.get("grouping")))
    nodes = {found: record for found, record in recorded.items() if found not in groupings}
    depths = _depths(nodes)
    categories = [_category(found, record, depths[found]) for found, record in nodes.items()]
    categories.sort(key=lambda category: (category.level is None, category.level))
    return categories, groupings


def _category(found: str, record: Record, level: int | None) -> Category:
    return Category(
        id=found,
        name=text(record.get("name")),
        level=level,
        parent_id=ident(record.get("parentId")),
        hidden=_hidden(record),
    )


def _hidden(record: Record) -> bool:
    visible_in = record.get("visibleIn")
    return flag(record.get("hidden")) or (isinstance(visible_in, list) and not idents(visible_in))


def _depths(nodes: dict[str, Record]) -> dict[str, int | None]:
    """Each category's depth: as recorded, else one below its parent, else none."""
    depths: dict[str, int | None] = {found: level for found, record in nodes.items() if (level := _recorded(record))}
    for start in nodes:
        climbed: list[str] = []
        at: str | None = start
        while at is not None and at in nodes and at not in depths:
            depths[at] = None  # so that a climb which comes back to here ends
            climbed.append(at)
            at = ident(nodes[at].get("parentId"))
        depth = 0 if at is None else depths.get(at)
        for below in reversed(climbed):
            depth = None if depth is None else depth + 1
            depths[below] = depth
    return depths


def _recorded(record: Record) -> int | None:
    level = number(record.get("level"))
    return level if isinstance(level, int) and level >= 1 else None
