"""Documents match the code: commands and versions on the first pages, what is generated, connectors."""

import json
import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import get_type_hints

import click
import pytest

from counterfoil.backends.postgres.addresses import ConnectionLimits
from counterfoil.http.openapi import document
from counterfoil.model.version import API_VERSION, __version__
from counterfoil.program.main import program
from counterfoil.settings import BY_NAME, TABLE, Settings
from upkeep import generated, setting_table

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FIRST_SCREEN = 30
GENERATED = generated.files()
CONNECTORS = sorted(path.parent for path in (ROOT / "connectors").glob("*/requirements.txt"))
TESTED_WITH = [ROOT / "connectors" / "tests" / "dbt"]


# --- the first pages ---------------------------------------------------------------


def first_commands() -> list[str]:
    """Return the commands in the code blocks on the first screen of the README, without comments."""
    screen = "\n".join((ROOT / "README.md").read_text("utf-8").splitlines()[:FIRST_SCREEN])
    blocks = re.findall(r"^```sh\n(.*?)^```", screen, re.MULTILINE | re.DOTALL)
    return [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]


def test_the_first_screen_of_the_readme_names_the_commands_for_the_demo_and_the_tests() -> None:
    assert {"make demo", "make test"} <= set(first_commands())


@pytest.mark.parametrize(("command", "does"), [("make demo", "counterfoil demo"), ("make test", "-m pytest")])
def test_a_first_command_installs_what_it_needs_before_it_runs(command: str, does: str, tmp_path: Path) -> None:
    """An empty VENV stands for a fresh machine: make prints the steps that it would take there."""
    steps = subprocess.run(
        [*command.split(), "--dry-run", f"VENV={tmp_path / 'venv'}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert 0 < steps.index("-m venv") < steps.index("pip install") < steps.index(does)


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ("README.md", f"Version {__version__}, with version {API_VERSION} of the API"),
        ("docs/install.md", f"counterfoil {__version__} (API {API_VERSION})"),
        ("docs/watch.md", f"Counterfoil {__version__} (API {API_VERSION})"),
    ],
)
def test_a_document_that_shows_the_version_shows_the_current_one(document: str, names: str) -> None:
    assert names in (ROOT / document).read_text("utf-8")


# --- links -------------------------------------------------------------------------

FOLDERS = ("*.md", "docs/**/*.md", "packages/*/*.md", "connectors/*/*.md", "deploy/**/*.md")
PAGES = sorted(page for pattern in FOLDERS for page in ROOT.glob(pattern))
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<page>[^)#\s]*)#?(?P<heading>[^)\s]*)\)")


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def headings(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    anchors = set()
    for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE):
        words = LINK.sub(r"\g<text>", heading).lower()
        anchors.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return anchors


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_page_and_a_heading_that_exist(page: Path) -> None:
    broken = []
    for link in LINK.finditer(prose(page)):
        if "://" in link["page"] or link["page"].startswith("mailto:"):
            continue
        target = (page.parent / link["page"]).resolve() if link["page"] else page
        if not target.exists() or (link["heading"] and link["heading"] not in headings(target)):
            broken.append(link[0])
        if link["text"].endswith(".md") and Path(link["text"]).name != target.name:
            broken.append(f"{link[0]} leads to another page than it names")
    assert broken == []


# --- commands ----------------------------------------------------------------------

# A command up to the end of its line or what else the shell does. Another program's options follow `--cli`.
TYPED = re.compile(r"(?<!--cli )\bcounterfoil((?: +(?!counterfoil\b)[^\s`|&;<>()]+)+)")
QUOTED = re.compile(r"(?<=[ =])('[^'\n]*'|\"[^\"\n]*\")")


def command_of(words: list[str]) -> click.Command | None:
    """Return the command that words name, such as `keys issue --shop ID`, or None if they name none."""
    command: click.Command = program
    for word in words:
        if not isinstance(command, click.Group) or word not in command.list_commands(click.Context(command)):
            break
        found = command.get_command(click.Context(command), word)
        assert found
        command = found
    return None if command is program else command


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_every_option_that_a_page_shows_after_a_command_is_one_of_that_command(page: Path) -> None:
    unknown = []
    for typed in TYPED.findall(QUOTED.sub("TEXT", page.read_text("utf-8").replace("\\\n", " "))):
        words = typed.split()
        command = command_of(words)
        if command is None:
            continue
        options = {"--help"}.union(*(parameter.opts + parameter.secondary_opts for parameter in command.params))
        named = [word.partition("=")[0].rstrip(".,:") for word in words if re.match(r"--\w", word)]
        unknown += [f"{typed.strip()}: {option}" for option in named if option not in options]
    assert unknown == []


# --- lengths -----------------------------------------------------------------------

