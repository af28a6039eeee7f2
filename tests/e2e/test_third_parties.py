"""Tools from other projects read the demo's data using only the OpenAPI document."""

import importlib.util
import json
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from e2e.served_demo import PLAN, Demo, run

pytestmark = pytest.mark.programs

PAGE = Path(__file__).parents[2] / "docs" / "generated-clients.md"


def attack(demo: Demo, folder: Path, *options: str) -> None:
    """Run all checks of schemathesis against the demo; they must not find any problem."""
    samples = demo.shown.samples
    # docs/generated-clients.md explains why these operations may refuse a request that is valid according to the
    # OpenAPI document.
    [exceptions] = re.findall(r"```toml\n# schemathesis.toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (folder / "schemathesis.toml").write_text(
        "[parameters]\n"
        f'shopId = "{samples.shop_id}"\n'
        f'providerId = "{samples.provider_id}"\n'
        f'"path.id" = "{samples.transaction_id}"\n'
        f'"path.memberToken" = "{samples.member_id}"\n'
        f"{exceptions}"
    )
    run(
        str(Path(sys.executable).with_name("schemathesis")),
        "--config-file=schemathesis.toml",
        "run",
        f"{demo.url}/ext/v1/openapi.json",
        f"--header=Authorization: Bearer {demo.key('personal data')}",
        "--checks=all",
        "--phases=examples,coverage,fuzzing",
        "--warnings=off",
        "--no-color",
        *options,
        cwd=folder,
    )


def test_schemathesis_finds_no_fault_in_the_live_service(demo: Demo, tmp_path: Path) -> None:
    attack(demo, tmp_path, "--max-examples=3", "--max-time=7", "--generation-deterministic")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 7))
def test_schemathesis_finds_no_fault_with_many_examples_and_any_seed(demo: Demo, tmp_path: Path, seed: int) -> None:
    attack(demo, tmp_path, "--max-examples=60", f"--seed={seed}")


