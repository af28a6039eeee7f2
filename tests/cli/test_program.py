"""Tests for behaviour common to all commands: help, start-up, errors and exit statuses."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cli.command import PYTHON, Command, run_sql
from cli.watched_folder import SHOP_LINES
from counterfoil.copies import COMMANDS
from counterfoil.importing.results import REJECT_REASONS, Reason
from counterfoil.model.version import API_VERSION, __version__
from counterfoil.ports import StoreUnavailable
from counterfoil.program.completion import VARIABLE
from counterfoil.program.main import EXTRAS, Program, program
from counterfoil.program.main import Command as ProgramCommand
from counterfoil.program.registry import GROUPS, registered
from counterfoil.settings import SettingsError


@pytest.mark.parametrize("name", registered())
def test_every_command_and_every_option_has_a_help_text(counterfoil: Command, name: str) -> None:
    assert counterfoil.bare(name, "--help").stdout.startswith(f"Usage: program {name}")
    undescribed = [
        (path, param.name)
        for path, command in described(name)
        for param in command.params
        if isinstance(param, click.Option) and not param.hidden and not param.help
    ]
    assert undescribed == []
    assert all(command.help for _, command in described(name))


def test_every_reason_to_reject_a_row_of_an_export_has_a_text() -> None:
    assert REJECT_REASONS.keys() == set(Reason)


def test_help_shows_every_command_in_groups_of_at_most_seven(counterfoil: Command) -> None:
    shown = counterfoil.bare("--help").stdout
    assert all(f"  {name} " in shown for name in registered())
    titles = [line.removesuffix(":") for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Options", *GROUPS]
    groups = Counter(command.group for command in registered().values())
    assert max(groups.values()) <= 7
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_the_help_of_a_long_command_begins_with_what_a_beginner_needs(counterfoil: Command) -> None:
    shown = counterfoil.bare("load", "--help").stdout
    first = shown.partition("Options:\n")[2].partition("\n\n")[0]
    assert re.findall(r"^  (-.+?)(?:  |$)", first, re.MULTILINE) == [
        "--check",
        "--accept-change",
        "--watch DIR",
        "--store DIR",
        "-h, --help",
    ]


@pytest.mark.parametrize("name", registered())
def test_no_heading_of_a_help_has_more_than_a_dozen_options(name: str) -> None:
    for path, command in described(name):
        assert isinstance(command, ProgramCommand), path
        groups = command.options_by_heading(click.Context(command))
        assert {heading: len(options) for heading, options in groups.items() if len(options) > 12} == {}, path
        flags = {flag for option in command.params for flag in option.opts}
        assert {flag for group in command.groups.values() for flag in group} <= flags, path


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("stauts",), "'status'"),
        (("key", "list"), "'keys'"),
        (("keys", "lst"), "'list'"),
        (("load", "--chek", "x.ndjson"), "'--check'"),
        (("serve", "--prot", "80"), "'--port'"),
    ],
)
def test_a_mistyped_command_or_option_is_answered_with_the_one_that_was_meant(
    counterfoil: Command, arguments: tuple[str, ...], meant: str
) -> None:
    answer = counterfoil.bare(*arguments, status=2).stderr
    assert "Did you mean" in answer
    assert meant in answer


@pytest.mark.parametrize("arguments", ["load --watch --json", "keys issue --shop --json"])
def test_an_option_in_place_of_a_missing_value_is_misuse(counterfoil: Command, store: Path, arguments: str) -> None:
    assert "requires an argument." in counterfoil(*arguments.split(), status=2).stderr
    assert not store.exists()


def described(name: str) -> list[tuple[str, click.Command]]:
    """Return the command and its subcommands, each with its path."""
    command = program.get_command(click.Context(program), name)
    assert command
    inner = command.commands if isinstance(command, click.Group) else {}
    return [(name, command), *((f"{name} {own_name}", subcommand) for own_name, subcommand in inner.items())]


def test_the_versions_of_the_package_and_of_the_api_are_printed(counterfoil: Command) -> None:
    assert counterfoil.bare("--version").stdout == f"counterfoil {__version__} (API {API_VERSION})\n"


def modules(code: str, *arguments: str, **variables: str) -> set[str]:
    """Run code in a new interpreter, because this one has imported more; return the modules that it has imported."""
    source = f"import sys\ntry:\n  {code}\nexcept SystemExit: pass\nsys.stderr.write(' '.join(sys.modules))"
    words, environment = [sys.executable, "-c", source, *arguments], os.environ | variables
    return set(subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stderr.split())


RUN = "from counterfoil.program.main import program; program.main(sys.argv[1:], prog_name='counterfoil')"
COMPLETING = {VARIABLE: "bash_complete", "COMP_WORDS": "counterfoil ", "COMP_CWORD": "1"}


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [("--help", {}), ("completion fish", {}), ("", COMPLETING)],
    ids=["help", "completion script", "completion of a command"],
)
def test_help_and_completion_import_only_click(arguments: str, variables: dict[str, str]) -> None:
    heavy = {"counterfoil.bootstrap", "counterfoil.settings", "msgspec", "rich", "asyncio", "granian"}
    assert not heavy & modules(RUN, *arguments.split(), **variables)


def test_the_commands_of_the_client_are_in_its_package_and_include_completion() -> None:
    assert {command.module.split(".")[1] for command in COMMANDS} == {"copies", "program"}
    assert "completion" in {command.name for command in COMMANDS}


def test_every_help_works_with_no_extra_installed() -> None:
    # An import of a module that is None fails as if it were not installed.
    missing = f"import sys; sys.modules.update(dict.fromkeys({[*EXTRAS]!r}))"
    show = """
