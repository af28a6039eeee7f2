"""The body of an upload is read by the application, which first decides whether it wants it."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from counterfoil.machine import private_listener, uploaded_files
from counterfoil.machine.private_listener import (
    MAX_BODY,
    ListenerRequest,
    ListenerResponse,
    PrivateListener,
    UploadBody,
    UploadBroken,
)
from counterfoil.machine.uploaded_files import MAX_UPLOAD, UploadedForm, UploadRefused, receive, safe_name
from raw_http import parse, read_to_end
from waiting import until

PATIENCE_SEC = 30
BOUNDARY, OTHER = "boundary", "boundarX"
KIND = f"multipart/form-data; boundary={BOUNDARY}"


class Receiver:
    """Receives uploads into a folder, unless they come with the wrong word."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.received: list[UploadedForm] = []
        self.problems: list[str] = []

    def __call__(self, request: ListenerRequest) -> ListenerResponse:
        if request.upload is None:
            return ListenerResponse(200, [], b"no upload")
        if request.header("x-word") != "please":
            return ListenerResponse(403, [], b"not wanted")
        folder = self.folder / str(len(self.received) + len(self.problems))
        folder.mkdir()
        try:
            self.received.append(receive(request.upload, request.header("content-type"), folder))
        except UploadRefused as refused:
            self.problems.append(refused.problem)
            return ListenerResponse(400, [], refused.problem.encode())
        return ListenerResponse(200, [], b"received")


