"""Renders the fields of forms, and parses the values that the operator entered."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from counterfoil.console.visit import Visit
from counterfoil.web.html import Child, Html, element, markup

FORM_FIELD = "form"
MAX_DIGITS = 18


class InvalidForm(Exception):
    """A field is missing or not valid. The message is shown to the operator."""


class FormChoice(Struct, frozen=True):
    value: str
    label: str


def form(visit: Visit, action: str, *children: Child, button: str, is_dangerous: bool = False, id_: str) -> Html:
    """Return a form that can be sent only once."""
    return element(
        "form",
        element("input", type="hidden", name=FORM_FIELD, value=visit.new_form()),
        *children,
        element("p", element("button", button, class_="danger" if is_dangerous else None), class_="buttons"),
        method="post",
        action=action,
        class_="stack card",
        id=id_,
    )


def text_field(
    label: str, name: str, value: str = "", *, hint: str = "", **attributes: str | int | bool | None
) -> Html:
    identifier = f"field-{name}"
    return element(
        "div",
        element("label", label, for_=identifier),
        element(
            "input",
            id=identifier,
            name=name,
            value=value,
            aria_describedby=f"{identifier}-hint" if hint else None,
            **{"type": "text", "autocomplete": "off", **attributes},
        ),
        element("p", hint, id=f"{identifier}-hint", class_="hint") if hint else None,
        class_="field",
    )


def number_field(label: str, name: str, value: int, most: int, hint: str = "") -> Html:
    return text_field(label, name, str(value), hint=hint, type="number", min=1, max=most, required=True)


def checkbox(label: str, name: str, *, checked: bool = False, required: bool = False) -> Html:
    identifier = f"field-{name}"
    return element(
        "div",
        element("input", id=identifier, name=name, type="checkbox", checked=checked, required=required),
        element("label", label, for_=identifier),
        class_="field check",
    )


def select(
    label: str, name: str, groups: Mapping[str, Sequence[FormChoice]], chosen: str = "", *, hint: str = ""
) -> Html:
    """Return a drop-down list. A group with an empty name has no heading, and an empty group is left out."""
    identifier = f"field-{name}"
    drawn = [
        element("optgroup", [_option(choice, chosen) for choice in choices], label=group)
        if group
        else markup([_option(choice, chosen) for choice in choices])
        for group, choices in groups.items()
        if choices
    ]
    return element(
        "div",
        element("label", label, for_=identifier),
        element("select", drawn, id=identifier, name=name, aria_describedby=f"{identifier}-hint" if hint else None),
        element("p", hint, id=f"{identifier}-hint", class_="hint") if hint else None,
        class_="field",
    )


def _option(choice: FormChoice, chosen: str) -> Html:
    return element("option", choice.label, value=choice.value, selected=choice.value == chosen)


def whole_number(visit: Visit, name: str, most: int) -> int:
    """Return the number in this field of the form, which must be between 1 and `most`."""
    text = visit.request.form.get(name, "").strip().replace(",", "")
    # A longer string is out of range anyway, and Python refuses to convert a very long string.
    is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
    if not is_number or not 1 <= int(text) <= most:
        raise InvalidForm(visit.t("form.number", most=f"{most:,}"))
    return int(text)
