"""Searches for canaries: unique markers in private data, which must not appear where that data is not allowed.

A marker is found in plain text, reversed, and in the usual encodings: hexadecimal,
base64, UTF-16 and percent-encoding.
"""

import base64
import gzip
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from backports import zstd
from msgspec import Struct

from hostile.checker import Checker
from hostile.fuzzing import tokens_of
from hostile.raw_http import Answer, ask
from hostile.targets import Attacked
from hostile.world import World, escaped

# Request targets in which callers might put private data by mistake.
PRIVATE_TARGETS = (
    "{}",
    "shops?{}",
    "shops?phone={}",
    "transactions/{}",
    "transactions?shopId={}&from=x",
    "transactions?shopId=sh-0-0&from=20260101&to=20260131&cursor={}",
    "transactions?shopId=sh-0-0&updatedSince={}",
    "members/{}",
    "members?providerId={}",
    "members?providerId=mb-0&cursor={}",
    "members/lookup?providerId=mb-0&messagingUserId={}",
    "members/lookup?providerId={}&messagingUserId=U00000000000000000000000000000000",
    "changes?since={}",
    "changes?cursor={}",
    "digests?shopId={}",
    "digests?from={}",
    "digests?cursor={}",
)


class Hit(Struct, frozen=True):
    kind: str
    where: str

    def __str__(self) -> str:
        return f"a canary from {self.kind} in {self.where}"


class Finder:
    """Finds the canaries of a world in bytes.

    All markers of a family share a prefix, and so do their encoded forms (a suffix
    if reversed). Each marker is searched for only where the shared part occurs.
    """

    def __init__(self, kinds: dict[str, str]) -> None:
        families: dict[tuple[str, int], list[tuple[bytes, str]]] = {}
        for text, kind in kinds.items():
            for place, form in enumerate(disguises(text)):
                families.setdefault((_family(text), place), []).append((form, kind))
        self._families = [(_shared([form for form, _ in forms]), forms) for forms in families.values()]

    def hits(self, content: bytes, where: str, allowed: Iterable[str] = ()) -> list[Hit]:
        permitted = set(allowed)
        return [
            Hit(kind, where)
            for shared, forms in self._families
            if shared in content
            for form, kind in forms
            if kind not in permitted and form in content
        ]


def _family(text: str) -> str:
    return next(
        (start for start in ("cnry", "mail-cnr-", "066699", "Ucacafe", "idcnr-") if text.startswith(start)), text
    )


def _shared(forms: list[bytes]) -> bytes:
    start = _beginning(forms)
    end = _beginning([form[::-1] for form in forms])[::-1]
    return max(start, end, key=len)


def _beginning(forms: list[bytes]) -> bytes:
    """Return the longest common prefix of these byte strings."""
    first, last = min(forms), max(forms)
    length = next(
        (place for place, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first)
    )
    return first[:length]


def disguises(text: str) -> list[bytes]:
    plain = text.encode()
    forms = [plain, plain.hex().encode(), text.encode("utf-16-le"), plain[::-1]]
    # The base64 encoding of a string depends on its offset modulo 3, so all three encodings are searched for. Their
    # ends are cut off, because they also depend on the neighbouring bytes.
    forms += [base64.b64encode(b"\0" * offset + plain)[trimmed:-4] for offset, trimmed in enumerate((0, 2, 3))]
    escaped_text = quote(text, safe="").encode()
    return forms if escaped_text == plain else [*forms, escaped_text]


