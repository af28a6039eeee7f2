"""The form of an import on a terminal: what is proven, one question at a time, and the totals to be accepted.

Everything is written to standard error, so that standard output stays free for records.
"""

import shutil
from collections.abc import Callable, Mapping
from enum import Enum

import click
from msgspec import Struct

from counterfoil.cli.terminal import COLUMN_GAP, aligned, display_width, echo, print_wrapped, style
from counterfoil.importer.form import AnswerOption, DayTotals, Form, LeftOutBills, MemberTotals, Question, Totals
from counterfoil.text import counted, printable

AskForm = Callable[[Mapping[str, str]], Form]
"""Returns the form of the files with these answers."""

BACK, EXAMPLES, STOP = "<", "?", "q"
MOST_DAYS_SHOWN = 31
_LABEL_WIDTH = 10


class Decision(Enum):
    LOAD = "load"
    WRITE = "write"
    STOP = "stop"


class DecidedForm(Struct, frozen=True):
    """What a person decided about a form, and the form with all answers."""

    decision: Decision
    form: Form


class _Stopped(Exception):
    """The person stopped before everything was answered."""


def ask_questions(ask_form: AskForm, known_answers: Mapping[str, str]) -> DecidedForm:
    """Ask what is open, show the totals, and return what the person decided. Nothing is written meanwhile."""
    form = ask_form(known_answers)
    _print_file(form)
    if form.advice:
        print_wrapped(form.advice, err=True)
        return DecidedForm(Decision.STOP, form)
    if form.questions:
        what = counted(len(form.questions), "question")
        echo(f"{what}. Nothing is written until you accept.  ? examples   < back   q stop", err=True, bold=True)
    given: dict[str, str] = dict(known_answers)
    here: list[str] = []
    try:
        while True:
            form = _answer_all(ask_form, form, given, here)
            if form.advice:
                print_wrapped(form.advice, err=True)
                return DecidedForm(Decision.STOP, form)
            if form.is_sample:
                # The totals of the whole file are shown once it is converted.
                return DecidedForm(Decision.LOAD, form)
            _print_totals(form)
            decision = _decide(can_change=bool(given))
            if decision is not None:
                return DecidedForm(decision, form)
            question_id = _choose_answer(given)
            if question_id is not None:
                del given[question_id]
                here = [each for each in here if each != question_id]
                form = ask_form(given)
    except (_Stopped, click.Abort, EOFError):
        echo("Stopped. Nothing was written.", err=True)
        return DecidedForm(Decision.STOP, form)


def _answer_all(ask_form: AskForm, form: Form, given: dict[str, str], here: list[str]) -> Form:
    """Ask until no question is left. `given` has all answers, and `here` the IDs of those given here, in order."""
    while form.questions and not form.advice:
        question = form.questions[0]
        place = f"{len(here) + 1}/{len(here) + len(form.questions)}"
        answer = _ask(question, place, can_go_back=bool(here))
        if answer is None:
            last = here.pop()
            del given[last]
            form = ask_form(given)
            continue
        next_form = ask_form({**given, question.id: answer})
        reason = _refusal(next_form, question.id)
        if reason is not None:
            print_wrapped(f"     {reason}", 5, err=True, fg="yellow")
            continue
        given[question.id] = answer
        here.append(question.id)
        form = next_form
    return form


def _refusal(form: Form, question_id: str) -> str | None:
    for refusal in form.refused:
        if refusal.id == question_id:
            return refusal.reason
    return None


def _ask(question: Question, place: str, *, can_go_back: bool) -> str | None:
    """Print a question and return its answer, or None to go one question back."""
    _print_question(question, place)
    while True:
        typed = click.prompt(">", default=question.default or "", show_default=False, prompt_suffix=" ", err=True)
        typed = typed.strip()
        if typed == STOP:
            raise _Stopped
        if typed == BACK and can_go_back:
            return None
        if typed == BACK:
            echo("     This is the first question.", err=True)
            continue
        if typed == EXAMPLES:
            _print_examples(question)
            continue
        answer = _answer_of(question, typed)
        if answer is not None:
            return answer
        echo(f"     {_what_to_type(question)}", err=True)


