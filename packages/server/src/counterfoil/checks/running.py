"""Whether the service runs: what its admin listener says, and whether the horizon advances."""

import http.client
from collections.abc import Callable, Iterator
from datetime import UTC
from typing import Literal

from msgspec import DecodeError, Struct, field, json, structs

from counterfoil import bootstrap
from counterfoil.checks.findings import Finding, FindingKind
from counterfoil.machine.addresses import STORE_HEADER, reachable_host
from counterfoil.model.calendar import from_ms
from counterfoil.model.messages import Message, duration, quoted
from counterfoil.settings import Settings

# "ahead" means that the horizon is ahead of the clock, so it is unknown whether the horizon is moving.
HorizonMotion = Literal["moving", "still", "ahead"]
READY_SEC = 5.0
MOVING_MS = 5_000
CLOCK_BEHIND_MS = 2_000


class Ready(Struct, frozen=True, rename="camel"):
    ready: bool
    not_ready: dict[str, str] = field(default_factory=dict)
    # The address of the API: the service may have another port than these settings. Earlier versions do not say it.
    address: str = ""
    # The ID of the store, from a header; None if the service does not say which store it serves.
    store_id: str | None = None


# Returns what the service answered when it was asked whether it is ready, or why it did not.
Asking = Callable[[], Ready | Message]


NOTHING_SERVED = FindingKind(
    code="nothing_served",
    check="service",
    status="warn",
    text="Nothing has been loaded into this store or served from it yet.",
    advice="Run `counterfoil serve` to start the service.",
)
SERVICE_NOT_NEEDED = FindingKind(
    code="service_not_needed",
    check="service",
    status="warn",
    text="The service is not running, and no key has been issued yet that could read from it.",
    advice="Run `counterfoil serve` to start the service.",
)
CHECK_NTP = Message("check_ntp", "Check the clock against NTP.")
SERVICE_UNDECIDED = FindingKind(
    code="service_undecided",
    check="service",
    status="warn",
    text="The horizon is ahead of the clock, so it does not show whether the service is running.",
    advice=CHECK_NTP,
)
HORIZON_MOVING = FindingKind(
    code="horizon_moving",
    check="service",
    status="ok",
    text="The horizon is moving. The admin listener is off, so nothing else about the service was checked.",
)
SERVE_OR_LOG = Message("serve_or_log", "Run `counterfoil serve`, or check its log.")
HORIZON_STILL = FindingKind(
    code="horizon_still", check="service", status="fail", text="The horizon is not moving.", advice=SERVE_OR_LOG
)
SERVICE_SILENT = FindingKind(
    code="service_silent",
    check="service",
    status="fail",
    text="No service responds at {address} ({reason}).",
    advice="Run `counterfoil serve`, or check admin_host and admin_port.",
)
OTHER_STORE = FindingKind(
    code="other_store",
    check="service",
    status="fail",
    text="The service at {address} serves another store.",
    advice="Check --store and admin_port. Each service on a machine needs its own admin_port.",
)
SERVICE_NOT_READY = FindingKind(
    code="service_not_ready",
    check="service",
    status="fail",
    text="The service is running but not ready: {reasons}",
    advice="Check its log.",
)
SERVICE_UNVERIFIED = FindingKind(
    code="service_unverified",
    check="service",
    status="warn",
    text="A service is ready at {address}, but it is unknown whether it serves this store.",
    advice="Fix what else was found about this store, then run this again.",
)
SERVICE_ELSEWHERE = FindingKind(
    code="service_elsewhere",
    check="service",
    status="fail",
    text="A service is ready at {address}, but it does not serve this store: the horizon of this store is not moving.",
    advice="Check --store and admin_port. If this store is a copy or was restored, start a service for it.",
)
SERVICE_READY = FindingKind(
    code="service_ready", check="service", status="ok", text="The service is ready at {address}."
)