from contextlib import suppress
from counterfoil.program.main import program
from counterfoil.program.registry import registered
for words in (["--version"], ["--help"], *([name, "--help"] for name in registered())):
    with suppress(SystemExit):
        program.main(words, prog_name="counterfoil")
"""
    shown = subprocess.run([sys.executable, "-c", missing + show], capture_output=True, text=True, check=True).stdout
    assert [name for name in registered() if f"Usage: counterfoil {name} " not in shown] == []
    assert shown.startswith(f"counterfoil {__version__}")


def test_a_worker_imports_only_what_it_needs_to_serve() -> None:
    heavy = {"click", "prometheus_client", "http.client", "asyncpg", "redis", "counterfoil.backends.moving"}
    assert not heavy & modules("import counterfoil.__main__, counterfoil.serving.worker")


@pytest.mark.parametrize("arguments", ["keys list", "load shops.ndjson", "doctor"])
def test_a_command_that_prints_to_a_pipe_imports_no_drawing_library_and_no_server(
    loaded: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shops.ndjson").write_bytes(SHOP_LINES)
    heavy = {"asyncio", "rich.console", "granian", "prometheus_client", "counterfoil.demo", "counterfoil.http"}
    assert not heavy & modules(RUN, *arguments.split(), "--store", str(loaded.store))


@pytest.mark.parametrize("arguments", [(), ("keys",)])
def test_a_command_group_without_a_command_shows_its_help(counterfoil: Command, arguments: tuple[str, ...]) -> None:
    result = counterfoil.bare(*arguments, status=2)
    assert result.stderr == counterfoil.bare(*arguments, "--help").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "--workers", "0"),
        ("serve", "--admin-port", "-1"),
        ("serve", "--prefix", "ext"),
        ("serve", "--host", ""),
        ("serve", "--admin-host", " "),
        ("serve", "--log-format", "xml"),
        ("load", "-", "--batch", "0"),
        ("demo", "--bills", "99999999999999999999"),
        ("demo", "--until", "9999-12-31"),
        ("serve", "--workers", "99999999999999999"),
        ("demo", "--port", "9000", "--admin-port", "9000"),
    ],
)
def test_a_flag_with_an_unusable_value_is_misuse(counterfoil: Command, store: Path, arguments: tuple[str, ...]) -> None:
    result = counterfoil(*arguments, status=2)
    assert result.stderr.startswith("counterfoil: ")
    assert f"Try `program {arguments[0]} --help`" in result.stderr
    assert not store.exists()


def test_an_unusable_setting_is_reported_in_one_sentence_with_exit_status_1(
    counterfoil: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_PORT", "many")
    result = counterfoil("keys", "list", status=1)
    assert result.stderr == "counterfoil: port must be a whole number, not 'many' (COUNTERFOIL_PORT).\n"


@pytest.mark.parametrize(
    "arguments", [("keys", "list"), ("keys", "issue", "--not-loaded-yet", "--shop", "sh_1"), ("load", "-"), ("serve",)]
)
def test_a_store_that_is_a_file_instead_of_a_folder_is_reported(
    counterfoil: Command, store: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    store.write_text("not a folder")
    monkeypatch.setenv("COUNTERFOIL_STORE", str(store))
    result = counterfoil.bare(*arguments, status=1)
    assert (
        result.stderr
        == f"counterfoil: the store {store} is a file, but a store must be a folder. Set --store to a folder.\n"
    )
    assert store.read_text() == "not a folder"


def test_a_store_that_is_not_a_database_is_reported_in_one_sentence(counterfoil: Command, store: Path) -> None:
    store.mkdir()
    (store / "keys.sqlite3").write_bytes(b"not a database " * 1000)
    result = counterfoil("keys", "list", status=1)
    assert result.stderr == (
        "counterfoil: the store is unavailable: keys.sqlite3 is damaged (file is not a database): "
        "stop the service and restore the file from a backup.\n"
    )
    assert counterfoil.findings("keys")[0]["status"] == "fail"


@pytest.mark.parametrize(
    ("kind", "says"), [(SettingsError, "ask again"), (StoreUnavailable, "the store is unavailable: ask again")]
)
def test_an_error_of_a_known_kind_is_reported_as_such_whatever_its_class_name(
    kind: type[Exception], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise type("NotInTheErrorTable", (kind,), {})("ask again")

    with pytest.raises(SystemExit):
        Program(callback=fail, invoke_without_command=True).main([])
    assert capsys.readouterr().err == f"counterfoil: {says}\n"


def test_an_unexpected_error_is_one_sentence_and_the_traceback_is_shown_on_request(
    loaded: Command, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_sql(store, "keys", "UPDATE keys SET body = x'00'")
    sentence = loaded("keys", "list", status=1).stderr
    assert sentence.startswith("counterfoil: unexpected error (DecodeError")
    assert "COUNTERFOIL_DEBUG=1" in sentence
    assert sentence.count("\n") == 1
    monkeypatch.setenv("COUNTERFOIL_DEBUG", "1")
    debugged = CliRunner().invoke(program, ["keys", "list", "--store", str(store)])
    assert (debugged.exit_code, "Traceback" in debugged.stderr) == (1, True)


def test_a_reader_that_closes_the_pipe_is_not_an_error() -> None:
    command = subprocess.Popen([*PYTHON, "generate", "--bills", "2000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert command.stdout
    assert command.stderr
    command.stdout.readline()
    command.stdout.close()
    errors = command.stderr.read()
    command.stderr.close()
    command.wait()
    assert errors == b""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("load --watch", "Option '--watch' requires an argument. Try `program load --help`."),
        ("status --json=1", "Option '--json' does not take a value. Try `program status --help`."),
        ("load", "Missing argument 'SOURCE...'"),
        ("--config", "Option '--config' requires an argument. Try `program --help`."),
        ("audit --since x", "Invalid value for '--since': 'x' is not a valid duration or time."),
        (
            "keys rotate 000000000000 --revoke-old-in x",
            "Invalid value for '--revoke-old-in': 'x' is not a valid duration.",
        ),
        ("keys revoke 000000000000 --at x", "Invalid value for '--at': 'x' is not a valid time."),
        ("audit x", "Invalid value for 'KEYID': this is not a valid key ID."),
        ("schema x", "Invalid value for 'KIND': 'x' is not one of 'shop', 'base', 'member', 'bill', 'form'."),
        ("schema", "Missing argument 'KIND'. Choose from: shop, base, member, bill, form."),
    ],
)
def test_misuse_of_an_option_is_reported_with_the_help_of_its_command(
    counterfoil: Command, arguments: str, message: str
) -> None:
    result = counterfoil.bare(*arguments.split(), status=2)
    assert result.stderr.startswith(f"counterfoil: {message}")
    assert result.stderr.endswith("--help`.\n")


def test_a_full_disk_under_the_output_is_reported() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*PYTHON, "schema", "bill"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "counterfoil: No space left on device"


def all_options() -> list[tuple[tuple[str, ...], click.Option]]:
    """Return every option of every command, with the command's words, from the commands themselves."""
    found: list[tuple[tuple[str, ...], click.Option]] = []

    def walk(words: tuple[str, ...], command: click.Command) -> None:
        found.extend((words, option) for option in command.params if isinstance(option, click.Option))
        if isinstance(command, click.Group):
            with command.make_context("counterfoil", [], resilient_parsing=True) as context:
                for name in command.list_commands(context):
                    inner = command.get_command(context, name)
                    assert inner
                    walk((*words, name), inner)

    walk((), program)
    return found


