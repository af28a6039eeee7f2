"""The messages of usage errors: which command they belong to, and what Click reports, in plain sentences."""

from types import TracebackType

import click

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
    return error.format_message()


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
