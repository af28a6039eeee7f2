"""A POS database for tests: its tables, a mapping that reads them, and imports into a store."""

import json
from pathlib import Path
from typing import Any

from cli.command import Command

TABLES = (
    "CREATE TABLE bills (no INTEGER PRIMARY KEY, closed {time}, total NUMERIC(9,2), state VARCHAR(20), updated {time})",
    "CREATE TABLE bill_lines (bill_no INTEGER NOT NULL, name VARCHAR(40), qty NUMERIC(8,3), amount NUMERIC(12,2))",
    "CREATE TABLE bill_payments (bill_no INTEGER NOT NULL, method VARCHAR(20), amount NUMERIC(12,2))",
)
MAPPING = """
[shop]
id = "riverside"
timezone = "Asia/Bangkok"

[database]
bills = "SELECT no, closed, total, state, updated FROM bills WHERE state <> '100% open'"
lines = "SELECT bill_no, name, qty, amount FROM bill_lines;"
payments = "SELECT bill_no, method, amount FROM bill_payments"
watermark = "updated"
overlap = "10 minutes"

[bill]
id = "no"
closedAt = "closed"
amounts.net = "total"
void = { column = "state", values = { void = true, paid = false } }

[line]
key = "bill_no"
name = "name"
qty = "qty"
total = "amount"

[payment]
key = "bill_no"
name = "method"
amount = "amount"
"""


class PosImport:
    """Imports a database repeatedly with the same mapping, state file and store."""

    def __init__(self, folder: Path, url: str, mapping: str = MAPPING) -> None:
        self.command = Command(folder / "store")
        self.url = url
        self.state = folder / "state.json"
        self.mapping = folder / "mapping.toml"
        self.mapping.write_text(mapping, "utf-8")

    def run(self, *options: object, status: int = 0) -> Any:
        """Import and load once; return the parsed summary, which also counts the shop that every import writes."""
        arguments = ("--format", "database", "--url", self.url, "--mapping", self.mapping, "--state", self.state)
        told = self.command("import", *arguments, "--load", "--json", *options, status=status)
        return json.loads(told.stdout)

    def refused(self, *options: object) -> str:
        arguments = ("--format", "database", "--url", self.url, "--mapping", self.mapping, "--state", self.state)
        return str(self.command("import", *arguments, "--load", *options, status=1).output)


def bills_in(told: Any) -> int:
    """Return the number of bills that an import read."""
    return int(told["import"]["bills"])
