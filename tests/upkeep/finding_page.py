"""Generates docs/findings.md from the kinds of findings, which are declared beside the checks that find them."""

import re
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from counterfoil import checks
from counterfoil.checks.findings import FindingKind, Status
from counterfoil.cli import status as status_command
from counterfoil.model.text import counted
from upkeep.fields import ROOT

PAGE = ROOT / "docs/findings.md"
INTRODUCTION = """\
# Findings

What `counterfoil status`, `doctor` and the console may find, by the `code` of `status --json`. All of them, and
notifications, also say what to do. `make docs` generates this page from the checks. `…` and N stand for what a check
found. A failure of the settings or of a database of the store has the code of its error.
[watch.md](watch.md#at-a-glance) says which exit status follows.
"""
TITLES: dict[Status, str] = {"fail": "Failures", "warn": "Warnings"}
PLACEHOLDER = re.compile(r"\{\w+(?::(?P<noun>[^}]*))?\}")


def page() -> str:
    parts = [INTRODUCTION]
    found = sorted(_kinds(), key=_check)
    for status, title in TITLES.items():
        rows = "".join(_row(kind) for kind in found if kind.status == status)
        parts.append(f"## {title}\n\n| check | code | what it says |\n|---|---|---|\n{rows}")
    codes = [f"`{kind.code}`" for kind in found if kind.status == "ok"]
    parts.append(f"## In order\n\nThe codes of checks that found nothing to do: {', '.join(codes)}.\n")
    return "\n".join(parts)


def _kinds() -> Iterator[FindingKind]:
    modules = [import_module(f"{checks.__name__}.{module.name}") for module in iter_modules(checks.__path__)]
    for module in (*modules, status_command):
        for value in vars(module).values():
            if isinstance(value, FindingKind):
                yield value


def _row(kind: FindingKind) -> str:
    return f"| {_check(kind)} | `{kind.code}` | {_text(kind.text)} |\n"


def _check(kind: FindingKind) -> str:
    return f"`{kind.check}`" if kind.check else "a database"


def _text(text: str) -> str:
    return PLACEHOLDER.sub(_placeholder, text)


def _placeholder(found: re.Match[str]) -> str:
    """Return `N lines` for `{lines:line}`, and `…` for a value without a noun."""
    return counted(0, found["noun"]).replace("0", "N", 1) if found["noun"] else "…"
