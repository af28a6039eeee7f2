"""Measures, inside PostgreSQL, the duration of statements that receive an ID from a request.

A request to the service waits for the network and for two processes, which hides
small differences. A function in the database measures the statement alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from msgspec import Struct

from counterfoil.backends.postgres import books
from hostile.timing import Comparison, Samples, compared

OUR_SHOPS = "SELECT {} FROM shops WHERE franchise_id = 'ours'"


class Statement(Struct, frozen=True):
    """SQL with which the service looks up one kind of ID, a query that returns the scope, and the scope's SQL type."""

    text: str
    scope: str
    scope_type: str
    kind: str


STATEMENTS = {
    "a shop for a key of a franchise": Statement(books._NUMBER_OF["franchise"], "SELECT 'ours'", "text", "shop"),
    "a shop for a key of a shop": Statement(books._NUMBER_OF["shop"], OUR_SHOPS.format("min(id)"), "text", "shop"),
    "a base for a key of a franchise": Statement(books._COVERS["franchise"], "SELECT 'ours'", "text", "base"),
    "a base for a key of a shop": Statement(books._COVERS["shop"], OUR_SHOPS.format("min(id)"), "text", "base"),
    "a bill": Statement(books._BILL, OUR_SHOPS.format("array_agg(number)"), "integer[]", "bill"),
    "a member": Statement(books._MEMBER, OUR_SHOPS.format("array_agg(provider_id)"), "text[]", "member"),
}

# `ids` contains the nonexistent IDs, then the foreign IDs. All statements before the measurement are the same for both,
# because even one more call would change what the processor's caches contain.
_SAMPLER = """
    CREATE OR REPLACE FUNCTION pg_temp.sampled(samples integer, scope {scope_type}, ids text[])
    RETURNS TABLE (place integer, took interval) LANGUAGE plpgsql AS $sampler$
    DECLARE asked text; began timestamptz;
    BEGIN
        FOR sample IN 1..samples LOOP
            place := 1 + floor(random() * cardinality(ids));
            asked := ids[place];
            began := clock_timestamp();
            PERFORM {selected};
            took := clock_timestamp() - began;
            RETURN NEXT;
        END LOOP;
    END $sampler$
"""
_SAMPLES = """
    SELECT place, (extract(epoch FROM took) * 1000000)::bigint FROM pg_temp.sampled(%s, ({scope}), %s)
"""


@contextmanager
def connected(store: str) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection with the session settings of the service, which force generic plans."""
    options = "-c search_path=counterfoil -c plan_cache_mode=force_generic_plan -c jit=off"
    with psycopg.connect(store, autocommit=True, options=options) as connection:
        connection.execute("ANALYZE")
        yield connection


def compare_in_database(
    connection: psycopg.Connection[Any], statement: Statement, nobodys: list[str], theirs: list[str], samples: int
) -> Comparison:
    selected = statement.text.replace("$1", "scope").replace("$2", "asked").strip().removeprefix("SELECT")
    connection.execute(_SAMPLER.format(scope_type=statement.scope_type, selected=selected).encode())
    took: Samples = [[] for _ in nobodys + theirs]
    found = connection.execute(_SAMPLES.format(scope=statement.scope).encode(), (samples, nobodys + theirs))
    for place, microseconds in found:
        took[place - 1].append(microseconds * 1000)
    return compared(took[: len(nobodys)], took[len(nobodys) :])
