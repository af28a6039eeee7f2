"""Generated requests are reproducible, and no well-formed request is too large for the HTTP server."""

from hostile.checker import Document
from hostile.mutations import Generator, Stock

DOCUMENT = Document(b'{"servers":[{"url":"/ext"}],"paths":{"/v1/shops":{}}}')
STOCK = Stock(["cf_live_a"], ["cf_live_b"], ["sh"], ["b1"], ["mb"], ["m1_x"], ["mark"], ["cursor"], ["cursor"])
# With seed 7, the requests with these numbers combine a long target, a long key and long headers.
LONG = (162_676, 181_235, 384_061, 432_220, 499_886, 506_306, 594_111)


def test_the_same_seed_and_number_give_the_same_request() -> None:
    first, second = (Generator(7, STOCK, DOCUMENT) for _ in range(2))
    assert [first.case(number) for number in range(100)] == [second.case(number) for number in reversed(range(100))][
        ::-1
    ]
    assert first.case(1) != Generator(8, STOCK, DOCUMENT).case(1)


def test_no_well_formed_request_is_larger_than_the_server_accepts() -> None:
    generator = Generator(7, STOCK, DOCUMENT)
    cases = [generator.case(number) for number in (*range(20_000), *LONG)]
    sizes = [len(case.data) for case in cases if not case.broken]
    assert 50_000 < max(sizes) < 64 * 1024
