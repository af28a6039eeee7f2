"""Entry point: commands, global options and error reporting. A command's module is imported only when it is needed."""

import io
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

import counterfoil
from counterfoil.model.messages import MessageError
from counterfoil.model.text import missing_package, without_passwords
from counterfoil.model.version import API_VERSION, __version__
from counterfoil.program.paths import UserPath
from counterfoil.program.process import wants_colour
from counterfoil.program.registry import GROUPS, registered
from counterfoil.program.terminal import echo, print_message

FAILED, USAGE_ERROR, INTERRUPTED = 1, 2, 130
# What the documents say about the exit statuses.
EXIT_STATUSES = {
    "0": "Success.",
    "1": "Failure, also an invalid setting in the environment or in the settings file. Standard error says why in one "
    "sentence; `COUNTERFOIL_DEBUG=1` adds a traceback.",
    "2": "Wrong usage, or `status` found only warnings.",
    "3": (
        "`load` or `import` rejected lines, `load` quarantined files, `copy` or `reconcile` found differences, or the "
        "copy of `pull` has lost rows."
    ),
    "4": "`pull` or `reconcile` stopped because the day's quota is used up.",
    "5": "`pull` or `reconcile` could not reach the service, or the service failed.",
    "6": "`load` or `import` noticed a sudden change, and loaded nothing.",
    "7": "`import` has questions that nobody has answered, and wrote nothing.",
    "130": "Interrupted.",
}
# It is registered by the package `counterfoil`, and not by that for integrators.
A_COMMAND_OF_THE_OPERATOR = "serve"
FIRST_FREE_DESCRIPTOR = 3

# Optional packages, and what installs each of them. (The extra `pull` installs psycopg too. The error message in
# `client/sinks` names that extra.)
EXTRAS = {
    "asyncpg": "counterfoil[cluster]",
    "duckdb": "counterfoil-client[pull]",
    "mcp": "counterfoil-client[mcp]",
    "mcp_types": "counterfoil-client[mcp]",
    "psycopg": "counterfoil[cluster]",
    "pymysql": "counterfoil-importer[mysql]",
    "redis": "counterfoil[cluster]",
}


class CommandContext(click.Context):
    """A context that adds itself to errors of Click's parser."""

    def invoke(self, /, *args: Any, **values: Any) -> Any:
        """Run the command, unless an option stands where the value of another one is missing (`--watch --json`)."""
        options = [option for option in self.command.params if isinstance(option, click.Option)]
        flags = set()
        for option in options:
            flags.update(option.opts)
        for option in options:
            given = self.params.get(option.name or "", self.meta.get(f"counterfoil.{option.name}"))
            if str(given) in flags:
                raise click.BadOptionUsage(option.opts[0], f"Option {option.opts[0]!r} requires an argument.", self)
        return super().invoke(*args, **values)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if isinstance(error, click.UsageError) and error.ctx is None:
            error.ctx = self
        return super().__exit__(kind, error, trace)


