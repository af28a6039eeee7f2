"""Finds the message of an error code, and what an integrator should do about it."""

from counterfoil.console.display import text_or_english
from counterfoil.console.texts import Texts
from counterfoil.domain.problems import TABLE
from counterfoil.http.reference.guides import action
from counterfoil.web.html import Html

_BY_CODE = {problem.code: problem for problem in TABLE}


def is_known(code: str) -> bool:
    return code in _BY_CODE


def message_text(t: Texts, code: str) -> Html:
    """Return the message of an error code in the operator's language."""
    problem = _BY_CODE.get(code)
    return text_or_english(t, f"error_message.{code}", problem.message if problem else "")


def action_text(t: Texts, code: str) -> Html:
    """Return what an integrator should do about an error code, in the operator's language."""
    return text_or_english(t, f"error_action.{code}", what_to_do(code))


def what_to_do(code: str) -> str:
    """Return what an integrator should do about an error code, or its message if there is no advice."""
    problem = _BY_CODE.get(code)
    return (action(problem) or problem.message) if problem else ""
