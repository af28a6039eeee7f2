"""PostgreSQL and Python give the same result when they merge the ranges of changes that have been read."""

import random

import psycopg

import servers
from counterfoil.domain.request_records import MAX_RANGES, as_text, from_text, merge_texts, merged

MERGE = "SELECT counterfoil.merge_ranges(%s, %s)"


def some_ranges(chance: random.Random, number: int) -> str:
    starts = (chance.randrange(0, 400) for _ in range(number))
    return as_text(merged((start, start + chance.randrange(0, 6)) for start in starts))


def test_postgresql_merges_ranges_as_the_domain_does() -> None:
    chance = random.Random(7)  # noqa: S311 - chooses the values of a test
    with psycopg.connect(servers.postgres(18).fresh_database()[1]) as connection:
        for _ in range(300):
            known = some_ranges(chance, chance.choice((0, 1, 2, 5, 60)))
            read = some_ranges(chance, chance.choice((0, 1, 2, 60)))
            (found,) = connection.execute(MERGE, (known, read)).fetchone() or (None,)
            assert found == merge_texts(known, read)
            assert len(from_text(found)) <= MAX_RANGES