class Command(click.Command):
    """A command that refuses an option that is given twice, because Click would use only the last one.

    `groups` has headings of the help, each with its options. All other options come first, because a beginner needs
    them.
    """

    context_class = CommandContext

    def __init__(
        self, *args: Any, groups: Mapping[str, Sequence[str]] = MappingProxyType({}), **attributes: Any
    ) -> None:
        super().__init__(*args, **attributes)
        self.groups = groups

    def options_by_heading(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """Return the names and help texts of the options under the headings of the help."""
        headings: dict[str, str] = {}
        for heading, flags in self.groups.items():
            headings |= dict.fromkeys(flags, heading)
        records: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Options", *self.groups)}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record and isinstance(option, click.Option):
                heading = next((headings[flag] for flag in option.opts if flag in headings), "Options")
                records[heading].append(record)
        return records

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.groups:
            super().format_options(ctx, formatter)
            return
        for heading, records in self.options_by_heading(ctx).items():
            with formatter.section(heading):
                formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            self._require_once(ctx, list(args))
        return super().parse_args(ctx, args)

    def _require_once(self, ctx: click.Context, words: list[str]) -> None:
        _, _, given = self.make_parser(ctx).parse_args(args=words)
        for option in self.params:
            is_single = isinstance(option, click.Option) and not (option.multiple or option.count)
            if is_single and option.name != "version" and given.count(option) > 1:
                names = "/".join([*option.opts, *option.secondary_opts])
                raise click.UsageError(f"{names} was given {given.count(option)} times. Use it once.", ctx)


class CommandGroup(Command, click.Group):
    """A group of commands. `instead` names the command that somebody means who types another word."""

    command_class = Command
    instead: Mapping[str, str] = MappingProxyType({})

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        meant = self.instead.get(args[0])
        if meant:
            raise click.UsageError(f"There is no command {args[0]!r}. Use `{ctx.command_path} {meant}`.", ctx)
        return super().resolve_command(ctx, args)


class Program(CommandGroup):
    """Looks up registered commands, and turns every error into a one-line message and an exit status."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            command = next((word for word in args if word in registered()), None)
            if command is None or args.index(command) == 0:
                raise
            option = error.option_name
            advice = f"Put it after the command: counterfoil {command} {option} ..."
            raise click.UsageError(f"{option} is not an option of `counterfoil` itself. {advice}", ctx) from error

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(registered())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        commands = registered()
        if cmd_name in commands:
            return commands[cmd_name].load()
        if cmd_name.startswith("-") or ctx.resilient_parsing:
            return None
        if A_COMMAND_OF_THE_OPERATOR not in commands and not get_close_matches(cmd_name, commands):
            raise click.UsageError(
                f"There is no command {cmd_name!r}: only the integrator's are installed. Those of the operator, such "
                f"as `{A_COMMAND_OF_THE_OPERATOR}`, come with the package `counterfoil`.",
                ctx,
            )
        raise click.NoSuchCommand(cmd_name, possibilities=list(commands), ctx=ctx)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        if "demo" in registered():
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text("To try it, run `counterfoil demo`.")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        commands = registered().values()
        width = max(len(command.name) for command in commands)
        for title in GROUPS:
            lines = [(command.name.ljust(width), command.summary) for command in commands if command.group == title]
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the completions for a command name, without importing the commands."""
        items = []
        for name, command in registered().items():
            if name.startswith(incomplete):
                items.append(CompletionItem(name, help=command.summary))
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        extra["standalone_mode"] = False
        sys.exit(run_command(lambda: super(Program, self).main(*args, **extra)))


@click.command(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@click.option(
    "--config",
    type=UserPath(path_type=Path, dir_okay=False),
    envvar="COUNTERFOIL_CONFIG",
    show_envvar=True,
    metavar="FILE",
    help="Settings file (TOML). Flags and COUNTERFOIL_* environment variables override it.",
)
@click.version_option(__version__, message=f"counterfoil %(version)s (API {API_VERSION})")
@click.pass_context
def program(ctx: click.Context, config: Path | None) -> None:
    """Read-only API for a restaurant group's shops, bills and members."""
    ctx.obj = config
    if not wants_colour():
        ctx.color = False


def run() -> NoReturn:
    if getattr(counterfoil, "__file__", None):
        # The three packages share a namespace, which has no file of its own.
        sys.exit(
            "counterfoil: an earlier release is installed beside this one. Run `pip uninstall counterfoil "
            "counterfoil-client`, then install this release again."
        )
    try:
        _prepare_streams()
    except OSError as error:
        sys.exit(f"counterfoil: cannot open {os.devnull}: {error.strerror}. Every Counterfoil command needs it.")
    try:
        program.main(prog_name="counterfoil")
    finally:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            # The command has ended, so Ctrl-C during the shutdown of the interpreter must not print a traceback.
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _prepare_streams() -> None:
    """Escape characters that a stream cannot encode, and keep descriptors 0 to 2 from being reused for files."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < FIRST_FREE_DESCRIPTOR:
        pass
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - stays open until the process exits
    if sys.stdout is None:
        sys.exit(_print_error("standard output is closed. To discard the output, redirect it to /dev/null.", FAILED))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def run_command(call: Callable[[], object]) -> int:
    try:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        status = call()
        sys.stdout.flush()
    except click.UsageError as error:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            error.show()
            return USAGE_ERROR
        return _print_error(usage_message(error), USAGE_ERROR)
    except click.ClickException as error:
        return _print_error(error.format_message(), FAILED)
    except (KeyboardInterrupt, click.Abort):
        return _print_error("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # As with `| head`: this needs no message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:  # noqa: BLE001 - users see a traceback only if they ask for it
        return _print_error(_error_message(error), FAILED)
    return status if isinstance(status, int) else 0


def _print_error(message: str, status: int) -> int:
    if os.environ.get("COUNTERFOIL_DEBUG", "") not in ("", "0"):
        for line in traceback.format_exc().splitlines():
            echo(without_passwords(line), err=True)
    print_message(without_passwords(message))
    return status


def _error_message(error: Exception) -> str:
    name = type(error).__name__
    if isinstance(error, MessageError):
        return error.prefix + str(error)
    if isinstance(error, ModuleNotFoundError) and (package := (error.name or "").partition(".")[0]) in EXTRAS:
        return missing_package(package, EXTRAS[package], sys.executable)
    if isinstance(error, ValueError) and str(error) == "embedded null byte":
        return "a path must not contain a NUL character."
    if isinstance(error, UnicodeEncodeError):
        return f"this string is not valid Unicode: {ascii(error.object)[:200]}"
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or name
        return f"{reason}: {error.filename}" if error.filename else reason
    return (
        f"unexpected error ({name}: {error}). "
        "Run the command again with COUNTERFOIL_DEBUG=1 to get a traceback, and please report it."
    )


def usage_message(error: click.UsageError) -> str:
    """Return the message of a usage error, with the help that the user can read next."""
    if isinstance(error, click.BadParameter) and isinstance(error.param, click.Argument) and not error.param_hint:
        # Without this, Click shows the choices or the brackets of the usage line as the name.
        error.param_hint = f"'{(error.param.metavar or error.param.name or '').strip('[].').upper()}'"
    text = error.format_message()
    command = error.ctx.command_path if error.ctx else "counterfoil"
    return f"{text if text.endswith(('.', '?', ')')) else f'{text}.'} Try `{command} --help`."
