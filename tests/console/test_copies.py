"""The pages about keys show how fresh each copy is, and never call a copy up to date if it lacks changes."""

import csv
import io
import re
from datetime import datetime
from typing import Any

import pytest

from console.running_console import Operator, RunningConsole
from counterfoil.checks.overview import overview
from counterfoil.domain.calendar import DAY_MS, iso_utc, to_ms
from records import Record, base, bills, branch, member

HOUR = 3_600


def key_id_of(key: str) -> str:
    return key.split("_")[2]


class Integrator:
    """Reads the changes of a shop with a key, as an integrator does."""

    def __init__(self, console: RunningConsole, of: Record, **terms: Any) -> None:
        self._service = console.service
        self._shop = of
        self.key = self._service.key(shop=of["id"], **terms)

    def read(self, since: int) -> int:
        """Read all changes since an instant; return the serverTime."""
        self._service.ledger.advance_horizon()
        answer = self._service.get("transactions", self.key, shopId=self._shop["id"], updatedSince=iso_utc(since))
        # Stopping the service writes the progress of its readers.
        self._service.restart()
        return to_ms(datetime.fromisoformat(answer.json()["serverTime"]))


@pytest.fixture
def of(console: RunningConsole) -> Record:
    found = branch(name="Riverside")
    console.service.load(found)
    return found


@pytest.fixture
def erp(console: RunningConsole, of: Record) -> Integrator:
    return Integrator(console, of, label="ERP")


def copy_of(operator: Operator, reader: Integrator) -> dict[str, Any]:
    (copy,) = operator.json(f"/keys/{key_id_of(reader.key)}.json")["copies"]
    return dict(copy)


def test_a_poll_that_skips_changes_does_not_make_a_copy_up_to_date(console: RunningConsole, erp: Integrator) -> None:
    mark = erp.read(0)
    console.clock.advance(5 * 24 * HOUR)
    assert copy_of(console.operator(), erp)["state"] == "behind"
    start = console.clock.now_ms() - HOUR * 1000
    erp.read(start)
    copy = copy_of(console.operator(), erp)
    assert copy["state"] == "gap"
    times = [to_ms(datetime.fromisoformat(copy[name])) for name in ("completeUntil", "gapFrom", "gapUntil")]
    assert times == [mark, mark, start]


@pytest.mark.parametrize(
    ("language", "sentence"),
    [("en", "This is expected if the copy was rebuilt during that time."), ("th", "หากเริ่มทำสำเนาใหม่ในช่วงนั้น ถือว่าปกติ")],
)
def test_a_gap_is_explained_with_the_request_that_closes_it(
    console: RunningConsole, erp: Integrator, language: str, sentence: str
) -> None:
    mark = erp.read(0)
    console.clock.advance(5 * 24 * HOUR)
    erp.read(console.clock.now_ms() - HOUR * 1000)
    page = console.operator("bob", **{"accept-language": language}).page(f"/keys/{key_id_of(erp.key)}?tab=copy")
    assert sentence in page
    assert f"updatedSince={iso_utc(mark)}" in page


def test_a_gap_is_no_longer_reported_after_400_days(console: RunningConsole, erp: Integrator) -> None:
    erp.read(0)
    console.clock.advance(5 * 24 * HOUR)
    mark = erp.read(console.clock.now_ms())
    for days in (399, 2):
        assert copy_of(console.operator(), erp)["state"] == "gap"
        console.clock.advance(days * 24 * HOUR)
        mark = erp.read(mark)
    assert copy_of(console.operator(), erp)["state"] == "fresh"


def test_a_copy_whose_first_pass_begins_at_a_mark_shows_from_when_on_changes_were_read(
    console: RunningConsole, erp: Integrator
) -> None:
    console.clock.advance(24 * HOUR)
    start = console.clock.now_ms() - HOUR * 1000
    erp.read(start)
    alice = console.operator()
    copy = copy_of(alice, erp)
    assert (copy["state"], to_ms(datetime.fromisoformat(copy["readFrom"]))) == ("fresh", start)
    page = alice.page(f"/keys/{key_id_of(erp.key)}?tab=copy")
    assert ">up to date for changes since 2026-01-02 06:00 +07</span>" in page
    assert "Changes before 2026-01-02 06:00 +07 were not read from the list of changes." in page
    assert "provided that it was complete when the first pass began" in page
    assert ">up to date for changes since 2026-01-02</span>" in alice.page("/keys")


