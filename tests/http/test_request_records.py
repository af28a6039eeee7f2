"""Request records: what is kept of a request, and that personal data never leaves without a record."""

from contextlib import closing
from typing import Any

import pytest

from breakage import kept, table_missing
from counterfoil import bootstrap
from house import START_MS, House
from records import NEW_YEAR, Record, branch, fresh, member, members

COLUMNS = ["at", "key_id", "route", "status", "error", "took_us", "personal_base", "personal_members"]
DAY_SEC = 86_400


def rows(house: House, key: str) -> list[dict[str, Any]]:
    """The records of a key as they lie in the store."""
    order = "at" if house.settings.database else "number"
    return kept(house, "usage", f"SELECT * FROM requests WHERE key_id = '{key.split('_')[2]}' ORDER BY {order}")  # noqa: S608


def settled(house: House, key: str) -> list[dict[str, Any]]:
    """The same, once somebody else's request has carried along what was waiting."""
    other = house.key(shop=fresh("nobody"))
    house.clock.advance(1)
    assert house.get("shops", other).status_code == 200
    return rows(house, key)


def disclosed(house: House, key: str) -> list[tuple[str, int]]:
    return [(row["personal_base"], row["personal_members"]) for row in settled(house, key) if row["personal_base"]]


def open_base(house: House, number: int, **terms: Any) -> tuple[Record, list[Record], str]:
    of = branch()
    people = members(of, number)
    house.load(of, *people)
    return of, people, house.key(shop=of["id"], **({"personal_data": True} | terms))


# --- what a record holds ------------------------------------------------------------------


def test_a_record_holds_these_fields_and_no_others(town: House) -> None:
    key = town.key(shop="s")
    town.get("shops", key)
    assert [name for name in settled(town, key)[0] if name != "number"] == COLUMNS


def test_a_record_says_which_key_asked_for_what_when_and_what_became_of_it(house: House) -> None:
    key = house.key(shop="s")
    house.get("transactions/x", key)
    (row,) = settled(house, key)
    assert (row["at"], row["key_id"], row["route"]) == (START_MS, key.split("_")[2], "transactions/{id}")
    assert (row["status"], row["error"]) == (404, "not_found")
    assert 0 < row["took_us"] < 60_000_000


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("shops", "shops"),
        ("transactions", "transactions"),
        ("transactions/x", "transactions/{id}"),
        ("members", "members"),
        ("members/lookup", "members/lookup"),
        ("members/m1_x", "members/{memberToken}"),
        ("usage", "usage"),
    ],
)
def test_a_record_names_the_route_and_not_the_path(town: House, path: str, route: str) -> None:
    key = town.key(shop="s")
    town.get(path, key)
    assert [row["route"] for row in settled(town, key)] == [route]


@pytest.mark.parametrize("status", [200, 304, 400, 403, 404, 429])
def test_every_request_that_was_counted_leaves_a_record(town: House, status: int) -> None:
    key = town.key(shop="s", per_day=1 if status == 429 else 10)
    tag = town.get("shops", key).headers["etag"]
    ask: dict[int, dict[str, Any]] = {
        200: {"path": "shops"},
        304: {"path": "shops", "headers": {"if-none-match": tag}},
        400: {"path": "transactions"},
        403: {"path": "members/lookup"},
        404: {"path": "members/x"},
        429: {"path": "shops"},
    }
    assert town.get(key=key, **ask[status]).status_code == status
    assert [row["status"] for row in settled(town, key)] == [200, status]


def test_as_many_records_are_kept_as_requests_are_counted(town: House) -> None:
    key = town.key(shop="s")
    for path in ("shops", "usage", "transactions", "members/x"):
        town.get(path, key)
    assert len(settled(town, key)) == 4


def test_a_request_refused_for_the_minute_leaves_no_record(town: House) -> None:
    key = town.key(shop="s", per_min=1)
    town.get("shops", key)
    assert town.error("shops", key) == "rate_limited"
    assert len(settled(town, key)) == 1


def test_records_survive_the_end_of_the_service(house: House) -> None:
    key = house.key(shop="s")
    house.get("shops", key)
    house.close()
    assert len(rows(house, key)) == 1


# --- personal data ---------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 3])
def test_a_list_with_personal_data_says_which_base_and_how_many_members(town: House, number: int) -> None:
    of, _, key = open_base(town, number)
    town.get("members", key, providerId=of["providerId"])
    assert disclosed(town, key) == [(of["providerId"], number)]


def test_each_page_says_how_many_members_it_held(town: House) -> None:
    of, _, key = open_base(town, 5)
    cursor = town.get("members", key, providerId=of["providerId"], limit=3).json()["nextCursor"]
    town.get("members", key, providerId=of["providerId"], limit=3, cursor=cursor)
    assert disclosed(town, key) == [(of["providerId"], 3), (of["providerId"], 2)]


