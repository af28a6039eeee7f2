"""The duties that make a comparison fair: a key check, limits, and a record of every admitted request.

A contestant with duties reads its keys from a SQLite file that is prepared here,
and counts and records requests in it. Before any measurement, `check`
verifies that the contestant really does so.
"""

import hashlib
import os
import sqlite3
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from bench.world import UNLIMITED
from counterfoil.domain import credentials

if TYPE_CHECKING:
    from bench.contestants import Running

TABLES = Path(__file__).parent / "peers" / "duties.sql"
# The franchise of the two keys that `check` uses, and their rate limit in requests per minute.
LIMITED, PER_MIN = "limited", 3
# The number of requests that `check` sends at the same time with the second key.
AT_ONCE = 4 * PER_MIN
# A record may be written after the response was sent, so `check` waits up to this long for it.
WAIT_SEC, LOOK_EVERY_SEC = 20.0, 0.05

_KEY = "INSERT INTO keys (key_id, sha256, franchise_id, per_min, per_day) VALUES (?, ?, ?, ?, ?)"
_COUNT = "SELECT max(count) FROM admissions WHERE key_id = ?"
_RECORDS = "SELECT status, count(*) FROM requests WHERE key_id = ? GROUP BY status ORDER BY status"


class DutyNotPerformed(Exception):
    """A contestant does not perform one of its duties, so a comparison with it would be unfair."""


def prepare(file: Path, franchises: Sequence[str], callers: int) -> dict[str, list[str]]:
    """Create a database with keys for each franchise and two keys with a low rate limit; return all keys."""
    for old in file.parent.glob(f"{file.name}*"):
        old.unlink()
    keys = {name: [_new_key() for _ in range(callers)] for name in franchises}
    limited = {LIMITED: [_new_key(), _new_key()]}
    with closing(sqlite3.connect(file)) as target:
        target.execute("PRAGMA journal_mode = WAL")
        target.executescript(TABLES.read_text("utf-8"))
        for franchise, found in (keys | limited).items():
            per_min = PER_MIN if franchise == LIMITED else UNLIMITED
            target.executemany(_KEY, [(_id(key), _digest(key), franchise, per_min, UNLIMITED) for key in found])
        target.commit()
    return keys | limited


def check(file: Path, running: "Running", paths: Iterable[str], wait_sec: float = WAIT_SEC) -> None:
    """Check that a key is required, that the limit is exact, and that the day count and the records are correct.

    The count must be in the file as soon as a response arrives. This check reads
    the file over a connection of its own, which sees only committed data, so a
    contestant that passes keeps its counts even if it is killed.
    """
    title, [key, second_key] = running.contestant.title, running.keys[LIMITED]
    [path, *_] = paths

    def status(sent: str | None) -> int:
        headers = {"Authorization": f"Bearer {sent}"} if sent else {}
        return httpx.get(running.url + path, headers=headers, timeout=WAIT_SEC).status_code

    strangers = [status(None), status(_new_key()), status(key[:-1] + ("A" if key[-1] != "A" else "B"))]
    if strangers != [401, 401, 401]:
        raise DutyNotPerformed(f"{title} responds with the statuses {strangers} to requests without a valid key")
    answered = []
    for number in range(1, PER_MIN + 3):
        answered.append(status(key))
        count, _ = _stored(file, _id(key))
        if (count or 0) != answered.count(200):
            raise DutyNotPerformed(f"{title} had stored a count of {count} when it answered request {number}")
    if answered != [200] * PER_MIN + [429] * 2:
        raise DutyNotPerformed(f"{title} does not limit requests per minute: {answered}")
    with ThreadPoolExecutor(AT_ONCE) as senders:
        together = sorted(senders.map(status, [second_key] * AT_ONCE))
    if together != [200] * PER_MIN + [429] * (AT_ONCE - PER_MIN):
        raise DutyNotPerformed(f"{title} does not limit requests that arrive at the same time: {together}")
    # As in our service, requests that the minute window refuses are not recorded.
    wanted = (PER_MIN, [(200, PER_MIN)])
    deadline = time.monotonic() + wait_sec
    while (stored := _stored(file, _id(key))) != wanted:
        if time.monotonic() > deadline:
            raise DutyNotPerformed(f"{title} stored the day count and records {stored} instead of {wanted}")
        time.sleep(LOOK_EVERY_SEC)


def _stored(file: Path, key_id: str) -> tuple[int | None, list[tuple[int, int]]]:
    """Return the key's request count for the day, and its number of request records by status."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as stored:
        (count,) = stored.execute(_COUNT, (key_id,)).fetchone()
        return count, stored.execute(_RECORDS, (key_id,)).fetchall()


def _new_key() -> str:
    return credentials.format_key(credentials.generate(os.urandom))


def _id(key: str) -> str:
    return key.split("_")[2]


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
