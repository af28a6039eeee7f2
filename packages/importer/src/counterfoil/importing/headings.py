"""What the headings and values of an export mean. The words, by language, are in words.toml."""

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from importlib import resources
from operator import itemgetter
from typing import Any, Final

from msgspec import Struct

from counterfoil.importing.export_totals import is_total_word
from counterfoil.importing.mapping import REFUND, SALE, SKIP, VOID

_WORD = re.compile(r"[\u0e00-\u0e7f]+|[^\W\d_\u0e00-\u0e7f]+|\d+|[%#]")
# Scripts that are written without spaces between words: Thai, Japanese, Chinese, and Korean, which is decomposed.
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff]")
_TABLE = re.compile(r"[^\W\d]{0,2}[\s#.-]*\d{1,3}[a-z]?", re.IGNORECASE)
_THAI = re.compile(r"[\u0e00-\u0e7f]")
# Accents of Latin and Greek letters, and the vowel signs of Hebrew and Arabic.
_ACCENT = re.compile(r"[\u0300-\u036f\u0591-\u05c7\u064b-\u0655\u200c]")
# Letters that tills write in either way.
_SAME_LETTERS = str.maketrans("đłøıةىیک", "dloiهييك")
_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
# In `Quantity (- Refund)`, what is refunded is already taken off.
_TAKEN_OFF = re.compile(r"\([-−–][^)]*\)")
_STATED_RATE = re.compile(r"(\d+(?:[.,]\d+)?)\s*%")
_SHORTEST_PLURAL, _SHORTEST_NO_NAME = 4, 7
LONGEST_HEADING, LONGEST_READ, LONGEST_CODE = 60, 400, 2
_SHORT: Final = {"amt": "amount"}
NO_SALE = "test, a gift, a movement of cash or an unpaid bill"
NO_ITEM = "tip, a payment, a deduction or a sum"
_OPPOSITE: Final = {SALE: SKIP, VOID: SALE, REFUND: SALE}
OTHER_TIME = 3
_TIMES: Final = {OTHER_TIME: "other", 2: "opening", 0: "closing"}
AMOUNT_ROLES: Final = frozenset(
    {"paid", "total", "net", "gross", "amount", "payout", "tendered", "change", "refunded", "discount", "fee"}
    | {"service", "delivery", "surcharge", "tax", "rounding", "tip"}
)
# Roles of columns that hold a sum of money from which others are added or taken off.
TOTAL_ROLES: Final = ("paid", "total", "net", "gross", "amount", "payout")
# What a customer pays beside the price of the items, what is taken off, and what a bank or a platform keeps.
# Only the arithmetic shows that an amount is a `charge`.
CHARGES: Final = ("service", "delivery", "surcharge", "tax", "rounding", "tip", "charge")
DEDUCTIONS: Final = ("discount", "fee")


