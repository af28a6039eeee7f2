"""What the headings and values of an export mean. The words, by language, are in words.toml."""

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cache, lru_cache
from importlib import resources
from operator import itemgetter
from typing import Any, Final

from msgspec import Struct

from counterfoil.importing.export_totals import is_total_word
from counterfoil.importing.mapping import REFUND, SALE, SKIP, VOID
from counterfoil.importing.sheets import HEADING_ROWS

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
# A word, with the letters of all languages. A currency may stand beside it, but other marks show that it is no word.
_OLD_WORD = re.compile(r"(?:[a-z]|[^\x00-\x7f\s“”„‘’«»‹›–—…•·€£¥¢฿₪₩₫°№®™©½¼¾§、。「」（）：，￥・×])+")
# In `Quantity (- Refund)`, what is refunded is already taken off.
_TAKEN_OFF = re.compile(r"\([-−–][^)]*\)")
_STATED_RATE = re.compile(r"(\d+(?:[.,]\d+)?)\s*%")
_SHORTEST_PLURAL, _SHORTEST_NO_NAME = 4, 7
LONGEST_HEADING = 60
LONGEST_CODE = 2
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
    found = []
    for phrases in _heading_phrases().values():
        words = {word for phrase in phrases for word in phrase.words if len(word) > 1 and word.isascii()}
        found.append(frozenset(words | {f"{word}s" for word in words} | set(_SHORT)))
    return found


def _split(word: str) -> list[str]:
    """Return the words of which one like TIPAMOUNT consists, if that is clear."""
    ways = [way for words in _heading_words() for way in _ways_to_split(word, words)]
    fewest = {way for way in ways if len(way) == min(map(len, ways))}
    return [_singular(part) for part in fewest.pop()] if len(fewest) == 1 else [word]


def _ways_to_split(word: str, words: Collection[str]) -> Iterator[tuple[str, ...]]:
    if word in words:
        yield (word,)
    for end in range(3, len(word) - 1):
        if word[:end] in words:
            yield from ((word[:end], *rest) for rest in _ways_to_split(word[end:], words))


class _Phrase(Struct, frozen=True):
    words: tuple[str, ...]
    rank: int = 0
    is_whole: bool = False
    written: frozenset[str] = frozenset()

    @property
    def letters(self) -> int:
        return sum(map(len, self.words))

    def is_in(self, words: Sequence[str], *, begins: bool = False) -> bool:
        """Return whether a text contains the phrase or, if `begins`, a longer form of its last word."""
        if not words or (not begins and self.words[-1] not in words and self.words[0].isascii()):
            return False
        if self.is_whole:
            return tuple(words) == self.words
        # Where words are not separated by spaces, it may be a part of a word.
        if _UNSPACED.match(self.words[0]):
            return "".join(self.words) in "".join(words)
        size = len(self.words)
        for start in range(len(words) - size + 1):
            *before, last = words[start : start + size]
            is_last = last.startswith(self.words[-1]) if begins else last == self.words[-1]
            if is_last and tuple(before) == self.words[:-1]:
                return True
        return False


@cache
def _table(*path: str) -> dict[str, Any]:
    if not path:
        return tomllib.loads((resources.files("counterfoil.importing") / "words.toml").read_text("utf-8"))
    return dict(_table(*path[:-1])[path[-1]])


@cache
def _list(*path: str) -> list[_Phrase]:
    return [phrase for text in _table(*path).values() for phrase in _phrases(text)]


@cache
def _by_last_word(*path: str) -> dict[str, list[_Phrase]]:
    """Return the phrases of a table by their last word, or by "" if they may be a part of a word."""
    found: dict[str, list[_Phrase]] = {}
    for phrase in _list(*path):
        found.setdefault("" if _UNSPACED.match(phrase.words[0]) else phrase.words[-1], []).append(phrase)
    return found


def _found(words: Sequence[str], *path: str) -> list[_Phrase]:
    """Return the phrases of a table that a text contains."""
    table = _by_last_word(*path)
    last_words = dict.fromkeys(words)
    if not all(map(str.isascii, words)):
        # Phrases that may be a part of a word are in scripts without spaces.
        last_words[""] = None
    found = []
    for last_word in last_words:
        found += [phrase for phrase in table.get(last_word, ()) if phrase.is_in(words)]
    return found


