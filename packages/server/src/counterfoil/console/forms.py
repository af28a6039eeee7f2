"""Renders the fields of forms, and parses the values that the operator entered."""

from collections.abc import Mapping

from counterfoil.console.display import template
from counterfoil.console.visit import Visit, number_in
from counterfoil.web.html import Attribute, Child, Html, element, markup

FORM_FIELD = "form"


class InvalidForm(Exception):
    """A field is missing or not valid. The message is shown to the operator."""


def token_field(visit: Visit) -> Html:
    """Return the hidden field because of which a form can be sent only once."""
    return element("input", type="hidden", name=FORM_FIELD, value=visit.sessions.new_form(visit.session))


def form(
    visit: Visit, action: str, *children: Child, button: str, is_dangerous: bool = False, id_: str, more: Child = None
) -> Html | None:
    """Return a form that can be sent only once, or None for readers. `more` are buttons and links after the button."""
    if not visit.is_operator:
        return None
    parts = {"token": token_field(visit), "children": children, "style": "danger" if is_dangerous else None}
    return template("form", visit.t, action=action, button=button, id_=id_, more=more, **parts)


def button_form(
    visit: Visit, action: str, button: str, label: str, values: Mapping[str, str] = {}, *, is_dangerous: bool = False
) -> Html | None:
    """Return a button that sends these values, or None for readers. It may be sent again, so it has no token."""
    if not visit.is_operator:
        return None
    hidden = [element("input", type="hidden", name=name, value=value) for name, value in values.items()]
    style = "danger" if is_dangerous else "plain"
    return template("button", visit.t, action=action, button=button, label=label, hidden=hidden, style=style)


def text_field(label: str, name: str, value: str = "", *, hint: str = "", **attributes: Attribute) -> Html:
    settings = {"type": "text", "autocomplete": "off", **attributes}
    return _field(label, name, hint, "input", value=value, **settings)


def _field(label: str, name: str, hint: str, control: str, *children: Child, **attributes: Attribute) -> Html:
    """Return a label, and an element of the kind `control` that is connected with its label and its hint."""
    identifier = f"field-{name}"
    hint_id = f"{identifier}-hint" if hint else None
    return element(
        "div",
        element("label", label, for_=identifier),
        element(control, *children, id=identifier, name=name, aria_describedby=hint_id, **attributes),
        element("p", hint, id=hint_id, class_="hint") if hint else None,
        class_="field",
    )


def select(
    label: str,
    name: str,
    groups: Mapping[str, Mapping[str, str]],
    chosen: str = "",
    *,
    hint: str = "",
    problem: Child = None,
) -> Html:
    """Return a drop-down list of values with their labels. `problem` is shown below the list, which gets the focus."""
    drawn = []
    for group, choices in groups.items():
        options = [element("option", text, value=value, selected=value == chosen) for value, text in choices.items()]
        if options:
            drawn.append(element("optgroup", options, label=group) if group else markup(options))
    invalid = "true" if problem else None
    drawn_field = _field(label, name, hint, "select", drawn, aria_invalid=invalid, autofocus=bool(problem))
    return markup(drawn_field, element("p", problem, class_="wrong", role="alert") if problem else None)


def whole_number(visit: Visit, name: str, most: int) -> int:
    """Return the number in this field of the form, which must be between 1 and `most`."""
    number = number_in(visit.request.form.get(name, "").strip().replace(",", ""), 0)
    if not 1 <= number <= most:
        raise InvalidForm(visit.t.gettext("A limit must be a whole number from 1 to %(most)s.", most=f"{most:,}"))
    return number
