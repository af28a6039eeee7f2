"""The commands of docs/production.md and docs/new-machine.md work as printed, with the users and modes of the units."""

import json
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from counterfoil.domain.credentials import PATTERN
from deploy.debian_machine import HOME, Machine, machine, needs_namespaces, reachable
from deploy.programs import ROOT, needs_package, needs_program
from waiting import until

pytestmark = [
    pytest.mark.programs,
    needs_namespaces,
    needs_package("hatchling"),
    needs_program("systemd-tmpfiles", "systemd"),
]

DOCS = ROOT / "docs"
EXAMPLES = DOCS / "examples"
# Nothing has been loaded yet.
WARNINGS = 2
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def sections(page: str) -> dict[str, list[str]]:
    """Return the shell blocks of a page by heading of the second level. Those above the first heading have ''."""
    parts = re.split(r"^## (.+)\n", (DOCS / page).read_text("utf-8"), flags=re.MULTILINE)
    found = {"": BLOCK.findall(parts[0])}
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        found[heading] = BLOCK.findall(text)
    return found


PRODUCTION = sections("production.md")


def follow(here: Machine, heading: str) -> list[str]:
    """Run the blocks below the heading that ends with these words, and return what each has printed."""
    (blocks,) = [blocks for name, blocks in PRODUCTION.items() if name.endswith(heading)]
    printed = []
    for block in blocks:
        is_first_status = block == "counterfoil status\n"
        if is_first_status:
            until(lambda: is_ready(here), "the service is ready")
        printed.append(here.run(block, status=WARNINGS if is_first_status else 0))
    return printed


def is_ready(here: Machine) -> bool:
    asked = "curl --silent --output /dev/null --write-out '%{http_code}' http://127.0.0.1:8001/ready || true"
    return here.run(asked) == "200"


