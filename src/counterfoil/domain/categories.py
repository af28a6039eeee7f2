"""Reads a shop's category list: its order, its levels, and the groupings that are not categories.

Tills record promotional groupings, such as best sellers, among the categories.
Groupings are neither listed nor shown on the lines of a bill.
"""

from counterfoil.domain.pos_values import Record, flag, ident, idents, number, objects, text
from counterfoil.domain.resources import Category


def categories_from(value: object) -> tuple[list[Category], frozenset[str]]:
    """Return the categories, sorted by level and then in the shop's order, and the IDs of the groupings."""
    # If an ID occurs twice, a dict keeps its first position and its last content.
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
        parent_id=None if level == 1 else ident(record.get("parentId")),
        hidden=_hidden(record),
    )


def _hidden(record: Record) -> bool:
    visible_in = record.get("visibleIn")
    return flag(record.get("hidden")) or (isinstance(visible_in, list) and not idents(visible_in))


def _depths(nodes: dict[str, Record]) -> dict[str, int | None]:
    """Return the level of each category, or None if it is unknown.

    If no level is recorded, it is one more than the parent's level, or 1 for a category without a parent.
    """
    depths: dict[str, int | None] = {
        found: level for found, record in nodes.items() if (level := _recorded_level(record))
    }
    for start in nodes:
        path: list[str] = []
        current: str | None = start
        while current is not None and current in nodes and current not in depths:
            depths[current] = None  # This ends the loop if the parents form a cycle.
            path.append(current)
            current = ident(nodes[current].get("parentId"))
        depth = 0 if current is None else depths.get(current)
        for below in reversed(path):
            depth = None if depth is None else depth + 1
            depths[below] = depth
    return depths


def _recorded_level(record: Record) -> int | None:
    level = number(record.get("level"))
    return level if isinstance(level, int) and level >= 1 else None
