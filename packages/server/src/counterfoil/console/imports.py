"""The files that operators bring in: kept in a private folder until they are loaded, discarded or a day old.

Only this process and its converter read them. They end with the process: the folder is deleted when it stops, and that
of a process that was killed when the next one starts.
"""

import secrets
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct, field

from counterfoil.domain.acceptances import NO_DOUBTS, ShownDoubts
from counterfoil.domain.audit import Actor
from counterfoil.domain.open_items import OpenItem
from counterfoil.domain.shops import ShopSettings
from counterfoil.importer.form import AnswerOption, Form, Question
from counterfoil.importer.protocol import Kind, PreviewMessage
from counterfoil.importing.sentences import FormText
from counterfoil.ingest.converted_exports import ConvertedExport, ImportTally
from counterfoil.machine.files import temporary_folder
from counterfoil.machine.private_listener import UploadBody
from counterfoil.machine.uploaded_files import UploadedFile, UploadedForm, UploadRefused, receive
from counterfoil.model.calendar import DAY_MS
from counterfoil.model.control_totals import TotalsReport
from counterfoil.model.messages import Message
from counterfoil.ports import Clock

IMPORT_PATH: Final = "/imports"
# The kinds of open items that have the file of a delivery.
FILES_KEPT: Final = ("needs_answers", "quarantined")
FOLDER_PREFIX = "counterfoil-console-"
KEPT_MS = DAY_MS
SWEEP_SEC = 60
# When the console stops, it waits so long for loads. Longer ones end without it.
LOADS_END_SEC = 8
# Uploads that arrive at once, one for each device, and files that wait to be accepted.
MAX_ARRIVING = 3
MAX_IMPORTS = 12

# What nobody has said, and without which known files cannot be converted.
Need = Literal["base", "timezone", "shop", "currency", "kinds"]
BusyReason = Literal["one_per_device", "busy", "too_many_imports"]


class UploadBusy(Exception):
    """Another upload must end first."""

    def __init__(self, reason: BusyReason) -> None:
        super().__init__(reason)
        self.reason: BusyReason = reason


class ReadingFiles(Struct, frozen=True):
    """The files are being converted or, if `is_comparing`, their records compared with the store.

    If `is_asking`, it is found out what the columns of an unknown table mean.
    """

    is_comparing: bool = False
    is_asking: bool = False


class Asking(Struct, frozen=True, kw_only=True):
    """A person must answer: questions of the form, or facts of the shops that the store does not know."""

    form: Form | None = None
    new_shops: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    """What no export says about the new shops, if the files are those of a known till."""
    preview: PreviewMessage | None = None
    needs: Need | None = None
    """What must be said before the files can be converted."""
    refused: str | None = None
    """What was said before, and with which no row can be read."""
    choices: tuple[str, ...] = ()
    """Answers to that which the store knows."""

    @property
    def is_refused(self) -> bool:
        """Whether no answer could make bills of the files."""
        return self.form is not None and bool(self.form.advice) and not self.form.questions


class Checked(Struct, frozen=True, kw_only=True):
    """The files are converted. Nothing is loaded before a person accepts their totals."""

    form: Form | None
    preview: PreviewMessage | None
    """The first rows, if the files are those of a known till."""
    tally: ImportTally
    notes: tuple[str, ...]
    totals: TotalsReport
    rejected: int
    """The number of records that a load would reject."""
    doubts: tuple[str, ...]
    """Why the store would not take them without asking."""
    texts: tuple[FormText, ...] = ()
    """What the doubts were made of."""
    shown: ShownDoubts = NO_DOUBTS
    """The doubts as a watcher compares them with those that it finds."""
    compared_with: str = ""
    """The state of the store with which the records were compared."""
    records: Path
    lines: int = 0
    """How many records there are."""


class Failed(Struct, frozen=True, kw_only=True):
    """The files cannot be converted or loaded. The text says why and what to do."""

    problem: Message
    texts: tuple[FormText, ...] = ()
    """What the problem was made of, if its words are those of the importer."""
    accepted_as: str | None = None
    """If they were accepted, and the load has failed: the name under which they were to be loaded."""


