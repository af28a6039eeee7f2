"""The tests read complete replies from their own Valkey server, so that a search of the stored data misses nothing."""

from collections.abc import Iterator

import pytest

from servers import Valkey

KEYS = 5_000


@pytest.fixture(scope="module")
def server() -> Iterator[Valkey]:
    server = Valkey()
    yield server
    server.remove()


def test_a_reply_that_is_longer_than_one_read_is_complete(server: Valkey) -> None:
    fill = f"for n = 1, {KEYS} do server.call('SET', 'name-' .. n .. string.rep('x', 40), n) end"
    assert server.command(f'EVAL "{fill}" 0') == b"$-1"
    reply = server.everything("KEYS *")
    assert len(reply) > 65_536
    assert {name.rstrip(b"x") for name in reply.split() if name.startswith(b"name-")} == {
        b"name-%d" % number for number in range(1, KEYS + 1)
    }


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("PING", b"+PONG\r\n"),
        ("EXISTS nothing", b":0\r\n"),
        ("GET nothing", b"$-1\r\n"),
        ("KEYS nothing", b"*0\r\n"),
        ("EVAL 'return {1, {string.char(13, 10), 2}, 3}' 0", b"*3\r\n:1\r\n*2\r\n$2\r\n\r\n\r\n:2\r\n:3\r\n"),
    ],
)
def test_a_reply_of_any_type_is_read_to_its_end(server: Valkey, command: str, reply: bytes) -> None:
    assert server.everything(command) == reply
