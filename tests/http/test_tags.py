"""ETags reveal nothing: they cannot be used to test guesses about personal data."""

import hashlib
from pathlib import Path

import pytest

from counterfoil import bootstrap
from records import Record, bill, branch, member
from running_service import RunningService, ServerThread

TEL = "0812345678"


def stand(service: RunningService, **fields: object) -> tuple[Record, Record, str]:
    """Load a member with a phone number; return the records and a key that may read them."""
    of = branch()
    person = member(of, **{"tel": TEL, "email": "a@x.example", **fields})
    service.load(of, person)
    return of, person, service.key(shop=of["id"], personal_data=True)


def paths(service: RunningService, of: Record, person: Record) -> list[tuple[str, Record]]:
    return [("members", {"providerId": of["providerId"]}), (f"members/{service.token(person['id'])}", {})]


def plain_tags(data: bytes) -> set[str]:
    """Return the tags that anybody could compute from the data: standard hashes, shortened to any usual length."""
    found = set()
    for name in ("md5", "sha1", "sha256", "sha512", "blake2b", "blake2s"):
        digest = hashlib.new(name, data).hexdigest()
        found |= {f'W/"{digest[:length]}"' for length in range(8, len(digest) + 1)}
    return found | {
        f'W/"{maker(data, digest_size=size).hexdigest()}"'
        for maker, most in ((hashlib.blake2b, 64), (hashlib.blake2s, 32))
        for size in range(4, most + 1)
    }


def test_the_tag_cannot_be_computed_from_the_data_alone(service: RunningService) -> None:
    of, person, key = stand(service)
    for path, query in paths(service, of, person):
        answer = service.get(path, key, **query)
        data = answer.content.partition(b'"data":')[2].partition(b',"nextCursor"')[0].partition(b',"serverTime"')[0]
        assert TEL.encode() in data
        assert answer.headers["etag"] not in plain_tags(data)


@pytest.mark.parametrize("field", ["tel", "email"])
def test_a_change_of_personal_data_changes_the_tag_for_a_key_that_may_read_it(
    service: RunningService, field: str
) -> None:
    of, person, key = stand(service)
    blind = service.key(shop=of["id"])
    service.clock.advance(1)
    before = [
        service.get(path, who, **query).headers["etag"]
        for path, query in paths(service, of, person)
        for who in (key, blind)
    ]
    service.load({**person, field: "0899999999"})
    after = [
        service.get(path, who, **query).headers["etag"]
        for path, query in paths(service, of, person)
        for who in (key, blind)
    ]
    assert [was != now for was, now in zip(before, after, strict=True)] == [True, False, True, False]


def test_two_nodes_give_the_same_tag(service: RunningService) -> None:
    of, person, key = stand(service)
    service.load(bill(of))
    other = ServerThread(bootstrap.service(service.settings, service.events.append, service.clock))
    try:
        for path, query in [*paths(service, of, person), ("shops", {}), ("openapi.json", {})]:
            url = f"http://127.0.0.1:{other.port}{service.settings.prefix}/v1/{path}"
            there = other.client.get(url, params=query, headers={"authorization": f"Bearer {key}"})
            assert there.headers["etag"] == service.get(path, key, **query).headers["etag"]
    finally:
        other.stop()


def test_another_deployment_secret_gives_another_tag(tmp_path: Path) -> None:
    tags = []
    for number in range(2):
        service = RunningService(tmp_path / str(number), secret=f"deployment secret number {number}, long enough")
        service.load({"kind": "shop", "id": "s", "name": "The same"})
        tags.append(service.get("shops", service.key(shop="s")).headers["etag"])
        service.close()
    assert len(set(tags)) == 2
