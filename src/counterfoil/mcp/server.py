"""The tools of the MCP server, over standard input and output. Only this module imports the MCP SDK."""

import difflib
import os
import re
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import date
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, InputRequiredResult, Tool, ToolAnnotations
from msgspec.structs import asdict
from pydantic import BeforeValidator, Field, ValidationError

from counterfoil import __version__
from counterfoil.mcp.questions import MAX_ROWS, TEXTS, DayKind, Period, Questions
from counterfoil.mcp.sources import (
    CopyError,
    CopyReader,
    Json,
    QueryRefused,
    is_sqlite,
    json_value,
    limit_process_memory,
)

READ_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)


def _day(value: object) -> object:
    """Parse a day as the API does. Pydantic would read a number as a time."""
    if value is None or isinstance(value, date):
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError as error:
        raise ValueError(f"{value} is not a day of the form YYYY-MM-DD or YYYYMMDD") from error


def _listed(value: object) -> object:
    """Accept a single value where a list is meant."""
    if value == []:
        raise ValueError("The list is empty. Leave the argument out to include everything")
    return [value] if isinstance(value, str) else value


AnyList = BeforeValidator(_listed)
FirstDay = Annotated[
    date | None, BeforeValidator(_day), Field(description="First day (YYYY-MM-DD), in the shop's time zone.")
]
LastDay = Annotated[date | None, BeforeValidator(_day), Field(description="Last day (YYYY-MM-DD), inclusive.")]
Days = Annotated[DayKind, Field(description="Whether all days are calendar days, or business days.")]
ShopIds = Annotated[
    list[str] | None,
    AnyList,
    Field(description="IDs of shops. If omitted: all shops.", max_length=MAX_ROWS),
]
Limit = Annotated[int, Field(description="Maximum number of rows.", ge=1, le=MAX_ROWS)]
SalesGroup = Literal["day", "business_day", "month", "weekday", "hour", "shop", "channel", "service_type"]
ProductGroup = Literal["product", "master_product", "category"]


class Server(MCPServer[Any]):
    """Refuses unknown arguments. The SDK would ignore them, and the result would be about everything."""

    async def list_tools(self) -> list[Tool]:
        tools = await super().list_tools()
        return [
            tool.model_copy(update={"input_schema": tool.input_schema | {"additionalProperties": False}})
            for tool in tools
        ]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        for tool in await super().list_tools():
            if tool.name == name:
                known = list(tool.input_schema.get("properties", {}))
                if unknown := [argument for argument in arguments if argument not in known]:
                    raise ToolError(_unknown_argument(name, unknown[0], known))
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                [wrong, *_] = error.__cause__.errors(include_url=False)
                reason = wrong["msg"].removeprefix("Value error, ")
                raise ToolError(f"{name}: `{wrong['loc'][0]}` is not valid. {reason}.") from error
            raise


def _unknown_argument(tool: str, argument: str, known: list[str]) -> str:
    snake_case = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", argument).lower()
    meant = [name for name in known if snake_case in TEXTS.synonyms.get(name, ())]
    meant = meant or difflib.get_close_matches(snake_case, known, 1)
    hint = f" Did you mean `{meant[0]}`?" if meant else ""
    takes = f"Its arguments are {', '.join(known)}." if known else "It has no arguments."
    return f"{tool} has no argument `{argument}`.{hint} {takes}"


def run(path: Path) -> None:
    """Serve the tools over standard input and output until the input ends."""
    limit_process_memory()
    reader = CopyReader(path)

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler's signature
        # An exception would not end the process, because a thread of the SDK would still be waiting for input.
        reader.remove_files()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    with closing(reader):
        is_sqlite(reader.path)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, end)
        make_server(Questions(reader)).run()