def test_an_option_that_is_given_twice_is_refused_by_every_command() -> None:
    options = all_options()
    assert len(options) > 100
    repeatable = set()
    for words, option in options:
        flag = option.opts[-1]
        if option.multiple or flag == "--version":
            repeatable.add((*words, flag))
            continue
        once = [flag] if option.is_flag else [flag, "1"]
        result = CliRunner().invoke(program, [*words, *once, *once])
        names = "/".join([*option.opts, *option.secondary_opts])
        assert result.exit_code == 2, (words, flag, result.output)
        assert f"{names} was given 2 times. Use it once." in result.output
    assert {("import", "--lines"), ("load", "--expect-net")} <= repeatable


@pytest.mark.parametrize(
    "arguments",
    [
        "import export.csv --check --batch 10",
        "import export.csv -o records.ndjson --batch 10",
        "load - --kept elsewhere",
        "load - --delete-loaded",
        "load - --with-shops",
        "loads open --limit 5",
        "loads 1 --limit 5",
        "loads --remove",
        "usage --latest 5",
        "usage --disclosures --days 3",
        "console --no-link --valid-for 5m",
        "console --no-link --json",
        "restore backup --yes",
        "requests --follow --limit 5",
    ],
)
def test_an_option_that_would_have_no_effect_is_refused(
    counterfoil: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("export.csv").touch()
    *_, option = [word for word in arguments.split() if word.startswith("--")]
    assert option in counterfoil.bare(*arguments.split(), status=2).stderr


def test_a_setting_that_has_no_effect_on_a_command_is_no_misuse(
    counterfoil: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_KEPT", "elsewhere")
    counterfoil("load", "-", stdin=b"")


def test_an_option_before_the_command_is_told_where_it_belongs(counterfoil: Command) -> None:
    refused = counterfoil.bare("--store", "somewhere", "status", status=2)
    assert "Put it after the command: counterfoil status --store ..." in refused.output


def test_a_mistyped_word_of_loads_gets_the_right_one(counterfoil: Command) -> None:
    assert "Did you mean `counterfoil loads resolve`?" in counterfoil("loads", "resovle", "7", status=2).output


def test_the_help_of_store_names_its_variable_and_its_default(counterfoil: Command) -> None:
    shown = " ".join(counterfoil.bare("status", "--help").output.split())
    assert "[COUNTERFOIL_STORE; default: counterfoil-data]" in shown


def test_an_unknown_route_is_refused_with_the_known_ones(counterfoil: Command) -> None:
    refused = counterfoil("requests", "--route", "transaction", status=2)
    assert "'transaction' is not a route. The routes are shops, transactions," in refused.output
