"""Text for people: numbers with units, and text from elsewhere made safe for terminals, logs and spreadsheets."""

import csv
import re
import shlex
from collections.abc import Iterable
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from unicodedata import category, east_asian_width, normalize

# --- texts that are translated -------------------------------------------------------


def translatable(text: str) -> str:
    """Mark a text that the console shows in the language of its reader, although it stands elsewhere."""
    return text


# --- text from elsewhere -------------------------------------------------------------

# Characters that change what a terminal shows or what a reader sees: control characters (C0, DEL and C1), marks that
# change the direction of text, line and paragraph separators, invisible tags, and unpaired surrogates.
UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""Return the text in one line, with unsafe characters escaped, as in `\x1b` and `\u202e`."""
    return UNSAFE.sub(_escape, text)


def printable_json(value: Any) -> Any:
    """Return a JSON value with the unsafe characters of all its texts and names escaped."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list | tuple):
        return [printable_json(element) for element in value]
    if isinstance(value, dict):
        return {printable(name): printable_json(element) for name, element in value.items()}
    return value


def display_width(text: str) -> int:
    """Return how many cells of a terminal the text takes. Marks above and below letters take none."""
    width = 0
    for character in text:
        if category(character) not in ("Mn", "Me", "Cf"):
            width += 2 if east_asian_width(character) in ("W", "F") else 1
    return width


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    if 0xDC80 <= number <= 0xDCFF:  # This stands for a byte of a file name or an argument that is not valid UTF-8.
        return f"\\x{number - 0xDC00:02x}"
    return found[0].encode("unicode_escape").decode()


def first_line(error: BaseException) -> str:
    """Return the first line of a driver's message. The lines after it may contain data."""
    # psycopg has the server's own message apart from its details and hints.
    message = getattr(getattr(error, "diag", None), "message_primary", None) or str(error)
    return message.strip().partition("\n")[0].strip() or type(error).__name__


FOLDERS = {
    "counterfoil": "packages/server",
    "counterfoil-client": "packages/client",
    "counterfoil-importer": "packages/importer",
}
"""The folder of each distribution in a clone."""


def missing_package(package: str | None, extra: str, python: str) -> str:
    """Return the message for a package that this interpreter does not have. `extra` names the distribution, too."""
    distribution = extra.partition("[")[0]
    folder = FOLDERS[distribution] + extra.removeprefix(distribution)
    pip = pip_install(python)
    return (
        f"the package {package} is not installed; it comes with `{extra}`. In a clone of Counterfoil, run "
        f"`{pip} './{folder}'`. With the wheels in the folder DIR, run `{pip} --find-links DIR '{extra}'`."
    )


def pip_install(python: str) -> str:
    """Return the command that installs packages for this interpreter. `pip` alone may belong to another one."""
    return f"{shlex.quote(python)} -m pip install"


# A spreadsheet may skip these characters, and reads a cell that then begins with one of FORMULA as a formula.
_SKIPPED = re.compile("[\\s\x00-\x1f\x7f-\xa0\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]*")
_FORMULA = frozenset("=+-@\N{MINUS SIGN}")
_NEGATIVE_NUMBER = re.compile(r"-[0-9]+(\.[0-9]+)?")


def csv_text(rows: Iterable[Iterable[object]], line_end: str) -> str:
    """Return rows as CSV that is safe to open in a spreadsheet: text that could be a formula gets an apostrophe."""
    lines: list[str] = []
    writer = csv.writer(SimpleNamespace(write=lines.append), lineterminator=line_end)
    writer.writerows(map(_spreadsheet_safe, row) for row in rows)
    return "".join(lines)


def _spreadsheet_safe(value: object) -> object:
    if not isinstance(value, str) or _NEGATIVE_NUMBER.fullmatch(value):
        return value
    skipped = _SKIPPED.match(value)
    first = value[skipped.end() :][:1] if skipped else ""
    # Full-width and small forms are read like the ordinary characters.
    is_formula = normalize("NFKC", first) in _FORMULA or value.startswith(("\t", "\r", "\n"))
    return f"'{value}" if is_formula else value


# --- numbers with units --------------------------------------------------------------