class Survey:
    """Reads all endpoints, sends requests that contain canaries, and then searches all output and stored data.

    `read_templates` contains the path templates of the OpenAPI document that were read successfully.
    """

    def __init__(self, world: World, site: Attacked, checker: Checker) -> None:
        self._world = world
        self._site = site
        self._checker = checker
        self.answers: list[tuple[str, bool, Answer]] = []
        self.faults: list[str] = []
        self.searched = 0
        self.read_templates: set[str] = set()
        self._marks: dict[str, str] = {}
        self._plain_key = site.issue("franchise", "fr-0", messaging_lookup=True, label="canary plain")
        self._full_key = site.issue("franchise", "fr-0", messaging_lookup=True, personal_data=True)
        for key in (self._plain_key, self._full_key):
            world.canaries.add(key.split("_")[3], "key secret")

    # --- asking ------------------------------------------------------------------------

    def read_everything(self) -> None:
        """Read all endpoints with both keys. If called again, also read the changes since the previous call."""
        port = self._site.ports[0]
        labels = tokens_of(port, self._plain_key, "mb-0")
        own_bills = [bill_id for shop_id, bill_id in self._world.bills if shop_id.startswith("sh-0")]
        user_ids = [member["messaging"][0]["userId"] for member in self._world.members.values()]
        targets = ["shops", "usage", "openapi.json", "members?providerId=mb-0", "members?providerId=mb-shared"]
        for shop_id in ("sh-0-0", "sh-0-1"):
            targets += [
                f"transactions?shopId={shop_id}&{mode}"
                for mode in ("from=20260101&to=20260131", "updatedSince=2000-01-01T00:00:00Z")
            ]
        targets += [f"transactions/{escaped(bill_id)}" for bill_id in own_bills[:20]]
        targets += [f"members/{token}" for token in list(labels.values())[:20]]
        targets += [f"members/lookup?providerId=mb-0&messagingUserId={user_id}" for user_id in user_ids[:20]]
        for key, personal in ((self._plain_key, False), (self._full_key, True)):
            for target in targets:
                self._ask(target, key, personal)
            if key in self._marks:
                self._read_to_end(f"changes?since={self._marks[key]}&limit=2", key, personal)
            self._marks[key] = self._read_to_end("changes?limit=10", key, personal)["mark"]
            self._read_to_end("digests?limit=5", key, personal)

    def send_canaries(self) -> None:
        """Send canaries where callers might put private data by mistake: in paths, parameters, headers and keys."""
        canaries = self._world.canaries
        for target in PRIVATE_TARGETS:
            self._ask(target.format(canaries.mark("request target")), self._plain_key, personal=False)
        for header in ("User-Agent", "Referer", "Cookie", "X-Forwarded-For", "X-Custom", "If-None-Match"):
            self._ask("shops", self._plain_key, False, f"{header}: {canaries.mark('request header')}".encode())
        for key in (canaries.mark("wrong key"), f"cf_live_aaaaaaaaaaaa_{canaries.mark('wrong key')}"):
            self._ask("shops", key, personal=False)

    def _read_to_end(self, target: str, key: str, personal: bool) -> Any:
        """Read all pages of the change feed or of the digests; return the body of the last page."""
        cursor = ""
        while True:
            body = json.loads(self._ask(target + cursor, key, personal).body)
            assert body["ok"], body
            if body["nextCursor"] is None:
                return body
            cursor = f"&cursor={body['nextCursor']}"

    def _ask(self, target: str, key: str, personal: bool, *headers: bytes) -> Answer:
        answer = ask(self._site.ports[0], f"/ext/v1/{target}", key, *headers)
        assert answer is not None
        self.answers.append((target.partition("?")[0], personal, answer))
        template = self._checker.document.template(f"/ext/v1/{target.partition('?')[0]}")
        self.faults += [f"{target}: {what}" for what in self._checker.faults(answer, template)]
        if answer.status == 200:
            self.read_templates.add(template)
        return answer

    # --- searching ---------------------------------------------------------------------

    def search(self) -> list[Hit]:
        """Return all hits in responses, logs, admin pages, command lines, environments and stored or temporary data."""
        finder = Finder(self._world.canaries.kinds)
        found: list[Hit] = []
        for name, content, allowed in self._places():
            self.searched += 1
            found += finder.hits(content, name, allowed)
        return found

    def _places(self) -> Iterator[tuple[str, bytes, tuple[str, ...]]]:
        for path, personal, answer in self.answers:
            shown = ("tel", "email") if personal else ()
            yield f"the answer to {path}", answer.body + repr(answer.headers).encode(), shown
        yield "the log", self._site.logs(), ()
        for number, node in enumerate(self._site.nodes):
            for path in ("metrics", "ready", "live", "nowhere"):
                yield f"/{path} of node {number}", node.admin(path).content, ()
        for name, content in self._site.stored().items():
            yield f"the stored {name}", content, ("tel", "email") if name.startswith(("books", "members")) else ()
        for name, pid in self._site.processes().items():
            yield f"the command line of {name}", Path(f"/proc/{pid}/cmdline").read_bytes(), ()
            yield f"the environment of {name}", Path(f"/proc/{pid}/environ").read_bytes(), ()
        for deployment in self._site.deployments:
            for file in deployment.counters.rglob("*"):
                if file.is_file():
                    yield f"the temporary file {file.name}", file.read_bytes(), ()


def _content(file: Path) -> bytes:
    data = file.read_bytes()
    if file.suffix == ".gz":
        return gzip.decompress(data)
    return zstd.decompress(data) if file.suffix == ".zst" else data


def files_hits(finder: Finder, folder: Path, allowed: Iterable[str] = ()) -> list[Hit]:
    """Return the hits in all files below a folder."""
    found: list[Hit] = []
    for root, _, names in os.walk(folder):
        for name in names:
            found += finder.hits(_content(Path(root) / name), name, allowed)
    return found


def written(records: list[dict[str, object]], path: Path) -> Path:
    """Write a delivery of source records; return its path."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path