def service_finding(
    settings: Settings, horizon: int | None, now: int, *, is_new: bool = False, ask: Asking | None = None
) -> Finding:
    """Ask the admin listener, or look at the horizon if it is off. `is_new`: nothing was ever loaded or served."""
    if not settings.admin_port:
        if is_new:
            return NOTHING_SERVED()
        motion = horizon_motion(horizon, now)
        return {"ahead": SERVICE_UNDECIDED, "moving": HORIZON_MOVING, "still": HORIZON_STILL}[motion]()
    address = f"{settings.admin_host}:{settings.admin_port}"
    answer = ask() if ask else ask_ready(settings)
    if isinstance(answer, Message):
        silent = SERVICE_SILENT(address=address, reason=answer)
        return NOTHING_SERVED() if is_new else silent
    store_id = bootstrap.store(settings).reads().store_id()
    if answer.store_id and store_id and answer.store_id != store_id:
        return OTHER_STORE(address=address)
    if not answer.ready:
        reasons = "; ".join(f"{name}: {problem}" for name, problem in answer.not_ready.items())
        return SERVICE_NOT_READY(reasons=reasons)
    motion = horizon_motion(horizon, now)
    if motion == "ahead" or (answer.store_id and not store_id):
        return SERVICE_UNVERIFIED(address=address)
    # A service that is ready moves the horizon of its store.
    if motion == "still":
        return SERVICE_ELSEWHERE(address=address)
    return SERVICE_READY(address=answer.address or f"{settings.host}:{settings.port}")


def ask_ready(settings: Settings, timeout_sec: float = READY_SEC) -> Ready | Message:
    host = reachable_host(settings.admin_host)
    connection = http.client.HTTPConnection(host, settings.admin_port, timeout=timeout_sec)
    try:
        connection.request("GET", "/ready")
        response = connection.getresponse()
        answer = json.decode(response.read(), type=Ready)
        return structs.replace(answer, store_id=response.getheader(STORE_HEADER))
    except (OSError, http.client.HTTPException, DecodeError) as error:
        return why_no_answer(error)
    finally:
        connection.close()


CONNECTION_REFUSED = Message("connection_refused", "connection refused")
TIMED_OUT = Message("timed_out", "timed out")
ANOTHER_PROGRAM = Message("another_program", "another program is using this port")


def why_no_answer(error: Exception) -> Message:
    if isinstance(error, ConnectionRefusedError):
        return CONNECTION_REFUSED
    if isinstance(error, TimeoutError):
        return TIMED_OUT
    if isinstance(error, OSError):
        return quoted((error.strerror or type(error).__name__).lower())
    return ANOTHER_PROGRAM


def horizon_motion(horizon: int | None, now: int) -> HorizonMotion:
    if horizon is None or now - horizon >= MOVING_MS:
        return "still"
    return "ahead" if horizon - now > CLOCK_BEHIND_MS else "moving"


def horizon_as_of(now: int, horizon: int, elapsed_ms: int) -> int:
    """Return the horizon without the time by which a service can have advanced it since `now`."""
    ahead = horizon - now
    return horizon - min(ahead, elapsed_ms) if ahead > 0 else horizon


HORIZON_AHEAD = FindingKind(
    code="horizon_ahead", check="horizon", status="warn", text="{time} is {span} ahead of the clock.", advice=CHECK_NTP
)
HORIZON_OLD = FindingKind(
    code="horizon_old",
    check="horizon",
    status="fail",
    text="{time}, {span} old: `serverTime` is not advancing.",
    advice=SERVE_OR_LOG,
)
HORIZON_AGE = FindingKind(code="horizon_age", check="horizon", status="ok", text="{time}, {seconds} s old.")


def horizon_findings(horizon: int | None, now: int, max_age_ms: int = MOVING_MS) -> Iterator[Finding]:
    """Check whether the horizon is advancing. Yield nothing for a store without a horizon."""
    if not horizon:
        return
    time, age = from_ms(horizon, UTC), now - horizon
    if age < -CLOCK_BEHIND_MS:
        yield HORIZON_AHEAD(time=time, span=duration(-age))
    elif age >= max_age_ms:
        yield HORIZON_OLD(since=time, time=time, span=duration(age))
    else:
        yield HORIZON_AGE(time=time, seconds=f"{max(0, age) / 1000:.1f}")
