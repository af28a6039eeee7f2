"""The types that pages work with: the operator's request, and the content of a page."""

from collections.abc import Callable
from typing import Generic, TypeVar
from urllib.parse import urlencode

from msgspec import Struct

from counterfoil.console.sessions import Session, Sessions
from counterfoil.console.stores import ConsoleStore
from counterfoil.console.texts import Texts
from counterfoil.machine.private_listener import ListenerRequest
from counterfoil.settings import Settings
from counterfoil.web.html import Html

View = TypeVar("View")


class Visit(Struct, frozen=True, kw_only=True):
    """A signed-in operator's request, and everything that a page needs. `values` contains the path variables."""

    request: ListenerRequest
    session: Session
    sessions: Sessions
    store: ConsoleStore
    settings: Settings
    t: Texts
    now: int
    values: dict[str, str]

    @property
    def query(self) -> dict[str, str]:
        return self.request.query

    def address(self, path: str, **changes: str | None) -> str:
        """Return the address of a page with this request's parameters and these changes. None removes a parameter."""
        merged = {name: changes.get(name, value) for name, value in {**self.query, **changes}.items()}
        kept = {name: value for name, value in merged.items() if value}
        return f"{path}?{urlencode(kept)}" if kept else path

    def new_form(self) -> str:
        return self.sessions.new_form(self.session)


class PageContent(Struct, frozen=True, kw_only=True):
    """The content of a page. `command` and `more_commands` together show the same data in a terminal.

    `command_text` is set if `command` shows or does something else, and says what.
    `shows_service` is true if the content already says whether the service is ready.
    """

    title: str
    main: Html
    command: str | None = None
    more_commands: tuple[str, ...] = ()
    command_text: str | None = None
    lead: Html | None = None
    shows_service: bool = False


class CsvExport(Struct, frozen=True):
    name: str
    columns: tuple[str, ...]
    rows: list[tuple[object, ...]]


class ConsolePage(Struct, Generic[View], frozen=True, kw_only=True):
    """A page. `read` returns its data, which is also served as JSON, and `draw` renders the data as HTML.

    `name` is the page's name in the navigation. A page that is not listed there has the name of its parent page.
    """

    name: str
    read: Callable[[Visit], View]
    draw: Callable[[Visit, View], PageContent]
    csv: Callable[[Visit, View], CsvExport] | None = None