@pytest.fixture(scope="module")
def generated(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A client that openapi-python-client generated from the OpenAPI document alone."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "document.json").write_bytes(demo.server.client.get(f"{demo.url}/ext/v1/openapi.json").content)
    (folder / "config.yaml").write_text(
        "package_name_override: generated_client\nproject_name_override: generated_client\npost_hooks: []\n"
    )
    run(
        str(Path(sys.executable).with_name("openapi-python-client")),
        "generate",
        "--path=document.json",
        "--config=config.yaml",
        "--output-path=out",
        "--fail-on-warning",
        cwd=folder,
    )
    sys.path.insert(0, str(folder / "out"))
    return importlib.import_module("generated_client")


class GeneratedClient:
    """The generated client with a key. `ask` makes one request; `every` reads a list to its end."""

    def __init__(self, generated: Any, demo: Demo, key: str) -> None:
        self._client = generated.AuthenticatedClient(base_url=f"{demo.url}/ext", token=key)

    def close(self) -> None:
        self._client.get_httpx_client().close()

    def ask(self, tag: str, operation: str, *arguments: Any, **query: Any) -> Any:
        module = importlib.import_module(f"generated_client.api.{tag}.{operation}")
        answer = module.sync_detailed(*arguments, client=self._client, **query)
        assert answer.status_code == 200, answer.content
        return answer.parsed

    def every(self, tag: str, operation: str, **query: Any) -> Iterator[Any]:
        while True:
            page = self.ask(tag, operation, **query)
            yield from page.data
            if page.next_cursor is None:
                return
            query["cursor"] = page.next_cursor


@pytest.mark.long
def test_a_generated_client_reads_the_whole_demo_world(generated: Any, demo: Demo) -> None:
    read, bases = set(), set()
    for purpose in ("personal data", "franchise", "independent", "no members"):
        with closing(GeneratedClient(generated, demo, demo.key(purpose))) as client:
            for shop in client.ask("shops", "list_shops").data:
                bases |= {shop.provider_id} - {None}
                read |= {(shop.shop_id, bill.id) for bill in bills_of(client, shop.shop_id)}
            for provider_id in demo.shown.key(purpose).provider_ids:
                assert list(client.every("members", "list_members", provider_id=provider_id, limit=200))
    assert read == demo.held({shop_id for shop_id, _ in read})
    assert bases


def bills_of(client: GeneratedClient, shop_id: str) -> Iterator[Any]:
    """Yield a shop's bills as the sync procedure reads them: by day, then by change, which includes undated bills."""
    last = PLAN.until + timedelta(days=1)
    for window in range(2):
        end = last - timedelta(days=31 * window)
        days = {"from_": f"{end - timedelta(days=30):%Y%m%d}", "to": f"{end:%Y%m%d}"}
        yield from client.every("transactions", "list_transactions", shop_id=shop_id, limit=200, **days)
    since = datetime(2020, 1, 1, tzinfo=UTC)
    yield from client.every("transactions", "list_transactions", shop_id=shop_id, limit=200, updated_since=since)


def test_a_generated_client_reads_one_bill_one_member_a_lookup_and_usage(generated: Any, demo: Demo) -> None:
    samples = demo.shown.samples
    with closing(GeneratedClient(generated, demo, demo.key("lookup"))) as client:
        bill = client.ask("transactions", "get_transaction", samples.transaction_id).data
        member = client.ask("members", "get_member", samples.member_id).data
        found = client.ask(
            "members", "lookup_member", provider_id=samples.provider_id, messaging_user_id=samples.messaging_user_id
        ).data
        usage = client.ask("usage", "get_usage").data
    assert (bill.id, member.member_id) == (samples.transaction_id, samples.member_id)
    assert found.member_id.startswith("m1_")
    assert len(usage.days) == 7


# --- openapi-generator, which needs Java -------------------------------------------------

# It reads everything that a key covers, and prints the IDs of the bills.
PROGRAM = """
import json, os
import generated

client = generated.ApiClient(generated.Configuration(host=os.environ["API"], access_token=os.environ["KEY"]))
shops = generated.ShopsApi(client).list_shops()
assert shops.ok is True
bills = generated.TransactionsApi(client)
read = set()
cursor = None
while True:
    page = generated.ChangesApi(client).list_changes(limit=1000, cursor=cursor)
    for element in page.data:
        if element.actual_instance.type == "bill":
            read.add(element.actual_instance.bill.id)
    cursor = page.next_cursor
    if cursor is None:
        break
for shop in shops.data:
    page = bills.list_transactions(shop_id=shop.shop_id, updated_since="2020-01-01T00:00:00Z", limit=200)
    assert {bill.id for bill in page.data} <= read
    for bill in page.data[:1]:
        assert bills.get_transaction(bill.id).data.id == bill.id
bases = sorted({shop.provider_id for shop in shops.data} - {None})
members = generated.MembersApi(client)
for member in members.list_members(provider_id=bases[0], limit=200).data[:1]:
    assert members.get_member(member.member_id).data.member_id == member.member_id
assert generated.DigestsApi(client).list_digests().data
assert len(generated.UsageApi(client).get_usage().data.days) == 7
try:
    bills.list_transactions(shop_id="no-such-shop", updated_since="2020-01-01T00:00:00Z")
except generated.exceptions.ApiException as error:
    assert json.loads(error.body)["error"] == "shop_not_in_scope"
else:
    raise SystemExit("a foreign shop was not refused")
print(json.dumps(sorted(read)))
"""


@pytest.mark.skipif(
    importlib.util.find_spec("openapi_generator_cli") is None,
    reason="openapi-generator is not installed, so a client made by it was NOT checked (make ship-tools)",
)
@pytest.mark.skipif(
    shutil.which("java") is None,
    reason="openapi-generator needs Java, so a client made by it was NOT checked (Debian: apt-get install default-jre)",
)
def test_a_python_client_made_by_openapi_generator_reads_everything(demo: Demo, tmp_path: Path) -> None:
    (tmp_path / "document.json").write_bytes(demo.server.client.get(f"{demo.url}/ext/v1/openapi.json").content)
    generator = str(Path(sys.executable).with_name("openapi-generator-cli"))
    run(
        generator,
        "generate",
        "-g",
        "python",
        "-i",
        "document.json",
        "-o",
        "out",
        "--package-name=generated",
        cwd=tmp_path,
    )
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {"PYTHONPATH": "out", "API": f"{demo.url}/ext", "KEY": demo.key("personal data")}
    read = json.loads(run(sys.executable, "program.py", cwd=tmp_path, environment=environment))
    assert read
    assert set(read) == {bill_id for _, bill_id in demo.held(covered_shops(demo))}


def covered_shops(demo: Demo) -> set[str]:
    """Return the shops that the key covers."""
    headers = {"authorization": f"Bearer {demo.key('personal data')}"}
    answer = demo.server.client.get(f"{demo.url}/ext/v1/shops", headers=headers)
    return {shop["shopId"] for shop in answer.json()["data"]}
