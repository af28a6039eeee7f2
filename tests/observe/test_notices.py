"""Notifications: what is sent when a finding appears, gets worse or is resolved, to a receiver on this machine."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from counterfoil import settings
from counterfoil.checks.findings import Finding
from counterfoil.checks.local import notices
from counterfoil.checks.overview import Overview
from counterfoil.model.messages import Message
from counterfoil.model.text import counted
from counterfoil.observe import Event, ServiceChanged
from counterfoil.ports import StoreExtent
from counterfoil.program.http_connections import WATCH
from counterfoil.serving.notices import LONGEST_PAUSE, Notifier, Watch
from counterfoil.views.store import StoreValues
from notice_receiver import Receiver
from waiting import until

WELL = Finding("shops", "ok", Message("shops_usual", "All shops are open."), code="shops_usual")
DISK_WELL = Finding("disk", "ok", Message("disk_free", "There is space."), code="disk_free")
STORE_AWAY = Finding("store", "fail", Message("store_away", "The store cannot be read."), code="store_away")
DISK_LOW = Finding("disk", "warn", Message("disk_low", "The disk is nearly full."), code="disk_low")
DISK_FULL = Finding("disk", "fail", Message("disk_full", "The disk is full."), code="disk_full")
NOW = 1_767_225_600_000


def silent(count: int) -> Finding:
    message, advice = (
        Message("shops_silent", f"{counted(count, 'shop')} silent."),
        Message("shops_silent.advice", "Check their tills."),
    )
    return Finding("shops", "warn", message, advice, "shops_silent", ids=[f"sh_{number}" for number in range(count)])


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        yield server


class Told:
    """A notifier whose store is a folder of the test, and the events that it logged."""

    def __init__(self, folder: Path, **values: str) -> None:
        self.events: list[Event] = []
        self.settings = settings.load({"store": str(folder), **values}, environment={})
        self._notifier = Notifier(self.settings, self.events.append)

    def look(self, *findings: Finding, is_read: bool = True) -> None:
        extent = StoreExtent(size_bytes=1, schema="", software="") if is_read else None
        self._notifier.consider(Overview(NOW, findings, StoreValues(extent=extent)))

    def logged(self) -> list[str]:
        return [event.what for event in self.events if isinstance(event, ServiceChanged)]


def sent(receiver: Receiver) -> list[list[tuple[str, str]]]:
    """Return the change and the code of each finding, for each notification."""
    return [[(one["change"], one["code"]) for one in body["findings"]] for body in receiver.bodies()]


def test_a_finding_is_sent_when_it_appears_worsens_and_is_resolved(receiver: Receiver, tmp_path: Path) -> None:
    told = Told(tmp_path, notify_url=receiver.url)
    for findings in ([WELL], [silent(1)], [silent(1)], [silent(3)], [silent(2)], [silent(3)], [WELL]):
        told.look(*findings)
    changes = ["appeared", "worsened", "improved", "worsened", "resolved"]
    assert sent(receiver) == [[(change, "shops_silent")] for change in changes]
    first, last = receiver.bodies()[0], receiver.bodies()[-1]
    assert (first["status"], last["status"]) == ("warn", "ok")
    assert first["findings"][0] | {"text": ""} == {
        "change": "appeared",
        "code": "shops_silent",
        "severity": "warn",
        "text": "",
        "advice": "Check their tills.",
    }
    # Slack, ntfy and others show the text.
    assert "1 shop silent. Check their tills." in first["text"]


def test_another_shop_that_falls_silent_when_one_is_back_is_sent(receiver: Receiver, tmp_path: Path) -> None:
    told = Told(tmp_path, notify_url=receiver.url)
    told.look(replace(silent(1), ids=["sh_a"]))
    told.look(replace(silent(1), ids=["sh_b"]))
    assert sent(receiver)[1:] == [[("appeared", "shops_silent"), ("resolved", "shops_silent")]]


def test_what_a_check_that_could_not_run_found_before_is_not_resolved(receiver: Receiver, tmp_path: Path) -> None:
    told = Told(tmp_path, notify_url=receiver.url)
    told.look(silent(1), DISK_LOW, is_read=True)
    told.look(STORE_AWAY, DISK_WELL, is_read=False)
    Told(tmp_path, notify_url=receiver.url).look(DISK_WELL, is_read=True)
    assert sent(receiver) == [
        [("appeared", "shops_silent"), ("appeared", "disk_low")],
        [("appeared", "store_away"), ("resolved", "disk_low")],
        [("resolved", "store_away"), ("resolved", "shops_silent")],
    ]


# The first bytes of a response, of the response to a TLS handshake, and of something else.
@pytest.mark.parametrize(
    ("scheme", "head"),
    [("http", b"HTTP/1.1 204 "), ("https", b"\x16\x03\x03\x40\x00\x02"), ("http", b"garbage\r\n\r\n")],
    ids=["HTTP", "TLS", "garbage"],
)
def test_a_receiver_that_sends_its_response_byte_by_byte_is_given_up_and_nothing_of_it_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, head: bytes
) -> None:
    monkeypatch.setattr("counterfoil.serving.notices.POST_SEC", 0.2)

    def drip(listener: socket.socket) -> None:
        """Send bytes until the notifier ends the connection."""
        with listener.accept()[0] as connection, suppress(OSError):
            connection.recv(65_536)
            connection.sendall(head)
            pause = threading.Event()
            while not pause.wait(0.02):
                connection.sendall(b"0")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        receiver = threading.Thread(target=drip, args=(listener,), daemon=True)
        receiver.start()
        told = Told(tmp_path, notify_url=f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/")
        told.look(DISK_FULL)
        assert told.logged() == ["notify_failing"]
        receiver.join(20)
        assert not receiver.is_alive()
    until(lambda: not any(each.name == WATCH for each in threading.enumerate()), "no thread is left")


def test_a_receiver_that_refuses_is_a_finding_until_it_accepts(receiver: Receiver, tmp_path: Path) -> None:
    told = Told(tmp_path, notify_url=receiver.url)
    receiver.refusals = 1
    told.look(DISK_FULL)
    (found,) = notices(told.settings, NOW + 60_000)
    assert (found.status, found.code) == ("warn", "notify_failing")
    for _ in range(2):
        told.look(DISK_FULL, found)
    assert sent(receiver) == [[("appeared", "disk_full")]]
    assert list(notices(told.settings, NOW)) == []


def test_a_restart_remembers_what_is_not_accepted_while_its_address_is_set(receiver: Receiver, tmp_path: Path) -> None:
    receiver.refusals = 2
    told = Told(tmp_path, notify_url=receiver.url, heartbeat_url=receiver.url)
    told.look(silent(1))
    codes = ["heartbeat_failing", "notify_failing"]
    assert sorted(found.code for found in notices(told.settings, NOW)) == codes
    again = Told(tmp_path, heartbeat_url=receiver.url)
    assert [found.code for found in notices(again.settings, NOW)] == ["heartbeat_failing"]
    again.look(silent(1))
    assert list(notices(again.settings, NOW)) == []


def test_a_problem_that_becomes_another_of_the_same_check_gets_worse_or_is_replaced(
    receiver: Receiver, tmp_path: Path
) -> None:
    told = Told(tmp_path, notify_url=receiver.url)
    for findings in ([DISK_LOW, silent(1)], [silent(1), DISK_FULL], [DISK_LOW, silent(1)]):
        told.look(*findings)
    assert sent(receiver)[1:] == [[("worsened", "disk_full")], [("appeared", "disk_low"), ("resolved", "disk_full")]]


def test_a_restart_repeats_nothing_and_forgets_nothing(receiver: Receiver, tmp_path: Path) -> None:
    Told(tmp_path, notify_url=receiver.url).look(silent(2))
    Told(tmp_path, notify_url=receiver.url).look(silent(2))
    Told(tmp_path, notify_url=receiver.url).look(WELL)
    assert sent(receiver) == [[("appeared", "shops_silent")], [("resolved", "shops_silent")]]
    assert (tmp_path / "notices.json").stat().st_mode & 0o077 == 0


def test_what_could_not_be_sent_is_sent_later_with_growing_pauses(receiver: Receiver, tmp_path: Path) -> None:
    told = Told(tmp_path, notify_url=receiver.url)
    receiver.refusals = 3
    # It is sent at once, after one check, after two more, and after four more.
    refusals = []
    for _ in range(1 + 1 + 2 + 3):
        told.look(silent(1))
        refusals.append(receiver.refusals)
    assert refusals == [2, 1, 1, 0, 0, 0, 0]
    assert sent(receiver) == []
    told.look(silent(2), DISK_FULL)
    assert sent(receiver) == [[("appeared", "disk_full"), ("appeared", "shops_silent")]]
    assert told.logged() == ["notify_failing", "notify_recovered"]
    assert LONGEST_PAUSE * 60 == 1920


def test_neither_the_log_nor_the_file_contains_the_address_or_the_header(tmp_path: Path) -> None:
    told = Told(
        tmp_path, notify_url="http://127.0.0.1:9/hook?token=secret", notify_header="Authorization: Bearer secret"
    )
    told.look(silent(1))
    assert told.logged() == ["notify_failing"]
    assert "secret" not in repr(told.events)
    assert "secret" not in settings.display_value(settings.load({"notify_url": "http://a/secret"}), "notify_url")


def test_the_first_check_is_at_the_start_for_the_metrics_and_reports_nothing(
    receiver: Receiver, tmp_path: Path
) -> None:
    loaded = settings.load({"store": str(tmp_path), "notify_url": receiver.url}, environment={})
    events: list[Event] = []
    watch = Watch(
        loaded, lambda: Overview(1, [DISK_FULL], StoreValues()), Notifier(loaded, events.append), events.append
    )
    watch.start()
    until(lambda: watch.latest is not None, "the first check is done")
    watch.stop()
    watch.join(20)
    assert (sent(receiver), events) == ([], [])


def test_a_check_that_fails_does_not_end_the_watch(tmp_path: Path) -> None:
    looks: list[int] = []

    def look() -> Overview:
        looks.append(1)
        raise RuntimeError("private")

    loaded = replace(settings.load({"store": str(tmp_path)}, environment={}), notify_every_sec=0)
    events: list[Event] = []
    watch = Watch(loaded, look, Notifier(loaded, events.append), events.append)
    watch.start()
    try:
        until(lambda: len(looks) > 1, "it looks again")
    finally:
        watch.stop()
    assert "private" not in repr(events)


def test_a_template_and_a_header_serve_services_with_a_form_of_their_own(receiver: Receiver, tmp_path: Path) -> None:
    template = '{"to": "U1", "messages": [{"type": "text", "text": "{text}"}], "silent": false}'
    told = Told(
        tmp_path, notify_url=receiver.url, notify_template=template, notify_header="Authorization: Bearer channel-token"
    )
    told.look(DISK_FULL)
    ((_, headers, body),) = receiver.received
    assert headers["authorization"] == "Bearer channel-token"
    message = json.loads(body)
    assert (message["to"], message["silent"]) == ("U1", False)
    assert "The disk is full." in message["messages"][0]["text"]


def test_a_user_name_and_a_password_in_the_address_are_sent_as_a_header(receiver: Receiver, tmp_path: Path) -> None:
    told = Told(tmp_path, notify_url=receiver.url.replace("//", "//user:p%40ss@"), notify_header="Authorization: no")
    told.look(DISK_FULL)
    ((path, headers, _),) = receiver.received
    assert (path, headers["authorization"]) == ("/hook?token=secret", "Basic dXNlcjpwQHNz")


def test_a_heartbeat_is_sent_unless_something_fails(receiver: Receiver, tmp_path: Path) -> None:
    told = Told(tmp_path, heartbeat_url=receiver.url)
    told.look(WELL)
    told.look(silent(1))
    told.look(DISK_FULL)
    assert [body for _, _, body in receiver.received] == [b"", b""]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("notify_url", "ftp://example.com"),
        ("heartbeat_url", "example.com"),
        ("notify_header", "no colon"),
        ("notify_header", "A: b\r\nC: d"),
        ("notify_template", "{text}"),
        ("notify_template", '{"text": "nothing"}'),
    ],
)
def test_an_unusable_setting_is_refused_without_quoting_it(name: str, value: str) -> None:
    with pytest.raises(settings.SettingsError) as refused:
        settings.load({name: value}, environment={})
    assert value not in str(refused.value) or name == "notify_template"