def _answer_of(question: Question, typed: str) -> str | None:
    """Return the answer that was typed: the number of an option, the answer of one, or a free value."""
    numbers = {str(number): option.answer for number, option in enumerate(question.options, start=1)}
    if typed in numbers:
        return numbers[typed]
    answers = {option.answer for option in question.options}
    if typed in answers or typed == question.default:
        return typed
    if question.free and typed:
        return typed
    return None


def _what_to_type(question: Question) -> str:
    numbers = f"a number from 1 to {len(question.options)}"
    if not question.options:
        numbers = "a value"
    elif question.free:
        numbers = f"{numbers}, or another value"
    return f"Type {numbers}; ? shows examples, < goes back, q stops."


def _print_file(form: Form) -> None:
    print_wrapped(form.file, 4, err=True, bold=True)
    for number, fact in enumerate(form.proven):
        label = "Proven" if number == 0 else ""
        print_wrapped(f"{style(label.ljust(_LABEL_WIDTH), dim=True)}{COLUMN_GAP}{fact}", _LABEL_WIDTH + 2, err=True)


def _print_question(question: Question, place: str) -> None:
    indent = " " * 5
    echo("", err=True)
    print_wrapped(style(f"{place}  ", dim=True) + style(question.text, bold=True), 5, err=True)
    for line in question.example.splitlines():
        print_wrapped(indent + style(line, dim=True), 7, err=True)
    rows = [_option_cells(number, option) for number, option in enumerate(question.options, start=1)]
    if rows:
        for line in _option_lines(rows):
            echo(indent + line, err=True)
    if question.free and question.options:
        echo(f"{indent}or type another value", err=True, dim=True)
    if question.default is not None:
        echo(f"{indent}Enter: {printable(question.default)}", err=True, dim=True)


def _option_cells(number: int, option: AnswerOption) -> list[str]:
    money = ""
    if option.net:
        money = f"{counted(option.bills, 'bill')}  {_amount(option.net)}"
    return [str(number), option.text, money]


def _option_lines(rows: list[list[str]]) -> list[str]:
    """Return a line for each option, or two where the line would be wider than the terminal."""
    room = shutil.get_terminal_size().columns
    lines = list(aligned(rows, [True, False, True]))
    if max(map(display_width, lines)) + 5 <= room:
        return lines
    lines = []
    for number, text, money in rows:
        lines.append(f"{number}  {text}")
        if money:
            lines.append(f"   {money}")
    return lines


def _print_examples(question: Question) -> None:
    shown = False
    for number, option in enumerate(question.options, start=1):
        parts = []
        if option.example:
            parts.append(option.example)
        if option.first and option.last:
            parts.append(f"first bill {option.first}, last bill {option.last}")
        if option.left_out.bills:
            parts.append(f"leaves out {counted(option.left_out.bills, 'bill')}, {_amount(option.left_out.net)}")
        if parts:
            shown = True
            print_wrapped(f"     {number}  {'; '.join(parts)}", 8, err=True, dim=True)
    if not shown:
        echo("     There are no examples for this question.", err=True)


def _print_members(form: Form, members: MemberTotals) -> None:
    """Print what would be loaded of a table of members, and which columns never are."""
    rows = [
        ["members", f"{members.members:,}", "rejected", f"{members.rejected:,}"],
        ["points", _amount(members.points), "credit", _amount(members.credit)],
        ["phones", f"{members.phones:,}", "emails", f"{members.emails:,}"],
    ]
    echo("", err=True)
    for line in aligned(rows, [False, True, False, True]):
        echo(line, err=True)
    for tier, count in members.tiers.items():
        echo(f"tier {printable(tier)}: {count:,}", err=True)
    for part in form.left_out:
        echo(f"Left out: {part.reason}", err=True)
    if form.never_stored:
        print_wrapped(f"Never stored: {', '.join(map(printable, form.never_stored))}", 4, err=True)
    unread = [column.heading for column in form.columns if column.standing == "unread"]
    others = [heading for heading in unread if heading not in form.never_stored]
    if others:
        print_wrapped(f"Not read: {', '.join(map(printable, others))}", 4, err=True)
    for fact in form.assumed:
        print_wrapped(f"Assumed: {fact}", 4, err=True, fg="yellow")