class HandedOver(Struct, frozen=True, kw_only=True):
    """A person has accepted the totals. `name` is the name under which the records are loaded."""

    name: str
    folder: Path | None
    """The watched folder, or None if a process of our own loads them."""
    totals: TotalsReport
    tally: ImportTally
    at: int
    lines: int = 0
    """How many records there are."""
    load: int | None = None
    """The number of the load, once a process of our own has ended it."""


Stage = ReadingFiles | Asking | Checked | Failed | HandedOver


class DayReportNet(Struct, frozen=True):
    """The net that the day report of the till states, for a day or for all days."""

    day: str | None
    net: str


class GivenAnswer(Struct, frozen=True):
    """A question that was answered, with the option that was chosen, and the form that asked it."""

    question: Question
    option: AnswerOption | None
    """None if the answer is a text of the operator's own."""
    form: Form


class BroughtIn(Struct, kw_only=True):
    """The files that an operator brought in together. Only `stage` changes while a thread works on them."""

    import_id: str
    actor: Actor
    began_at: int
    folder: Path
    files: list[UploadedFile] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)
    has_kinds: bool = False
    """Whether a person has said what is in each file."""
    item: OpenItem | None = None
    """The open item whose file it is."""
    stage: Stage = ReadingFiles()
    answers: dict[str, str] = field(default_factory=dict)
    given: dict[str, GivenAnswer] = field(default_factory=dict)
    """What a person has answered, in the words in which it was asked."""
    is_unknown: bool = False
    """Whether nobody has said before what the columns mean."""
    facts: ShopSettings | None = None
    said: dict[Need, str] = field(default_factory=dict)
    """What a person has said before the files could be converted."""
    export: ConvertedExport | None = None
    """The records of a known till, until the facts of its new shops are known."""
    expected: DayReportNet | None = None
    lines: int | None = None
    """How many lines the files have, if they are text."""
    rows: int = 0
    """How many rows were read so far."""
    readings: int = 0
    """In how many ways an unknown table was read so far."""
    records: int = 0
    """How many records were made of them so far."""
    line: int = 0
    """The line of the latest of these records."""
    compared: int = 0
    """Which share of the records was compared with the store so far, in percent."""
    is_discarded: bool = False
    loader: threading.Thread | None = None
    """What waits for the process of our own that loads the records."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def name(self) -> str:
        others = len(self.files) - 1
        return f"{self.files[0].name} + {others}" if others > 0 else self.files[0].name

    @property
    def is_loading(self) -> bool:
        """Whether a process of our own reads the records now."""
        return isinstance(self.stage, HandedOver) and self.stage.folder is None and self.stage.load is None

    @property
    def cannot_be_loaded(self) -> bool:
        """Whether nothing can be loaded of it, and nothing is."""
        if isinstance(self.stage, Failed):
            return self.stage.accepted_as is None
        return isinstance(self.stage, Asking) and self.stage.is_refused

    @property
    def percent_read(self) -> int | None:
        """Return which share of the lines was read. A workbook does not say before how many it has."""
        return min(100, 100 * self.rows // self.lines) if self.lines else None

    @property
    def rows_made(self) -> int | None:
        """Return of how many rows the bills are made. Those of several files are joined, so it is not known."""
        return min(self.line, self.rows) if len(self.files) == 1 and self.rows else None

    def take_answers(self, form: Form, answers: Mapping[str, str]) -> None:
        """Keep answers to the questions of a form."""
        self.answers.update(answers)
        for question in form.questions:
            answer = answers.get(question.id)
            if answer is not None:
                option = next((option for option in question.options if option.answer == answer), None)
                self.given[question.id] = GivenAnswer(question, option, form)

    def forget_export(self) -> None:
        """Delete the records that were converted, because they must be converted again."""
        if self.export:
            self.export.close()
            self.export = None

    def delete_files(self) -> None:
        self.forget_export()
        shutil.rmtree(self.folder, ignore_errors=True)


class Imports:
    """The files that were brought in to one console. Safe to use from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._by_id: dict[str, BroughtIn] = {}
        self._arriving: set[str] = set()
        self._opened = ExitStack()
        self._folder: Path | None = None
        self._stopped = threading.Event()
        self.opened_at = 0

    def open(self) -> None:
        """Create the private folder, delete what killed consoles have left, and begin to delete what is old."""
        self.opened_at = self._clock.now_ms()
        self._folder = self._opened.enter_context(temporary_folder(FOLDER_PREFIX))
        threading.Thread(target=self._sweep_regularly, name="imports", daemon=True).start()

    def close(self) -> None:
        """Delete all files, and end what works on them. What was accepted is loaded: a load goes on by itself."""
        self._stopped.set()
        with self._lock:
            all_brought = list(self._by_id.values())
        for brought in all_brought:
            brought.is_discarded = True
        deadline = time.monotonic() + LOADS_END_SEC
        for brought in all_brought:
            if brought.loader:
                brought.loader.join(max(0.0, deadline - time.monotonic()))
        self._opened.close()

    def receive(self, device: str, actor: Actor, body: UploadBody, content_type: str) -> tuple[BroughtIn, UploadedForm]:
        """Write the files of an upload to the private folder. Raise `UploadBusy` or `UploadRefused`."""
        with self._one_per_device(device):
            brought = self.new(actor)
            try:
                received = receive(body, content_type, brought.folder)
                if not received.files:
                    raise UploadRefused("malformed")
            except BaseException:
                self.discard(brought)
                raise
            brought.files = received.files
            brought.kinds = ["bills"] * len(received.files)
            return brought, received

    @contextmanager
    def _one_per_device(self, device: str) -> Iterator[None]:
        with self._lock:
            if device in self._arriving:
                raise UploadBusy("one_per_device")
            if len(self._arriving) >= MAX_ARRIVING:
                raise UploadBusy("busy")
            self._arriving.add(device)
        try:
            yield
        finally:
            with self._lock:
                self._arriving.discard(device)

    def new(self, actor: Actor) -> BroughtIn:
        """Return an import without files, with a folder of its own."""
        self.sweep()
        self._make_room()
        if self._folder is None:
            raise UploadBusy("busy")
        import_id = secrets.token_hex(6)
        folder = self._folder / import_id
        with self._lock:
            if len(self._waiting()) >= MAX_IMPORTS:
                raise UploadBusy("too_many_imports")
            folder.mkdir(mode=0o700)
            brought = BroughtIn(import_id=import_id, actor=actor, began_at=self._clock.now_ms(), folder=folder)
            self._by_id[import_id] = brought
        return brought

    def _waiting(self) -> list[BroughtIn]:
        return [brought for brought in self._by_id.values() if not isinstance(brought.stage, HandedOver)]

    def _make_room(self) -> None:
        """If as many files wait as there may be, delete the oldest that cannot be loaded anyway."""
        with self._lock:
            waiting = self._waiting()
            failed = [brought for brought in waiting if brought.cannot_be_loaded]
        if len(waiting) >= MAX_IMPORTS and failed:
            self.discard(min(failed, key=lambda brought: brought.began_at))

    def find(self, import_id: str) -> BroughtIn | None:
        self.sweep()
        found = self._by_id.get(import_id)
        return found if found and found.files else None

    def all(self) -> list[BroughtIn]:
        """Return what was brought in, the latest first."""
        self.sweep()
        with self._lock:
            complete = [brought for brought in self._by_id.values() if brought.files]
        return sorted(complete, key=lambda brought: brought.began_at, reverse=True)

    def discard(self, brought: BroughtIn) -> None:
        """Forget an import and delete its files. What works on them ends."""
        brought.is_discarded = True
        with self._lock:
            self._by_id.pop(brought.import_id, None)
        if not brought.is_loading:
            brought.delete_files()

    def sweep(self) -> None:
        """Delete what is older than a day."""
        now = self._clock.now_ms()
        with self._lock:
            old = [brought for brought in self._by_id.values() if now - brought.began_at >= KEPT_MS]
        for brought in old:
            self.discard(brought)

    def _sweep_regularly(self) -> None:
        while not self._stopped.wait(SWEEP_SEC):
            self.sweep()


def answers_in(form: Mapping[str, str], questions: Mapping[str, bool]) -> dict[str, str]:
    """Return the answers in a form that was sent. `questions` says whether each may be answered with a free text."""
    given = {}
    for question_id, is_free in questions.items():
        typed = form.get(f"other:{question_id}", "").strip() if is_free else ""
        answer = typed or form.get(f"answer:{question_id}", "").strip()
        if answer:
            given[question_id] = answer
    return given