def _phrases(text: str) -> list[_Phrase]:
    found = [(rank, phrase, tuple(words_of(phrase))) for rank, phrase in enumerate(text.split(", "))]
    return [
        _Phrase(words, rank, phrase.startswith("="), frozenset(_words_as_written(phrase)))
        for rank, phrase, words in found
        if words
    ]


@cache
def _whole_values(*path: str) -> frozenset[str]:
    return frozenset(_folded(phrase) for text in _table(*path).values() for phrase in text.split(", "))


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
    text = _STATED_RATE.sub("", re.sub(r" \(\d+\)$", "", heading))
    words = words_of(text)
    # A name with capital letters within it may be one word: PromptPay.
    joined = words_of(text.casefold())
    return _roles_of(words, joined, frozenset(_words_as_written(text))) or _roles_of(
        [part for word in words for part in _split(word)]
    )


def stated_rates(heading: str) -> list[Fraction]:
    """Return the rates that a heading such as `VAT (7.7%)` names, in per cent."""
    return [Fraction(rate.replace(",", ".")) for rate in _STATED_RATE.findall(heading)]


def _roles_of(
    words: Sequence[str], joined: Sequence[str] = (), written: frozenset[str] = frozenset()
) -> tuple[RoleMatch, ...]:
    is_amount = not _found(words, "not_amounts")
    best: dict[str, _Phrase] = {}
    for role in _table("headings"):
        matching = _found(words, "headings", role) + _found(joined, "headings", role)
        if matching and (is_amount or role not in AMOUNT_ROLES):
            best[role] = max(matching, key=lambda phrase: (phrase.letters, phrase.written <= written, -phrase.rank))
    # In `Total Taxes` and `Server Tip`, the other words only say of what, but not in `Total incl. tax`.
    phrases = [frozenset(phrase.words) for phrase in best.values()]
    is_whole = "id" not in best and frozenset[str]().union(*phrases) >= set(words)
    inner = [role for role in ("tip", "tax") if is_whole and role in best]
    first = [role for role in inner if not any(frozenset(best[role].words) < others for others in phrases)]
    # In `Check Status` and `Order value`, the first word only says of what.
    heads = AMOUNT_ROLES | {"status", "type"}
    last = words[-1] if words and not joined else ""
    order = sorted(
        best,
        # What a word such as `Rechnungsbetrag` is, its last part says.
        key=lambda role: (
            role not in first,
            last and last not in best[role].words,
            -best[role].letters,
            # `Couvert` is a charge, and `Couverts` are guests.
            not best[role].written <= written,
            role not in heads,
        ),
    )
    return tuple(RoleMatch(best[role].letters, best[role].rank, role) for role in order)


def language_of(cells: Iterable[str]) -> str:
    """Return the language of the headings, or English if not at least two, and most, are in another one only."""
    return _language_of(tuple(cells))


@lru_cache(maxsize=100)
def _language_of(cells: tuple[str, ...]) -> str:
    counts = Counter[str]()
    for words in map(words_of, cells):
        found = {
            language: max((phrase.letters for phrase in phrases if phrase.is_in(words)), default=0)
            for language, phrases in _heading_phrases().items()
        }
        known = {language for language, letters in found.items() if letters == max(found.values()) > 0}
        # Many languages have English words such as *total*.
        counts.update(known if known == {"en"} or "en" not in known else ())
    language, count = max(counts.items(), key=itemgetter(1), default=("en", 0))
    return language if count > max(1, counts["en"]) else "en"


@cache
def _heading_phrases() -> dict[str, list[_Phrase]]:
    """Return the phrases of headings by language."""
    found: dict[str, list[_Phrase]] = {}
    for role in _table("headings"):
        for language, text in _table("headings", role).items():
            found.setdefault(language, []).extend(_phrases(text))
    return found