GUIDES = [page for page in PAGES if page.parent == DOCS]
MOST_WORDS, MOST_IN_A_PARAGRAPH, MOST_IN_A_CELL = 3_000, 60, 40


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_a_guide_has_short_paragraphs_and_cells_and_is_not_long(page: Path) -> None:
    long = []
    for line in prose(page).splitlines():
        is_row = line.startswith("|")
        parts = re.split(r"(?<!\\)\|", line) if is_row else [line]
        most = MOST_IN_A_CELL if is_row else MOST_IN_A_PARAGRAPH
        long += [part for part in parts if len(part.split()) > most]
    assert long == []
    assert len(page.read_text("utf-8").split()) <= MOST_WORDS


FIRST_PAGES = [page for page in PAGES if page.parent == ROOT]
# All pages together, so that a fact replaces another one, or has a reader who needs it more.
MOST_WORDS_OF_ALL = 65_000


@pytest.mark.parametrize("page", FIRST_PAGES, ids=lambda page: page.name)
def test_a_page_beside_the_readme_is_not_long(page: Path) -> None:
    assert len(page.read_text("utf-8").split()) <= MOST_WORDS


def test_all_pages_together_are_not_longer_than_their_readers_need() -> None:
    pages = [*DOCS.glob("**/*.md"), *(page for page in FIRST_PAGES if page.name != "CHANGELOG.md")]
    assert sum(len(page.read_text("utf-8").split()) for page in pages) <= MOST_WORDS_OF_ALL


# --- what is generated -------------------------------------------------------------


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_what_is_generated_from_the_code_is_up_to_date(path: Path) -> None:
    assert path.read_text("utf-8") == GENERATED[path], "run `make docs`"


def test_readers_find_the_change_feed_before_the_steps_without_it() -> None:
    described = json.loads(document("/ext"))["info"]["description"]
    page = generated.OWN_CLIENT.read_text("utf-8")
    for text in (described, page):
        assert text.index("/v1/changes") < text.index("1. Call `GET /v1/shops`")


# --- settings ----------------------------------------------------------------------


def test_every_setting_is_declared_with_its_help_and_a_default_that_it_allows() -> None:
    # `database` is not a separate setting: it is derived from `store` if that names a server.
    assert {setting.name for setting in TABLE} == set(Settings.__struct_fields__) - {"database"}
    declared_types = get_type_hints(Settings)
    for setting in TABLE:
        assert isinstance(setting.default, int) == (declared_types[setting.name] is int), setting.name
        assert setting.help.endswith("."), setting.name
        if isinstance(setting.default, int):
            minimum, maximum = setting.range
            assert minimum <= setting.default <= maximum > 0, setting.name
        assert not setting.choices or setting.default in setting.choices, setting.name
    assert set(setting_table.MORE) <= set(BY_NAME)


def test_the_limits_of_connections_have_the_defaults_of_their_settings() -> None:
    limits = ConnectionLimits()
    for name in ConnectionLimits.__struct_fields__:
        assert getattr(limits, name) == BY_NAME[name].default, name


# --- connectors --------------------------------------------------------------------


@pytest.mark.parametrize("folder", [*CONNECTORS, *TESTED_WITH], ids=lambda folder: folder.name)
def test_every_package_of_a_connector_has_an_exact_version_and_no_host(folder: Path) -> None:
    lines = (folder / "requirements.txt").read_text("utf-8").splitlines()
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


@pytest.mark.parametrize("folder", CONNECTORS, ids=lambda folder: folder.name)
def test_every_connector_has_a_description_and_the_shared_tests(folder: Path) -> None:
    assert (folder / "README.md").exists()
    assert "(ConnectorTests)" in (ROOT / "connectors" / "tests" / f"test_{folder.name}.py").read_text("utf-8")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert re.search(rf"^CONNECTORS := .*\b{folder.name}\b", makefile, re.MULTILINE)
    assert f"../connectors/{folder.name}/README.md" in (ROOT / "docs" / "keep-a-copy.md").read_text("utf-8")


def test_the_sql_of_the_airbyte_readme_returns_the_bills_that_still_exist() -> None:
    readme = (ROOT / "connectors" / "airbyte" / "README.md").read_text("utf-8")
    (statement,) = re.findall(r"^```sql\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    with closing(sqlite3.connect(":memory:")) as copy:
        copy.execute('CREATE TABLE changes ("shopId", kind, id, bill, "passTime", "completeSince")')
        copy.execute("INSERT INTO changes VALUES ('riverside', 'shop', '', NULL, '2026-11-15', '2026-11-14')")
        copy.execute("INSERT INTO changes VALUES ('riverside', 'bill', 'gone', '{}', '2026-11-13', NULL)")
        copy.execute("INSERT INTO changes VALUES ('riverside', 'bill', 'here', '[]', '2026-11-14', NULL)")
        assert copy.execute(statement).fetchall() == [("[]",)]


def test_ci_runs_the_connectors_and_the_test_suite_says_that_it_does_not() -> None:
    assert "make test-connectors" in (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    assert "tests of the connectors (make test-connectors)" in (ROOT / "Makefile").read_text("utf-8")
