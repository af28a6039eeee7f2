"""Forgets a member who asked for it: see docs/decisions/0024-forgetting-a-member.md.

Each step can be repeated, so an interrupted forgetting is finished by repeating it. The member's record is erased after
his bills and files, because it says by which phone number and email address he is found there.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from functools import cached_property
from pathlib import Path

from msgspec import Struct, json
from msgspec.structs import replace

from counterfoil import bootstrap
from counterfoil.domain.access import Key
from counterfoil.domain.audit import Act, Actor, AuditEntry
from counterfoil.domain.forgetting import (
    SHORTEST_ID,
    SHORTEST_TEL,
    ForgottenMember,
    Person,
    is_token,
    mark_of,
    member_on,
    same_email,
    same_tel,
)
from counterfoil.domain.loads import load_state
from counterfoil.domain.members import StoredMember
from counterfoil.domain.open_items import OTHER_FILES, OpenItem
from counterfoil.domain.tokens import Pseudonyms
from counterfoil.ingest.erasing import FileEraser, FoundFile, files_in, files_with
from counterfoil.ingest.spool import DIGEST, DONE, HELD, QUARANTINE, REASON_SUFFIX
from counterfoil.machine.operator import machine_name
from counterfoil.machine.owners import acting_as_owner, acting_as_root
from counterfoil.model.text import counted
from counterfoil.operator_reads import BILLS_PER_READ, OperatorReads
from counterfoil.ports import ForgetLedger
from counterfoil.settings import Settings

# The audit entries among which backups are looked for.
AUDIT_ENTRIES = 100_000
REJECTS = "rejects"
# Beside the folders of the watcher, deploy/tmpfiles has one for files that operators load by hand.
BY_HAND = "by-hand"
# Of so many latest loads, one may still run.
MAX_LOADS = 10


# --- what is known of the member ------------------------------------------------------------


class BillsOfMember(Struct, frozen=True, kw_only=True, rename="camel"):
    """The bills of a shop that name the member, with their first and last calendar day."""

    shop_id: str
    bills: int
    first_day: str | None
    last_day: str | None


class PartnerRead(Struct, frozen=True, kw_only=True, rename="camel"):
    """A key that has read members of the base: how often and when last with phone numbers, and when last at all."""

    key_id: str
    label: str
    is_revoked: bool
    disclosures: int
    disclosed_at: int | None
    read_at: int | None


class OlderBackup(Struct, frozen=True, kw_only=True, rename="camel"):
    """A backup that was made before. `is_there` is None if its machine is another one."""

    name: str
    at: int
    machine: str
    is_there: bool | None


class KnownMember(Struct, kw_only=True):
    """What is known of a member before he is forgotten."""

    person: Person
    record: StoredMember | None
    mark: ForgottenMember | None
    """The mark, if he was forgotten before."""
    bills: list[BillsOfMember]
    text_bills: list[tuple[str, str]]
    """The bills whose text has his phone number or email address: their shops and IDs."""
    shared: list[str]
    """The tokens of other members with the same phone number or email address."""
    is_loading: bool
    """Whether a load runs, which may still write lines of him to files."""
    readers: list[PartnerRead]
    files: list[FoundFile] = []
    unsearched: list[str] = []
    """Places on other machines, which are not searched from here."""
    backups: list[OlderBackup] = []

    @property
    def is_nothing(self) -> bool:
        return not (self.record or self.bills or self.text_bills or self.files)


class Erased(Struct, kw_only=True):
    """What was erased. `remains` are files of the store that still have bytes of him."""

    bills: int = 0
    lines: int = 0
    record: bool = False
    files: list[FoundFile] = []
    remains: list[Path] = []
    log_is_empty: bool = True


class _BillDay(Struct, rename="camel"):
    bill_date: str | None = None


class KeptPlaces(Struct):
    """Where kept files are. `waiting` are the watched folders, whose files are loaded yet."""

    kept: list[Path] = []
    waiting: list[Path] = []
    closed: list[FoundFile] = []
    """Folders of this machine that cannot be searched."""
    unsearched: list[str] = []
    """Places that are on other machines."""


class Forgetting:
    """Finds and erases a member in the store of these settings, and in the files that it keeps."""

    def __init__(self, settings: Settings, now: int, folders: Sequence[Path] = ()) -> None:
        self._settings = settings
        self._now = now
        self._folders = folders

    @cached_property
    def _reads(self) -> OperatorReads:
        return bootstrap.store(self._settings).reads()

    @cached_property
    def _pseudonyms(self) -> Pseudonyms:
        return bootstrap.pseudonyms(self._settings)

    # --- who -----------------------------------------------------------------------

    def person(self, who: str) -> Person:
        """Return the member with this ID or token."""
        if is_token(who):
            return Person(token=who)
        return Person(token=self._pseudonyms.member_token(who), member_id=who)

    def persons(self, who: str) -> list[Person]:
        """Return the members with this ID, token, phone number or email address, as far as the store knows them."""
        if is_token(who):
            return [Person(token=who)]
        tel = who if len(same_tel(who)) >= SHORTEST_TEL else None
        found = {record.token: Person(token=record.token).known_as(record) for record in self.with_contact(tel, who)}
        named = self.person(who)
        if not found or self._reads.member(named.token):
            found[named.token] = named
        return list(found.values())

    def with_contact(self, tel: str | None, email: str | None) -> list[StoredMember]:
        """Return the members with this phone number or email address."""
        return [member for member in self._reads.all_members() if _has_contact(member, {tel}, {email})]

    def unfinished(self) -> list[ForgottenMember]:
        return self._reads.unfinished_forgettings()

    # --- the preview ---------------------------------------------------------------

    def known(self, person: Person) -> KnownMember:
        """Return what is known of a member in the store, its files and its backups."""
        known = self.stored(person)
        places = self._places()
        known.files = self._files_of(known.person, places)
        known.unsearched = places.unsearched
        known.backups = self._backups()
        return known

    def stored(self, person: Person) -> KnownMember:
        """Return what the store knows of a member. No file is read."""
        reads = self._reads
        record = reads.member(person.token)
        mark = next((found for found in reads.forgotten_members() if found.mark == mark_of(person.token)), None)
        person = person.known_as(record) if record else person
        bills, text_bills = self._bills_of(person)
        return KnownMember(
            person=person,
            record=record,
            mark=mark,
            bills=bills,
            text_bills=text_bills,
            shared=self._others_with(person),
            is_loading=any(load_state(load, self._now) == "running" for load in reads.loads(MAX_LOADS)),
            readers=self._readers(record) if record else [],
        )

    def _bills_of(self, person: Person) -> tuple[list[BillsOfMember], list[tuple[str, str]]]:
        """Return the bills that name the member, and those whose text has his contacts."""
        shops = {number: shop_id for number, shop_id, _ in self._reads.shops_changed(-1)}
        # `bills_with` looks for at most three texts.
        first_contacts = [*sorted(person.tels)[:1], *sorted(person.emails)[:1]]
        contacts = [contact.encode() for contact in first_contacts]
        days: dict[int, list[str | None]] = defaultdict(list)
        texts = []
        for shop, bill_id, body in self._reads.bills_with([person.token.encode(), *contacts]):
            if member_on(body) == person.token:
                days[shop].append(json.decode(body, type=_BillDay).bill_date)
            if any(contact in body for contact in contacts):
                texts.append((shops[shop], bill_id))
        named = []
        for shop, days_of_bills in sorted(days.items()):
            dated = [day for day in days_of_bills if day]
            of_shop = BillsOfMember(
                shop_id=shops[shop],
                bills=len(days_of_bills),
                first_day=min(dated, default=None),
                last_day=max(dated, default=None),
            )
            named.append(of_shop)
        return named, texts

    def _others_with(self, person: Person) -> list[str]:
        if not person.tels and not person.emails:
            return []
        return [
            member.token
            for member in self._reads.all_members()
            if member.token != person.token and _has_contact(member, person.tels, person.emails)
        ]

    def _readers(self, record: StoredMember) -> list[PartnerRead]:
        """Return the keys that have read members of the base since the member signed up, as far as is recorded."""
        reads = self._reads
        since = record.created_at or 0
        disclosures = reads.disclosures_of(record.provider_id, since)
        shops = [shop for shop in reads.shop_names() if shop.provider_id == record.provider_id]
        covered = {shop.shop_id for shop in shops} | {shop.franchise_id for shop in shops}
        found = []
        keys = reads.keys()
        for key in keys:
            count, disclosed_at = disclosures.get(key.key_id, (0, None))
            read_at = reads.latest_read_of_members(key.key_id, since) if key.scope.id in covered else None
            if count or read_at:
                found.append(_partner(key, self._now, count, disclosed_at, read_at))
        return found

    def _backups(self) -> list[OlderBackup]:
        """Return the backups of the store that may still be there."""
        found = []
        for entry in self._reads.audit(AUDIT_ENTRIES):
            if entry.act != Act.STORE_BACKED_UP:
                continue
            is_here = not self._settings.database and entry.actor.host == machine_name()
            is_there = Path(entry.detail).exists() if is_here else None
            if is_there is not False:
                found.append(OlderBackup(name=entry.detail, at=entry.at, machine=entry.actor.host, is_there=is_there))
        return found

    # --- kept files ------------------------------------------------------------------

    def _places(self) -> KeptPlaces:
        """Return the folders in which this store's loads keep files."""
        places = KeptPlaces()
        kept = [self._settings.store / REJECTS, *self._folders]
        if self._settings.kept:
            kept_folder = Path(self._settings.kept).expanduser()
            kept += [*_kept_in(kept_folder), kept_folder / BY_HAND]
        if self._settings.database and not _is_folder(kept[0]):
            places.unsearched.append(f"{kept[0]}, where loads that were started elsewhere keep rejects. Use --in DIR")
        for watched in self._reads.watched_folders(self._now):
            folder = Path(watched.name)
            if not _is_folder(folder):
                places.unsearched.append(f"the watched folder {watched.name}, which is not on this machine")
                continue
            places.waiting.append(folder)
            kept += _kept_in(folder)
            if not (self._settings.kept or self._folders or _is_folder(folder / DONE)):
                problem = "its watcher keeps files elsewhere. Set COUNTERFOIL_KEPT, or use --in DIR for each folder"
                places.closed.append(_unsearched(folder, problem))
        for item in self._reads.open_items():
            if item.path and item.machine == machine_name():
                kept.append(Path(item.path).parent)
            elif item.path:
                places.unsearched.append(f"{item.path} on {item.machine} ({item.title})")
        places.kept = list(dict.fromkeys(folder.resolve() for folder in kept if _is_folder(folder)))
        return places

    def _files_of(self, person: Person, places: KeptPlaces) -> list[FoundFile]:
        """Return the files that have something of the member, and the folders and files that cannot be searched."""
        eraser = FileEraser(person, self._pseudonyms.member_token)
        found = {file.path: file for file in places.closed}
        searched: set[Path] = set()
        for folder in places.kept:
            with acting_as_owner(folder):
                for path in files_in([folder], lambda place, reason: found.setdefault(place, _closed(place, reason))):
                    file = None if path in searched else eraser.search(path)
                    searched.add(path)
                    if file:
                        found[path] = file
        for folder in places.waiting:
            with acting_as_owner(folder):
                try:
                    waiting = [path for path in sorted(folder.iterdir()) if path.is_file()]
                except OSError as error:
                    found[folder] = _closed(folder, error.strerror or str(error))
                    continue
                for path in waiting:
                    file = None if path in searched else eraser.search(path)
                    if file:
                        problem = "it waits to be loaded. Forget him again when it was loaded"
                        found[path] = replace(file, problem=problem)
        return list(found.values())

    # --- forgetting ------------------------------------------------------------------

    def forget(self, known: KnownMember, actor: Actor) -> Erased:
        """Erase the member. If this is killed, another call finishes it."""
        person, mark = known.person, mark_of(known.person.token)
        self._audit(actor, f"{_counts(known)}; mark {mark}")
        done = Erased()
        with closing(bootstrap.store(self._settings).ledger()) as ledger:
            ledger.mark_forgotten([ForgottenMember(mark=mark, at=self._now)])
            # From here on, nothing of him is stored any more, so what is found now is all there is.
            done.files = self._files_of(person, self._places())
            for file in done.files:
                if not file.problem:
                    self._erase_file(ledger, person, file)
                    done.lines += file.found
            done.bills = self._unlink(ledger, {mark}, [person.token])
            done.record = ledger.erase_member(person.token)
            done.log_is_empty = ledger.empty_log()
            done.remains = self._remains(person, known)
            if any(path.name.startswith("books.") for path in done.remains):
                done.log_is_empty = ledger.compact()
                done.remains = self._remains(person, known)
            ledger.finish_forgetting([mark])
        return done

    def forget_marked(self, marks: Collection[ForgottenMember], actor: Actor) -> Erased:
        """Erase the members with these marks from the store. What they were called is not known, so no file is read."""
        hashes = {member.mark for member in marks}
        self._audit(actor, f"{counted(len(hashes), 'member')} with known marks")
        done = Erased()
        with closing(bootstrap.store(self._settings).ledger()) as ledger:
            ledger.mark_forgotten(marks)
            tokens = [member.token for member in self._reads.all_members() if mark_of(member.token) in hashes]
            named = {token for _, _, token in self._reads.members_of_bills() if mark_of(token) in hashes}
            done.bills = self._unlink(ledger, hashes, sorted(named))
            for token in tokens:
                done.record = ledger.erase_member(token) or done.record
            done.log_is_empty = ledger.compact()
            ledger.finish_forgetting(hashes)
        return done

    def _audit(self, actor: Actor, detail: str) -> None:
        with closing(bootstrap.store(self._settings).key_store()) as audit:
            audit.record(AuditEntry(at=self._now, act=Act.MEMBER_FORGOTTEN, actor=actor, detail=detail))

    def _unlink(self, ledger: ForgetLedger, marks: Collection[str], tokens: Iterable[str]) -> int:
        count = 0
        for token in tokens:
            of_shops: dict[int, list[str]] = defaultdict(list)
            for shop, bill_id, body in self._reads.bills_with([token.encode()]):
                if member_on(body) == token:
                    of_shops[shop].append(bill_id)
            for shop, bill_ids in sorted(of_shops.items()):
                for start in range(0, len(bill_ids), BILLS_PER_READ):
                    count += ledger.unlink_bills(shop, bill_ids[start : start + BILLS_PER_READ], marks)
        return count

    def _erase_file(self, ledger: ForgetLedger, person: Person, file: FoundFile) -> None:
        items = self._reads.open_items()
        of_file = [item for item in items if item.path == str(file.path) and item.machine == machine_name()]

        def store_item(digest: str) -> None:
            for item in of_file:
                if item.kind == "held":
                    _note_digest(file.path, item.digest, digest)
                with acting_as_store_owner(self._settings):
                    ledger.erase_lines(_item_without(item, file, digest), item.files)

        eraser = FileEraser(person, self._pseudonyms.member_token)
        with acting_as_owner(file.path.parent):
            eraser.rewrite(file.path, store_item)

    def _remains(self, person: Person, known: KnownMember) -> list[Path]:
        """Return the files in the store's folder that still have his phone number, email address or ID as bytes."""
        shared: set[str | None] = set()
        for token in known.shared:
            member = self._reads.member(token)
            if member:
                shared.update((member.tel, member.email))
        texts = [*person.tels, *person.emails]
        if person.member_id and len(person.member_id) >= SHORTEST_ID:
            texts.append(person.member_id)
        sought = [text.encode() for text in texts if text not in shared and len(text) >= SHORTEST_ID]
        return files_with(files_in([self._settings.store.resolve()]), sought) if sought else []


