"""Renders the console's templates, and has the functions and filters that they can use.

A template gets the view of its page, the visit, and the language `t`. Macros are imported `with context`, because their
texts depend on the language, and the age of a time on the visit.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import cache

from jinja2 import Environment, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from counterfoil.console import addresses, charts, tables
from counterfoil.console.audit_texts import act_name, change_texts, via_name
from counterfoil.console.display import (
    age,
    brand_and_branch,
    by_check,
    change,
    exact_money,
    exact_time,
    local_day,
    local_second,
    money,
    name_of,
    number,
    parts_of,
    percent,
    quantity,
)
from counterfoil.console.form_texts import form_text, import_text
from counterfoil.console.import_words import in_words_of_console
from counterfoil.console.imports import FILES_KEPT
from counterfoil.console.key_parts import shop_count
from counterfoil.console.texts import Language, Texts
from counterfoil.console.visit import Visit
from counterfoil.domain.access import permissions
from counterfoil.domain.activity import MISSING_BILLS
from counterfoil.domain.doubts import describe
from counterfoil.domain.loads import outcome_of
from counterfoil.domain.problems import what_to_do
from counterfoil.importer.form import Form
from counterfoil.importing.results import IMPORT_PREFIX, LOAD_REASONS
from counterfoil.importing.sentences import FormText
from counterfoil.ingest.lines import REASONS
from counterfoil.model.messages import NOTHING, Message, duration
from counterfoil.model.text import format_usual, printable, size
from counterfoil.program.columns import RowList
from counterfoil.views import copies
from counterfoil.views.loads import file_names
from counterfoil.web.prose import inline
from counterfoil.web.templates import compile_all, environment

_MEANINGS = REASONS | {reason: in_words_of_console(meaning) for reason, meaning in LOAD_REASONS.items()}


@cache
def templates() -> Environment:
    """Return the templates of the console, all of them compiled."""
    made = environment("counterfoil.console")
    made.globals.update(
        _=_gettext,
        ngettext=_ngettext,
        pgettext=_pgettext,
        act_name=act_name,
        age=_age,
        arrange=tables.arrange,
        bill_address=addresses.bill_address,
        change=change,
        change_texts=change_texts,
        files_kept=FILES_KEPT,
        import_prefix=IMPORT_PREFIX,
        outcome_of=outcome_of,
        copy_fresh_since=copies.FRESH_SINCE,
        copy_list=_copy_list,
        copy_state=copies.state,
        copy_states=copies.STATES,
        missing_bills=MISSING_BILLS,
        percent=percent,
        shop_address=addresses.shop_address,
        shop_count=_shop_count,
        via_name=via_name,
        what_to_do=what_to_do,
        bars_by_time=charts.bars_by_time,
        bars_of=charts.bars_of,
        draw_bars=charts.draw_bars,
        draw_spark=charts.draw_spark,
    )
    made.filters.update(
        brand_and_branch=brand_and_branch,
        by_check=by_check,
        describe=describe,
        file_names=file_names,
        is_of_import=lambda reject: reject.reason.startswith(IMPORT_PREFIX),
        meaning_of=lambda reason: _MEANINGS.get(reason, NOTHING),
        copy_notes=lambda row: list(copies.notes(row)),
        copy_summary=copies.summary,
        duration=duration,
        exact_money=exact_money,
        exact_time=exact_time,
        local_day=local_day,
        local_second=local_second,
        amount=_amount,
        local_text=_local_text,
        message=_message,
        of_form=_of_form,
        of_import=_of_import,
        money=money,
        name=name_of,
        number=number,
        parts=parts_of,
        permissions=permissions,
        printable=printable,
        quantity=quantity,
        size=size,
        usual=format_usual,
        weekday=_weekday,
        worst_copies=copies.worst_first,
    )
    compile_all(made)
    return made


def render(name: str, t: Texts, **values: object) -> Markup:
    """Return a template with these values."""
    return Markup(templates().get_template(f"{name}.html").render(t=t, **values))  # noqa: S704 - templates escape


def render_page(name: str, visit: Visit, view: object, **values: object) -> Markup:
    """Return the template of a page with its view."""
    return render(name, visit.t, visit=visit, view=view, **values)


def _amount(amount: Decimal | str) -> str:
    """Return an amount with separators of thousands. What is no number is shown as it is."""
    try:
        return f"{Decimal(amount):,f}"
    except InvalidOperation:
        return str(amount)


def _local_text(time: str) -> str:
    """Return a time such as `2026-11-14T18:05:00+07:00` as a person writes it."""
    return time[:16].replace("T", " ")


# Jinja2's own functions for translations take a fifth of the time of a page: they format every text.


@pass_context
def _gettext(context: Context, text: str, /, **values: object) -> Markup:
    return _filled(_translated(_texts(context).language, text), values)


@pass_context
def _ngettext(context: Context, one: str, many: str, number: int, /, **values: object) -> Markup:
    text = _texts(context).ngettext(one, many, number)
    return _filled(Markup(text), {"num": number, **values})  # noqa: S704 - texts of the console are its own


@pass_context
def _pgettext(context: Context, about: str, text: str, /, **values: object) -> Markup:
    text = _texts(context).pgettext(about, text)
    return _filled(Markup(text), values)  # noqa: S704 - texts of the console are its own


@cache
def _translated(language: Language, text: str) -> Markup:
    return Markup(Texts(language).gettext(text))  # noqa: S704 - texts of the console are its own


def _filled(text: Markup, values: Mapping[str, object]) -> Markup:
    """Return a text with its values, which are escaped. In a text with `%`, it is written as `%%`."""
    return text % values if "%" in text else text


def _texts(context: Context) -> Texts:
    texts: Texts = context["t"]
    return texts


@pass_context
def _message(context: Context, message: Message) -> Markup:
    """Return a message in the reader's language."""
    return inline(_texts(context).message(message))


@pass_context
def _of_form(context: Context, text: str, form: Form | None) -> Markup:
    """Return a text of a form in the reader's language."""
    return form_text(_texts(context), form, text)


@pass_context
def _of_import(context: Context, text: str, texts: Iterable[FormText]) -> Markup:
    """Return a text of the importer in the reader's language."""
    return import_text(_texts(context), texts, text)


@pass_context
def _age(context: Context, time: int | datetime | None, past: str = "ago") -> str:
    return "" if time is None else age(_texts(context), time, context["visit"].now, past)


@pass_context
def _shop_count(context: Context, count: int) -> str:
    return shop_count(_texts(context), count)


@pass_context
def _weekday(context: Context, day: date) -> str:
    """Return the short name of a day's weekday."""
    return _texts(context).gettext("Mon Tue Wed Thu Fri Sat Sun").split()[day.weekday()]


def _copy_list(rows: Sequence[copies.CopyRow], now: int) -> RowList[copies.CopyRow]:
    return RowList(copies.columns(now), rows)
