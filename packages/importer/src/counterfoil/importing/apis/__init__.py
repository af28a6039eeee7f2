"""The APIs whose orders can be converted, a module each."""

from counterfoil.importing.api_orders import ApiOrder
from counterfoil.importing.apis.clover import CloverOrder
from counterfoil.importing.apis.foodics import FoodicsOrder
from counterfoil.importing.apis.loyverse import LoyverseReceipt
from counterfoil.importing.apis.square import SquareOrder

APIS: dict[str, type[ApiOrder]] = {
    "clover": CloverOrder,
    "foodics": FoodicsOrder,
    "loyverse": LoyverseReceipt,
    "square": SquareOrder,
}
"""The orders of each API, by the name of its format."""