EXPORTS = {
    "receipts.csv": "loyverse-receipts.csv",
    "receipts-by-item.csv": "loyverse-receipts-by-item.csv",
    "today.csv": "foodstory-orders.csv",
}
PRINTED: dict[str, list[str]] = {}


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine on which the page was followed to its end."""
    with machine(tmp_path_factory.mktemp("production") / "machine") as here:
        for name, example in EXPORTS.items():
            here.path(f"{HOME}/{name}").write_bytes((EXAMPLES / example).read_bytes())
        here.variables = "".join(PRODUCTION[""])
        for heading in PRODUCTION:
            if not heading.startswith(tuple("123456789")):
                continue
            PRINTED[heading] = follow(here, heading)
            if "told" in heading:
                until(lambda: is_ready(here), "the service is ready")
            if "delivery" in heading:
                until(lambda: len(listed(here, "shops")) == 2, "the watcher has loaded the delivery")
        yield here


def printed(heading: str) -> list[str]:
    """Return what the blocks below the heading that ends with these words have printed."""
    (found,) = [blocks for name, blocks in PRINTED.items() if name.endswith(heading)]
    return found


def listed(here: Machine, *words: str) -> Any:
    """Return the JSON that a command prints."""
    return json.loads(here.run(" ".join(("counterfoil", *words, "--json"))))


def resolve_all(here: Machine) -> None:
    numbers = [str(item["number"]) for item in listed(here, "loads", "open")]
    here.run(f"counterfoil loads resolve {' '.join(numbers)}")


def test_each_program_of_a_unit_runs_as_its_user_without_privileges(production: Machine) -> None:
    running = {}
    for file in production.path("/run/units").iterdir():
        said = production.run(f"cat /proc/{file.read_text()}/status; id -nu $(stat -c %u /proc/{file.read_text()})")
        privileges = re.findall(r"^Cap(?:Eff|Bnd|Inh):\t(\w+)$|^NoNewPrivs:\t1$", said, re.MULTILINE)
        assert len(privileges) == 4
        assert {int(found, 16) for found in privileges if found} == {0}
        running[file.name] = said.splitlines()[-1]
    assert running == {
        "counterfoil.service": "counterfoil",
        "counterfoil-console.service": "counterfoil",
        "counterfoil-load.service": "counterfoil-load",
    }


def test_only_its_user_can_open_the_keys_and_only_root_the_settings(production: Machine) -> None:
    for user, groups, path, can_read in (
        ("counterfoil", "counterfoil", "/var/lib/counterfoil/keys.sqlite3", True),
        ("counterfoil-load", "counterfoil", "/var/lib/counterfoil/keys.sqlite3", False),
        ("counterfoil-load", "counterfoil", "/var/lib/counterfoil/books.sqlite3", True),
        ("till", "counterfoil-deliver", "/var/lib/counterfoil/books.sqlite3", False),
        ("till", "counterfoil-deliver", "/var/spool/counterfoil/by-hand/receipts.csv", False),
        ("counterfoil", "counterfoil", "/etc/counterfoil/serve.env", False),
    ):
        as_user = f"setpriv --reuid={user} --regid={user} --groups={groups}"
        said = production.run(f"{as_user} test -r {path} && echo yes || echo no")
        assert said.split() == ["yes" if can_read else "no"], (user, path)


def test_the_exports_of_the_page_are_loaded_by_hand_and_by_the_watcher(production: Machine) -> None:
    assert "bills       3 converted" in printed("The first load")[0]
    assert listed(production, "loads", "open") == []
    assert {shop["franchiseId"] for shop in listed(production, "shops")} == {"my-group"}


def test_by_hand_and_by_the_watcher_the_same_mappings_are_used(production: Machine) -> None:
    """Both users may write the books, so each trusts the mappings of the other one."""
    again = "cd /var/spool/counterfoil/by-hand && counterfoil import receipts.csv receipts-by-item.csv --check"
    assert "bills       3 converted" in production.run(again)


def test_the_key_reads_both_shops_and_the_message_for_its_holder_has_no_key(production: Machine) -> None:
    (said,) = printed("The first key")
    (key,) = re.findall(PATTERN, said)
    message = said.partition("You can now read")[2]
    assert "https://api.example.com/ext/v1\n" in message
    assert key not in message
    answer = production.run(f'curl --silent --fail -H "Authorization: Bearer {key}" http://127.0.0.1:8000/ext/v1/shops')
    assert json.loads(answer)["ok"]
    (page,) = re.findall(r"https://api\.example\.com(/ext/reference)#first-call", message)
    assert 'id="first-call"' in production.run(f"curl --silent --fail http://127.0.0.1:8000{page}")


def test_the_console_of_the_page_signs_in_with_its_link(production: Machine) -> None:
    link = printed("The store and its services")[-1].splitlines()
    (address,) = [line for line in link if line.startswith("http://")]
    host = address.removeprefix("http://").partition(":")[0]
    assert "sign-in#" in address
    asked = f"curl --silent --fail --resolve {host}:8002:127.0.0.1 http://{host}:8002/sign-in"
    assert "<html" in production.run(asked)


def test_the_backup_is_complete_and_private_and_everything_is_well(production: Machine) -> None:
    *_, well = printed("The first backup")[0].splitlines()
    assert well == "All is well."
    (backup,) = production.path("/var/lib/counterfoil-backups").iterdir()
    assert {path.stat().st_mode & 0o077 for path in (backup.parent, *backup.iterdir())} == {0}
    assert listed(production, "status")["lastBackupAt"]


def test_root_forgets_a_member_also_in_the_folders_of_the_watcher(production: Machine) -> None:
    """Only the watcher's user may enter these folders, and only the service's user may write the audit log."""
    records = [
        {"kind": "shop", "id": "sh_1", "franchiseId": "my-group", "providerId": "mb_a", "closingTime": "04:00"},
        {"kind": "base", "id": "mb_a"},
        {"kind": "member", "id": "person-4711", "providerId": "mb_a", "tel": "0891234567"},
        {"kind": "bill", "id": "b_1", "shopId": "sh_1", "memberId": "person-4711", "closedAt": "2026-11-18T12:00:00Z"},
        {"kind": "bill", "id": "b_2", "shopId": "sh_unknown", "memberId": "person-4711"},
    ]
    deliver = "umask 027; cd /var/spool/counterfoil/incoming; cat >.base.ndjson; mv .base.ndjson base.ndjson"
    text = "".join(json.dumps(record) + "\n" for record in records)
    production.run(f"runuser -u till -- sh -c '{deliver}'", stdin=text)
    until(lambda: listed(production, "loads", "open"), "the delivery is loaded, and its last line rejected")
    search = "grep -rlaE 'person-4711|0891234567' /var/spool/counterfoil /var/lib/counterfoil || true"
    assert len(production.run(search).split()) >= 3
    as_service = "runuser -u counterfoil -- /opt/counterfoil/bin/counterfoil members forget person-4711 --yes"
    store = "--store /var/lib/counterfoil"
    refused = production.run(f"COUNTERFOIL_KEPT=/var/spool/counterfoil {as_service} {store}", status=1)
    assert "/var/spool/counterfoil/done: it cannot be searched: Permission denied. Run this command as root" in refused
    production.run("counterfoil members forget - --yes", stdin="person-4711\n")
    assert production.run(search) == ""
    owners = production.run("stat -c '%U %a' /var/spool/counterfoil/done/*base.ndjson /var/lib/counterfoil/*.sqlite3*")
    assert {line.split()[0] for line in owners.splitlines()} <= {"counterfoil", "counterfoil-load"}
    (entry, *_) = [entry for entry in listed(production, "audit") if entry["act"] == "member_forgotten"]
    assert entry["actor"] == "root"
    resolve_all(production)


@needs_program("caddy", "caddy")
def test_the_proxy_of_the_page_forwards_the_api_alone_and_logs_no_query(production: Machine) -> None:
    config = production.path("/etc/caddy/Caddyfile").read_text("utf-8")
    # A certificate of a public authority needs a name in DNS. Nothing may trust the one that is made here.
    config = config.replace("{\n", "{\n\tskip_install_trust\n", 1)
    production.path("/run/Caddyfile").write_text(config.replace(".com {", ".com {\n\ttls internal"), "utf-8")
    production.run("echo 127.0.0.1 localhost api.example.com >/etc/hosts; sed -i s/dns//g /etc/nsswitch.conf")
    production.run("setsid caddy run --adapter caddyfile --config /run/Caddyfile </dev/null >/run/caddy.log 2>&1 &")
    asked = "curl --insecure --silent --output /dev/null --write-out '%{http_code}' https://api.example.com"

    def status_of(path: str) -> str:
        return production.run(f"{asked}{path} || true")

    until(lambda: status_of("/ext/v1/openapi.json") == "200", "the proxy forwards")
    assert [status_of(path) for path in ("/ext/reference", "/metrics", "/")] == ["200", "404", "404"]
    production.run("systemctl stop counterfoil.service")
    assert status_of("/ext/v1/members/lookup?messagingUserId=U-secret") == "502"
    assert "U-secret" not in production.path("/run/caddy.log").read_text("utf-8")
    production.run("systemctl start counterfoil.service")
    until(lambda: is_ready(production), "the service is ready")


def test_the_commands_of_an_upgrade_keep_everything_running(production: Machine) -> None:
    (upgrade,) = sections("run.md")["Upgrades"]
    before = listed(production, "shops")
    production.run(upgrade)
    until(lambda: is_ready(production), "the service is ready")
    assert listed(production, "shops") == before


# --- another machine ----------------------------------------------------------------

ANOTHER = sections("new-machine.md")


@pytest.fixture(scope="module")
def prepared(production: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A second machine, on which only the steps 1 and 2 were followed, and whose users have other numbers."""
    with machine(tmp_path_factory.mktemp("another") / "machine") as another:
        another.run("useradd --system somebody")
        another.variables = production.variables
        for heading in list(PRODUCTION)[1:3]:
            follow(another, heading)
        another.run("apt-get install caddy; useradd --groups counterfoil-deliver till")
        yield another