@pytest.fixture(autouse=True)
def short_discarding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close a refused upload soon: these clients send no more, and wait for the end of the connection."""
    monkeypatch.setattr(private_listener, "DISCARD_SEC", 0.2)


@pytest.fixture
def receiver(tmp_path: Path) -> Receiver:
    return Receiver(tmp_path)


@contextmanager
def listening(receiver: Receiver) -> Iterator[PrivateListener]:
    def refuse(status: int, _language: str) -> ListenerResponse:
        return ListenerResponse(status, [], b"refused")

    listener = PrivateListener("127.0.0.1", 0, receiver, refuse, upload_paths=frozenset({"/upload"}))
    listener.start()
    try:
        yield listener
    finally:
        listener.stop()


@pytest.fixture
def listener(receiver: Receiver) -> Iterator[PrivateListener]:
    with listening(receiver) as started:
        yield started


def part(content: bytes, name: str = "file", filename: str | None = "sales.csv") -> bytes:
    file = f'; filename="{filename}"' if filename is not None else ""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'
    return head.encode() + content + b"\r\n"


END = f"--{BOUNDARY}--\r\n".encode()


def head_of(length: int, word: str = "please", more: str = "") -> bytes:
    lines = f"POST /upload HTTP/1.1\r\nHost: x\r\nX-Word: {word}\r\nContent-Type: {KIND}\r\n{more}"
    return f"{lines}Content-Length: {length}\r\n\r\n".encode()


def connect(listener: PrivateListener) -> socket.socket:
    return socket.create_connection(("127.0.0.1", listener.port), PATIENCE_SEC)


def answer(listener: PrivateListener, sent: bytes) -> tuple[int, bytes]:
    with connect(listener) as connection:
        connection.sendall(sent)
        found = parse(read_to_end(connection))
        return found.status, found.body


def test_files_and_fields_of_an_upload_arrive_as_they_were_sent(listener: PrivateListener, receiver: Receiver) -> None:
    large = os.urandom(3 * MAX_BODY) + f"\r\n--{OTHER}".encode()
    body = part(large) + part(b"", "empty") + part(b"", filename="") + part(b"7", "item", None) + END
    assert answer(listener, head_of(len(body)) + body) == (200, b"received")
    (form,) = receiver.received
    assert [file.path.read_bytes() for file in form.files] == [large, b""]
    assert [(file.name, file.size) for file in form.files] == [("sales.csv", len(large)), ("sales.csv", 0)]
    assert form.fields == {"item": "7"}
    assert {oct(file.path.stat().st_mode & 0o777) for file in form.files} == {"0o600"}
    assert {oct(file.path.parent.stat().st_mode & 0o777) for file in form.files} == {"0o700"}


def test_an_upload_that_is_not_wanted_is_answered_before_its_body_has_come(
    listener: PrivateListener, receiver: Receiver
) -> None:
    with connect(listener) as connection:
        # Nothing of the body is sent, and the answer comes nevertheless.
        connection.sendall(head_of(MAX_UPLOAD, word="now"))
        assert b" 403 " in connection.recv(100)
    assert list(receiver.folder.iterdir()) == []


def test_a_client_that_waits_for_permission_gets_it_only_if_its_upload_is_wanted(
    listener: PrivateListener, receiver: Receiver
) -> None:
    body = part(b"a,b\n") + END
    expects = "Expect: 100-continue\r\n"
    with connect(listener) as connection:
        connection.sendall(head_of(len(body), more=expects))
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert parse(read_to_end(connection)).status == 200
    assert len(receiver.received) == 1
    status, _ = answer(listener, head_of(len(body), word="now", more=expects))
    assert status == 403


@pytest.mark.parametrize(
    ("length", "body", "problem"),
    [
        (MAX_UPLOAD * 2, b"", "too_large"),
        (len(part(b"x")), part(b"x"), "malformed"),
        (4, b"junk", "malformed"),
        (len(part(b"x") * 13 + END), part(b"x") * 13 + END, "too_many_files"),
        (len(part(b"x" * 5_000, "item", None) + END), part(b"x" * 5_000, "item", None) + END, "malformed"),
    ],
)
def test_an_upload_that_cannot_be_taken_is_refused_with_the_reason(
    listener: PrivateListener, length: int, body: bytes, problem: str
) -> None:
    assert answer(listener, head_of(length) + body) == (400, problem.encode())


def test_an_upload_without_a_length_is_refused(listener: PrivateListener) -> None:
    head = f"POST /upload HTTP/1.1\r\nHost: x\r\nX-Word: please\r\nContent-Type: {KIND}\r\n"
    chunked = f"{head}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".encode()
    assert answer(listener, chunked) == (400, b"length")


def test_a_connection_that_is_cut_ends_the_upload(listener: PrivateListener, receiver: Receiver) -> None:
    with connect(listener) as connection:
        connection.sendall(head_of(1_000_000) + part(b"x" * 1_000))
    until(lambda: receiver.problems == ["broken"], "the upload has ended")


def test_a_full_disk_is_said_before_anything_is_written(
    listener: PrivateListener, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploaded_files, "FREE_BYTES", 1 << 60)
    body = part(b"a,b\n") + END
    assert answer(listener, head_of(len(body)) + body) == (400, b"disk_full")


def test_other_paths_and_methods_keep_the_limit_of_a_form(listener: PrivateListener) -> None:
    large = b"x" * (MAX_BODY + 1)
    head = f"HTTP/1.1\r\nHost: x\r\nContent-Length: {len(large)}\r\n\r\n".encode()
    assert answer(listener, b"POST /other " + head + large)[0] == 413
    assert answer(listener, b"PUT /upload " + head + large)[0] == 413
    assert answer(listener, b"GET /upload HTTP/1.1\r\nHost: x\r\n\r\n") == (200, b"no upload")


def test_a_client_that_pauses_for_too_long_is_given_up() -> None:
    ours, theirs = socket.socketpair()
    with closing(ours), closing(theirs):
        theirs.sendall(b"be")
        body = UploadBody(ours, b"", 10, awaits_continue=False)
        chunks = body.chunks(pause_sec=0.05)
        assert next(chunks) == b"be"
        with pytest.raises(UploadBroken):
            next(chunks)


def test_a_slow_client_is_given_up_in_the_end() -> None:
    ours, theirs = socket.socketpair()
    stop = threading.Event()

    def drip() -> None:
        while not stop.wait(0.01):
            theirs.send(b"x")

    thread = threading.Thread(target=drip)
    with closing(ours), closing(theirs):
        thread.start()
        try:
            with pytest.raises(UploadBroken):
                list(UploadBody(ours, b"", 10_000, awaits_continue=False).chunks(seconds=0.2))
        finally:
            stop.set()
            thread.join()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("sales.csv", "sales.csv"),
        ("C:\\Users\\a\\sales 2026.xlsx", "sales 2026.xlsx"),
        ("../../etc/passwd", "passwd"),
        ("..", "file."),
        (".hidden.csv", "hidden.csv"),
        ("ยอดขาย.csv", "ยอดขาย.csv"),
        ("x" * 500 + ".csv", "x" * 116 + ".csv"),
        ("a\x00b\n.csv", "a_x00b_n.csv"),
    ],
)
def test_the_name_of_an_uploaded_file_is_safe_and_keeps_its_ending(given: str, kept: str) -> None:
    assert safe_name(given) == kept
