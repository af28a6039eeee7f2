"""The messages of usage errors: which command they belong to, and what Click reports, in plain sentences."""

import re
from types import TracebackType

import click

# Click's messages about values, and the sentences that replace them. A changed message of Click is printed as it is.
PLAIN = [
    (re.compile(pattern, re.DOTALL), sentence)
    for pattern, sentence in (
        (r"(.+) is not a valid integer(?: range)?\.", "{0} is not a whole number."),
        (r"(.+) is not in the range (-?[0-9]+)<=x<=([0-9]+)\.", "{0} is not between {1} and {2}."),
        (r"(.+) is not in the range x>=(-?[0-9]+)\.", "{0} is too small. The smallest value is {1}."),
        (r"(.+) does not match the format '%Y-%m-%d'\.", "{0} is not a valid date. Use the format YYYY-MM-DD."),
        (r"(?:File|Path) (.+) does not exist\.", "the file {0} does not exist."),
        (r"Directory (.+) does not exist\.", "the folder {0} does not exist."),
        (r"(?:File|Path) (.+) is a directory\.", "{0} is a folder, not a file."),
        (r"(?:Directory|Path) (.+) is a file\.", "{0} is a file, not a folder."),
        (r"(?:File|Directory|Path) (.+) is not readable\.", "{0} cannot be read. Check its permissions."),
        (r"Got unexpected extra arguments? \((.+)\)", "This command does not accept: {0}."),
    )
]
NEEDED_VALUES = {"DIR": "a folder", "FILE": "a file name", "URL": "a URL"}


class CommandContext(click.Context):
    """A context that adds itself to usage errors without a context, so that they point to the command's own help.

    Click's parser raises such errors, for example if the value of an option is missing.
    """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if isinstance(error, click.UsageError) and error.ctx is None:
            error.ctx = self
        return super().__exit__(kind, error, trace)


def use_command_context(command: click.Command) -> None:
    """Let a command and its subcommands use CommandContext."""
    command.context_class = CommandContext
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            use_command_context(inner)


def usage_message(error: click.UsageError) -> str:
    """Return the message of a usage error, with the help that the user can read next."""
    command = error.ctx.command_path if error.ctx else "counterfoil"
    return f"{_sentence(error)} Try `{command} --help`."


def _sentence(error: click.UsageError) -> str:
    if isinstance(error, click.BadOptionUsage) and error.message.endswith(" requires an argument."):
        return f"{error.option_name} needs {_needed_value(error)}."
    if isinstance(error, click.BadParameter) and isinstance(error.param, click.Argument) and not error.param_hint:
        # Without this, Click shows the choices or the brackets of the usage line as the name.
        error.param_hint = f"'{_argument_name(error.param)}'"
    text = error.format_message()
    if error.message:
        text = text.replace(error.message, plain(error.message))
    return text if text.endswith((".", "?", ")")) else f"{text}."


def plain(message: str) -> str:
    """Return a message of Click as a plain sentence, or unchanged if it is not one of those in PLAIN."""
    for pattern, sentence in PLAIN:
        found = pattern.fullmatch(message)
        if found:
            return sentence.format(*(_with_separators(part) for part in found.groups()))
    return message


def _with_separators(number: str) -> str:
    """Return a large number with thousands separators. Other texts, and port numbers, are returned unchanged."""
    return f"{int(number):,}" if re.fullmatch(r"[0-9]{6,}", number) else number


def _argument_name(argument: click.Argument) -> str:
    return (argument.metavar or argument.name or "").strip("[].").upper()


def _needed_value(error: click.BadOptionUsage) -> str:
    """Return what the value of an option is, for example `a folder`."""
    params = error.ctx.command.params if error.ctx else []
    option = next((param for param in params if error.option_name in param.opts), None)
    if option is None:
        return "a value"
    if isinstance(option.type, click.Choice):
        return f"one of these values: {', '.join(option.type.choices)}"
    if isinstance(option.type, click.types.IntParamType):
        return "a number"
    metavar = option.metavar or ""
    return NEEDED_VALUES.get(metavar) or (f"a value ({metavar})" if metavar else "a value")
