"""Metrics include the counts of all workers, even dead ones."""

from pathlib import Path

import pytest

from counterfoil import observe
from counterfoil.domain.problems import TABLE
from counterfoil.program.clock import SystemClock
from counterfoil.serving import admin, metric_kinds
from counterfoil.serving.admin import request_metrics
from counterfoil.serving.metric_kinds import METRICS
from new_processes import new_processes
from observe.counting_workers import LAYOUT, Samples, count, counter_file, samples_of, served


def samples(folder: Path) -> Samples:
    return samples_of(request_metrics(LAYOUT, observe.totals(counter_file(folder), LAYOUT)))


def counted(folder: Path, *events: observe.Event) -> Samples:
    page = observe.Counters(counter_file(folder), LAYOUT, SystemClock().now_ms)
    for event in events:
        page(event)
    return samples(folder)


def labels(**values: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(values.items()))


def test_requests_are_counted_by_route_status_and_error(tmp_path: Path) -> None:
    found = counted(
        tmp_path,
        served(),
        served(),
        served(status=304),
        served(status=429, error="rate_limited"),
        served(status=429, error="quota_exceeded"),
        served(route="transactions", status=400, error="bad_query"),
    )
    name = "counterfoil_requests_total"
    assert {key[1]: value for key, value in found.items() if key[0] == name} == {
        labels(route="shops", status="200", error=""): 2,
        labels(route="shops", status="304", error=""): 1,
        labels(route="shops", status="429", error="rate_limited"): 1,
        labels(route="shops", status="429", error="quota_exceeded"): 1,
        labels(route="transactions", status="400", error="bad_query"): 1,
    }


def test_every_row_of_the_error_table_has_its_own_counter(tmp_path: Path) -> None:
    found = counted(tmp_path, *(served(status=problem.status, error=problem.code) for problem in TABLE))
    for problem in TABLE:
        outcome = labels(route="shops", status=str(problem.status), error=problem.code)
        assert found["counterfoil_requests_total", outcome] == 1


def test_an_unexpected_outcome_is_counted_as_other(tmp_path: Path) -> None:
    found = counted(tmp_path, served(status=418, error="teapot"))
    assert found["counterfoil_requests_total", labels(route="shops", status="other", error="")] == 1


def test_admission_metrics_exclude_requests_refused_earlier(tmp_path: Path) -> None:
    found = counted(
        tmp_path,
        served(),
        served(status=404, error="not_found"),
        served(status=500, error="internal"),
        served(status=429, error="rate_limited"),
        served(status=429, error="quota_exceeded"),
        served(status=401, error="invalid_key"),
        served(status=403, error="cross_origin_refused"),
        served(status=405, error="method_not_allowed"),
        served(status=503, error="auth_unavailable"),
        served(route="unknown", status=404, error="not_found"),
        served(route="openapi.json"),
        served(route="reference"),
    )
    name = "counterfoil_admissions_total"
    verdicts = {key[1][0][1]: value for key, value in found.items() if key[0] == name}
    assert verdicts == {"admitted": 3, "rate_limited": 1, "quota_exceeded": 1}


def test_a_latency_is_counted_in_the_first_bucket_whose_bound_is_not_exceeded(tmp_path: Path) -> None:
    found = counted(tmp_path, *(served(took_us=us) for us in (0, 100, 101, 250, 5_000_000, 5_000_001)))
    name = "counterfoil_request_seconds_bucket"
    buckets = {dict(key[1])["le"]: value for key, value in found.items() if key[0] == name and "shops" in str(key[1])}
    assert buckets["0.0001"] == 2
    assert buckets["0.00025"] == 4
    assert buckets["1.0"] == 4
    assert buckets["5.0"] == 5
    assert buckets["+Inf"] == 6
    assert found["counterfoil_request_seconds_count", labels(route="shops")] == 6
    assert found["counterfoil_request_seconds_sum", labels(route="shops")] == pytest.approx(10.000452)


def test_bytes_crashes_and_store_failures_are_counted(tmp_path: Path) -> None:
    found = counted(
        tmp_path,
        served(sent=1000),
        served(sent=24),
        observe.HandlerCrashed(request_id="r", route="shops", exception="KeyError", where=[]),
        observe.StoreFailed(request_id="r", route="shops", reason="gone"),
        observe.StoreFailed(request_id="r", route="shops", reason="gone"),
        observe.ServiceChanged(what="ready"),
    )
    assert found["counterfoil_sent_bytes_total", labels(route="shops")] == 1024
    assert found["counterfoil_crashes_total", ()] == 1
    assert found["counterfoil_store_failures_total", ()] == 2


def test_the_counts_of_several_workers_add_up_and_a_killed_one_s_stay(tmp_path: Path) -> None:
    workers = [new_processes().Process(target=count, args=(tmp_path, n, n == 200)) for n in (100, 200, 300)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(20)
    assert [worker.exitcode for worker in workers] == [0, -9, 0]
    assert samples(tmp_path)["counterfoil_requests_total", labels(route="shops", status="200", error="")] == 600


def test_every_metric_that_is_described_is_exported() -> None:
    source = Path(admin.__file__).read_text("utf-8")
    exported = {kind for name, kind in vars(metric_kinds).items() if f"metric_kinds.{name}" in source}
    assert {*METRICS} <= exported


def test_the_latest_store_failure_of_any_worker_is_known(tmp_path: Path) -> None:
    assert observe.last_store_failure_ms(counter_file(tmp_path), LAYOUT) == 0
    observe.Counters(counter_file(tmp_path), LAYOUT, SystemClock().now_ms)(
        observe.StoreFailed(request_id=None, route="usage", reason="gone")
    )
    assert observe.last_store_failure_ms(counter_file(tmp_path), LAYOUT) > 0