def _print_totals(form: Form) -> None:
    echo("", err=True)
    totals = form.totals
    if form.members:
        _print_members(form, form.members)
    if totals is None:
        return
    for line in _totals_lines(totals):
        echo(line, err=True)
    hidden = len(totals.days) - MOST_DAYS_SHOWN
    if hidden > 0:
        echo(f"… and {counted(hidden, 'more row')}; the total counts them all.", err=True, dim=True)
    echo(f"Used {totals.rows_read:,} of {totals.rows:,} rows.", err=True)
    if not form.left_out:
        echo("Left out: 0 bills, 0.00.", err=True)
    for part in form.left_out:
        print_wrapped(_left_out_text(part), 4, err=True)
    unread = [column.heading for column in form.columns if column.standing == "unread"]
    if unread:
        print_wrapped(f"Not read: {', '.join(map(printable, unread))}", 4, err=True)
    for fact in form.assumed:
        print_wrapped(f"Assumed: {fact}", 4, err=True, fg="yellow")
    echo("Compare the net with the day report of your till.", err=True)


def _totals_lines(totals: Totals) -> list[str]:
    heading = ["day", "shop", "bills", "void", "refunds", "net", "tip", "tax"]
    rows = [heading]
    rows.extend(_day_cells(day) for day in totals.days[:MOST_DAYS_SHOWN])
    counts = [f"{totals.bills:,}", f"{totals.voids:,}", f"{totals.refunds:,}"]
    rows.append(["total", "", *counts, _amount(totals.net), _amount(totals.tip), _amount(totals.tax)])
    return list(aligned(rows, [False, False, True, True, True, True, True, True]))


def _day_cells(day: DayTotals) -> list[str]:
    counts = [f"{day.bills:,}", f"{day.voids:,}", f"{day.refunds:,}"]
    return [day.day or "no day", printable(day.shop), *counts, _amount(day.net), _amount(day.tip), _amount(day.tax)]


def _left_out_text(part: LeftOutBills) -> str:
    return f"Left out: {counted(part.bills, 'bill')}, {_amount(part.net)}: {part.reason}"


def _amount(text: str) -> str:
    """Return an amount with separators of thousands. What is no number is shown as it is."""
    sign = "-" if text.startswith("-") else ""
    whole, point, rest = text.removeprefix("-").partition(".")
    if not whole.isdigit():
        return text
    return f"{sign}{int(whole):,}{point}{rest}"


def _decide(*, can_change: bool) -> Decision | None:
    """Ask what to do with the form. None stands for changing an answer."""
    echo("", err=True)
    echo("1  Load, and use the same answers for such files", err=True)
    echo("2  Only write the mapping", err=True)
    if can_change:
        echo("3  Change an answer", err=True)
    echo("4  Stop", err=True)
    decisions = {"1": Decision.LOAD, "2": Decision.WRITE, "4": Decision.STOP, STOP: Decision.STOP}
    while True:
        typed = click.prompt(">", prompt_suffix=" ", err=True).strip()
        if typed in decisions:
            return decisions[typed]
        if typed == "3" and can_change:
            return None
        echo("Type one of the numbers.", err=True)


def _choose_answer(given: Mapping[str, str]) -> str | None:
    """Ask which answer to change, and return its ID, or None if none is to be changed."""
    ids = list(given)
    for number, question_id in enumerate(ids, start=1):
        print_wrapped(f"{number}  {question_id}: {given[question_id]}", 4, err=True)
    typed = click.prompt("Which one (Enter: none)", default="", show_default=False, err=True).strip()
    if typed.isdigit() and 1 <= int(typed) <= len(ids):
        return ids[int(typed) - 1]
    return None
