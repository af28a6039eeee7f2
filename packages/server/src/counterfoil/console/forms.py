"""Parses the values that the operator entered in a form."""

from counterfoil.console.visit import Visit, number_in

FORM_FIELD = "form"


class InvalidForm(Exception):
    """A field is missing or not valid. The message is shown to the operator."""


def whole_number(visit: Visit, name: str, most: int) -> int:
    """Return the number in this field of the form, which must be between 1 and `most`."""
    number = number_in(visit.request.form.get(name, "").strip().replace(",", ""), 0)
    if not 1 <= number <= most:
        raise InvalidForm(visit.t.gettext("A limit must be a whole number from 1 to %(most)s.", most=f"{most:,}"))
    return number
