"""Orders are read from JSON files of every supported layout, wherever the text is split into chunks."""

import json
from pathlib import Path

import pytest

from counterfoil.importing.orders import JsonOrder, read_orders, split_orders
from counterfoil.importing.results import ImportFailed, Reason, RowProblem
from importing.exports import written

ORDERS = [
    {"id": "1", "name": 'a "quoted" {brace} [bracket] \\', "lines": [{"data": [{"id": "inner"}]}]},
    {"id": "2", "text": "ข้าวซอย\n", "price": 1.10},
    {"id": "3", "empty": {}, "list": []},
]
SHAPES = {
    "page": json.dumps({"meta": {"page": 1}, "data": ORDERS, "links": {"next": None}}),
    "indented page": json.dumps({"data": ORDERS, "meta": {"page": 1}}, indent=2),
    "list": json.dumps(ORDERS, indent=1),
    "lines": "\n".join(json.dumps(order) for order in ORDERS) + "\n",
    "pages on lines": "\n".join(json.dumps({"data": [order]}) for order in ORDERS),
    "single orders": "\n".join(json.dumps({"data": order}) for order in ORDERS),
}


def split(text: str, chunk: int = 65_536) -> list[tuple[int, str]]:
    """Return the orders in a text that arrives in chunks of this size, with their lines."""
    content = text.encode()
    chunks = (content[start : start + chunk] for start in range(0, len(content), chunk))
    return [(line, found.decode()) for line, found in split_orders(chunks, ("data",), "orders.json")]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64, 65_536])
def test_orders_are_found_in_every_shape_and_however_the_text_arrives(shape: str, chunk: int) -> None:
    found = split(SHAPES[shape], chunk)
    assert [json.loads(text) for _, text in found] == ORDERS


def test_an_order_is_reported_with_the_line_at_which_it_begins() -> None:
    found = split(SHAPES["indented page"])
    text = SHAPES["indented page"].splitlines()
    for line, order in found:
        assert text[line - 1].strip() == "{"
        assert json.loads(order)["id"] in text[line]


@pytest.mark.parametrize("page", ['{"data": [], "meta": {"a": [1, {"b": 2}]}}', "{ }"])
def test_an_empty_page_has_no_orders(page: str) -> None:
    assert list(split(page)) == []


def test_an_empty_element_of_a_list_is_returned_so_that_it_can_be_reported() -> None:
    assert list(split("[{}]")) == [(1, "{}")]


@pytest.mark.parametrize("text", ['{"id": 1}\n***\n{"id": 2}', '{"id": 1}}', "hello"])
def test_text_that_is_not_an_order_is_reported_and_never_skipped(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, text, "orders.json")
    found = list(read_orders(path, ("data",)))
    assert len([one for one in found if isinstance(one, RowProblem)]) == 1


def test_a_page_may_have_anything_before_and_after_its_lists(tmp_path: Path) -> None:
    padding = "x" * 1000
    text = json.dumps({"meta": {"data": [{"id": "no"}], "x": padding}, "data": ORDERS[:1], "y": padding, "data ": [1]})
    second = json.dumps({"y": [padding], "data": ORDERS[1:]})
    for chunk in (1, 64, 65_536):
        assert [json.loads(found) for _, found in split(text + "\n" + second, chunk)] == ORDERS


def test_deep_nesting_is_reported_in_a_sentence(tmp_path: Path) -> None:
    path = written(tmp_path, '{"id": ' + "[" * 200_000 + "]" * 200_000 + '}\n{"id": 2}', "orders.json")
    first, second = read_orders(path, ("data",))
    assert isinstance(first, RowProblem)
    assert (first.reason, first.detail) == (Reason.NOT_AN_ORDER, "is nested too deeply to be an order")
    assert isinstance(second, JsonOrder)


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b" \r\n"])
def test_an_empty_file_is_called_empty(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "orders.json"
    path.write_bytes(content)
    with pytest.raises(ImportFailed, match=r"orders\.json is empty"):
        list(read_orders(path, ("data",)))


@pytest.mark.parametrize("text", ['{"data": [{"id": 1}', '[{"id": 1}', '{"id": "', '{"id": 1}\n"'])
def test_incomplete_json_is_refused_and_never_skipped(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, text, "orders.json")
    with pytest.raises(ImportFailed, match=r"orders\.json"):
        list(read_orders(path, ("data",)))


def test_an_object_that_is_not_valid_json_is_reported_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, '{"id": 1}\n{"id": nope}\n{"id": 3}\n', "orders.json")
    first, second, third = read_orders(path, ("data",))
    assert isinstance(first, JsonOrder)
    assert isinstance(third, JsonOrder)
    assert isinstance(second, RowProblem)
    assert second.line == 2


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64, 65_536])
@pytest.mark.parametrize(
    ("before", "after"), [('{"data": ', ', "links": [1, {"next": null}]}'), ("", "")], ids=["page", "list"]
)
def test_an_element_of_an_order_list_that_is_not_an_object_is_found_with_its_line(
    before: str, after: str, chunk: int
) -> None:
    elements = ["12.5", '{"id": "1"}', '"a, {b}\\" [c]"', "null", '{"id": "2"}', "true", '""']
    text = before + "[" + ",\n".join(elements) + "]" + after
    found = split(text, chunk)
    assert list(found) == list(enumerate(elements, start=1))


def test_a_list_within_an_order_list_is_found_as_one_element() -> None:
    text = '{"data": [[{"id": 1}, 2],\n{"id": 3}, []]}'
    found = split(text)
    assert list(found) == [(1, '[{"id": 1}, 2]'), (2, '{"id": 3}'), (2, "[]")]


def test_an_element_that_is_not_an_object_is_reported_and_the_orders_next_to_it_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, '{"data": [{"id": 1},\nnull,\nnope,\n{"id": 2}]}', "orders.json")
    first, second, third, fourth = read_orders(path, ("data",))
    assert isinstance(first, JsonOrder)
    assert isinstance(fourth, JsonOrder)
    assert isinstance(second, RowProblem)
    assert isinstance(third, RowProblem)
    assert (second.file, second.line, second.detail) == ("orders.json", 2, "is not a JSON object")
    assert (third.file, third.line, third.reason) == ("orders.json", 3, Reason.NOT_AN_ORDER)
    assert third.detail.startswith("cannot be read as JSON: ")
