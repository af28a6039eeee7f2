"""What the headings and values of an export mean. The words, by language, are in words.toml."""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

from msgspec import Struct

from counterfoil.importing.export_totals import is_total_word

_WORD = re.compile(r"[\u0e00-\u0e7f]+|[^\W\d_\u0e00-\u0e7f]+|\d+|[%#]")
_THAI = re.compile(r"[\u0e00-\u0e7f]")
_ACCENT = re.compile(r"[\u0300-\u036f]")
_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_STATED_RATE = re.compile(r"\d+(?:[.,]\d+)?\s*%")
_SHORTEST_PLURAL = 4
SALE, VOID, REFUND, SKIP = "sale", "void", "refund", "skip"
_OPPOSITE: Final = {SALE: SKIP, VOID: SALE, REFUND: SALE}
AMOUNT_ROLES: Final = frozenset(
    {"paid", "total", "net", "gross", "amount", "payout", "tendered", "change", "refunded", "discount", "fee"}
    | {"service", "delivery", "surcharge", "tax", "rounding", "tip"}
)
# Roles of columns that hold a sum of money from which others are added or taken off.
TOTAL_ROLES: Final = ("paid", "total", "net", "gross", "amount", "payout")
# What a customer pays beside the price of the items, what is taken off, and what a bank or a platform keeps.
CHARGES: Final = ("service", "delivery", "surcharge", "tax", "rounding", "tip")
DEDUCTIONS: Final = ("discount", "fee")


