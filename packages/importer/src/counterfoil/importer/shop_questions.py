"""The facts of new shops that no export has: their time zone, their group, and the end of their business day."""

from collections.abc import Mapping, Sequence

from counterfoil.importer.form import AnswerOption, LeftOutBills, Question

DEFAULT_GROUP, NO_GROUP = "my-group", "none"
MIDNIGHT = "00:00"
MOST_GROUPS = 2
MINUTES = len("2026-11-14T18:05")
_NOTHING_LEFT_OUT = LeftOutBills(bills=0, net="")


def zone_question(default: str, first_time: str) -> Question:
    """Ask for the time zone. `first_time` is the time of a bill as the export has it, or an empty text."""
    example = f"First bill: {first_time[:MINUTES].replace('T', ' ')}" if first_time else ""
    text = "The times name no zone. In which time zone are the shops?"
    return _question("timezone", text, {default: default}, default, example)


def group_question(new_shops: int, groups: Sequence[str]) -> Question:
    """Ask for the group of the new shops. `groups` are those that the store knows."""
    default = DEFAULT_GROUP if new_shops > 1 else NO_GROUP
    if len(groups) == 1:
        default = groups[0]
    choices = {group: f"the group {group}" for group in groups[:MOST_GROUPS]}
    if default == DEFAULT_GROUP:
        choices[default] = f"a new group, {default}"
    choices[NO_GROUP] = "no group"
    text = "Which group does the new shop belong to?"
    if new_shops > 1:
        text = f"Which group do the {new_shops:,} new shops belong to?"
    return _question("franchise", text, choices, default, "One key can read all shops of a group.")


def closing_question(quiet: str | None, known: str | None = None) -> Question:
    """Ask when the business day ends: as that of the known shops does, or in the quiet hours of the export."""
    choices = {}
    if known:
        choices[known] = f"{known}, as the other shops"
    elif quiet and quiet != MIDNIGHT:
        choices[quiet] = f"{quiet}, when hardly any bills are closed"
    choices.setdefault(MIDNIGHT, f"{MIDNIGHT}, at midnight")
    text = "When does the business day end? Bills before this time belong to the day before."
    return _question("closing", text, choices, next(iter(choices)), "")


def assumptions(questions: Sequence[Question]) -> list[str]:
    """Return a sentence for each answer that stands although nobody has given it."""
    return [_assumption(question.id, question.default) for question in questions if question.default is not None]


def _assumption(question_id: str, answer: str) -> str:
    match question_id:
        case "timezone":
            return f"The shops are in the time zone {answer}"
        case "closing":
            return f"The business day ends at {answer}"
        case "franchise" if answer == NO_GROUP:
            return "New shops belong to no group"
        case "franchise":
            return f"New shops belong to the group {answer}"
    return f"The {question_id} is {answer}"


def _question(question_id: str, text: str, choices: Mapping[str, str], default: str, example: str) -> Question:
    options = []
    for answer, shown in choices.items():
        options.append(AnswerOption(answer=answer, text=shown, bills=0, net="", left_out=_NOTHING_LEFT_OUT))
    return Question(
        id=question_id, text=text, kind="shop", options=tuple(options), example=example, free=True, default=default
    )
