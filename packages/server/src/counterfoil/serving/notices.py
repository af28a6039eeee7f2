"""Tells the operator what changed: sends a POST when a finding appears, changes or is resolved.

The findings are those of `counterfoil status`. What was sent is remembered in a file, so that a restart repeats nothing
and forgets nothing. Changes that could not be sent are sent later, together with newer ones. A problem is resolved when
its check ran and did not find it, not when the check could not run.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from msgspec import MsgspecError, json
from msgspec.structs import replace

from counterfoil import observe
from counterfoil.checks.findings import SEVERITY, Finding, Status, worst_status
from counterfoil.checks.local import NOTICES, Known, SentNotices
from counterfoil.checks.overview import Overview
from counterfoil.machine.files import draft_of, make_folder, open_output
from counterfoil.model.calendar import iso_utc
from counterfoil.model.text import counted
from counterfoil.observe import Event, ServiceChanged
from counterfoil.program.http_connections import HttpConnections, NoResponse, basic_credentials
from counterfoil.settings import Settings

POST_SEC = 10.0
LONGEST_PAUSE = 32
PLACEHOLDER = "{text}"

Change = Literal["appeared", "worsened", "improved", "resolved"]


def current(findings: Iterable[Finding]) -> dict[str, Known]:
    """Return the problems by a name that stays while they last, without those of notifications, which are not sent."""
    problems: dict[str, Known] = {}
    for found in findings:
        if found.status != "ok" and found.check != "notices":
            name = f"{found.check} {found.subject or ''}".strip()
            name = f"{name} {found.code}" if name in problems else name
            texts = str(found.message), str(found.advice)
            problems[name] = Known(found.check, found.code, found.status, sorted(found.ids), *texts)
    return problems


def still_unknown(before: dict[str, Known], overview: Overview) -> dict[str, Known]:
    """Return the problems about which this overview says nothing, because their checks could not run."""
    if overview.is_complete:
        return {}
    # A check that found nothing wrong has run.
    well = {found.check for found in overview.findings if found.status == "ok"}
    return {name: known for name, known in before.items() if known.check not in well}


def changes(before: dict[str, Known], after: dict[str, Known]) -> list[tuple[Change, Known]]:
    """Return what changed between two sets of problems, the worst first."""
    found: list[tuple[Change, Known]] = []
    for name, problem in after.items():
        for change in _changes_of(before.get(name), problem):
            notified = before[name] if change == "resolved" else problem
            found.append((change, notified))
    for name, known in before.items():
        if name not in after:
            found.append(("resolved", known))

    def urgency(notice: tuple[Change, Known]) -> tuple[bool, int]:
        change, problem = notice
        return change == "resolved", SEVERITY.index(problem.severity)

    return sorted(found, key=urgency)


def _changes_of(known: Known | None, problem: Known) -> Iterator[Change]:
    if known is None:
        yield "appeared"
    elif SEVERITY.index(problem.severity) < SEVERITY.index(known.severity):
        yield "worsened"
    elif problem.code != known.code or (known.ids and problem.ids and not set(known.ids) & set(problem.ids)):
        yield "appeared"
        yield "resolved"
    elif set(problem.ids) - set(known.ids):
        yield "worsened"
    elif set(known.ids) - set(problem.ids):
        yield "improved"


def body_of(status: Status, at: int, notices: list[tuple[Change, Known]], template: str) -> bytes:
    """Return the body of a notification: our own JSON, or the template with the text in place of its placeholder."""
    words = {"appeared": "", "worsened": "Worse: ", "improved": "Partly resolved: ", "resolved": "Resolved: "}
    findings = []
    lines = [f"Counterfoil: {counted(len(notices), 'change')}, status {status}."]
    for change, known in notices:
        advice = "" if change == "resolved" else known.advice
        findings.append(
            {"change": change, "code": known.code, "severity": known.severity, "text": known.text, "advice": advice}
        )
        lines.append(f"{words[change]}{known.text} {advice}".rstrip())
    text = "\n".join(lines)
    if template:
        return template.replace(PLACEHOLDER, json.encode(text).decode()[1:-1]).encode()
    return json.encode({"status": status, "at": iso_utc(at), "text": text, "findings": findings})


class Notifier:
    """Sends notifications and heartbeats."""

    def __init__(self, settings: Settings, log: Callable[[Event], None]) -> None:
        self._settings = settings
        self._log = log
        self._file = settings.store / NOTICES
        sent = self._read()
        self._known = sent.problems
        urls = {"notify": settings.notify_url, "heartbeat": settings.heartbeat_url}
        self._failing = {what: since for what, since in sent.failing.items() if urls.get(what)}
        if self._failing != sent.failing:
            self._write()
        self._pause = 0
        self._skip = 0

    def consider(self, overview: Overview) -> None:
        """Send what has changed since the last notification that was received, and a heartbeat if nothing fails."""
        status = worst_status(overview.findings)
        if self._settings.heartbeat_url and status != "fail":
            self._send("heartbeat", overview.at, self._settings.heartbeat_url, b"")
        if not self._settings.notify_url:
            return
        if self._skip:
            self._skip -= 1
            return
        after = still_unknown(self._known, overview) | current(overview.findings)
        notices = changes(self._known, after)
        if not notices:
            self._remember(after)
            return
        body = body_of(status, overview.at, notices, self._settings.notify_template)
        if self._send("notify", overview.at, self._settings.notify_url, body):
            self._pause = 0
            self._remember(after)
        else:
            self._pause = min(LONGEST_PAUSE, max(1, 2 * self._pause))
            self._skip = self._pause - 1

    def _send(self, what: Literal["notify", "heartbeat"], at: int, url: str, body: bytes) -> bool:
        """Send a request. Log when it starts to fail and when it works again, without the address, which is secret."""
        header = self._settings.notify_header if what == "notify" else ""
        problem = post(url, body, header)
        trouble = observe.NOTIFY if what == "notify" else observe.HEARTBEAT
        if problem and what not in self._failing:
            self._failing[what] = at
            self._write()
            self._log(ServiceChanged(what=trouble.begins, detail=problem))
        elif not problem and what in self._failing:
            del self._failing[what]
            self._write()
            self._log(ServiceChanged(what=trouble.ends))
        return problem is None

    def _read(self) -> SentNotices:
        try:
            return json.decode(self._file.read_bytes(), type=SentNotices)
        except (OSError, MsgspecError):
            return SentNotices()

    def _remember(self, problems: dict[str, Known]) -> None:
        # A text may change every minute, because it says how long a problem has lasted.
        before, self._known = self._known, problems
        if _without_texts(before) != _without_texts(problems):
            self._write()

    def _write(self) -> None:
        try:
            make_folder(self._file.parent)
            with draft_of(self._file) as draft, open_output(draft, mode=0o600) as file:
                file.write(json.encode(SentNotices(self._known, self._failing)))
        except OSError as error:
            detail = f"{NOTICES} cannot be written, so a restart repeats notifications: {error.strerror}"
            self._log(ServiceChanged(what="notify_state_failing", detail=detail))


def _without_texts(problems: dict[str, Known]) -> dict[str, Known]:
    return {name: replace(known, text="") for name, known in problems.items()}


def post(url: str, body: bytes, header: str = "") -> str | None:
    """Send a POST with JSON. Return the problem, without the address, or None if the receiver accepted it."""
    headers = {"content-type": "application/json", "user-agent": "counterfoil"}
    name, _, value = header.partition(":")
    if name:
        headers[name.strip().lower()] = value.strip()
    http: HttpConnections | None = None
    try:
        parts = urlsplit(url)
        credentials = basic_credentials(parts)
        if credentials:
            headers["authorization"] = credentials
            url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        http = HttpConnections(url, POST_SEC, POST_SEC)
        # Redirects are not followed: the body and the header are meant for one address.
        with http.response("POST", url, headers, body) as response:
            is_accepted = 200 <= response.status < 300
            return None if is_accepted else f"the receiver responded with status {response.status}"
    except NoResponse as error:
        return f"no valid response: {error.kind}"
    except ValueError as error:
        return f"no valid response: {type(error).__name__}"
    finally:
        if http is not None:
            http.close()


class Watch(threading.Thread):
    """Checks the deployment once per `notify_every_sec`, for notifications and metrics."""

    def __init__(
        self, settings: Settings, look: Callable[[], Overview], notifier: Notifier, log: Callable[[Event], None]
    ) -> None:
        super().__init__(name="watch", daemon=True)
        self._every_sec = settings.notify_every_sec
        self._look = look
        self._log = log
        self._notifier = notifier
        self._end = threading.Event()
        self.stop = self._end.set
        self.latest: Overview | None = None

    def run(self) -> None:
        # The metrics need a first overview. It reports nothing, because the service is still starting.
        self._check(lambda _: None)
        while not self._end.wait(self._every_sec):
            self._check(self._notifier.consider)

    def _check(self, report: Callable[[Overview], None]) -> None:
        try:
            self.latest = self._look()
            report(self.latest)
        except Exception as error:  # noqa: BLE001 - the next check may succeed; the message may be private
            self._log(ServiceChanged(what="watch_failed", detail=type(error).__name__))