class RoleMatch(Struct, frozen=True, order=True):
    """A role that a heading may have, by a phrase of so many letters. `rank` is the place of the phrase in its list."""

    letters: int
    is_whole: bool
    rank: int
    role: str


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without accents, punctuation and a plural s."""
    spaced = _INNER_CAPITAL.sub(" ", text)
    folded = _ACCENT.sub("", unicodedata.normalize("NFKD", spaced.casefold()).replace("đ", "d"))
    # Decomposition splits one Thai vowel into two letters; the words of the table are written with it whole.
    folded = folded.replace("\u0e4d\u0e32", "\u0e33")
    return [_singular(word) for word in _WORD.findall(folded)]


def _singular(word: str) -> str:
    return word[:-1] if len(word) >= _SHORTEST_PLURAL and word.endswith("s") and not word.endswith("ss") else word


class _Phrase(Struct, frozen=True):
    words: tuple[str, ...]
    rank: int

    @property
    def letters(self) -> int:
        return sum(map(len, self.words))

    def is_in(self, words: Sequence[str], joined: str) -> bool:
        """Return whether a text contains the phrase. Thai is written without spaces between words."""
        if _THAI.search(self.words[0]):
            return "".join(self.words) in joined
        size = len(self.words)
        return any(tuple(words[start : start + size]) == self.words for start in range(len(words) - size + 1))


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((resources.files("counterfoil.importing") / "words.toml").read_text("utf-8"))


def _phrases(languages: dict[str, str]) -> list[_Phrase]:
    return [
        _Phrase(words, rank)
        for text in languages.values()
        for rank, phrase in enumerate(text.split(", "))
        if (words := tuple(words_of(phrase)))
    ]


@cache
def _headings() -> dict[str, list[_Phrase]]:
    return {role: _phrases(languages) for role, languages in _table()["headings"].items()}


@cache
def _list(*path: str) -> list[_Phrase]:
    found = _table()
    for name in path:
        found = found[name]
    return _phrases(found)


@cache
def _whole_values(*path: str) -> frozenset[str]:
    found = _table()
    for name in path:
        found = found[name]
    return frozenset(_folded(phrase) for text in found.values() for phrase in text.split(", "))


def _folded(text: str) -> str:
    """Return a whole value for comparison: its words, or the text itself if it has none."""
    return " ".join(words_of(text)) or text.strip()


@cache
def roles_of(heading: str) -> tuple[RoleMatch, ...]:
    """Return the roles that a heading may have, the most probable first."""
    words = words_of(_STATED_RATE.sub("", re.sub(r" \(\d+\)$", "", heading)))
    joined = "".join(words)
    is_amount = not any(phrase.is_in(words, joined) for phrase in _list("not_amounts"))
    found = []
    for role, phrases in _headings().items():
        matching = [phrase for phrase in phrases if phrase.is_in(words, joined)]
        if matching and (is_amount or role not in AMOUNT_ROLES):
            best = max(matching, key=lambda phrase: (phrase.letters, -phrase.rank))
            found.append(RoleMatch(best.letters, best.letters == len(joined), best.rank, role))
    order = list(_headings())
    return tuple(sorted(found, key=lambda match: (-match.letters, order.index(match.role))))


def recognised_headings(cells: Iterable[str]) -> int:
    """Return how many cells of a row are recognised as headings."""
    return sum(bool(roles_of(cell)) for cell in cells)


def status_of(value: str) -> str | None:
    """Return what a value says about a bill: sale, void, refund, skip (not finished), or None if that is not clear."""
    words = words_of(value)
    joined = "".join(words)
    if _folded(value) in _whole_values("exact", "sale"):
        return SALE
    if any(_begins(phrase, words, joined) for phrase in _list("doubt")):
        return None
    meanings = {
        meaning
        for meaning in (SALE, VOID, REFUND, SKIP)
        if any(_begins(phrase, words, joined) for phrase in _list("status", meaning))
    }
    prefixed, is_negated = _without_prefixes(words)
    meanings |= prefixed
    if len(meanings) != 1:
        return None
    [meaning] = meanings
    is_negated = is_negated or any(phrase.is_in(words, joined) for phrase in _list("negation", "words"))
    return _OPPOSITE.get(meaning) if is_negated else meaning


def _begins(phrase: _Phrase, words: Sequence[str], joined: str) -> bool:
    """Return whether a text contains the phrase, or a longer form of its last word."""
    if _THAI.search(phrase.words[0]):
        return "".join(phrase.words) in joined
    size = len(phrase.words)
    return any(
        tuple(words[start : start + size - 1]) == phrase.words[:-1]
        and words[start + size - 1].startswith(phrase.words[-1])
        for start in range(len(words) - size + 1)
    )


def _without_prefixes(words: Sequence[str]) -> tuple[set[str], bool]:
    """Return the meanings of words that are negated by their first letters, such as `unpaid` and `incomplete`."""
    found = set()
    for word in words:
        for prefix in _list("negation", "prefixes"):
            rest = word.removeprefix(prefix.words[0])
            if rest != word:
                found |= {
                    meaning
                    for meaning in (SALE, VOID, REFUND)
                    if any(_begins(phrase, [rest], rest) for phrase in _list("status", meaning))
                }
    return found, bool(found)


def flag_of(value: str) -> bool | None:
    """Return whether a value means yes or no, or None if it means neither."""
    text = _folded(value)
    return True if text in _whole_values("flags", "yes") else False if text in _whole_values("flags", "no") else None


def is_placeholder(value: str) -> bool:
    """Return whether a value stands for an empty cell."""
    return not value or _folded(value) in _whole_values("placeholders")


def heading_status(heading: str) -> str | None:
    """Return what a mark in a column with this heading says about a bill, as in `Void?` or `Voided by`."""
    return VOID if any(match.role == "voidReason" for match in roles_of(heading)[:1]) else status_of(heading)


def statuses_of(heading: str, values: Iterable[str]) -> dict[str, str | None]:
    """Return what each value of a status column says. Yes and no depend on the heading: `Void?`, `Paid`."""
    of_heading = heading_status(heading)
    found: dict[str, str | None] = {}
    for value in values:
        flag = flag_of(value) if of_heading else None
        if of_heading in (VOID, REFUND) and is_placeholder(value):
            flag = False
        if flag is not None and of_heading:
            found[value] = of_heading if flag else _OPPOSITE.get(of_heading, SALE)
        else:
            meaning = status_of(value)
            found[value] = None if meaning == SALE and _says_more(value) else meaning
    return found


def _says_more(value: str) -> bool:
    """Return whether a value has words beside those of a status that may change it: `Paid Out`, `Success (test)`."""
    words = words_of(value)
    if _folded(value) in _whole_values("exact", "sale"):
        return False
    known = [*_list("exact", "sale"), *_list("negation", "words"), *_list("fillers")]
    known += [phrase for meaning in (SALE, VOID, REFUND, SKIP) for phrase in _list("status", meaning)]
    rest = set(words)
    for phrase in known:
        if _begins(phrase, words, "".join(words)):
            rest -= {word for word in words if any(_begins(_Phrase((part,), 0), [word], word) for part in phrase.words)}
    return not all(_without_prefixes([word])[1] for word in rest)


def is_refunded_state(value: str) -> bool:
    """Return whether a word says that a sale was refunded, and not that the row is the refund itself."""
    return _folded(value) in _whole_values("refunded")


def is_count(heading: str) -> bool:
    """Return whether a heading is that of a number of bills. Only the plural tells `Bills` from a bill's number."""
    return any(heading.strip().casefold() in text.split(", ") for text in _table()["counts"].values())


@cache
def closing_rank(heading: str) -> int:
    """Return 0 for a heading of the time at which a bill was closed, 2 if it was opened then, and 1 for others."""
    words = words_of(heading)
    joined = "".join(words)
    if any(phrase.is_in(words, joined) for phrase in _list("times", "opening")):
        return 2
    return 0 if any(phrase.is_in(words, joined) for phrase in _list("times", "closing")) else 1


def names_no_shop(value: str) -> bool:
    return _folded(value) in _whole_values("no_shop") or is_total_word(value)


def channel_of(value: str) -> str | None:
    words = words_of(value)
    joined = "".join(words)
    for code in _table()["channels"]:
        if any(phrase.is_in(words, joined) for phrase in _list("channels", code)):
            return str(code)
    return None