def may_change_totals(heading: str) -> bool:
    """Return whether a heading is that of an amount, or says whether and how a bill counts."""
    roles = {match.role for match in roles_of(heading)[:1]}
    return bool(roles & (AMOUNT_ROLES | {"status", "type"})) or heading_status(heading) in (VOID, REFUND)


def recognised_headings(cells: Iterable[str]) -> int:
    """Return how many kinds of columns are named. A row of descriptions has longer cells, often of the same kind."""
    return len({found[0].role for cell in cells if len(cell) <= LONGEST_HEADING and (found := roles_of(cell))})


def likely_encodings(start: bytes) -> dict[str, str]:
    """Return the old encodings in which most words of a file are of one language, with some of these words.

    There are several only if as many headings are known in each of them, none is of their language, and words differ.
    """
    found: dict[str, tuple[float, int, list[str]]] = {}
    # Between other letters, accents are single or in pairs. The letters of other scripts are not.
    accented, other = "(?=.*[a-z])(?:[a-z]|[{0}]{{1,2}}(?![{0}]))++", "(?:[a-z]*+[{0}]{{2,}}+)++[a-z]*"
    for encoding, alphabets in (_table("accents") | _table("scripts")).items():
        with suppress(UnicodeDecodeError):
            text = start.decode(encoding)
            words = [word for word in dict.fromkeys(_OLD_WORD.findall(text.lower())) if not word.isascii()]
            shape = accented if encoding in _table("accents") else other
            patterns = [re.compile(shape.format(letters)) for letters in alphabets.values()]
            readable = max(sum(map(bool, map(pattern.fullmatch, words))) for pattern in patterns)
            rows = [re.split(r'[,;\t|"]', row) for row in text.splitlines()[:HEADING_ROWS]]
            known, heading = max((recognised_headings(row), row) for row in rows)
            is_of_language = language_of(heading) in "_".join(alphabets).split("_")
            found[encoding] = readable / len(words) if words else 1, known + is_of_language, words
    best = max((share for share, _, _ in found.values()), default=0)
    found = {encoding: one for encoding, one in found.items() if one[0] > max(best - 0.1, 0.5)}
    known = max((known for _, known, _ in found.values()), default=0)
    by_words = {tuple(words): encoding for encoding, (_, one, words) in reversed(found.items()) if one == known}
    same = set.intersection(*map(set, by_words)) if len(by_words) > 1 else ()
    return {
        encoding: ", ".join([word for word in words if word not in same][:3])
        for words, encoding in reversed(by_words.items())
    }


def _meanings(words: Sequence[str]) -> set[str]:
    return {
        meaning
        for meaning in (SALE, VOID, REFUND, SKIP)
        if any(phrase.is_in(words, begins=True) for phrase in _list("status", meaning))
    }


@lru_cache(maxsize=5000)
def status_of(value: str) -> str | None:
    """Return what a value says about a bill: sale, void, refund, skip (not finished), or None if that is not clear."""
    words = words_of(value)
    if is_one_of(value, "exact", "sale"):
        return SALE
    if any(phrase.is_in(words, begins=True) for phrase in _list("doubt")):
        return None
    prefixed = _without_prefixes(words)
    meanings = _meanings(words) | prefixed
    if len(meanings) > 1:
        # In `Sale Void`, the first word only says of what.
        meanings = _meanings([word for word in words if not is_one_of(word, "fillers")]) | prefixed
    if len(meanings) != 1:
        return None
    [meaning] = meanings
    return _OPPOSITE.get(meaning) if prefixed or names(value, "negation", "words") else meaning


def _without_prefixes(words: Sequence[str]) -> set[str]:
    """Return the meanings of words that are negated by their first letters, such as `unpaid` and `incomplete`."""
    prefixes = [phrase.words[0] for phrase in _list("negation", "prefixes")]
    rests = [word.removeprefix(prefix) for word in words for prefix in prefixes if word.startswith(prefix)]
    return {meaning for rest in rests if rest for meaning in _meanings([rest])} - {SKIP}


@lru_cache(maxsize=1000)
def flag_of(value: str) -> bool | None:
    """Return whether a value means yes or no, or None if it means neither."""
    return True if is_one_of(value, "flags", "yes") else False if is_one_of(value, "flags", "no") else None