def read_shops(here: Machine, key: str) -> Any:
    command = f'curl --silent --fail -H "Authorization: Bearer {key}" http://127.0.0.1:8000/ext/v1/shops'
    return json.loads(here.run(command))


def test_a_backup_is_restored_on_another_machine(production: Machine, prepared: Machine) -> None:
    (key,) = re.findall(PATTERN, printed("The first key")[0])
    before = listed(production, "shops")
    production.run("systemctl start counterfoil-backup.service")
    backup = max(production.path("/var/lib/counterfoil-backups").iterdir())
    variable, commands = ANOTHER["Restore on another machine"]
    (target,) = re.findall(r"BACKUP=(.+)", variable)
    shutil.copytree(backup, prepared.path(target.replace("~", HOME)))
    prepared.run(variable + commands)
    until(lambda: is_ready(prepared), "the service is ready")
    assert read_shops(prepared, key)["data"] == read_shops(production, key)["data"]
    assert listed(prepared, "shops") == before
    deliver = "umask 027; cd /var/spool/counterfoil/incoming; echo '{}' >.new.ndjson; mv .new.ndjson new.ndjson"
    prepared.run(f'runuser -u till -- sh -c "{deliver}"')
    until(lambda: listed(prepared, "loads", "open"), "the watcher writes to the restored store")
    stop = "systemctl stop counterfoil.service counterfoil-load.service counterfoil-console.service"
    prepared.run(f"{stop}; rm -r /var/lib/counterfoil/* /var/spool/counterfoil/*/*")


def test_a_store_moves_to_another_machine_with_its_keys_marks_and_deliveries(
    production: Machine, prepared: Machine
) -> None:
    (key,) = re.findall(PATTERN, printed("The first key")[0])
    before = read_shops(production, key)
    variable, certificate, move, deliveries, check = ANOTHER["Move to a new machine"]
    production.run("echo certificate >/var/lib/caddy/certificate")
    with reachable(production, variable.strip().removeprefix("NEW="), prepared):
        production.run(variable + certificate + move)
        until(lambda: is_ready(prepared), "the service is ready")
        deliver = "umask 027; cd /var/spool/counterfoil/incoming; echo '{}' >late.ndjson"
        production.run(f'runuser -u till -- sh -c "{deliver}"')
        production.run(variable + deliveries)
        until(
            lambda: listed(prepared, "loads", "open"), "what was delivered to the old machine is loaded on the new one"
        )
        resolve_all(prepared)
        well = production.run(variable + check)
    assert prepared.run("cat /var/lib/caddy/certificate") == "certificate\n"
    after = read_shops(prepared, key)
    assert after["data"] == before["data"]
    assert after["serverTime"] >= before["serverTime"]
    assert well.splitlines()[-1] == "All is well."
    owner = "stat -c %U /var/lib/counterfoil/keys.sqlite3 /var/spool/counterfoil/incoming"
    assert prepared.run(owner).split() == ["counterfoil", "counterfoil-load"]
    number = "id -u counterfoil"
    assert prepared.run(number) != production.run(number)
