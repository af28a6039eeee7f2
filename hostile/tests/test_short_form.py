"""The short campaign: every kind of attack once, against one service on SQLite."""

from itertools import islice

import pytest

from hostile import campaign, limiter, revocation, slow_clients
from hostile.attacks import run_all
from hostile.campaign import UnderAttack
from hostile.canaries import Survey
from hostile.checker import ROOT, Checker
from hostile.fuzzing import Fuzzer
from hostile.mutations import OWN_PARAMETERS, PARAMETERS, PATHS, Generator
from hostile.outages import OutageRun, missing

pytestmark = pytest.mark.xdist_group("hostile, short form")

REQUESTS = 1_200
# Only every fourth triple of a key is checked. The first triple that is checked varies from key to key, so that every
# endpoint is still reached.
EVERY_SO_MANYTH = 4


def test_every_documented_path_and_parameter_is_attacked(under_attack: UnderAttack) -> None:
    document = under_attack.checker.document
    paths, parameters = set(document.paths), document.query_parameters()
    assert paths <= {document.template(f"{ROOT}/v1/{path.replace('{id}', 'x')}") for path in PATHS}
    assert set().union(*parameters.values()) <= set(PARAMETERS)
    assert {path: set(names) for path, names in OWN_PARAMETERS.items()} == {
        path: parameters[f"/v1/{path}"] for path in OWN_PARAMETERS
    }
    matrix = under_attack.matrix
    spec = next(iter(matrix.known.keys))
    assert paths == {triple.template for triple in matrix.triples_of(spec)} | {"/v1/openapi.json"}


def test_mutated_requests_get_documented_answers_or_a_refusal(under_attack: UnderAttack) -> None:
    site = under_attack.site
    checker = Checker(under_attack.checker.document, foreign=campaign.FOREIGN)
    generator = Generator(20261115, campaign.stock_for(site, under_attack.world), checker.document)
    report = Fuzzer(site.ports[0], generator, checker).run(range(REQUESTS))
    assert report.faults == [], "\n".join(map(str, report.faults))
    assert report.requests == REQUESTS
    assert {200, 400, 401, 403, 404, 405, 429} <= set(checker.by_status)
    assert {("/v1/changes", 200), ("/v1/changes", 400)} <= set(checker.by_route)
    assert {("/v1/digests", 200), ("/v1/digests", 400), ("/v1/digests", 403)} <= set(checker.by_route)
    assert campaign.crashes(site) == []


def test_known_attacks_on_http_framing_are_refused_or_answered_once(under_attack: UnderAttack) -> None:
    key = under_attack.site.issue("shop", "sh-0-1")
    outcomes = run_all(under_attack.site.ports[0], key, under_attack.checker)
    assert len(outcomes) > 55
    assert [outcome for outcome in outcomes if outcome.faults] == []


def test_no_key_reads_more_or_less_than_the_source_records_allow(under_attack: UnderAttack) -> None:
    matrix = under_attack.matrix
    keys = list(matrix.known.keys)
    for number, spec in enumerate(keys):
        matrix.run(triples=islice(matrix.triples_of(spec), number % EVERY_SO_MANYTH, None, EVERY_SO_MANYTH))
    report = matrix.run_passes(keys)
    assert report.faults == []
    assert report.triples > 1_000
    assert set(report.by_endpoint) == {
        *("shops", "usage", "lists", "bills", "bases", "members", "raw ids", "lookup", "malformed"),
        *("digests", "foreign tokens", "wrong tokens", "passes", "pages of passes"),
    }
    assert report.by_endpoint["pages of passes"] > 2 * report.by_endpoint["passes"]


def test_no_canary_is_answered_stored_or_logged(under_attack: UnderAttack) -> None:
    survey = Survey(under_attack.world, under_attack.site, under_attack.checker)
    survey.read_everything()
    survey.send_canaries()
    assert list(map(str, survey.search())) == []
    assert survey.faults == []
    assert len(under_attack.world.canaries.kinds) > 1_500
    assert survey.searched > 120
    assert survey.read_templates == set(under_attack.checker.document.paths)


@pytest.mark.long
def test_concurrent_clients_cannot_exceed_the_minute_limit(under_attack: UnderAttack) -> None:
    report = limiter.run(under_attack.site, under_attack.checker, clients=32, seconds=0.8, per_min=100, ask_day=False)
    assert report.faults == []
    assert report.admitted == 100
    assert report.refused > 0


def test_a_revoked_key_works_no_longer_than_documented(under_attack: UnderAttack) -> None:
    report = revocation.run(under_attack.site, under_attack.checker, total=6, callers=2, at_once=6)
    assert report.faults == []
    assert (report.revocations, report.unavailable) == (6, 0)


@pytest.mark.long
def test_slow_sockets_do_not_keep_ordinary_callers_waiting(under_attack: UnderAttack) -> None:
    key = under_attack.site.issue("shop", "sh-0-1")
    report = slow_clients.run(under_attack.site, under_attack.checker, sockets=200, seconds=0.5, key=key)
    assert report.faults == []
    assert report.open_at_once == 200
    assert report.calls > 0


@pytest.mark.long
def test_a_missing_key_file_does_not_make_valid_keys_unknown_or_revoked_keys_valid(under_attack: UnderAttack) -> None:
    run = OutageRun(under_attack.site, under_attack.world)
    site = under_attack.site
    report = run.run("keys missing", missing(site, "keys", run.copies), 0.8)
    assert report.faults == []
    assert report.by_status[503] > 0