def is_placeholder(value: str) -> bool:
    return not value or is_one_of(value, "placeholders")


def says_nothing(value: str) -> bool:
    """Return whether a mark says no, or an amount is 0."""
    return is_placeholder(value) or flag_of(value) is False or not value.strip("0.,")


def heading_status(heading: str) -> str | None:
    """Return what a mark in a column with this heading says about a bill, as in `Void?` or `Voided by`."""
    is_reason = any(match.role == "voidReason" for match in roles_of(heading)[:1])
    return VOID if is_reason else status_of(_TAKEN_OFF.sub("", heading))


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
        elif not of_heading and says_nothing(value) and names(heading, "no_sale"):
            found[value] = SALE
        else:
            meaning = status_of(value)
            found[value] = None if meaning == SALE and says_more(value) else meaning
    return found


def says_more(value: str) -> bool:
    """Return whether a value has words beside those of a status that may change it: `Paid Out`, `Success (test)`."""
    words = words_of(value)
    if is_one_of(value, "exact", "sale"):
        return False
    tables = [("exact", "sale"), ("negation", "words"), ("fillers",)]
    tables += [("status", meaning) for meaning in (SALE, VOID, REFUND, SKIP)]
    known = [phrase for table in tables for phrase in _list(*table) if phrase.is_in(words, begins=True)]
    parts = [_Phrase((part,)) for phrase in known for part in phrase.words]
    rest = [word for word in words if not any(part.is_in([word], begins=True) for part in parts)]
    return not all(_without_prefixes([word]) for word in rest)


def smallest_in_cents(headings: Sequence[str], values: Iterable[str]) -> int | None:
    """Return the smallest amount that may be in cents, by the currency or the language; None if none can be."""
    # The sign of a currency has a name such as `DONG SIGN`.
    signs = [unicodedata.name(letter, "") for text in values for letter in text if unicodedata.category(letter) == "Sc"]
    for table, languages, smallest in (("whole", "ja ko vi id", None), ("low", "th zh ru", 1000)):
        by_language = {name: {one.words for one in phrases} for name, phrases in _heading_phrases().items()}
        ours = set[tuple[str, ...]]().union(*map(by_language.pop, languages.split()))
        own = [_Phrase(words) for words in ours.difference(*by_language.values())]
        found = [phrase for words in map(words_of, headings) for phrase in own if phrase.is_in(words)]
        # One word may also be a word of another language.
        is_in_language = len(found) > 1 or any(_UNSPACED.match(phrase.words[0]) for phrase in found)
        if is_in_language or any(names(text, "amounts", table) for text in (*headings, *values, *signs)):
            return smallest
    return 100


@lru_cache(maxsize=1000)
def may_be_no_sale(value: str) -> bool:
    """Return whether a word of a value, such as a way of paying, says that a bill may be void, refunded or not paid."""
    has_word = bool(_meanings(words_of(value)) - {SALE})
    return has_word or is_one_of(value, "no_sale") or status_of(value) not in (SALE, None)


@lru_cache(maxsize=5000)
def exception_in(value: str, *, is_item: bool = False, is_name: bool = False) -> str | None:
    """Return why a text says that a bill is no sale, or a row no item: by a word, or as a whole, such as `Training`."""
    if is_name:
        # Short words may be names of people.
        return NO_SALE if len(value) >= _SHORTEST_NO_NAME and is_one_of(value, "no_sale") else None
    if is_item and (is_payment(value) or charge_of(value) == "tip" or is_one_of(value, "no_items")):
        return NO_ITEM
    if (value.isascii() and not _exception_words().search(value)) or channel_of(value):
        return None
    words = words_of(value)
    for meaning in (VOID, REFUND):
        for phrase in _list("status", meaning):
            # Short words are in many others, such as names of people, and คืน in กลางคืน.
            is_short = len(phrase.words[-1]) < _SHORTEST_PLURAL
            may_match = tuple(words) == phrase.words or not (is_short and _THAI.match(phrase.words[0]))
            if may_match and phrase.is_in(words, begins=not is_short):
                return meaning
    is_no_sale = (
        bool(_found(words, "no_sale_phrases")) or is_one_of(value, "no_sale") or is_one_of(value, "status", SKIP)
    )
    return NO_SALE if is_no_sale and not is_item else None


