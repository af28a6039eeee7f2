"""Finds pauses in the source of a test: anything that lets time pass instead of waiting for a condition."""

import ast
import re
from collections.abc import Iterator

# Functions that pause, each with the position of the argument that gives the duration.
PAUSES = {
    "time.sleep": 0,
    "sleep": 0,
    "asyncio.sleep": 0,
    "signal.sigtimedwait": 1,
    "waiting.latency": 0,
    "latency": 0,
}
SHELL_PAUSE = "sleep"
# Most files contain none of these words. Searching for them first is much faster than parsing every file.
_MAY_PAUSE = re.compile(r"sleep|wait\b|wait_for|select|sigtimedwait|latency")


def pauses(source: str) -> list[str]:
    """Return every pause in this source, with its line number."""
    if not _MAY_PAUSE.search(source):
        return []
    tree = ast.parse(source)
    events = set(_events(tree))
    ignored = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.With) and _suppresses_timeouts(node):
            waits = [call for call in ast.walk(node) if isinstance(call, ast.Call) and _is_wait(call)]
            found += [f"{call.lineno}: a wait whose timeout is suppressed" for call in waits]
        if isinstance(node, ast.Call) and (why := _pause(node, events, ignored)):
            found.append(f"{node.lineno}: {why}")
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            found += [f"{node.lineno}: time.sleep" for alias in node.names if alias.name == "sleep"]
    return found


def _pause(call: ast.Call, events: set[str], ignored: set[int]) -> str:
    name = ast.unparse(call.func)
    if name in PAUSES:
        return "" if _is_zero(call, PAUSES[name]) else name
    if name in ("select.select", "select") and all(_is_empty(argument) for argument in call.args[:3]):
        return "select without a file"
    if name in ("asyncio.wait", "asyncio.wait_for") and any(_is_fresh_event(part) for part in ast.walk(call)):
        return f"{name} for an event that nobody sets"
    if _is_wait(call) and isinstance(call.func, ast.Attribute):
        if _is_fresh_event(call.func.value):
            return "wait for an event that nobody sets"
        # A wait with a timeout returns whether the event was set. If the result is ignored, the wait is a pause.
        if ast.unparse(call.func.value) in events and id(call) in ignored and (call.args or call.keywords):
            return "wait for an event, with the result ignored"
    if any(_starts_shell_pause(argument) for argument in call.args):
        return "a process that sleeps"
    return ""


def _is_wait(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "wait"


def _is_zero(call: ast.Call, position: int) -> bool:
    duration = call.args[position] if len(call.args) > position else None
    return isinstance(duration, ast.Constant) and duration.value == 0


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.List | ast.Tuple) and not node.elts


def _is_fresh_event(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("Event", "Condition")


def _events(tree: ast.AST) -> Iterator[str]:
    """Yield the names of the variables to which this source assigns a new event."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _is_fresh_event(node.value):
            yield from (ast.unparse(target) for target in node.targets)


def _suppresses_timeouts(node: ast.With) -> bool:
    contexts = [ast.unparse(item.context_expr) for item in node.items]
    return any("suppress(" in context and "Timeout" in context for context in contexts)


def _starts_shell_pause(node: ast.expr) -> bool:
    """Return whether this is a command line, as a list or as a string, whose program is `sleep`."""
    if isinstance(node, ast.List | ast.Tuple) and node.elts:
        node = node.elts[0]
        return isinstance(node, ast.Constant) and node.value == SHELL_PAUSE
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(SHELL_PAUSE + " ")
