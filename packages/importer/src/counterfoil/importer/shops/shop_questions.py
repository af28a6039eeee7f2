"""The facts of new shops that no export has: their time zone, their group, and the end of their business day."""

from collections.abc import Mapping, Sequence

from counterfoil.importer.form import AnswerOption, Form, LeftOutBills, Question, form_of, json_of, sentence
from counterfoil.importer.interview import Interview
from counterfoil.importing.sentences import listed, named_day
from counterfoil.importing.values import ANY_CENTURY, day_in
from counterfoil.importing.written_dates import ORDERS

DEFAULT_GROUP, NO_GROUP = "my-group", "none"
MIDNIGHT = "00:00"
MOST_GROUPS = 2
MINUTES = len("2026-11-14T18:05")
_NOTHING_LEFT_OUT = LeftOutBills(bills=0, net="")


def zone_question(default: str, first_time: str) -> Question:
    """Ask for the time zone. `first_time` is the time of a bill as the export has it, or an empty text."""
    example = ""
    if first_time:
        example = sentence("First bill: {time}", time=first_time[:MINUTES].replace("T", " "))
    text = sentence("The times name no zone. In which time zone are the shops?")
    return _question("timezone", text, {default: default}, default, example)


def order_form(dates: Sequence[str]) -> Form:
    """Return a form that only asks whether the day or the month comes first in dates that can be read in either way."""
    options = []
    for order in ORDERS:
        days = [day_in(text, ANY_CENTURY, order) for text in dates]
        shown = listed([named_day(day) for day in days if day])
        options.append(AnswerOption(answer=order, text=shown, bills=0, net="", left_out=_NOTHING_LEFT_OUT))
    text = sentence("Which days are these?  {first} … {last}", first=dates[0], last=dates[-1])
    question = Question(id="order", text=text, kind="day", options=tuple(options))
    return form_of(json_of(Form(file="", columns=(), rows=(), questions=(question,), answers={})))


def group_question(new_shops: int, groups: Sequence[str]) -> Question:
    """Ask for the group of the new shops. `groups` are those that the store knows."""
    default = DEFAULT_GROUP if new_shops > 1 else NO_GROUP
    if len(groups) == 1:
        default = groups[0]
    choices = {group: sentence("the group {group}", group=group) for group in groups[:MOST_GROUPS]}
    if default == DEFAULT_GROUP:
        choices[default] = sentence("a new group, {default}", default=default)
    choices[NO_GROUP] = sentence("no group")
    text = sentence("Which group does the new shop belong to?")
    if new_shops > 1:
        text = sentence("Which group do the {new_shops} new shops belong to?", new_shops=f"{new_shops:,}")
    return _question("franchise", text, choices, default, sentence("One key can read all shops of a group."))


def closing_question(quiet: str | None, known: str | None = None) -> Question:
    """Ask when the business day ends: as that of the known shops does, or in the quiet hours of the export."""
    choices = {}
    if known:
        choices[known] = sentence("{known}, as the other shops", known=known)
    elif quiet and quiet != MIDNIGHT:
        choices[quiet] = sentence("{quiet}, when hardly any bills are closed", quiet=quiet)
    choices.setdefault(MIDNIGHT, sentence("{time}, at midnight", time=MIDNIGHT))
    text = sentence("When does the business day end? Bills before this time belong to the day before.")
    return _question("closing", text, choices, next(iter(choices)), "")


def ask(question: Question, interview: Interview) -> str:
    """Return the answer to a question about shops."""
    choices = {option.answer: option.text for option in question.options}
    return interview.choose(
        question.id,
        question.kind,
        question.text,
        choices,
        example=question.example,
        free=question.free,
        default=question.default,
    )


def assumptions(questions: Sequence[Question]) -> list[str]:
    """Return a sentence for each answer that stands although nobody has given it."""
    return [_assumption(question.id, question.default) for question in questions if question.default is not None]


def _assumption(question_id: str, answer: str) -> str:
    match question_id:
        case "timezone":
            return sentence("The shops are in the time zone {answer}", answer=answer)
        case "closing":
            return sentence("The business day ends at {answer}", answer=answer)
        case "franchise" if answer == NO_GROUP:
            return sentence("New shops belong to no group")
        case "franchise":
            return sentence("New shops belong to the group {answer}", answer=answer)
    return sentence("The {question_id} is {answer}", question_id=question_id, answer=answer)


def _question(question_id: str, text: str, choices: Mapping[str, str], default: str, example: str) -> Question:
    options = []
    for answer, shown in choices.items():
        options.append(AnswerOption(answer=answer, text=shown, bills=0, net="", left_out=_NOTHING_LEFT_OUT))
    return Question(
        id=question_id, text=text, kind="shop", options=tuple(options), example=example, free=True, default=default
    )