def test_a_copy_within_the_tolerance_is_not_also_called_behind(console: RunningConsole, erp: Integrator) -> None:
    erp.read(0)
    console.clock.advance(24 * HOUR)
    page = console.operator().page(f"/keys/{key_id_of(erp.key)}?tab=copy").lower()
    assert ">up to date</span>" in page
    assert "behind" not in page
    console.clock.advance(3 * HOUR)
    page = console.operator().page(f"/keys/{key_id_of(erp.key)}?tab=copy")
    # Loading put the horizon slightly ahead of the clock, so the copy is a little less than 27 hours behind.
    assert re.findall("behind by [^<]*", page) == ["behind by 26 hours"]


def test_a_pass_in_progress_does_not_hide_the_pass_before_it(console: RunningConsole, of: Record) -> None:
    erp = Integrator(console, of)
    erp.read(0)
    console.service.load(*bills(of, 3))
    console.clock.advance(HOUR)
    console.service.ledger.advance_horizon()
    query = {"shopId": of["id"], "updatedSince": "1970-01-01T00:00:00Z", "limit": 1}
    assert console.service.get("transactions", erp.key, **query).json()["nextCursor"]
    console.service.restart()
    assert copy_of(console.operator(), erp)["state"] == "fresh"
    console.clock.advance(27 * HOUR)
    assert copy_of(console.operator(), erp)["state"] == "reading"


def test_the_list_of_keys_shows_which_copy_is_not_up_to_date(
    console: RunningConsole, of: Record, erp: Integrator
) -> None:
    late = Integrator(console, of, label="BI")
    console.service.load(base(of), member(of))
    bot = console.service.key(shop=of["id"], label="Bot", messaging_lookup=True)
    console.service.get("shops", bot)
    late.read(0)
    console.clock.advance(3 * 24 * HOUR)
    erp.read(0)
    alice = console.operator()
    view = alice.json("/keys.json")
    states = {row["key"]["label"]: row["copy"]["state"] for row in view["keys"]}
    assert states == {"ERP": "fresh", "BI": "behind", "Bot": None}
    assert view["counts"]["copy_behind"] == 1
    assert overview(console.service.settings, console.clock.now_ms()).store.copies_behind == 1
    (behind,) = alice.json("/keys.json?show=copy_behind")["keys"]
    assert behind["key"]["label"] == "BI"
    page = alice.page("/keys")
    assert 'title="This key keeps no copy.">–</span>' in page
    assert '<span class="badge">messaging lookup</span>' in page
    assert '<span class="badge warn">behind</span>' in page
    rows = csv.DictReader(io.StringIO(alice.get("/keys.csv").content.decode("utf-8-sig")))
    assert {row["label"]: row["copy"] for row in rows} == {"ERP": "fresh", "BI": "behind", "Bot": ""}


def test_a_shop_that_a_key_can_no_longer_read_is_not_reported_as_behind(console: RunningConsole) -> None:
    first, second = branch(name="Riverside"), branch(name="Hillside")
    second = {**second, "franchiseId": first["franchiseId"]}
    console.service.load(first, second)
    key = console.service.key(franchise=first["franchiseId"])
    console.service.ledger.advance_horizon()
    for of in (first, second):
        console.service.get("transactions", key, shopId=of["id"], updatedSince="1970-01-01T00:00:00Z")
    console.service.restart()
    console.service.load({**second, "franchiseId": "elsewhere"})
    console.clock.advance(2 * DAY_MS // 1000)
    (copy,) = console.operator().json(f"/keys/{key_id_of(key)}.json")["copies"]
    assert copy["shopId"] == first["id"]
