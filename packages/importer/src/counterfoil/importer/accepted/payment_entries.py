"""The entries of a mapping that say how a bill was paid."""

from typing import Any

from counterfoil.importer.columns import ExportTable, TableColumn
from counterfoil.importer.solver import ExportReading
from counterfoil.importer.sums.amount_columns import ROW
from counterfoil.importer.sums.amounts import PAYMENT_AMOUNTS
from counterfoil.importer.sums.series import BILL


def payments_of(reading: ExportReading) -> list[dict[str, Any]]:
    """Return the entries of each payment: of a file, of each way of paying, or of the column with the method."""
    if reading.payments is not None:
        return [_payment_of_file(reading, reading.payments)]
    bills, amounts, net = reading.bills, reading.amounts, reading.net
    equal = [payment for payment in amounts.payments() if amounts.equals(payment, net)]
    received = next((payment for payment in equal if len(payment.columns) > 1), None)
    change = bills.ranks.first("change") if received else None
    ways = [column for column in bills.ranks.with_role("wayOfPaying") if column.filled]
    if ways and equal:
        return _payment_per_way(reading, ways, change)
    method = next((column for column in bills.ranks.with_role("method") if column.filled), None)
    if method is None:
        return []
    if not bills.is_of_bill(method):
        return _payment_per_row(reading, method)
    has_several_rows = any(len(rows) > 1 for rows in bills.rows)
    if net.level == BILL and has_several_rows and not bills.is_flat:
        # Each row has a payment, of which only the way is known.
        return [{"name": method.name}]
    if received and change:
        cells = [amounts.cell(bills.table, name) for name in (received.columns[0], change.name)]
        return [{"name": method.name, "amount": cells[0], "change": cells[1]}]
    return [{"name": method.name, "amount": net.cell}]


def _payment_per_way(
    reading: ExportReading, ways: list[TableColumn], change: TableColumn | None
) -> list[dict[str, Any]]:
    """Return a payment for each column of a way of paying. The first one has the change."""
    amounts, table = reading.amounts, reading.bills.table
    payments: list[dict[str, Any]] = []
    for column in ways:
        cell = amounts.cell(table, column.name)
        payments.append({"name": {"constant": column.name}, "amount": cell})
    if change:
        payments[0]["change"] = amounts.cell(table, change.name)
    return payments


def _payment_per_row(reading: ExportReading, method: TableColumn) -> list[dict[str, Any]]:
    bills = reading.bills
    if reading.net.level == ROW:
        return [{"name": method.name, "amount": reading.net.cell["sum"]}]
    if bills.is_flat:
        return []
    payment: dict[str, Any] = {"name": method.name}
    paid = bills.ranks.with_role(*PAYMENT_AMOUNTS)
    varying = [column for column in paid if not bills.is_of_bill(column)]
    if varying:
        payment["amount"] = reading.amounts.cell(bills.table, varying[0].name)
        change = bills.ranks.first("change")
        if change:
            payment["change"] = reading.amounts.cell(bills.table, change.name)
    return [payment]


def _payment_of_file(reading: ExportReading, file: ExportTable) -> dict[str, Any]:
    ranks = reading.amounts.ranks(file)
    payment: dict[str, Any] = {}
    method = ranks.first("method")
    if method:
        payment["name"] = method.name
    amount = ranks.first(*PAYMENT_AMOUNTS)
    if amount:
        payment["amount"] = reading.amounts.cell(file, amount.name)
    change = ranks.first("change")
    if change:
        payment["change"] = reading.amounts.cell(file, change.name)
    states = reading.payment_states
    if states:
        payment["cancelled"] = {"column": states.column, "values": states.values}
    return payment