class Tools:
    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        # The SDK runs tools in several threads, but a snapshot must not be replaced while another thread reads it.
        self._turn = threading.Lock()

    def _ask(self, question: Callable[[], Json], **filters: Any) -> Json:
        with self._turn:
            try:
                return {"filters": {name: json_value(value) or None for name, value in filters.items()}} | question()
            except (CopyError, QueryRefused) as error:
                raise ToolError(str(error)) from error

    def copy_state(self) -> Json:
        """How current and complete the copy is, per shop, and the tables and columns that `query` can read."""
        return self._ask(self._questions.copy_state)

    def list_shops(self, limit: Limit = 100) -> Json:
        """The shops, with their time zone, their number of bills, and the days of their first and last bill."""
        return self._ask(lambda: self._questions.list_shops(limit), limit=limit)

    def sales(
        self,
        group_by: Annotated[
            list[SalesGroup] | None, AnyList, Field(description="If omitted: one total.", max_length=4)
        ] = None,
        first_day: FirstDay = None,
        last_day: LastDay = None,
        shop_ids: ShopIds = None,
        days: Days = "calendar",
        limit: Limit = 100,
    ) -> Json:
        """Sales: overall totals, and totals per group for up to 4 criteria, such as day, hour, shop and channel.

        Hours are in the shop's time zone. Void bills are counted in `voids` only. The group business_day sets days to
        business.
        """
        groups, period = group_by or (), _period(first_day, last_day, shop_ids, days, group_by)
        return self._ask(lambda: self._questions.sales(groups, period, limit), **asdict(period), limit=limit)

    def product_mix(
        self,
        group_by: ProductGroup = "product",
        first_day: FirstDay = None,
        last_day: LastDay = None,
        shop_ids: ShopIds = None,
        days: Days = "calendar",
        limit: Limit = 50,
    ) -> Json:
        """Products or categories sold, the highest total first. Void bills, cancelled lines and tips are left out.

        Every line counts once. The figures of a category do not include its subcategories.
        """
        period = _period(first_day, last_day, shop_ids, days)
        return self._ask(lambda: self._questions.product_mix(group_by, period, limit), **asdict(period), limit=limit)

    def find_bill(
        self, bill_id: str | None = None, receipt_number: str | None = None, shop_ids: ShopIds = None
    ) -> Json:
        """Bills by ID or receipt number, with their lines, options, payments and promotions. Returns at most five."""
        return self._ask(
            lambda: self._questions.find_bill(bill_id, receipt_number, shop_ids or ()),
            bill_id=bill_id,
            receipt_number=receipt_number,
            shop_ids=shop_ids,
        )

    def member_summary(self, limit: Limit = 100) -> Json:
        """Number of members and their total points, credit and visits, per base and rank. No individual members."""
        return self._ask(lambda: self._questions.member_summary(limit), limit=limit)

    def query(self, sql: Annotated[str, Field(max_length=10_000)], limit: Limit = 100) -> Json:
        """Run one SELECT statement in DuckDB's SQL, if no other tool fits. `copy_state` lists tables and columns.

        Times that end in Z are in UTC, and local_time is on the shop's clock. Bills are identified by shop_id and id
        together. For revenue, sum `revenue`, not `net`: it leaves out tips and void bills.
        """
        return self._ask(lambda: self._questions.query(sql, limit), limit=limit)


def _period(
    first_day: date | None,
    last_day: date | None,
    shop_ids: Sequence[str] | None,
    days: DayKind,
    groups: Sequence[str] | None = None,
) -> Period:
    try:
        return Period(first_day, last_day, shop_ids or (), "business" if "business_day" in (groups or ()) else days)
    except QueryRefused as error:
        raise ToolError(str(error)) from error


def make_server(questions: Questions) -> Server:
    server = Server("counterfoil", instructions=TEXTS.instructions, version=__version__, log_level="WARNING")
    tools = Tools(questions)
    for tool in (
        tools.copy_state,
        tools.list_shops,
        tools.sales,
        tools.product_mix,
        tools.find_bill,
        tools.member_summary,
        tools.query,
    ):
        server.add_tool(tool, annotations=READ_ONLY)
    return server