def _has_contact(member: StoredMember, tels: Iterable[str | None], emails: Iterable[str | None]) -> bool:
    """Return whether the member's phone number or email address is one of these, however they are written."""
    if member.tel is not None:
        own_tel = same_tel(member.tel)
        if any(tel and same_tel(tel) == own_tel for tel in tels):
            return True
    if member.email is None:
        return False
    own_email = same_email(member.email)
    return any(email and same_email(email) == own_email for email in emails)


def _partner(key: Key, now: int, count: int, disclosed_at: int | None, read_at: int | None) -> PartnerRead:
    return PartnerRead(
        key_id=key.key_id,
        label=key.label,
        is_revoked=key.is_revoked(now),
        disclosures=count,
        disclosed_at=disclosed_at,
        read_at=read_at,
    )


def acting_as_store_owner(settings: Settings) -> AbstractContextManager[None]:
    """If root runs this process, act as the owner of an embedded store until the block ends."""
    return nullcontext() if settings.database else acting_as_owner(settings.store)


def _kept_in(folder: Path) -> list[Path]:
    return [folder / name for name in (DONE, QUARANTINE, HELD)]


def _is_folder(path: Path) -> bool:
    """Return whether a path is a folder, also if it is one that this user may not look at."""
    try:
        with acting_as_root():
            return path.is_dir()
    except PermissionError:
        return True


