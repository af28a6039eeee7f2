"""`counterfoil import` of an export that nobody has answered for: its form, and the mapping of the answers."""

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import click
from msgspec import DecodeError, Struct, ValidationError, convert, json, to_builtins
from msgspec.structs import replace

from counterfoil.cli.import_questions import Decision, ask_one, ask_questions
from counterfoil.cli.load_exports import ExportRequest
from counterfoil.conversions import conversion_limits, known_bases, known_shops
from counterfoil.importer.form import Form, Question
from counterfoil.importer.protocol import InputFile
from counterfoil.importer.shops.shop_questions import order_form
from counterfoil.ingest.conversion_process import UnknownOrder
from counterfoil.ingest.converted_exports import read_form
from counterfoil.model.text import counted
from counterfoil.program.main import FAILED
from counterfoil.program.process import stop_signals_as_interrupt
from counterfoil.program.terminal import echo, is_terminal, print_json, print_message, print_wrapped
from counterfoil.settings import Settings

NOT_ANSWERED = 7
"""The exit status if questions are open, or a person stopped. Nothing was written then."""


class Answered(Struct, frozen=True):
    """A complete form, and what is to be done with it."""

    form: Form
    decision: Decision


def may_ask(*, as_json: bool) -> bool:
    """Return whether a person can be asked: input and messages are terminals."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr) and not as_json


def read_answers(path: Path | None) -> dict[str, str]:
    """Return the answers of a TOML or JSON file, by the IDs of their questions."""
    if path is None:
        return {}
    text = path.read_bytes()
    try:
        content = json.decode(text) if text.lstrip()[:1] == b"{" else tomllib.loads(text.decode("utf-8-sig"))
        # A mapping has its answers in a section.
        found = content.get("answers", content)
        return convert(found, dict[str, str])
    except ValidationError as error:
        advice = f'{path.name} has a value that is no text. Write each answer in a line, as "ID" = "answer".'
        raise click.BadParameter(advice, param_hint="--answers") from error
    except (DecodeError, UnicodeDecodeError, tomllib.TOMLDecodeError, AttributeError) as error:
        raise click.BadParameter(f"{path.name} cannot be read: {error}", param_hint="--answers") from error


def answer(
    settings: Settings,
    request: ExportRequest,
    files: list[InputFile],
    answers: Mapping[str, str],
    *,
    is_asked: bool,
    as_json: bool,
    only_form: bool,
) -> Answered | int:
    """Return the complete form of the files, after asking if that is possible.

    Otherwise say which questions are open, and return the exit status. With `only_form`, only print the form as JSON.
    """
    shops = known_shops(settings)
    conversion = request.conversion(shops, known_bases(settings), files)
    limits = conversion_limits(settings)

    def ask_form(given: Mapping[str, str]) -> Form:
        with stop_signals_as_interrupt():
            return read_form(replace(conversion, answers=dict(given)), limits, request.command())

    if is_asked:
        accepted = ask_questions(ask_form, answers)
        return Answered(accepted.form, accepted.decision)
    form = ask_form(answers)
    if form.refused:
        refusal = form.refused[0]
        raise click.UsageError(f"The answer {refusal.id} = {json.encode(refusal.answer).decode()}: {refusal.reason}")
    if only_form or (as_json and not form.is_complete):
        print_json(to_builtins(form))
    elif not form.is_complete:
        _print_open(form)
    elif not as_json:
        _print_decided(form)
    if form.advice:
        return FAILED
    if not form.is_complete:
        return NOT_ANSWERED
    return 0 if only_form else Answered(form, Decision.LOAD)


def open_order(unknown: UnknownOrder, *, is_asked: bool, as_json: bool) -> str | None:
    """Return in which order the dates of a known till are, as a person says, or print the question and return None."""
    form = order_form(unknown.dates)
    if is_asked:
        return ask_one(form)
    if as_json:
        print_json(to_builtins(form))
    else:
        _print_open(form)
    return None


def _print_decided(form: Form) -> None:
    """Say what nobody was asked: what the file proves, and what is assumed."""
    print_wrapped(form.file, 4, err=True)
    for fact in form.proven:
        print_wrapped(f"Proven: {fact}", 4, err=True)
    for fact in form.assumed:
        print_wrapped(f"Assumed: {fact}", 4, err=True)


def _print_open(form: Form) -> None:
    """Say what is open, and how to answer without a terminal."""
    if form.file:
        print_wrapped(form.file, 4, err=True)
    if form.advice:
        print_message(form.advice)
        return
    for question in form.questions:
        _print_question(question)
    print_message(
        f"{counted(len(form.open), 'question')} open, nothing was written. Run the command on a terminal to be asked, "
        "or write the answers into a file, a line each, and add --answers FILE."
    )


def _print_question(question: Question) -> None:
    default = f" (without an answer: {question.default})" if question.default is not None else ""
    print_wrapped(f"{question.id}: {question.text}{default}", 4, err=True)
    # A key of TOML with a space or a dot has quotes.
    key = question.id if question.id.isidentifier() else json.encode(question.id).decode()
    for option in question.options:
        money = f"  {counted(option.bills, 'bill')}  {option.net}" if option.net else ""
        echo(f"    {key} = {json.encode(option.answer).decode()}  {option.text}{money}", err=True)
