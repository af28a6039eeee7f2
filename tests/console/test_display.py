"""Charts are labelled, and times are unambiguous."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from counterfoil.checks.findings import Finding
from counterfoil.console.charts import Bar, Slot
from counterfoil.console.rendering import templates
from counterfoil.console.texts import Texts
from counterfoil.model.calendar import to_ms
from counterfoil.model.messages import quoted
from counterfoil.program.times import THAILAND, show_times_in


@pytest.fixture
def _in_berlin() -> Iterator[None]:
    show_times_in("Europe/Berlin")
    yield
    show_times_in(THAILAND)


def macros(name: str) -> Any:
    return templates().get_template(f"{name}.html").make_module({"t": Texts("en")})


@pytest.mark.usefixtures("_in_berlin")
def test_times_are_shown_in_the_zone_of_the_setting() -> None:
    now = to_ms(datetime(2026, 7, 1, 12, tzinfo=UTC))
    moment = str(macros("macros").moment(now))
    assert ">2026-07-01 14:00:00<" in moment
    assert "2026-07-01 14:00:00 +02 · 2026-07-01 12:00:00 UTC" in moment


def test_findings_of_one_check_share_an_entry() -> None:
    findings = [
        Finding("keys", "ok", quoted("8 active keys.")),
        Finding("store", "ok", quoted("No problems.")),
        Finding("keys", "ok", quoted("The file is readable.")),
        Finding("keys", "warn", quoted("Near the quota.")),
    ]
    listed = str(macros("findings").finding_list(findings))
    assert re.findall("<strong>([^<]*)</strong>", listed) == ["keys", "store", "keys"]
    assert listed.count("<li>") == 3
    assert "The file is readable." in listed


def test_a_chart_says_what_its_colours_and_bars_mean() -> None:
    slot = Slot(since=0, until=1, requests=1200, errors=7, median_ms=1.5, p95_ms=20.0)
    bars = [Bar("2026-03-01", "1 Mar", slot, "/requests")]
    chart = str(macros("charts").bar_chart(bars, {"p95_ms": "slow", "median_ms": "bar"}, "Duration"))
    assert '<span class="swatch slow"></span>95th percentile' in chart
    assert '<span class="swatch bar"></span>Median' in chart
    text = "2026-03-01: 95th percentile (ms) 20, Median (ms) 1.5, Requests 1,200"
    assert f"<title>{text}</title>" in chart
    assert f'aria-label="{text}"' in chart
