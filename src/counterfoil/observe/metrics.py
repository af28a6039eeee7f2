"""Converts the counters into Prometheus metrics."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from counterfoil.domain.problems import TABLE, Stage
from counterfoil.observe.counters import BUCKETS_US, OUTCOMES, Layout


def request_metrics(layout: Layout, sums: list[int]) -> Iterator[Metric]:
    """Yield the summed counters of all workers as Prometheus metrics."""
    requests = CounterMetricFamily("counterfoil_requests", "Requests served.", labels=["route", "status", "error"])
    latency = HistogramMetricFamily("counterfoil_request_seconds", "Time to serve a request.", labels=["route"])
    sent = CounterMetricFamily(
        "counterfoil_sent_bytes", "Bytes sent in response bodies, after compression.", labels=["route"]
    )
    admissions = CounterMetricFamily(
        "counterfoil_admissions", "Requests with a valid key, by verdict.", labels=["verdict"]
    )
    verdicts = {"admitted": 0, "rate_limited": 0, "quota_exceeded": 0}
    for route in layout.routes:
        for status, error in OUTCOMES:
            count = sums[layout.outcome(route, int(status) if status != "other" else 0, error)]
            if count:
                requests.add_metric([route, status, error], count)
                if route not in layout.public_routes:
                    _count_verdict(verdicts, error, count)
        _add_latency(latency, layout, sums, route)
        sent.add_metric([route], sums[layout.sent(route)])
    for verdict, count in verdicts.items():
        admissions.add_metric([verdict], count)
    yield requests
    yield latency
    yield sent
    yield admissions
    yield CounterMetricFamily(
        "counterfoil_crashes", "Requests that failed with an unexpected error.", value=sums[layout.crashes]
    )
    yield CounterMetricFamily(
        "counterfoil_store_failures", "Store reads or writes that failed.", value=sums[layout.store_failures]
    )
    yield CounterMetricFamily(
        "counterfoil_counts_reseeded",
        "Daily counts that the shared meter lost and restored from the store. Each may lack up to 1 s of requests.",
        value=sums[layout.reseeded],
    )
    yield CounterMetricFamily(
        "counterfoil_server_changes",
        "Role changes of the store's servers as seen by the workers, including the first role of each server.",
        value=sums[layout.server_changes],
    )


def gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"counterfoil_{name}", help_text, value=value)


def gauges(name: str, help_text: str, labels: list[str], values: Iterable[tuple[list[str], float]]) -> Metric:
    """Return a gauge with several values, each with its labels."""
    family = GaugeMetricFamily(f"counterfoil_{name}", help_text, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family


_BEFORE_ADMISSION = {problem.code for problem in TABLE if problem.stage is Stage.BEFORE_ADMISSION}


def _count_verdict(verdicts: dict[str, int], error: str, count: int) -> None:
    if error in ("rate_limited", "quota_exceeded"):
        verdicts[error] += count
    elif error not in _BEFORE_ADMISSION:
        verdicts["admitted"] += count


def _add_latency(latency: HistogramMetricFamily, layout: Layout, sums: list[int], route: str) -> None:
    first = layout.bucket(route, 0)
    cumulative, buckets = 0, []
    for offset, bound in enumerate((*BUCKETS_US, None)):
        cumulative += sums[first + offset]
        buckets.append(("+Inf" if bound is None else str(bound / 1e6), float(cumulative)))
    latency.add_metric([route], buckets, sums[layout.took(route)] / 1e6)
