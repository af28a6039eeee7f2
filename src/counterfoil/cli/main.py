"""The command's front door: its list of commands, its global options, and how every failure is told.

A command is imported when it is called and not before, so that help and the
small commands start at once.
"""

import importlib
import io
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
FIRST_OF_OUR_OWN = 3

# name: what it does. The command is the function `command` of the module of its name.
COMMANDS = {
    "demo": "Make a believable restaurant group and serve it.",
    "serve": "Serve the API.",
    "load": "Load source records from files, folders or standard input.",
    "generate": "Write believable source records, as many as you like.",
    "schema": "Print the JSON Schema of a kind of source record.",
    "pull": "Keep a copy in DuckDB, Parquet or PostgreSQL.",
    "reconcile": "Compare a copy with the service, and mend it.",
    "keys": "Issue, list, change, rotate and revoke API keys.",
    "usage": "Show what keys have spent, day by day.",
    "migrate": "Make the schema of a PostgreSQL store, or bring it up to date.",
    "copy": "Move a live store from a folder to PostgreSQL, and verify it.",
    "prune": "Drop request records and totals past their time.",
    "doctor": "Check the installation and say what to do.",
    "settings": "Print the effective settings.",
}
MODULES = {"settings": "settings_"}

# Errors whose message is meant for the operator, and what goes before it. By
# name, so that a command that never touches the store need not import it.
FORESEEN = {
    "SettingsError": "",
    "SourceError": "",
    "KeyDeskError": "",
    "CopyRefused": "",
    "ClusterProblem": "",
    "StoreMismatch": "",
    "StoreUnavailable": "the store cannot be used now: ",
}

# Packages that not every installation has, and the extra that brings each. (A copy in PostgreSQL needs
# psycopg too, and says itself that `pull` brings it.)
EXTRAS = {
    "granian": "server",
    "isal": "server",
    "prometheus_client": "server",
    "uvloop": "server",
    "asyncpg": "cluster",
    "psycopg": "cluster",
    "redis": "cluster",
    "duckdb": "pull",
}


class Program(click.Group):
    """Finds commands by the table, and turns whatever goes wrong into one sentence and an exit status."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"counterfoil.cli.{MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        extra["standalone_mode"] = False
        sys.exit(_status(lambda: super(Program, self).main(*args, **extra)))


@click.command(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="COUNTERFOIL_CONFIG",
    show_envvar=True,
    metavar="FILE",
    help="Settings file (TOML). Flags and COUNTERFOIL_* variables win over it.",
)
@click.version_option(package_name="counterfoil", message="counterfoil %(version)s")
@click.pass_context
def program(ctx: click.Context, config: Path | None) -> None:
    """Read-only access to a restaurant group's shops, bills and members, for servers that hold a key.

    Start with `counterfoil demo`.
    """
    ctx.obj = config


def run() -> NoReturn:
    _settle_streams()
    program.main(prog_name="counterfoil")


def _settle_streams() -> None:
    """Nothing that we print fails for a letter that the stream cannot carry, and no file takes a stream's place."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < FIRST_OF_OUR_OWN:
        pass
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process
    if sys.stdout is None:
        sys.exit(_tell("standard output is closed; send it to /dev/null if nobody is to read it.", FAILED))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _status(call: Callable[[], object]) -> int:
    """Run the command; the exit status, after telling what failed."""
    try:
        status = call()
        sys.stdout.flush()
    except click.UsageError as error:
        return _misused(error)
    except click.ClickException as error:
        return _tell(error.format_message(), FAILED)
    except (KeyboardInterrupt, click.Abort):
        return _tell("interrupted", INTERRUPTED)
    except BrokenPipeError:
        return _nobody_reads()
    except Exception as error:  # noqa: BLE001 - the last line: never a traceback unless asked for
        return _tell(_sentence(error), FAILED)
    return status if isinstance(status, int) else 0


def _tell(sentence: str, status: int) -> int:
    if os.environ.get("COUNTERFOIL_DEBUG", "") not in ("", "0"):
        traceback.print_exc()
    click.echo(f"counterfoil: {' '.join(sentence.split())}", err=True)
    return status


def _misused(error: click.UsageError) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return MISUSED
    command = error.ctx.command_path if error.ctx else "counterfoil"
    return _tell(f"{error.format_message()} Try `{command} --help`.", MISUSED)


def _sentence(error: Exception) -> str:
    name = type(error).__name__
    for kind in type(error).__mro__:
        if kind.__name__ in FORESEEN:
            return FORESEEN[kind.__name__] + str(error)
    if isinstance(error, ModuleNotFoundError) and (package := (error.name or "").partition(".")[0]) in EXTRAS:
        return (
            f"the package {package} is not installed; it comes with the extra `{EXTRAS[package]}`: "
            f"in a clone of Counterfoil, `pip install '.[{EXTRAS[package]}]'`"
        )
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or name
        return f"{reason}: {error.filename}" if error.filename else reason
    return (
        f"something failed that nobody foresaw ({name}: {error}); "
        "run it again with COUNTERFOIL_DEBUG=1 to see where, and please report it."
    )


def _nobody_reads() -> int:
    """The reader of our output has gone (`| head`): nothing more to say, and nothing to say it to."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED
