"""Finds advice for integrators about an error code, in the error table and the reference."""

from counterfoil.domain.problems import TABLE, Problem
from counterfoil.http.reference.guides import action

_BY_CODE = {problem.code: problem for problem in TABLE}


def problem_with(code: str) -> Problem | None:
    return _BY_CODE.get(code)


def what_to_do(code: str) -> str:
    """Return what an integrator should do about an error code, or its message if there is no advice."""
    problem = _BY_CODE.get(code)
    return (action(problem) or problem.message) if problem else ""
