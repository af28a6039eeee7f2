"""Charts are labelled, and times are unambiguous."""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest

from counterfoil.checks.findings import Finding
from counterfoil.console.charts import MAX_LABELS, Bar, bar_chart
from counterfoil.console.display import ago, finding_list, moment, month_name, zone_text
from counterfoil.console.texts import Language, Texts
from counterfoil.domain.calendar import to_ms
from counterfoil.domain.messages import quoted
from counterfoil.views.times import THAILAND, show_times_in


def axis_labels(chart: str) -> list[str]:
    return re.findall(r'class="axis below[^"]*">([^<]*)<', chart)


@pytest.fixture
def _in_berlin() -> Iterator[None]:
    show_times_in("Europe/Berlin")
    yield
    show_times_in(THAILAND)


def test_a_time_has_utc_as_its_tooltip() -> None:
    shown = str(moment(datetime(2026, 2, 28, 18, tzinfo=UTC)))
    assert shown.endswith('title="2026-02-28 18:00:00 UTC">2026-03-01 01:00:00</time>')


@pytest.mark.usefixtures("_in_berlin")
def test_times_are_shown_in_the_zone_of_the_setting() -> None:
    t, now = Texts("en"), to_ms(datetime(2026, 7, 1, 12, tzinfo=UTC))
    assert ">2026-07-01 14:00:00<" in str(moment(now))
    assert "2026-07-01 14:00:00 Europe/Berlin" in str(ago(t, now, now))
    assert zone_text(t) == "Europe/Berlin"


def test_findings_of_one_check_share_an_entry() -> None:
    findings = [
        Finding("keys", "ok", quoted("8 active keys.")),
        Finding("store", "ok", quoted("No problems.")),
        Finding("keys", "ok", quoted("The file is readable.")),
        Finding("keys", "warn", quoted("Near the quota.")),
    ]
    listed = str(finding_list(Texts("en"), findings))
    assert re.findall("<strong>([^<]*)</strong>", listed) == ["keys", "store", "keys"]
    assert listed.count("<li>") == 3
    assert "The file is readable." in listed


def test_a_chart_of_many_days_labels_the_beginnings_of_months() -> None:
    t, days = Texts("en"), [date(2025, 10, 15) + timedelta(days=count) for count in range(400)]
    bars = [Bar(day.isoformat(), month_name(t, day) if day.day == 1 else "", 1) for day in days]
    labels = axis_labels(str(bar_chart(t, "Requests per day", bars, page="day")))
    assert sorted(labels) == sorted(
        ["Nov 2025", "Jan 2026", "Mar 2026", "May 2026", "Jul 2026", "Sep 2026", "Nov 2026"]
    )
    assert len(labels) <= MAX_LABELS


def test_a_chart_says_what_its_colours_and_bars_mean() -> None:
    chart = str(bar_chart(Texts("en"), "Requests per day", [Bar("2026-03-01", "1 Mar", 1200, 7)], page="day"))
    assert '<span class="swatch bar"></span>Requests' in chart
    assert '<span class="swatch failed"></span>Errors' in chart
    assert "<title>2026-03-01, Requests: 1,200, Errors: 7</title>" in chart


@pytest.mark.parametrize("language", ["en", "th"])
def test_every_month_has_a_name(language: Language) -> None:
    names = {month_name(Texts(language), date(2026, month, 1)) for month in range(1, 13)}
    assert len(names) == 12
