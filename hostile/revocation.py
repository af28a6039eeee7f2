"""Keys are revoked while in use: no request that begins more than half a second later may succeed."""

import subprocess
import sys
import time

from msgspec import Struct, field

from hostile.callers import Call, Caller, ConcurrentCallers, pause
from hostile.checker import Checker
from hostile.targets import Attacked, Site, key_id

# No worker may accept a key later than this after its revocation. This is stricter than docs/run.md, which
# promises one second.
BOUND_SEC = 0.5
# Callers continue for this long after the revocation.
WATCHED_SEC = 1.0
EVERY_SEC = 0.02
MOST_FAULTS = 10


class Report(Struct):
    revocations: int = 0
    calls: int = 0
    latest_sec: float = 0.0
    # Requests that were answered with 503, because the keys could not be read in time. This happens on a busy machine.
    unavailable: int = 0
    faults: list[str] = field(default_factory=list)


def late(calls: list[Call], revoked_at: float, bound_sec: float = BOUND_SEC) -> list[str]:
    """Return the faults: late successes, early refusals, no refusal at all, and unexpected responses."""
    found = []
    for call in calls:
        after = call.began - revoked_at
        if call.status == 200 and after > bound_sec:
            found.append(f"200 for a request that began {after:.3f} s after the revocation")
        if call.status == 401 and call.error != "key_revoked":
            found.append(f"the revoked key was answered with {call.error}")
        if call.status == 401 and call.ended < revoked_at - 5:
            found.append("the key was refused before it was revoked")
        if call.status not in (200, 401) and not _unavailable(call):
            found.append(f"{call.status} {call.error} while the key was being revoked")
    first_refusal = min((call.ended for call in calls if call.status == 401), default=None)
    if first_refusal is None:
        found.append("the key was never refused")
    return found[:5]


def _unavailable(call: Call) -> bool:
    return (call.status, call.error) == (503, "auth_unavailable")


def run(
    site: Attacked, checker: Checker, *, total: int, callers: int = 4, at_once: int = 8, by_command: bool = False
) -> Report:
    """Revoke this many keys, a few at a time, while callers on every node use each of them."""
    report = Report()
    while report.revocations < total and len(report.faults) < MOST_FAULTS:
        keys = [site.issue("shop", "sh-0-1") for _ in range(min(at_once, total - report.revocations))]
        pause(BOUND_SEC + 0.1)
        ports = site.ports
        crowds = {
            key: [Caller(ports[number % len(ports)], key, "shops", checker=checker) for number in range(callers)]
            for key in keys
        }
        revoked_at: dict[str, float] = {}
        with ConcurrentCallers([caller for group in crowds.values() for caller in group], EVERY_SEC):
            pause(0.1)
            for key in keys:
                _revoke_by_command(site, key) if by_command else site.revoke(key)
                revoked_at[key] = time.monotonic()
            pause(WATCHED_SEC)
        for key, group in crowds.items():
            calls = [call for caller in group for call in caller.calls]
            late_by = [call.began - revoked_at[key] for call in calls if call.status == 200]
            report.calls += len(calls)
            report.unavailable += sum(map(_unavailable, calls))
            report.latest_sec = max([report.latest_sec, *late_by])
            report.faults += [fault for caller in group for fault in caller.faults] + late(calls, revoked_at[key])
        report.revocations += len(keys)
    return report


def _revoke_by_command(site: Attacked, key: str) -> None:
    assert isinstance(site, Site)
    command = [sys.executable, "-m", "counterfoil", "keys", "revoke", key_id(key), "--yes"]
    done = subprocess.run(
        command, env=site.office.environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
