"""How an accepted mapping is written."""

import tomllib

from counterfoil.importer.accepted.toml_text import TomlText

SHOPS = [{"id": "riverside", "name": "Riverside"}, {"id": "old-town", "name": 'Old "Town"'}]


def written(statuses: dict[str, str]) -> str:
    toml = TomlText("Accepted")
    toml.add("[answers]", "net", "Total")
    for number, shop in enumerate(SHOPS):
        for entry, value in shop.items():
            toml.add(f"[[shop]]#{number}", entry, value)
    toml.add("[bill]", "id", "No", "once a day")
    toml.add("[[status]]#Status", "column", "Status", "of the bill")
    toml.add("[[status]]#Status", "values", statuses)
    return toml.text()


def test_tables_are_written_in_lines_after_the_answers() -> None:
    assert written({"Paid": "sale"}) == (
        "# Accepted\n"
        'answers.net = "Total"\n'
        "shop = [\n"
        '  { id = "riverside", name = "Riverside" },\n'
        '  { id = "old-town", name = "Old \\"Town\\"" },\n'
        "]\n"
        "status = [\n"
        '  { column = "Status", values = { Paid = "sale" } },  # of the bill\n'
        "]\n\n"
        '[bill]\nid = "No"  # once a day\n'
    )


def test_a_long_table_has_a_line_for_each_entry() -> None:
    statuses = {f"Paid with card {number}": "sale" for number in range(20)}
    text = written(statuses)
    assert "[[status]]\n" in text
    assert '\n"Paid with card 19" = "sale"' in text
    assert tomllib.loads(text) == {
        "answers": {"net": "Total"},
        "shop": SHOPS,
        "bill": {"id": "No"},
        "status": [{"column": "Status", "values": statuses}],
    }
