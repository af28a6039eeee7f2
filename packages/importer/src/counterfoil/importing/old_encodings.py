"""Old encodings of CSV files, which nothing in a file names: the one in which its words and headings are known."""

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from counterfoil.importing.headings import language_of, recognised_headings, word_table
from counterfoil.importing.sheets import HEADING_ROWS

# A word, with the letters of all languages. A currency may stand beside it, but other marks show that it is no word.
_OLD_WORD = re.compile(r"(?:[a-z]|[^\x00-\x7f\s“”„‘’«»‹›–—…•·€£¥¢฿₪₩₫°№®™©½¼¾§、。「」（）：，￥・×])+")
# Between other letters, accents are single or in pairs. The letters of other scripts are not.
_ACCENTED_WORD = "(?=.*[a-z])(?:[a-z]|[{0}]{{1,2}}(?![{0}]))++"
_WORD_OF_OTHER_SCRIPT = "(?:[a-z]*+[{0}]{{2,}}+)++[a-z]*"


class _Decoded(Struct, frozen=True):
    """The start of a file as it is in an encoding."""

    encoding: str
    readable: float
    """The share of its words with other letters than a to z that are words of one alphabet."""
    known: int
    """How many headings are known, and one more if they are in a language of the encoding."""
    words: tuple[str, ...]


def likely_encodings(start: bytes) -> dict[str, str]:
    """Return the old encodings in which most words of a file are of one language, with some of these words.

    There are several only if as many headings are known in each of them, none is of their language, and words differ.
    """
    readings: list[_Decoded] = []
    for encoding, alphabets in word_table("accents").items():
        readings += _decoded(start, encoding, alphabets, _ACCENTED_WORD)
    for encoding, alphabets in word_table("scripts").items():
        readings += _decoded(start, encoding, alphabets, _WORD_OF_OTHER_SCRIPT)
    best = max((reading.readable for reading in readings), default=0)
    readable = [reading for reading in readings if reading.readable > max(best - 0.1, 0.5)]
    most_known = max((reading.known for reading in readable), default=0)
    # Of encodings with the same words, the first one counts.
    by_words: dict[tuple[str, ...], str] = {}
    for reading in readable:
        if reading.known == most_known:
            by_words.setdefault(reading.words, reading.encoding)
    same: set[str] = set()
    if len(by_words) > 1:
        same = set.intersection(*map(set, by_words))
    examples = {}
    for words, encoding in by_words.items():
        different = [word for word in words if word not in same]
        examples[encoding] = ", ".join(different[:3])
    return examples


def _decoded(start: bytes, encoding: str, alphabets: Mapping[str, str], shape: str) -> Iterator[_Decoded]:
    """Yield the start of a file in an encoding, unless it cannot be in it."""
    try:
        text = start.decode(encoding)
    except UnicodeDecodeError:
        return
    words = [word for word in dict.fromkeys(_OLD_WORD.findall(text.lower())) if not word.isascii()]
    most_readable = 0
    for letters in alphabets.values():
        pattern = re.compile(shape.format(letters))
        matching = [word for word in words if pattern.fullmatch(word)]
        most_readable = max(most_readable, len(matching))
    rows = [re.split(r'[,;\t|"]', row) for row in text.splitlines()[:HEADING_ROWS]]
    known, heading = max((recognised_headings(row), row) for row in rows)
    if language_of(heading) in "_".join(alphabets).split("_"):
        known += 1
    yield _Decoded(encoding, most_readable / len(words) if words else 1, known, tuple(words))
