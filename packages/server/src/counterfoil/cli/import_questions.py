"""The form of an import on a terminal: what is proven, one question at a time, and the totals to be accepted.

Everything is written to standard error, so that standard output stays free for records.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from enum import Enum

import click
from msgspec import Struct
from msgspec.structs import replace

from counterfoil.importer.form import AnswerOption, DayTotals, Form, LeftOutBills, MemberTotals, Question, Totals
from counterfoil.importing.results import ImportFailed
from counterfoil.model.text import counted, printable
from counterfoil.program.terminal import COLUMN_GAP, aligned, display_width, echo, print_wrapped, style

AskForm = Callable[[Mapping[str, str]], Form]
"""Returns the form of the files with these answers."""

BACK, EXAMPLES, STOP = "<", "?", "q"
MOST_DAYS_SHOWN = 31
_LABEL_WIDTH = 10
_INDENT = " " * 5
_EACH = "each"
"""The answer that asks about each value of a column."""


class Decision(Enum):
    LOAD = "load"
    WRITE = "write"
    CHANGE = "change"


class DecidedForm(Struct, frozen=True):
    """What a person decided about a form, and the form with all answers."""

    decision: Decision
    form: Form


class ImportStopped(Exception):
    """The person stopped before everything was answered or accepted."""


def ask_questions(ask_form: AskForm, known_answers: Mapping[str, str]) -> DecidedForm:
    """Ask what is open, show the totals, and return what the person decided. Nothing is written meanwhile.

    Raise `ImportStopped` if the person stops, and `ImportFailed` if the file cannot be answered for.
    """
    form = ask_form(known_answers)
    _print_file(form)
    if form.questions and not form.advice:
        print_keys(len(form.questions))
    given = dict(known_answers)
    asked: list[str] = []
    while True:
        form = answer_all(ask_form, form, given, asked)
        if form.advice:
            raise ImportFailed(form.advice)
        if form.is_sample:
            # The totals of the whole file are shown once it is converted.
            return DecidedForm(Decision.LOAD, form)
        _print_totals(form)
        decision = _decide(can_change=bool(given))
        if decision is not Decision.CHANGE:
            return DecidedForm(decision, form)
        question_id = _choose_answer(given)
        if question_id is not None:
            del given[question_id]
            if question_id in asked:
                asked.remove(question_id)
            form = ask_form(given)


def ask_one(form: Form) -> str:
    """Return the answer to the only question of a form. Raise `ImportStopped` if the person stops."""
    [question] = form.questions

    def ask_form(answers: Mapping[str, str]) -> Form:
        return replace(form, questions=() if question.id in answers else form.questions)

    print_keys(1)
    given: dict[str, str] = {}
    answer_all(ask_form, form, given, [])
    return given[question.id]


def print_keys(questions: int) -> None:
    """Say how many questions there are, and which keys have a meaning besides the answers."""
    keys = "? examples   < back   q stop"
    print_wrapped(
        f"{counted(questions, 'question')}. Nothing is written until you accept.  {keys}", err=True, bold=True
    )


def answer_all(ask_form: AskForm, form: Form, given: dict[str, str], asked: list[str]) -> Form:
    """Ask until no question is left. `given` has all answers, and `asked` the IDs of those given here, in order."""
    while form.questions and not form.advice:
        question = form.questions[0]
        place = f"{len(asked) + 1}/{len(asked) + len(form.questions)}"
        _print_question(question, place)
        answered = _answered(ask_form, question, given, can_go_back=bool(asked))
        if answered is None:
            del given[asked.pop()]
            form = ask_form(given)
            continue
        asked.append(question.id)
        form = answered
    return form


def _answered(ask_form: AskForm, question: Question, given: dict[str, str], *, can_go_back: bool) -> Form | None:
    """Ask until an answer is possible, and return the form with it. None goes one question back."""
    while True:
        answer = _ask(question, can_go_back=can_go_back)
        if answer is None:
            return None
        form = ask_form({**given, question.id: answer})
        reason = _refusal(form, question.id)
        if reason is None:
            given[question.id] = answer
            return form
        _say(f"Not possible: {reason.rstrip('.')}.")


def _refusal(form: Form, question_id: str) -> str | None:
    for refusal in form.refused:
        if refusal.id == question_id:
            return refusal.reason
    return None


def _ask(question: Question, *, can_go_back: bool) -> str | None:
    """Return the answer to a question that was printed, or None to go one question back."""
    while True:
        typed = prompt(question.default or "")
        if typed == BACK and can_go_back:
            return None
        if typed == BACK:
            _say("This is the first question.")
            continue
        if typed == EXAMPLES:
            _print_examples(question)
            continue
        answer = _answer_of(question, typed)
        if answer is not None:
            return answer
        _say(_what_to_type(question, typed))


def prompt(default: str = "") -> str:
    """Return what a person types in a line, or raise `ImportStopped`, also for Ctrl-C and Ctrl-D."""
    try:
        typed = click.prompt(">", default=default, show_default=False, prompt_suffix=" ", err=True)
    except click.Abort as error:
        # The cursor is behind the prompt.
        echo("", err=True)
        raise ImportStopped from error
    typed = str(typed).strip()
    if typed == STOP:
        raise ImportStopped
    return typed


def _answer_of(question: Question, typed: str) -> str | None:
    """Return the answer that was typed: the number of an option, the answer of one, or a free value."""
    numbers = {str(number): option.answer for number, option in enumerate(question.options, start=1)}
    if typed in numbers:
        return numbers[typed]
    answers = {option.answer for option in question.options}
    if typed in answers or typed == question.default:
        return typed
    # The number of an option that is not there is a slip, and no value.
    is_slip = bool(question.options) and len(typed) == 1 and typed.isdigit()
    if question.free and typed and not is_slip:
        return typed
    return None


def _what_to_type(question: Question, typed: str) -> str:
    what = f"a number from 1 to {len(question.options)}"
    if len(question.options) < 2:
        what = "1"
    if question.free:
        what = f"{what}, or {_free_value(question)}" if question.options else _free_value(question)
    none = f"There is no answer {typed}. " if typed else ""
    return f"{none}Type {what}; ? shows examples, < goes back, q stops."


def _free_value(question: Question) -> str:
    """Return what may be typed besides the options."""
    match question.id:
        case "timezone":
            return "another time zone, such as Europe/London"
        case "franchise":
            return "the name of another group"
        case "closing":
            return "another time, such as 02:30"
        case "shop":
            return "the ID of a new shop"
        case "base":
            return "the name of a new base"
        case "net":
            return "another sum of columns, such as Total + Tip"
        case "bill" | "together":
            return "another column, or several, such as Date + Number"
        case "time" | "lines" | "payments":
            return "another column"
    return "another value"


def _say(text: str) -> None:
    print_wrapped(f"{_INDENT}{text}", len(_INDENT), err=True, fg="yellow")


def _print_file(form: Form) -> None:
    print_wrapped(form.file, 4, err=True, bold=True)
    for number, fact in enumerate(form.proven):
        label = "Proven" if number == 0 else ""
        print_wrapped(f"{style(label.ljust(_LABEL_WIDTH), dim=True)}{COLUMN_GAP}{fact}", _LABEL_WIDTH + 2, err=True)


def _print_question(question: Question, place: str) -> None:
    echo("", err=True)
    print_wrapped(style(f"{place}  ", dim=True) + style(question.text, bold=True), len(_INDENT), err=True)
    for line in question.example.splitlines():
        print_wrapped(f"{_INDENT}  {style(line, dim=True)}", len(_INDENT) + 2, err=True)
    _print_options(question.options)
    hints = []
    if question.default is not None:
        hints.append(f"Enter: {question.default}")
    if question.free and (question.options or hints):
        hints.append(f"or type {_free_value(question)}")
    if hints:
        print_wrapped(_INDENT + style(printable("   ".join(hints)), dim=True), len(_INDENT), err=True)


def _print_options(options: Sequence[AnswerOption]) -> None:
    """Print a line for each option, or two where one would be wider than the terminal."""
    if not options:
        return
    has_money = len({(option.bills, option.net) for option in options}) > 1
    rows = []
    for number, option in enumerate(options, start=1):
        money = [counted(option.bills, "bill"), _amount(option.net)] if has_money else []
        if has_money and option.answer == _EACH:
            # Its figures depend on the questions that follow.
            money = ["", ""]
        rows.append([str(number), printable(option.text), *money])
    lines = list(aligned(rows, [True, False, True, True][: len(rows[0])]))
    room = shutil.get_terminal_size().columns
    if max(map(display_width, lines)) + len(_INDENT) <= room:
        for line in lines:
            echo(_INDENT + line, err=True)
        return
    for place, text, *money in rows:
        print_wrapped(f"{_INDENT}{place}  {text}", len(_INDENT) + 3, err=True)
        if money:
            echo(f"{_INDENT}   {COLUMN_GAP.join(money)}", err=True)


def _print_examples(question: Question) -> None:
    """Print what each answer makes of a bill, what it leaves out, and the days, where the answers differ in it."""
    spans = {(option.first, option.last) for option in question.options}
    is_shown = False
    for number, option in enumerate(question.options, start=1):
        parts = []
        if option.example:
            parts.append(option.example)
        if option.left_out.bills:
            parts.append(f"leaves out {counted(option.left_out.bills, 'bill')}, {_amount(option.left_out.net)}")
        if len(spans) > 1 and option.first and option.last:
            parts.append(f"first bill {_moment(option.first)}, last bill {_moment(option.last)}")
        if parts:
            is_shown = True
            print_wrapped(f"{_INDENT}{number}  {'; '.join(parts)}", len(_INDENT) + 3, err=True, dim=True)
    if len(spans) == 1:
        [(first, last)] = spans
        if first and last:
            is_shown = True
            print_wrapped(f"{_INDENT}First bill {_moment(first)}, last bill {_moment(last)}", 5, err=True, dim=True)
    if not is_shown:
        _say("There are no examples for this question.")


def _moment(text: str) -> str:
    """Return a local time without its offset and without seconds."""
    return text[:16].replace("T", " ")


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
    totals = form.totals
    if form.members:
        _print_members(form, form.members)
    if totals is None:
        return
    echo("", err=True)
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


def _decide(*, can_change: bool) -> Decision:
    """Ask what to do with the form."""
    choices = {
        "1": ("Load, and use the same answers for such files", Decision.LOAD),
        "2": ("Only write the mapping", Decision.WRITE),
    }
    if can_change:
        choices["3"] = ("Change an answer", Decision.CHANGE)
    return choose(choices)


def choose(choices: Mapping[str, tuple[str, Decision]]) -> Decision:
    """Print what can be done now, and return what a person chooses. To stop comes last."""
    stop = str(len(choices) + 1)
    echo("", err=True)
    for number, (text, _) in choices.items():
        echo(f"{number}  {text}", err=True)
    echo(f"{stop}  Stop", err=True)
    while True:
        typed = prompt()
        if typed == stop:
            raise ImportStopped
        if typed in choices:
            return choices[typed][1]
        echo(f"Type a number from 1 to {stop}.", err=True)


def _choose_answer(given: Mapping[str, str]) -> str | None:
    """Ask which answer to change, and return its ID, or None if none is to be changed."""
    ids = list(given)
    for number, question_id in enumerate(ids, start=1):
        print_wrapped(f"{number}  {printable(question_id)}: {printable(given[question_id])}", 3, err=True)
    echo("Which one? Enter changes none.", err=True)
    typed = prompt()
    if typed.isdigit() and 1 <= int(typed) <= len(ids):
        return ids[int(typed) - 1]
    return None
