"""`counterfoil import` of a known export on a terminal: the facts of new shops are asked, and the totals accepted."""

import shlex
from collections.abc import Mapping, Sequence

from counterfoil import bootstrap
from counterfoil.cli.import_questions import Decision, answer_all, choose, print_keys
from counterfoil.conversions import known_franchises
from counterfoil.domain.shops import NOTHING_SET, SHOP_FIELDS, ShopSettings
from counterfoil.importer.form import Form, Question, RefusedAnswer
from counterfoil.importer.shops.shop_questions import NO_GROUP, closing_question, group_question, zone_question
from counterfoil.ingest.converted_exports import ConvertedExport
from counterfoil.model.calendar import quiet_closing
from counterfoil.model.text import counted, printable
from counterfoil.program.terminal import echo, print_note, print_wrapped
from counterfoil.settings import Settings
from counterfoil.shop_settings import ShopSettingsError, checked

MOST_SHOPS_NAMED = 4


def ask_shop_facts(settings: Settings, export: ConvertedExport, given: ShopSettings) -> ShopSettings:
    """Return the facts of the new shops of an export: what was given, and what a person answers to the rest.

    Raise `ImportStopped` if the person stops.
    """
    shops = export.tally.new_shops
    named = ", ".join(map(printable, shops[:MOST_SHOPS_NAMED]))
    more = " and others" if len(shops) > MOST_SHOPS_NAMED else ""
    echo("", err=True)
    print_wrapped(
        f"{counted(len(shops), 'new shop')}: {named}{more}. No export says the following about shops.", err=True
    )
    questions = _questions(settings, export, given)
    print_keys(len(questions))

    def ask_form(answers: Mapping[str, str]) -> Form:
        return _form(questions, answers)

    answers: dict[str, str] = {}
    answer_all(ask_form, ask_form({}), answers, [])
    return facts_of(answers, given)


def facts_of(answers: Mapping[str, str], given: ShopSettings = NOTHING_SET) -> ShopSettings:
    """Return the facts that answers say of new shops. Those without an answer are as given."""
    franchise = answers.get("franchise", given.franchise_id)
    return ShopSettings(
        franchise_id=None if franchise == NO_GROUP else franchise,
        closing=answers.get("closing", given.closing),
        timezone=answers.get("timezone", given.timezone),
    )


def _questions(settings: Settings, export: ConvertedExport, given: ShopSettings) -> list[Question]:
    questions = []
    zone = given.timezone or settings.timezone
    if given.timezone is None and export.has_shop_without_zone:
        questions.append(zone_question(zone, ""))
    if given.franchise_id is None:
        questions.append(group_question(len(export.tally.new_shops), known_franchises(settings)))
    if given.closing is None:
        questions.append(closing_question(quiet_closing(export.bill_hours(zone))))
    return questions


def _form(questions: Sequence[Question], answers: Mapping[str, str]) -> Form:
    """Return a form of the questions that have no answer yet, without those answers that are not possible."""
    refused = []
    try:
        checked(facts_of(answers))
    except ShopSettingsError as error:
        last = list(answers)[-1]
        refused.append(RefusedAnswer(id=last, answer=answers[last], reason=str(error)))
    left = tuple(question for question in questions if question.id not in answers)
    return Form(file="", columns=(), rows=(), questions=left, answers=dict(answers), refused=tuple(refused))


def accept_totals() -> None:
    """Ask whether the totals that were shown are to be loaded. Raise `ImportStopped` if they are not."""
    echo("Compare the net with the day report of your till.", err=True)
    choose({"1": ("Load", Decision.LOAD)})


def note_bases_without_shops(settings: Settings, export: ConvertedExport) -> None:
    """Say that no key can read the members of a base if no shop belongs to it."""
    if not export.tally.base_ids:
        return
    shops = bootstrap.store(settings).reads().loaded_shops()
    for base in sorted(export.tally.base_ids - {shop.shop.provider_id or "" for shop in shops}):
        print_note(
            f"no shop belongs to the base {printable(base)}, so no key can read its members. If all shops without a "
            f"base do, run `counterfoil shops set --missing --base {shlex.quote(base)}`."
        )


def note_settings_kept(settings: Settings, given: ShopSettings, shop_ids: Sequence[str]) -> None:
    """Say which shops of the export are loaded with other settings than the options for new shops."""
    if not given.given():
        return
    stored = {known.facts.shop_id: known.facts for known in bootstrap.store(settings).reads().known_facts()}
    for name, value in given.given().items():
        others = [shop_id for shop_id in shop_ids if getattr(stored[shop_id], name) != value]
        if others:
            print_note(
                f"{SHOP_FIELDS[name]} {printable(value)} is for new shops, so loaded ones stay as they are: "
                f"{_some(others)}. `counterfoil shops set` changes loaded shops."
            )


def _some(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    shown = ", ".join(printable(name) for name in names[:MOST_SHOPS_NAMED])
    others = len(names) - MOST_SHOPS_NAMED
    return f"{shown} and {others:,} more" if others > 0 else shown