def test_one_member_with_personal_data_is_a_disclosure_of_one(town: House) -> None:
    of, (person, *_), key = open_base(town, 1)
    town.get(f"members/{town.token(person['id'])}", key)
    assert disclosed(town, key) == [(of["providerId"], 1)]


def test_a_disclosure_is_on_record_before_the_answer_arrives(house: House) -> None:
    of, _, key = open_base(house, 2)
    house.get("members", key, providerId=of["providerId"])
    # Nothing has carried it along: the record was there first.
    assert [(row["personal_base"], row["personal_members"]) for row in rows(house, key)] == [(of["providerId"], 2)]


def test_a_disclosure_leaves_one_record_and_not_two(town: House) -> None:
    of, _, key = open_base(town, 2)
    town.get("members", key, providerId=of["providerId"])
    assert len(settled(town, key)) == 1


def test_what_cannot_be_put_on_record_is_not_disclosed(house: House) -> None:
    of, (person, *_), key = open_base(house, 1)
    with table_missing(house, "usage", "requests"):
        answer = house.get("members", key, providerId=of["providerId"])
    assert (answer.status_code, answer.json()["error"]) == (500, "internal")
    assert person["tel"] not in answer.text


def test_what_was_not_disclosed_is_not_recorded_as_disclosed(house: House) -> None:
    of, _, key = open_base(house, 1)
    with table_missing(house, "usage", "requests"):
        house.get("members", key, providerId=of["providerId"])
    assert [(row["status"], row["personal_base"]) for row in settled(house, key)] == [(500, None)]


def test_the_log_says_of_a_disclosure_what_the_record_says(town: House) -> None:
    of, _, key = open_base(town, 2)
    town.get("members", key, providerId=of["providerId"])
    event: Any = town.noticed()[-1]
    assert (event.personal_base, event.personal_members) == (of["providerId"], 2)


# --- what is no disclosure -------------------------------------------------------------------------


def test_a_key_without_the_permission_discloses_nothing(town: House) -> None:
    of, _, key = open_base(town, 2, personal_data=False)
    town.get("members", key, providerId=of["providerId"])
    assert disclosed(town, key) == []


def test_head_discloses_nothing(town: House) -> None:
    of, (person, *_), key = open_base(town, 1)
    town.get("members", key, method="HEAD", providerId=of["providerId"])
    town.get(f"members/{town.token(person['id'])}", key, method="HEAD")
    assert disclosed(town, key) == []


def test_an_unchanged_answer_discloses_nothing(town: House) -> None:
    of, _, key = open_base(town, 2)
    tag = town.get("members", key, method="HEAD", providerId=of["providerId"]).headers["etag"]
    answer = town.get("members", key, providerId=of["providerId"], headers={"if-none-match": tag})
    assert answer.status_code == 304
    assert disclosed(town, key) == []


def test_an_empty_list_discloses_nothing(town: House) -> None:
    of, _, key = open_base(town, 0)
    town.get("members", key, providerId=of["providerId"])
    assert disclosed(town, key) == []


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("shops", {}),
        ("usage", {}),
        ("transactions", {"shopId": "x", **NEW_YEAR}),
        ("members/m1_x", {}),
        ("members", {"providerId": "elsewhere"}),
    ],
    ids=["shops", "usage", "bills", "no member", "out of scope"],
)
def test_other_answers_disclose_nothing(town: House, path: str, query: Record) -> None:
    _, _, key = open_base(town, 1)
    town.get(path, key, **query)
    assert disclosed(town, key) == []


def test_a_lookup_discloses_nothing(town: House) -> None:
    of = branch()
    user = "U" + "a" * 32
    town.load(of, member(of, messaging=[{"userId": user}]))
    key = town.key(shop=of["id"], personal_data=True, messaging_lookup=True)
    assert town.get("members/lookup", key, providerId=of["providerId"], messagingUserId=user).status_code == 200
    assert disclosed(town, key) == []


# --- how long -------------------------------------------------------------------------------------


def pruned(house: House, days: float) -> tuple[int, int]:
    """How many records and daily totals go when this much more time has passed."""
    house.clock.advance(days * DAY_SEC)
    with closing(bootstrap.usage(house.settings, house.clock)) as usage:
        return usage.prune()


def test_records_are_kept_for_90_days(house: House) -> None:
    house.get("shops", house.key(shop="s"))
    house.close()
    assert [pruned(house, days)[0] for days in (90, 0.001, 1)] == [0, 1, 0]


def test_daily_totals_are_kept_for_400_days(house: House) -> None:
    key = house.key(shop="s")
    house.get("shops", key)
    house.clock.advance(DAY_SEC)
    house.get("shops", key)
    house.close()
    assert [pruned(house, days)[1] for days in (399, 1, 1)] == [0, 1, 0]
