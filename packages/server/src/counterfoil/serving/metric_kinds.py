"""The metrics of the admin listener, declared with their names, types, labels and help texts."""

from collections.abc import Mapping
from typing import Literal, TypeVar

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Labels = TypeVar("Labels", bound=str | tuple[str, ...])
_FAMILIES: dict[str, type[GaugeMetricFamily | CounterMetricFamily]] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
}


class MetricKind(Struct, frozen=True):
    """A metric without its values."""

    name: str
    help: str
    type: Literal["gauge", "counter", "histogram"] = "gauge"
    labels: tuple[str, ...] = ()

    def __call__(self, values: float | Mapping[Labels, float]) -> Metric:
        """Return the metric with one value, or with a value for each label or labels."""
        family = _FAMILIES[self.type](self.name, self.help, labels=self.labels)
        if not isinstance(values, Mapping):
            family.add_metric([], values)
            return family
        for labels, value in values.items():
            family.add_metric([labels] if isinstance(labels, str) else labels, value)
        return family


REQUESTS = MetricKind("counterfoil_requests", "Requests served.", type="counter", labels=("route", "status", "error"))
REQUEST_SECONDS = MetricKind(
    "counterfoil_request_seconds", "Time to serve a request.", type="histogram", labels=("route",)
)
SENT_BYTES = MetricKind(
    "counterfoil_sent_bytes", "Bytes sent in response bodies, after compression.", type="counter", labels=("route",)
)
ADMISSIONS = MetricKind(
    "counterfoil_admissions", "Requests with a valid key, by verdict.", type="counter", labels=("verdict",)
)
CRASHES = MetricKind("counterfoil_crashes", "Requests that failed with an unexpected error.", type="counter")
STORE_FAILURES = MetricKind("counterfoil_store_failures", "Store reads or writes that failed.", type="counter")
COUNTS_RESEEDED = MetricKind(
    "counterfoil_counts_reseeded",
    "Daily counts that the shared meter lost and restored from the store. Each may lack up to 1 s of requests.",
    type="counter",
)
SERVER_CHANGES = MetricKind(
    "counterfoil_server_changes",
    "Role changes of the store's servers as seen by the workers, including the first role of each server.",
    type="counter",
)
BUILD_INFO = MetricKind(
    "counterfoil_build_info",
    "Always 1. The labels are the versions of the package and of the API.",
    labels=("version", "api_version"),
)
READY = MetricKind("counterfoil_ready", "1 if this check passes, 0 if it does not.", labels=("check",))
WAL_BYTES = MetricKind("counterfoil_wal_bytes", "Size of the write-ahead log of each database.", labels=("database",))
KEYS_AT_QUOTA = MetricKind(
    "counterfoil_keys_at_quota",
    "Active keys that have used at least this percentage of today's quota (Thailand time).",
    labels=("percent",),
)
OPEN_ITEMS = MetricKind(
    "counterfoil_open_items",
    "Loads with rejected lines that wait (rejects), files in quarantine (quarantined), exports that need answers "
    "(needs_answers), held files (held), unfinished loads (unfinished), and files that were accepted in the console "
    "and not loaded (not_begun).",
    labels=("kind",),
)
OPEN_ITEMS_OLDEST_SECONDS = MetricKind(
    "counterfoil_open_items_oldest_seconds", "How long the oldest open item has waited, or 0 if there is none."
)
LOAD_ALARMS = MetricKind(
    "counterfoil_load_alarms",
    "Sudden changes in the loaded records that have not been accepted yet, by measure.",
    labels=("measure",),
)
SHOPS_SILENT = MetricKind(
    "counterfoil_shops_silent", "Shops without a bill for a period in which they usually have several."
)
COPIES_BEHIND = MetricKind(
    "counterfoil_copies_behind", "Copies of integrators that were not brought up to date within the last 26 hours."
)
NOTICES_FAILING = MetricKind(
    "counterfoil_notices_failing", "How many of notifications and heartbeats are not accepted by their receivers."
)
BACKUP_AGE_SECONDS = MetricKind(
    "counterfoil_backup_age_seconds", "Seconds since the latest backup of the store was made."
)
WATCHED_FOLDER_HEARTBEAT_AGE_SECONDS = MetricKind(
    "counterfoil_watched_folder_heartbeat_age_seconds",
    "Seconds since the watcher of a folder last reported to the store.",
    labels=("folder",),
)
WATCHED_FOLDER_DELIVERY_AGE_SECONDS = MetricKind(
    "counterfoil_watched_folder_delivery_age_seconds",
    "Seconds since a file was last delivered to a watched folder.",
    labels=("folder",),
)
WATCHED_FOLDER_SILENT = MetricKind(
    "counterfoil_watched_folder_silent",
    "1 if nothing has been delivered to a watched folder for silent_folder_min minutes, otherwise 0.",
    labels=("folder",),
)
WATCHED_FOLDER_STUCK = MetricKind(
    "counterfoil_watched_folder_stuck",
    "1 if something that was delivered to a watched folder cannot be taken, otherwise 0.",
    labels=("folder",),
)
WATCHED_FOLDER_QUARANTINED_FILES = MetricKind(
    "counterfoil_watched_folder_quarantined_files",
    "Number of files that were moved from a watched folder to quarantine.",
    labels=("folder",),
)
SERVER_UP = MetricKind(
    "counterfoil_server_up", "1 if this server of the store responds, 0 if it does not.", labels=("server", "role")
)
SERVER_LAG_SECONDS = MetricKind(
    "counterfoil_server_lag_seconds", "Seconds that a server is behind the most up-to-date server.", labels=("server",)
)
HORIZON_AGE_SECONDS = MetricKind("counterfoil_horizon_age_seconds", "Seconds that serverTime is behind the clock.")
STORE_BYTES = MetricKind("counterfoil_store_bytes", "Size of the store on disk.")
DISK_FREE_BYTES = MetricKind("counterfoil_disk_free_bytes", "Free bytes on the disk of the store.")
ACTIVE_KEYS = MetricKind("counterfoil_active_keys", "Keys that are not revoked.")
LOAD_RUNNING = MetricKind("counterfoil_load_running", "1 while the latest load has not finished.")
LOAD_LINES = MetricKind("counterfoil_load_lines", "Lines read by the latest load.")
LOAD_CHANGED = MetricKind("counterfoil_load_changed", "Records that the latest load added, changed or removed.")
LOAD_REJECTED = MetricKind("counterfoil_load_rejected", "Lines that the latest load rejected.")
LOAD_IDLE_SECONDS = MetricKind("counterfoil_load_idle_seconds", "Time since the latest load last wrote a batch.")
METRICS = tuple(value for value in list(globals().values()) if isinstance(value, MetricKind))
