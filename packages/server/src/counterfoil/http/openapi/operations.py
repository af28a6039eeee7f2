"""The operations: their purpose, their parameters, and the refusals specific to each. `document.toml` has them."""

import tomllib
from importlib.resources import files
from typing import Any

from msgspec import Struct

from counterfoil.domain.problems import Problem, with_code
from counterfoil.model import resources

Json = dict[str, Any]

# Everything that the OpenAPI document says in words.
DOCUMENT: Json = tomllib.loads((files("counterfoil.http.openapi") / "document.toml").read_text("utf-8"))
STEPS_WITHOUT_THE_FEED: str = DOCUMENT["steps_without_the_feed"]
TAGS: dict[str, str] = DOCUMENT["tags"]
# Every operation has these two parameters.
COMMON_PARAMETERS = ("requestId", "ifNoneMatch")


class Operation(Struct, frozen=True, kw_only=True):
    """One GET operation. `path` is written as in the route table.

    `data` has the types that the operation returns: one object, or with `is_list` a list of elements of these types.
    An operation without `data` is public and returns the OpenAPI document.
    """

    path: str
    id: str
    tag: str
    summary: str
    description: str
    response_schema: str
    data: tuple[type[resources.Resource], ...]
    is_list: bool
    parameters: tuple[str, ...]
    refusals: tuple[Problem, ...]

    @property
    def public(self) -> bool:
        return not self.data

    @property
    def cursor(self) -> str | None:
        """The parameter that continues a list, if the list has pages."""
        return next((name for name in self.parameters if name.endswith("Cursor")), None)

    @property
    def marked(self) -> bool:
        """True if the responses have a `mark`."""
        return "since" in self.parameters


def _operation(described: Json) -> Operation:
    returns = described.pop("returns", [])
    is_list = isinstance(returns, list)
    return Operation(
        data=tuple(getattr(resources, name) for name in (returns if is_list else [returns])),
        is_list=is_list,
        parameters=(*described.pop("parameters", ()), *COMMON_PARAMETERS),
        refusals=tuple(with_code(code) for code in described.pop("refusals", ())),
        **described,
    )


OPERATIONS = tuple(_operation(described) for described in DOCUMENT["operations"])
