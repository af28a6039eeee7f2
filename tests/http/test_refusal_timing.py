"""Refusing another franchise's record takes as long as refusing a nonexistent record (in process, without HTTP)."""

from collections.abc import Iterator

import pytest

from hostile.refusals import QUESTIONS, TwoFranchises, two_franchises
from hostile.timing import BOUND, compare
from running_service import DEPLOYMENTS

SHORT, LONG = 10_000, 1_000_000
# On a busy machine, a comparison of few samples sometimes exceeds the bound; a real difference exceeds it every time.
ATTEMPTS = 6


@pytest.fixture(scope="module", params=DEPLOYMENTS)
def estate(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoFranchises]:
    with two_franchises(tmp_path_factory.mktemp("estate"), request.param) as estate:
        yield estate


@pytest.mark.parametrize("samples", [SHORT, pytest.param(LONG, marks=pytest.mark.long)])
@pytest.mark.parametrize("scope", ["franchise", pytest.param("shop", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_record_of_somebody_else_takes_as_long_as_one_that_does_not_exist(
    estate: TwoFranchises, name: str, scope: str, samples: int
) -> None:
    kind, _ = QUESTIONS[name]
    found = []
    for attempt in range(ATTEMPTS):
        ask = estate.asking(name, scope)
        found.append(compare(ask, estate.nobodys[kind], estate.theirs[kind], samples, seed=attempt))
        if not found[-1].differs:
            return
    raise AssertionError(f"{name} for a key of one {scope} differs in every comparison (bound {BOUND}): {found}")