class RoleMatch(Struct, frozen=True):
    """A role that a heading may have, by a phrase of so many letters. `rank` is the place of the phrase in its list."""

    letters: int
    rank: int
    role: str


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without accents, punctuation and a plural s."""
    return [_singular(word) for word in _words_as_written(text)]


def _words_as_written(text: str) -> list[str]:
    spaced = _INNER_CAPITAL.sub(" ", text)
    folded = _ACCENT.sub("", unicodedata.normalize("NFKD", spaced.casefold()))
    # Decomposition splits one Thai vowel into two letters; the words of the table are written with it whole.
    folded = folded.translate(_SAME_LETTERS).replace("\u0e4d\u0e32", "\u0e33")
    return _WORD.findall(folded)


def _singular(word: str) -> str:
    is_plural = len(word) >= _SHORTEST_PLURAL and word.endswith("s") and not word.endswith("ss")
    return word[:-1] if is_plural else _SHORT.get(word, word)


@cache
def _heading_words() -> list[frozenset[str]]:
    """Return the words of headings in each language, also as parts of longer words."""
    words_by_language = []
    for phrases in _heading_phrases().values():
        known = set(_SHORT)
        for phrase in phrases:
            for word in phrase.words:
                if len(word) > 1 and word.isascii():
                    known |= {word, f"{word}s"}
        words_by_language.append(frozenset(known))
    return words_by_language


def _split(word: str) -> list[str]:
    """Return the words of which one like TIPAMOUNT consists, if that is clear."""
    ways: set[tuple[str, ...]] = set()
    # There may be very many ways to split a word that is longer than a heading.
    for words in _heading_words() if len(word) <= LONGEST_HEADING else ():
        ways.update(_ways_to_split(word, words))
    fewest_parts = min(map(len, ways), default=0)
    shortest = [way for way in ways if len(way) == fewest_parts]
    if len(shortest) != 1:
        return [word]
    return [_singular(part) for part in shortest[0]]


def _ways_to_split(word: str, words: Collection[str]) -> Iterator[tuple[str, ...]]:
    if word in words:
        yield (word,)
    for end in range(3, len(word) - 1):
        if word[:end] in words:
            for rest in _ways_to_split(word[end:], words):
                yield (word[:end], *rest)


class _Phrase(Struct, frozen=True):
    words: tuple[str, ...]
    rank: int = 0
    is_whole: bool = False
    written: frozenset[str] = frozenset()
    role: str = ""
    """The role that a heading with this phrase may have."""

    @property
    def letters(self) -> int:
        return sum(map(len, self.words))

    def is_in(self, words: Sequence[str], *, begins: bool = False) -> bool:
        """Return whether a text contains the phrase or, if `begins`, a longer form of its last word."""
        if self.is_whole:
            return tuple(words) == self.words
        # Where words are not separated by spaces, it may be a part of a word.
        if not self.words[0].isascii() and _UNSPACED.match(self.words[0]):
            return "".join(self.words) in "".join(words)
        *before, last = self.words
        if not begins and last not in words:
            return False
        # A text is compared with each phrase of a table, so the word that most often differs comes first.
        for end in range(len(before), len(words)):
            is_last = words[end].startswith(last) if begins else words[end] == last
            if is_last and list(words[end - len(before) : end]) == before:
                return True
        return False


@cache
def word_table(*path: str) -> dict[str, Any]:
    """Return a table of words.toml, or all of them."""
    if not path:
        return tomllib.loads((resources.files("counterfoil.importing") / "words.toml").read_text("utf-8"))
    return dict(word_table(*path[:-1])[path[-1]])


@cache
def _list(*path: str) -> list[_Phrase]:
    found = []
    for text in word_table(*path).values():
        found += _phrases(text)
    return found


def _by_last_word(phrases: Iterable[_Phrase]) -> dict[str, list[_Phrase]]:
    """Return phrases by their last word, or by "" if they may be a part of a word."""
    found: dict[str, list[_Phrase]] = {}
    for phrase in phrases:
        key = "" if _UNSPACED.match(phrase.words[0]) else phrase.words[-1]
        found.setdefault(key, []).append(phrase)
    return found


@cache
def _table_by_last_word(*path: str) -> dict[str, list[_Phrase]]:
    return _by_last_word(_list(*path))


def _found(words: Sequence[str], *path: str) -> list[_Phrase]:
    """Return the phrases of a table that a text contains."""
    return _contained(words, _table_by_last_word(*path))


def _contained(words: Sequence[str], phrases: Mapping[str, Sequence[_Phrase]]) -> list[_Phrase]:
    """Return those phrases, given by their last word, that a text contains."""
    last_words = dict.fromkeys(words)
    if not all(map(str.isascii, words)):
        # Phrases that may be a part of a word are in scripts without spaces.
        last_words[""] = None
    found = []
    for last_word in last_words:
        found += [phrase for phrase in phrases.get(last_word, ()) if phrase.is_in(words)]
    return found


def _phrases(text: str, role: str = "") -> list[_Phrase]:
    found = []
    for rank, phrase in enumerate(text.split(", ")):
        words = tuple(words_of(phrase))
        if words:
            written = frozenset(_words_as_written(phrase))
            found.append(_Phrase(words, rank, phrase.startswith("="), written, role))
    return found


@cache
def _whole_values(*path: str) -> frozenset[str]:
    found: set[str] = set()
    for text in word_table(*path).values():
        found.update(map(_folded, text.split(", ")))
    return frozenset(found)


def _folded(text: str) -> str:
    """Return a whole value for comparison: its words, or the text itself if it has none."""
    return " ".join(words_of(text)) or text.strip()


def names(text: str, *path: str) -> bool:
    """Return whether a heading or a value contains a phrase of a table."""
    return bool(_found(words_of(text), *path))


def is_one_of(value: str, *path: str) -> bool:
    """Return whether a whole value is in a table."""
    return _folded(value) in _whole_values(*path)


@cache
def roles_of(heading: str) -> tuple[RoleMatch, ...]:
    """Return the roles that a heading may have, the most probable first."""
    text = _STATED_RATE.sub("", re.sub(r" \(\d+\)$", "", heading[:LONGEST_READ]))
    words = words_of(text)
    # A name with capital letters within it may be one word: PromptPay.
    joined = words_of(text.casefold())
    roles = _roles_of(words, joined, frozenset(_words_as_written(text)))
    if roles:
        return roles
    parts: list[str] = []
    for word in words:
        parts += _split(word)
    return _roles_of(parts)


def first_role(heading: str) -> str | None:
    """Return the most probable role of a heading, or None if it has none."""
    roles = roles_of(heading)
    return roles[0].role if roles else None


def stated_rates(heading: str) -> list[Fraction]:
    """Return the rates that a heading such as `VAT (7.7%)` names, in per cent."""
    return [Fraction(rate.replace(",", ".")) for rate in _STATED_RATE.findall(heading)]


def _roles_of(
    words: Sequence[str], joined: Sequence[str] = (), written: frozenset[str] = frozenset()
) -> tuple[RoleMatch, ...]:
    is_amount = not _found(words, "not_amounts")
    matching: dict[str, list[_Phrase]] = {role: [] for role in word_table("headings")}
    for phrase in _contained(words, _roles_by_last_word()) + _contained(joined, _roles_by_last_word()):
        matching[phrase.role].append(phrase)
    best: dict[str, _Phrase] = {}
    for role, phrases in matching.items():
        if phrases and (is_amount or role not in AMOUNT_ROLES):
            best[role] = max(phrases, key=lambda phrase: (phrase.letters, phrase.written <= written, -phrase.rank))
    first = _roles_of_the_whole(best, words)
    # What a word such as `Rechnungsbetrag` is, its last part says.
    last_part = words[-1] if words and not joined else ""

    def order(role: str) -> tuple[bool, bool, int, bool, bool]:
        phrase = best[role]
        has_last_part = not last_part or last_part in phrase.words
        # `Couvert` is a charge, and `Couverts` are guests.
        is_as_written = phrase.written <= written
        # In `Check Status` and `Order value`, the first word only says of what.
        is_head = role in AMOUNT_ROLES or role in ("status", "type")
        return role not in first, not has_last_part, -phrase.letters, not is_as_written, not is_head

    return tuple(RoleMatch(best[role].letters, best[role].rank, role) for role in sorted(best, key=order))


def _roles_of_the_whole(best: Mapping[str, _Phrase], words: Sequence[str]) -> list[str]:
    """Return `tip` and `tax` if the other words only say of what, as in `Total Taxes`, but not `Total incl. tax`."""
    known: set[str] = set()
    for phrase in best.values():
        known.update(phrase.words)
    if "id" in best or not known.issuperset(words):
        return []
    found = []
    for role in ("tip", "tax"):
        if role in best:
            own = set(best[role].words)
            is_part_of_other = any(own < set(phrase.words) for phrase in best.values())
            if not is_part_of_other:
                found.append(role)
    return found


def language_of(cells: Iterable[str]) -> str:
    """Return the language of the headings, or English if not at least two, and most, are in another one only."""
    return _language_of(tuple(cells))


@lru_cache(maxsize=100)
def _language_of(cells: tuple[str, ...]) -> str:
    counts = Counter[str]()
    for cell in cells:
        languages = _languages_of(cell)
        # Many languages have English words such as *total*.
        if languages == ["en"] or "en" not in languages:
            counts.update(languages)
    language, count = max(counts.items(), key=itemgetter(1), default=("en", 0))
    return language if count > max(1, counts["en"]) else "en"


def _languages_of(heading: str) -> list[str]:
    """Return the languages of which a heading contains the longest phrase."""
    words = words_of(heading)
    longest: dict[str, int] = {}
    for language, phrases in _headings_by_last_word().items():
        contained = _contained(words, phrases)
        if contained:
            longest[language] = max(phrase.letters for phrase in contained)
    most_letters = max(longest.values(), default=0)
    return [language for language, letters in longest.items() if letters == most_letters]


@cache
def _heading_phrases() -> dict[str, list[_Phrase]]:
    """Return the phrases of headings by language."""
    found: dict[str, list[_Phrase]] = {}
    for role in word_table("headings"):
        for language, text in word_table("headings", role).items():
            found.setdefault(language, []).extend(_phrases(text, role))
    return found


@cache
def _roles_by_last_word() -> dict[str, list[_Phrase]]:
    """Return the phrases of headings in all languages by their last word."""
    found: list[_Phrase] = []
    for role, texts in word_table("headings").items():
        for text in texts.values():
            found += _phrases(text, role)
    return _by_last_word(found)


@cache
def _headings_by_last_word() -> dict[str, dict[str, list[_Phrase]]]:
    """Return the phrases of headings by language and last word."""
    return {language: _by_last_word(phrases) for language, phrases in _heading_phrases().items()}


def may_change_totals(heading: str) -> bool:
    """Return whether a heading is that of an amount, or says whether and how a bill counts."""
    role = first_role(heading)
    return role in AMOUNT_ROLES or role in ("status", "type") or heading_status(heading) in (VOID, REFUND)


def recognised_headings(cells: Iterable[str]) -> int:
    """Return how many kinds of columns are named. A row of descriptions has longer cells, often of the same kind."""
    roles: set[str] = set()
    for cell in cells:
        if len(cell) <= LONGEST_HEADING:
            roles.update(match.role for match in roles_of(cell)[:1])
    return len(roles)


def _has_any(words: Sequence[str], *path: str) -> bool:
    """Return whether a text contains a phrase of a table, or a longer form of one."""
    return any(phrase.is_in(words, begins=True) for phrase in _list(*path))


def _meanings(words: Sequence[str]) -> set[str]:
    return {meaning for meaning in (SALE, VOID, REFUND, SKIP) if _has_any(words, "status", meaning)}


@lru_cache(maxsize=5000)
def status_of(value: str) -> str | None:
    """Return what a value says about a bill: sale, void, refund, skip (not finished), or None if that is not clear."""
    words = words_of(value)
    if is_one_of(value, "exact", "sale"):
        return SALE
    if _has_any(words, "doubt"):
        return None
    prefixed = _without_prefixes(words)
    meanings = _meanings(words) | prefixed
    if len(meanings) > 1:
        # In `Sale Void`, the first word only says of what.
        meanings = _meanings([word for word in words if not is_one_of(word, "fillers")]) | prefixed
    if len(meanings) != 1:
        return None
    [meaning] = meanings
    is_negated = bool(prefixed) or names(value, "negation", "words")
    return _OPPOSITE.get(meaning) if is_negated else meaning


def _without_prefixes(words: Sequence[str]) -> set[str]:
    """Return the meanings of words that are negated by their first letters, such as `unpaid` and `incomplete`."""
    found: set[str] = set()
    for phrase in _list("negation", "prefixes"):
        prefix = phrase.words[0]
        for word in words:
            if word.startswith(prefix) and word != prefix:
                found |= _meanings([word.removeprefix(prefix)])
    return found - {SKIP}


@lru_cache(maxsize=1000)
def flag_of(value: str) -> bool | None:
    """Return whether a value means yes or no, or None if it means neither."""
    if is_one_of(value, "flags", "yes"):
        return True
    return False if is_one_of(value, "flags", "no") else None


def is_placeholder(value: str) -> bool:
    return not value or is_one_of(value, "placeholders")


def says_nothing(value: str) -> bool:
    """Return whether a mark says no, or an amount is 0."""
    return is_placeholder(value) or flag_of(value) is False or not value.strip("0.,")


def heading_status(heading: str) -> str | None:
    """Return what a mark in a column with this heading says about a bill, as in `Void?` or `Voided by`."""
    if first_role(heading) == "voidReason":
        return VOID
    return status_of(_TAKEN_OFF.sub("", heading))


def statuses_of(heading: str, values: Iterable[str]) -> dict[str, str | None]:
    """Return what each value of a status column says. Yes and no depend on the heading: `Void?`, `Paid`."""
    of_heading = heading_status(heading)
    if of_heading:
        return {value: _status_beside(of_heading, value) for value in values}
    found: dict[str, str | None] = {}
    for value in values:
        if says_nothing(value) and names(heading, "no_sale"):
            found[value] = SALE
        else:
            found[value] = _clear_status(value)
    return found


def _status_beside(of_heading: str, value: str) -> str | None:
    """Return what a value says under a heading that is a status itself."""
    flag = flag_of(value)
    if of_heading in (VOID, REFUND) and is_placeholder(value):
        flag = False
    if flag is None:
        return _clear_status(value)
    return of_heading if flag else _OPPOSITE.get(of_heading, SALE)


def _clear_status(value: str) -> str | None:
    """Return what a value says, or None if it has other words than those of a sale."""
    meaning = status_of(value)
    return None if meaning == SALE and says_more(value) else meaning


_TABLES_OF_STATES: Final = (
    ("exact", "sale"),
    ("negation", "words"),
    ("fillers",),
    ("status", SALE),
    ("status", VOID),
    ("status", REFUND),
    ("status", SKIP),
)


@lru_cache(maxsize=5000)
def says_more(value: str) -> bool:
    """Return whether a value has words beside those of a status that may change it: `Paid Out`, `Success (test)`."""
    words = words_of(value)
    if is_one_of(value, "exact", "sale"):
        return False
    known_parts = []
    for table in _TABLES_OF_STATES:
        for phrase in _list(*table):
            if phrase.is_in(words, begins=True):
                known_parts += [_Phrase((part,)) for part in phrase.words]
    for word in words:
        is_known = any(part.is_in([word], begins=True) for part in known_parts)
        if not is_known and not _without_prefixes([word]):
            return True
    return False


def says_more_unspaced(heading: str) -> bool:
    """Return whether a heading without spaces between words has more than those of a state, as 取消数 and 退会."""
    letters = "".join(words_of(heading))
    if not _UNSPACED.search(letters):
        return False
    known = [*_list("fillers_of_headings")]
    for table in _TABLES_OF_STATES:
        known += _list(*table)
    for phrase in sorted(known, key=lambda phrase: -phrase.letters):
        if _UNSPACED.match(phrase.words[0]):
            letters = letters.replace("".join(phrase.words), " ")
    return bool(_UNSPACED.search(letters))


def is_plural(heading: str) -> bool:
    """Return whether a word of a heading has a plural s, as that of a count often has."""
    return any(word.endswith("s") and _singular(word) != word for word in _words_as_written(heading))


def smallest_in_cents(headings: Sequence[str], values: Iterable[str]) -> int | None:
    """Return the smallest amount that may be in cents, by the currency or the language; None if none can be."""
    # The sign of a currency has a name such as `DONG SIGN`.
    signs = [unicodedata.name(letter, "") for letter in "".join(values) if unicodedata.category(letter) == "Sc"]
    texts = (*headings, *values, *signs)
    if _are_in(("ja", "ko", "vi", "id"), headings) or any(names(text, "amounts", "whole") for text in texts):
        return None
    if _are_in(("th", "zh", "ru"), headings) or any(names(text, "amounts", "low") for text in texts):
        return 1000
    return 100


def _are_in(languages: tuple[str, ...], headings: Sequence[str]) -> bool:
    """Return whether headings have phrases of these languages that no other one has."""
    found = []
    for heading in headings:
        words = words_of(heading)
        found += _contained(words, _phrases_only_in(languages))
    # One word may also be a word of another language.
    return len(found) > 1 or any(_UNSPACED.match(phrase.words[0]) for phrase in found)


@cache
def _phrases_only_in(languages: tuple[str, ...]) -> dict[str, list[_Phrase]]:
    """Return the phrases of headings that no other language has, by their last word."""
    own: set[tuple[str, ...]] = set()
    others: set[tuple[str, ...]] = set()
    for language, phrases in _heading_phrases().items():
        words = own if language in languages else others
        words.update(phrase.words for phrase in phrases)
    return _by_last_word(_Phrase(words) for words in own - others)


@lru_cache(maxsize=1000)
def may_be_no_sale(value: str) -> bool:
    """Return whether a word of a value, such as a way of paying, says that a bill may be void, refunded or not paid."""
    if _meanings(words_of(value)) - {SALE}:
        return True
    return is_one_of(value, "no_sale") or status_of(value) not in (SALE, None)


@lru_cache(maxsize=5000)
def exception_in(value: str, *, is_item: bool = False, is_name: bool = False) -> str | None:
    """Return why a text says that a bill is no sale, or a row no item: by a word, or as a whole, such as `Training`."""
    if is_name:
        # Short words may be names of people, but nobody is called a test.
        is_no_name = len(value) >= _SHORTEST_NO_NAME and is_one_of(value, "no_sale")
        return NO_SALE if is_no_name or _found(words_of(value), "tests") else None
    if is_item and (is_payment(value) or charge_of(value) == "tip" or is_one_of(value, "no_items")):
        return NO_ITEM
    if (value.isascii() and not _exception_words().search(value.casefold())) or channel_of(value):
        return None
    words = words_of(value)
    for meaning in (VOID, REFUND):
        for phrase in _list("status", meaning):
            # Short words are in many others, such as names of people, and คืน in กลางคืน.
            is_short = len(phrase.words[-1]) < _SHORTEST_PLURAL
            may_match = tuple(words) == phrase.words or not (is_short and _THAI.match(phrase.words[0]))
            if may_match and phrase.is_in(words, begins=not is_short):
                return meaning
    if is_item:
        return None
    is_no_sale = is_one_of(value, "no_sale") or is_one_of(value, "status", SKIP)
    return NO_SALE if is_no_sale or _found(words, "tests") or _found(words, "no_sale_phrases") else None


@cache
def _exception_words() -> re.Pattern[str]:
    """Return a pattern that most values in ASCII do not match, so that their words need not be looked at."""
    tables = (("status", VOID), ("status", REFUND), ("status", SKIP), ("no_sale",), ("no_sale_phrases",), ("tests",))
    last_words = (phrase.words[-1] for path in tables for phrase in _list(*path))
    return re.compile("|".join({re.escape(word) for word in last_words if word.isascii()}))


@cache
def names_person(heading: str) -> bool:
    """Return whether a column has names of people, such as customers and cashiers."""
    return names(heading, "people") or first_role(heading) == "cashier"


def charge_of(value: str) -> str | None:
    """Return `tip` or `tax` if that is the name of an item, as in `VAT 7%`."""
    text = _STATED_RATE.sub("", value)
    for role in ("tip", "tax"):
        if is_one_of(text, "headings", role):
            return role
    return None


_PAYMENTS: Final = (("payment_rows",), ("headings", "wayOfPaying"))


@lru_cache(maxsize=5000)
def is_payment(value: str) -> bool:
    """Return whether the name of an item, or the kind of a row, is only that of a payment, as in `Visa 1234`."""
    for words in _words_of_name(value):
        known = _words_found(words, _PAYMENTS)
        if known and all(word in known or word.isdigit() or len(word) == 1 for word in words):
            return True
    return False


def _words_found(words: Sequence[str], tables: Iterable[tuple[str, ...]]) -> set[str]:
    """Return the words of all phrases of these tables that a text contains."""
    known: set[str] = set()
    for path in tables:
        for phrase in _found(words, *path):
            known.update(phrase.words)
    return known


@lru_cache(maxsize=1000)
def names_payment(value: str) -> bool:
    """Return whether a value has the name of a way of paying, as in `Visa 1234` and `QR PromptPay`."""
    for words in _words_of_name(value):
        if any(_found(words, *path) for path in (("ways",), *_PAYMENTS)):
            return True
    return is_one_of(value, "exact", "way")


def _words_of_name(value: str) -> tuple[list[str], list[str]]:
    """Return the words of a name. With capital letters within it, it may be one word or two: PromptPay, CreditCard."""
    return words_of(value), words_of(value.casefold())


@lru_cache(maxsize=1000)
def status_like(heading: str, listed: frozenset[tuple[str, str]], value: str) -> str | None:
    """Return what a value says if no listed one means something else than its words, and a listed one says the same.

    A void need not be listed, only another value that means what its words say.
    """
    found = statuses_of(heading, [*(word for word, _ in listed), value])
    meaning = found[value]
    # What is left out, and a sale that was refunded, must be explained.
    if meaning == SKIP or is_one_of(value, "refunded"):
        return None
    is_understood = False
    for word, status in listed:
        if found[word] not in (None, status):
            return None
        if found[word] == status and meaning in (status, VOID):
            is_understood = True
    return meaning if is_understood else None


def names_area(value: str) -> bool:
    """Return whether a value is a table or an area of a restaurant, such as T4, 12, Table 7 or Patio."""
    return bool(_TABLE.fullmatch(value)) or names(value, "areas")


def word_among_codes(value: str) -> str:
    """Return what a value such as `Staff 4` has beside numbers, one or two letters, places and channels."""
    words = words_of(value)
    known = _words_found(words, [("areas",), *(("channels", code) for code in word_table("channels"))])
    found = []
    for word in words:
        longest_code = 1 if _UNSPACED.match(word) else LONGEST_CODE
        if len(word) > longest_code and not word.isdigit() and word not in known:
            found.append(word)
    return " ".join(found)


def is_count(heading: str) -> bool:
    """Return whether a heading is that of a number of bills. Only the plural tells `Bills` from a bill's number."""
    name = heading.strip().casefold()
    return any(name in text.split(", ") for text in word_table("counts").values())


@cache
def closing_rank(heading: str) -> int:
    """Return 0 for the time of closing, 2 for that of opening, 3 for that of a payout, for example, else 1."""
    for rank, kind in _TIMES.items():
        if names(heading, "times", kind):
            return rank
    return 1


@lru_cache(maxsize=1000)
def names_no_shop(value: str) -> bool:
    return is_one_of(value, "no_shop") or is_total_word(value)


def are_names(values: Collection[str]) -> bool:
    """Return whether all values are channels, or places, or ways of paying."""
    names_place = all(names_area(value) and not value.isdigit() for value in values)
    return names_place or all(map(channel_of, values)) or all(map(names_payment, values))


def channel_of(value: str) -> str | None:
    for code in word_table("channels"):
        if names(value, "channels", code):
            return str(code)
    return None
