"""Variables of the environment that have the prefix of our settings, but that nothing reads."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from msgspec import Struct

from counterfoil.settings import TABLE

# Variables that are not settings: those of commands, of the files in `deploy`, of a connector, and of the tests.
_OF_COMMANDS = frozenset(
    {
        "COUNTERFOIL_CONFIG",
        "COUNTERFOIL_DEBUG",
        "COUNTERFOIL_IMPORT_MAPPINGS",
        "COUNTERFOIL_IMPORT_URL",
        "COUNTERFOIL_KEY",
        "COUNTERFOIL_URL",
    }
)
_OTHER_VARIABLES = re.compile(
    "COUNTERFOIL_(?:(?:API|DEPLOYMENT|LOAD|METER|OPS|OWNER)_SECRET|PAGE_SIZE|PULL_[A-Z_]+|TEST_[A-Z_]+)"
)
# Docker and Kubernetes set these if another container, or a service, has a name that begins with `counterfoil`.
_CONTAINER_LINK = re.compile(
    "COUNTERFOIL_(?:[A-Z0-9_]+_)?(?:NAME|ENV_.+|SERVICE_HOST|SERVICE_PORT(?:_.+)?|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_.+)?)"
)
_LINKED_PORT = re.compile("(?:tcp|udp|sctp)://.*")
# How similar a name must be to count as a misspelling, from 0 to 1. Two exchanged letters of four are 0.75.
_MISSPELLED_FROM = 0.75


class UnknownVariable(Struct, frozen=True):
    """A variable of the environment that nothing reads, and the known one whose name is similar, or an empty text."""

    name: str
    meant: str

    def __str__(self) -> str:
        advice = f"Did you mean {self.meant}?" if self.meant else "`counterfoil settings` lists all settings."
        return f"{self.name} has no effect, because no setting has this name. {advice}"


def unknown_variables(environment: Mapping[str, str]) -> list[UnknownVariable]:
    known = {setting.variable for setting in TABLE} | _OF_COMMANDS
    unknown = []
    for name, value in sorted(environment.items()):
        is_like_ours = name.startswith("COUNTERFOIL_") and not _is_of_others(name, value)
        if is_like_ours and name not in known:
            unknown.append(UnknownVariable(name, _similar(name, known)))
    return unknown


def _is_of_others(name: str, value: str) -> bool:
    if _OTHER_VARIABLES.fullmatch(name) or _CONTAINER_LINK.fullmatch(name):
        return True
    return name.endswith("_PORT") and bool(_LINKED_PORT.fullmatch(value))


def _similar(name: str, known: Iterable[str]) -> str:
    """Return the known variable whose name is most similar, or an empty text if none is. The prefix does not count."""
    prefix = "COUNTERFOIL_"
    names = [variable.removeprefix(prefix) for variable in known]
    close = get_close_matches(name.removeprefix(prefix).upper(), names, n=1, cutoff=_MISSPELLED_FROM)
    return prefix + close[0] if close else ""