def _unsearched(place: Path, problem: str) -> FoundFile:
    return FoundFile(place, Counter(), 0, 0, problem)


def _closed(place: Path, reason: str) -> FoundFile:
    return _unsearched(place, f"it cannot be searched: {reason}. Run this command as root")


def _counts(known: KnownMember) -> str:
    bills = sum(shop.bills for shop in known.bills)
    files = [file for file in known.files if not file.problem]
    return f"a member with {counted(bills, 'bill')} and lines in {counted(len(files), 'kept file')}"


def _item_without(item: OpenItem, file: FoundFile, digest: str) -> OpenItem:
    """Return the item of a rewritten file: a rejects file has fewer lines, a held file another digest."""
    if item.kind == "held":
        return replace(item, digest=digest)
    if item.lines != file.lines:
        # An interrupted forgetting has stored this already.
        return item
    files = dict(item.files)
    for name, count in file.dropped.items():
        known_name = name if name in files else OTHER_FILES
        if known_name in files:
            files[known_name] = max(0, files[known_name] - count)
    return replace(item, files=files)


def _note_digest(path: Path, known: str, digest: str) -> None:
    """Write the digest of a held file to the note beside it."""
    note = path.with_name(path.name + REASON_SUFFIX)
    with suppress(FileNotFoundError):
        text = note.read_text("utf-8", "replace")
        note.write_text(text.replace(f"{DIGEST}{known}", f"{DIGEST}{digest}"), "utf-8")