_SIZES = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_DURATION = re.compile(r"([1-9][0-9]{0,8})([smhdw])", re.ASCII)


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun, such as `1 line` or `2,000 lines`."""
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"


def size(count: int) -> str:
    """Return a number of bytes in the largest unit, such as `48.8 MiB`."""
    for unit, unit_size in _SIZES:
        if count >= unit_size:
            return f"{count / unit_size:,.1f} {unit}"
    return f"{count:,} B"


def short_size(count: int) -> str:
    """Return a number of bytes with three digits, such as `26.4 kB`, for a narrow column."""
    if count < 1_000:
        return f"{count} B"
    return f"{_three_digits(count / 1_000)} kB" if count < 999_500 else f"{_three_digits(count / 1_000_000)} MB"


def short_duration(span_us: int) -> str:
    """Return a duration with three digits, such as `12.6 ms`, for a narrow column."""
    return f"{_three_digits(span_us / 1000)} ms" if span_us < 999_500 else f"{_three_digits(span_us / 1_000_000)} s"


def _three_digits(value: float) -> str:
    if value < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def parse_duration(text: str, units: str) -> int | None:
    """Return a duration such as `30m` in milliseconds, or None if it is not one in these units (`s`, `m`, `h`...)."""
    found = _DURATION.fullmatch(text.strip())
    return int(found[1]) * _UNITS_MS[found[2]] if found and found[2] in units else None


# --- addresses of databases ----------------------------------------------------------

# The valid form of an address: a login, hosts with ports, a path and parameters. For an address of any other form, the
# driver's error message may quote a part of it that contains the password.
_PERCENT_ENCODED = "%[0-9A-Fa-f]{2}"
_USER = rf"(?:[^\s/@:?#%]|{_PERCENT_ENCODED})*"
_PASSWORD = rf"(?:[^\s/@?#%]|{_PERCENT_ENCODED})*"
_HOST_AND_PORT = rf"(?:\[[0-9A-Fa-f:.]+\]|(?:[^\s/@:?#%,\[\]]|{_PERCENT_ENCODED})*)(?::\d+)?"
_PATH = rf"(?:/(?:[^\s@?#%]|{_PERCENT_ENCODED})*)?"
_PARAMETER = rf"[A-Za-z_]+=(?:[^\s@?#%&]|{_PERCENT_ENCODED})*"
_ADDRESS = re.compile(
    rf"[a-z+]+://(?:{_USER}(?::{_PASSWORD})?@)?{_HOST_AND_PORT}(?:,{_HOST_AND_PORT})*{_PATH}(?:\?{_PARAMETER}(?:&{_PARAMETER})*)?"
)
# This also matches mistyped addresses.
_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+]*):")
_LOGIN = re.compile(r"^([a-z+]+://[^/@:?]*):.*@|([?&](?:ssl)?password=)[^&]*")
# What may be a password in other text: `host=db password=secret`, as PostgreSQL accepts it, and `user:secret@host`.
_POSSIBLE = re.compile(r"(password\s*=).*|(^[^@]*?:).*(?=@)", re.IGNORECASE | re.DOTALL)
_POSSIBLE_WORD = re.compile(r"(password\s*=\s*)(?:'[^']*'|\S+)|[^\s'\"]+(?=@\S)", re.IGNORECASE)
_NO_PASSWORD = re.compile(r"[a-z+]+://[^/@:?]*(?::\*\*\*)?")


def is_address(text: str) -> bool:
    """Return whether the text is an address whose parts are unambiguous, so that a driver can be given it."""
    return _ADDRESS.fullmatch(text) is not None


def scheme_of(address: str) -> str:
    return address.partition(":")[0].strip()


def use_address_form(address: str) -> str:
    scheme = scheme_of(address)
    return f"use the form {scheme}://user:password@host:port/name, with user and password percent-encoded"


def without_password(text: str) -> str:
    """Mask the password in an address. In a malformed address it may be anywhere, so mask all but the scheme."""
    if is_address(text):
        return _LOGIN.sub(lambda found: f"{found[1]}:***@" if found[1] else f"{found[2]}***", text)
    if "://" in text or ("@" in text and _SCHEME.match(text)):
        return f"{scheme_of(text)}://***"
    return _POSSIBLE.sub(lambda found: f"{found[1] or found[2]}***", text)


def without_passwords(message: str) -> str:
    """Mask the words of a message that may be passwords, because a command may quote any part of its command line."""
    return _POSSIBLE_WORD.sub(
        lambda found: found[0] if _NO_PASSWORD.fullmatch(found[0]) else f"{found[1] or ''}***", message
    )


def decimal_text(value: Decimal) -> str:
    """Return all significant digits, with at least two decimal places: `120.00`, `0.333`."""
    if not value.is_finite():
        return str(value)
    exponent = value.normalize().as_tuple().exponent
    places = -exponent if isinstance(exponent, int) else 0
    return f"{value:.{max(2, places)}f}"


def format_usual(count: float) -> str:
    """Format a median of whole numbers without rounding it, for example as 4 or 4.5."""
    return f"{count:,.1f}".removesuffix(".0")