@cache
def _exception_words() -> re.Pattern[str]:
    """Return a pattern that most values do not match, so that their words need not be looked at."""
    tables = (("status", VOID), ("status", REFUND), ("status", SKIP), ("no_sale",), ("no_sale_phrases",))
    phrases = [phrase for path in tables for phrase in _list(*path)]
    return re.compile("|".join({re.escape(phrase.words[-1]) for phrase in phrases}), re.IGNORECASE)


@cache
def names_person(heading: str) -> bool:
    """Return whether a column has names of people, such as customers and cashiers."""
    return names(heading, "people") or any(match.role == "cashier" for match in roles_of(heading)[:1])


def charge_of(value: str) -> str | None:
    """Return `tip` or `tax` if that is the name of an item, as in `VAT 7%`."""
    text = _STATED_RATE.sub("", value)
    return next((role for role in ("tip", "tax") if is_one_of(text, "headings", role)), None)


_PAYMENTS = (("payment_rows",), ("headings", "wayOfPaying"))


@lru_cache(maxsize=5000)
def is_payment(value: str) -> bool:
    """Return whether the name of an item, or the kind of a row, is only that of a payment, as in `Visa 1234`."""
    for words in _words_of_name(value):
        known = {word for path in _PAYMENTS for phrase in _found(words, *path) for word in phrase.words}
        if known and all(word in known or word.isdigit() or len(word) == 1 for word in words):
            return True
    return False


@lru_cache(maxsize=1000)
def names_payment(value: str) -> bool:
    """Return whether a value has the name of a way of paying, as in `Visa 1234` and `QR PromptPay`."""
    is_named = any(_found(words, *path) for path in (("ways",), *_PAYMENTS) for words in _words_of_name(value))
    return is_named or is_one_of(value, "exact", "way")


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
    agree = all(found[word] in (None, status) for word, status in listed)
    is_understood = any(found[word] == status and meaning in (status, VOID) for word, status in listed)
    # What is left out, and a sale that was refunded, must be explained.
    is_clear = meaning != SKIP and not is_one_of(value, "refunded")
    return meaning if agree and is_understood and is_clear else None


def names_area(value: str) -> bool:
    """Return whether a value is a table or an area of a restaurant, such as T4, 12, Table 7 or Patio."""
    return bool(_TABLE.fullmatch(value)) or names(value, "areas")


def word_among_codes(value: str) -> str:
    """Return what a value such as `Staff 4` has beside numbers, one or two letters, places and channels."""
    words, tables = words_of(value), [("areas",), *(("channels", code) for code in _table("channels"))]
    known = {word for path in tables for phrase in _found(words, *path) for word in phrase.words}
    found = [word for word in words if len(word) > (1 if _UNSPACED.match(word) else 2) and not word.isdigit()]
    return " ".join(word for word in found if word not in known)


def is_count(heading: str) -> bool:
    """Return whether a heading is that of a number of bills. Only the plural tells `Bills` from a bill's number."""
    return any(heading.strip().casefold() in text.split(", ") for text in _table("counts").values())


@cache
def closing_rank(heading: str) -> int:
    """Return 0 for the time of closing, 2 for that of opening, 3 for that of a payout, for example, else 1."""
    return next((rank for rank, kind in _TIMES.items() if names(heading, "times", kind)), 1)


@lru_cache(maxsize=1000)
def names_no_shop(value: str) -> bool:
    return is_one_of(value, "no_shop") or is_total_word(value)


def are_names(values: Collection[str]) -> bool:
    """Return whether all values are channels, or places, or ways of paying."""
    names_place = all(names_area(value) and not value.isdigit() for value in values)
    return names_place or all(map(channel_of, values)) or all(map(names_payment, values))


def channel_of(value: str) -> str | None:
    return next((code for code in _table("channels") if names(value, "channels", code)), None)
