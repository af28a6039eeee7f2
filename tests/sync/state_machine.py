"""Anything may happen, in any order. At each quiet point, every copy equals the service's data.

A Hypothesis state machine drives the real service: shops, bills and members are
added, changed and removed, clocks step, loaders pause, pulls are interrupted, and
readers may be anywhere in a pass.
"""

import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from client import copy_contents, expected
from client.copy_contents import assert_same, plain
from counterfoil.domain.problems import AUTH_UNAVAILABLE
from counterfoil.model.calendar import iso_utc
from sync.feed_readers import FeedReader
from sync.in_process import InProcessService, Json, StoreParts
from sync.pullers import PulledCopy
from sync.readers import Fate, FinalTimeReader, MemberPass, MemberReader, Reader, ReaderState, StatelessReader
from sync.source_data import (
    BASES,
    DAYS,
    PERIOD,
    SHOPS,
    WANDERED,
    WANDERERS,
    SourceData,
    bills_drawn,
    members_drawn,
    shop_drawn,
    wanderer_drawn,
)

LIMITS = st.sampled_from([1, 1, 2, 3, 4, 7])
FATES: st.SearchStrategy[Fate] = st.sampled_from(["stored", "stored", "lost", "half stored"])
HOUR, DAY = 3600, 86_400
# Readers 0 and 1 share a state; readers 0 to 4 share a key.
READERS = st.integers(0, 5)
READERS_OF_ONE_KEY = st.integers(0, 4)
READERS_WITH_A_STORE = st.integers(2, 4)
MEMBER_READERS = st.integers(0, 1)
FEED_READERS = st.integers(0, 5)
CHOICE = st.integers(0, 10**6)
# Crashes are simulated, so nothing has to survive on a disk.
IN_MEMORY = Path("/dev/shm")  # noqa: S108 - a new folder is created in it
FARTHEST_STEP_SEC = 8 * DAY
# PostgreSQL on a busy machine may respond later than the service waits. A client then tries again.
TEMPORARY, ATTEMPTS = AUTH_UNAVAILABLE.code, 3


class SyncMachine(RuleBasedStateMachine):
    """The rules of the state machine. Subclasses replace the service, its clients or parts of them.

    Some of these replacements have deliberate faults, which the rules must find.
    """

    parts = StoreParts()
    copy: type[PulledCopy] = PulledCopy
    pulled_copies = 2

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(
            tempfile.mkdtemp(prefix="counterfoil-machine-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None)
        )
        self.service = self.open_service()
        self.source_data = SourceData()
        self.stepped = 0.0
        self.number = 0
        self.paused: list[list[Json]] = []
        self.readers: list[Reader] = []
        self.member_readers: list[MemberReader] = []
        self.feed_readers: list[FeedReader] = []
        self.shop_keys: dict[str, str] = {}
        self.member_changes: dict[str, int] = {}
        self.copies: list[PulledCopy] = []

    def open_service(self) -> InProcessService:
        return InProcessService(self.folder, self.parts)

    def teardown(self) -> None:
        try:
            if self.readers:
                self.quiet(reconcile=True)
        finally:
            for copy in self.copies:
                copy.close()
            self.service.close()
            shutil.rmtree(self.folder)

    @initialize(shops=st.tuples(*(shop_drawn(shop) for shop in SHOPS[:2])), limits=st.tuples(*[LIMITS] * 9))
    def begin(self, shops: tuple[Json, ...], limits: tuple[int, ...]) -> None:
        self.truth_key, shared, own, other = (self._unlimited_key(franchise="f") for _ in range(4))
        self.load(list(shops))
        # Most readers share a key, so the service can distinguish them only by their positions. Two of them also share
        # a state.
        common = ReaderState()
        self.readers = [
            Reader(self.service, shared, limits[0], common),
            Reader(self.service, shared, limits[1], common),
            Reader(self.service, shared, limits[2]),
            Reader(self.service, shared, limits[3]),
            FinalTimeReader(self.service, shared, limits[4]),
            StatelessReader(self.service, own, limits[5]),
        ]
        self.member_readers = [MemberReader(self.service, shared, limit, BASES) for limit in limits[6:8]]
        self.shop_keys = {shop_id: self._unlimited_key(shop=shop_id) for shop_id in (*SHOPS, *WANDERERS)}
        scopes = [{"franchise": name} for name in ("f", *WANDERED)] + [{"shop": name} for name in ("s0", "w0")]
        self.feed_readers = [
            FeedReader(self.service, self._unlimited_key(**scope), limit, **scope)
            for scope, limit in zip(scopes, limits, strict=False)
        ]
        self.feed_readers.append(FeedReader(self.service, shared, limits[6], franchise="f"))
        pulled = ((shared, limits[8]), (other, 7))[: self.pulled_copies]
        self.copies = [self.copy(self.service, key, limit) for key, limit in pulled]

    def _unlimited_key(self, **scope: str) -> str:
        return self.service.key(**scope, per_min=10**9, per_day=10**9)

    # --- the POS -------------------------------------------------------------------

    @rule(bills=bills_drawn(), batch=st.sampled_from([500, 500, 500, 1, 2, 3]))
    def bills_come_or_change(self, bills: list[Json], batch: int = 500) -> None:
        """All bills come in one transaction, or in several."""
        self.load(bills, batch)

    @rule(choice=CHOICE)
    def a_bill_is_removed(self, choice: int) -> None:
        if self.source_data.bills:
            self.load([self.source_data.removal_of_bill(choice)])

    @rule(records=st.sampled_from(SHOPS).flatmap(shop_drawn))
    def a_shop_comes_or_changes(self, records: Json) -> None:
        self.load([records])

    @rule(shop_id=st.sampled_from(SHOPS + WANDERERS))
    def a_shop_is_removed(self, shop_id: str) -> None:
        self.load([{"kind": "shop", "id": shop_id, "removed": True}])

    @rule(shop=wanderer_drawn())
    def a_shop_moves_to_another_franchise(self, shop: Json) -> None:
        self.load([shop])

    @rule(bills=bills_drawn(), shop_id=st.sampled_from(WANDERERS))
    def bills_come_to_a_shop_that_moves(self, bills: list[Json], shop_id: str) -> None:
        self.load([{**bill, "shopId": shop_id} for bill in bills])

    @rule(members=members_drawn())
    def members_come_change_or_move(self, members: list[Json]) -> None:
        self.load(members)

    @rule(choice=st.integers(0, 5))
    def a_member_is_removed(self, choice: int) -> None:
        self.load([{"kind": "member", "id": f"m{choice}", "removed": True}])

    @rule()
    def everything_is_loaded_again(self) -> None:
        horizon = self.service.ledger.advance_horizon()
        self.load(self.source_data.everything())
        changed = self.ask("transactions", shopId=SHOPS[0], updatedSince=iso_utc(horizon + 1))
        assert changed["data"] == [], "loading the same records again changed a bill"

    @rule(bills=bills_drawn())
    def a_loader_pauses_before_it_commits(self, bills: list[Json]) -> None:
        pauses: Callable[[], None] = getattr(self.service.ledger, "pauses", lambda: None)
        pauses()
        self.paused.append(bills)

    @precondition(lambda self: self.paused)
    @rule(choice=st.integers(0, 10))
    def a_paused_loader_commits(self, choice: int) -> None:
        which = choice % len(self.paused)
        commits: Callable[[int], None] = getattr(self.service.ledger, "commits", lambda _: None)
        committed: Callable[[], None] = getattr(self.service.ledger, "committed", lambda: None)
        commits(which)
        self.load(self.paused.pop(which))
        committed()

    def load(self, records: list[Json], batch: int = 500) -> None:
        self.number += 1
        self.member_changes |= {record["id"]: self.number for record in records if record["kind"] == "member"}
        self.service.load(*self.source_data.taken(records, self.number), batch=batch)

    # --- time ----------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.001, 0.05, 1, HOUR, 23 * HOUR, 100_000, 3 * DAY, 6.9 * DAY, 9 * DAY]))
    def time_passes(self, seconds: float) -> None:
        self.service.clock.advance(seconds)

    @rule(seconds=st.sampled_from([-8 * DAY, -7200, -1, -0.05, 0.05, 7200, 8 * DAY]))
    def the_clock_steps(self, seconds: float) -> None:
        if abs(self.stepped + seconds) <= FARTHEST_STEP_SEC:
            self.stepped += seconds
            self.service.clock.step(seconds)

    @rule()
    def the_horizon_is_moved(self) -> None:
        self.service.ledger.advance_horizon()

    @rule()
    def expired_cursors_are_deleted(self) -> None:
        self.service.prune_cursors()

    @rule()
    def the_clock_is_days_ahead_for_a_while(self) -> None:
        """While the clock is ahead, all cursors seem to have expired."""
        self.service.clock.step(8 * DAY)
        self.service.prune_cursors()
        self.service.ledger.advance_horizon()
        self.service.clock.step(-8 * DAY)

    # --- clients -------------------------------------------------------------------

    @rule(which=READERS, pages=st.integers(1, 6), fate=FATES)
    def a_reader_reads_on(self, which: int, pages: int, fate: Fate) -> None:
        """`fate` applies to the first response; all later responses are stored."""
        reader = self.readers[which]
        reader.number = self.number
        for page in range(pages):
            reader.step("stored" if page else fate)

    @rule(which=CHOICE, choice=CHOICE)
    def a_reader_goes_back(self, which: int, choice: int) -> None:
        """The reader has lost its newer state and continues from an earlier page."""
        readers: list[Reader | MemberReader | FeedReader] = [*self.readers, *self.member_readers, *self.feed_readers]
        readers[which % len(readers)].go_back(choice)

    @rule(which=READERS, other=READERS)
    def a_reader_takes_the_marks_of_another(self, which: int, other: int) -> None:
        self.readers[which].take_earlier_marks(self.readers[other])

    @rule(which=CHOICE)
    def a_reader_gets_a_new_key_by_rotation(self, which: int) -> None:
        readers: list[Reader | FeedReader] = [*self.readers, *self.feed_readers]
        reader = readers[which % len(readers)]
        reader.key = self.service.rotated(reader.key)

    @rule(which=READERS, cashier=st.sampled_from(["Nok", "Ying", "Mai"]), day=st.sampled_from([None, *DAYS]))
    def the_last_row_of_a_page_changes(self, which: int, cashier: str, day: str | None) -> None:
        reader = self.readers[which]
        reader.number = self.number
        reader.step_to_a_cursor()
        if reader.at in self.source_data.bills:
            moved = {"closedAt": f"{day}T12:30:00+07:00"} if day else {}
            self.load([{**self.source_data.bills[reader.at], "cashier": cashier, **moved}])

    @rule(
        which=READERS_OF_ONE_KEY,
        other=READERS_WITH_A_STORE,
        limits=st.tuples(LIMITS, LIMITS),
        bills=bills_drawn(3, 9),
        day=st.sampled_from([None, *DAYS]),
        pause=st.sampled_from([0, 0, 2, 8]),
    )
    def a_second_job_reads_the_list_of_the_first(
        self, which: int, other: int, limits: tuple[int, int], bills: list[Json], day: str | None, pause: int
    ) -> None:
        """One job holds a cursor, the cursor's row changes, and another job reads the same list, now or days later."""
        first, second = self.readers[which], self.readers[other]
        first.limit, second.limit = limits
        self.load(bills, batch=2)
        self.the_last_row_of_a_page_changes(which, f"Mai {self.number}", day)
        self.service.clock.advance(pause * DAY)
        self.service.prune_cursors()
        if first is not second:
            second.start_from_a_copy_of(first)
            second.number = self.number
            second.finish()

    @rule(which=MEMBER_READERS, pages=st.integers(1, 6), fate=FATES)
    def a_member_reader_reads_on(self, which: int, pages: int, fate: Fate) -> None:
        reader = self.member_readers[which]
        reader.number = self.number
        for page in range(pages):
            reader.step(self.check_members, "stored" if page else fate)

    @rule(which=MEMBER_READERS, limits=st.tuples(LIMITS, LIMITS), members=members_drawn(), day=st.integers(1, 28))
    def a_member_moves_between_two_readers(
        self, which: int, limits: tuple[int, int], members: list[Json], day: int
    ) -> None:
        """One reader holds a cursor, the member at the cursor moves, and another reader reads the base to its end."""
        first, second = self.member_readers[which], self.member_readers[1 - which]
        first.limit, second.limit = limits
        self.load(members)
        first.number = self.number
        first.step(self.check_members)
        for member in list(self.source_data.members.values()):
            if self.service.token(member["id"]) == first.at:
                self.load([{**member, "createdAt": f"2025-03-{day:02}T12:00:00Z"}])
        if first.base:
            second.number = self.number
            second.read_base(first.base, self.check_members)

    @rule(which=FEED_READERS, pages=st.integers(1, 9), fate=FATES)
    def a_feed_reader_reads_on(self, which: int, pages: int, fate: Fate) -> None:
        for page in range(pages):
            self.feed_readers[which].step("stored" if page else fate)

    @rule()
    def old_removals_are_deleted(self) -> None:
        self.service.ledger.prune_removals()

    @rule(
        which=st.integers(0, 1),
        cut=st.one_of(st.none(), st.integers(1, 12)),
        meanwhile=st.dictionaries(st.integers(2, 12), bills_drawn(), max_size=2),
    )
    def a_copy_is_pulled(self, which: int, cut: int | None, meanwhile: dict[int, list[Json]]) -> None:
        self.copies[which].pull(cut, {after: partial(self.load, bills) for after, bills in meanwhile.items()})

    @rule(which=st.integers(0, 1), commit=st.integers(1, 6), after=st.booleans())
    def a_pull_dies_at_a_commit(self, which: int, commit: int, after: bool) -> None:
        self.copies[which].pull(dies_at=commit, after_it=after)

    # --- checks ----------------------------------------------------------------------

    @rule(reconcile=st.booleans())
    def quiet(self, reconcile: bool) -> None:
        """Stop all changes and let every client catch up; then every copy must equal the service's data."""
        while self.paused:
            self.a_paused_loader_commits(0)
        self.service.ledger.advance_horizon()
        served = self.served()
        for reader in self.readers:
            reader.number = self.number
            reader.finish()
            held = {identity: plain(bill) for identity, bill in reader.bills.items()}
            self.source_data.compare_bills(held, served["bills"], set(served["shops"]), reader.begun)
        for member_reader in self.member_readers:
            member_reader.number = self.number
            for base in sorted({shop["providerId"] for shop in served["shops"].values()} - {None}):
                member_reader.read_base(base, self.check_members)
        for feed_reader in self.feed_readers:
            feed_reader.finish()
            self.compare_feed(feed_reader)
        for copy in self.copies:
            copy.pull()
            self.compare(copy, served)
            if reconcile:
                copy.reconcile()

    def check_members(self, read: MemberPass) -> None:
        """Check that a pass has every unchanged member, and exactly the current members if nothing has changed."""
        served = expected.members(self.ask, read.base)
        changed = {self.service.token(member) for member, number in self.member_changes.items() if number > read.number}
        missing = {token for base, token in served if base == read.base} - read.members.keys() - changed
        assert not missing, f"members are missing from a pass through {read.base}: {missing}"
        if read.number == self.number:
            held = {(read.base, token): plain(member) for token, member in read.members.items()}
            assert held.keys() == served.keys(), "a pass without changes has too few or too many members"

    def served(self) -> Json:
        """Return the data that the service returns for a key that no client uses."""
        shops = expected.shops(self.ask)
        bills: Json = {}
        for shop_id in shops:
            bills |= expected.bills(self.ask, shop_id, *PERIOD)
        members: Json = {}
        for base in {shop["providerId"] for shop in shops.values()} - {None}:
            members |= expected.members(self.ask, base)
        return {"shops": shops, "bills": bills, "members": members}

    def compare(self, copy: PulledCopy, served: Json) -> None:
        """Check that a pulled copy equals the service's data exactly, including removals and history."""
        assert_same(copy_contents.shops(copy.sink), served["shops"])
        shown = {base for base, _ in served["members"]} | set(BASES)
        bases = {shop["providerId"] for shop in served["shops"].values()} & shown
        members = {
            identity: member for identity, member in copy_contents.members(copy.sink).items() if identity[0] in bases
        }
        assert_same(members, served["members"])
        held = {bill: row for bill, row in copy_contents.bills(copy.sink).items() if bill[0] in served["shops"]}
        in_no_list = held.keys() - served["bills"].keys()
        assert in_no_list <= self.source_data.bills.keys(), f"removed bills are in the copy: {in_no_list}"
        assert {(held[bill]["billDate"], held[bill]["updatedAt"]) for bill in in_no_list} <= {(None, None)}
        assert_same({bill: row for bill, row in held.items() if bill not in in_no_list}, served["bills"])
        expected_bills = {bill for bill in self.source_data.bills if bill[0] in served["shops"]}
        assert held.keys() == expected_bills, f"the copy has too few or too many bills, expected: {expected_bills}"

    def compare_feed(self, reader: FeedReader) -> None:
        """Check that a copy that follows the feed has exactly the service's data, including removals and history."""
        covered = {shop_id: shop for shop_id, shop in self.source_data.shops.items() if reader.covers(shop)}
        listed = {shop_id for shop_id, shop in covered.items() if not shop.get("gone")}
        copied = reader.state.copied
        assert copied.shops.keys() == listed, f"the copy of the feed has missing or extra shops, expected: {listed}"
        for shop_id in listed:
            (served,) = self.ask("shops", with_key=self.shop_keys[shop_id])["data"]
            assert copied.shops[shop_id] == served, f"a change to {shop_id} is missing from the feed"
        held = {identity: bill for identity, bill in copied.readable_bills().items() if identity[0] in covered}
        expected_bills = {identity for identity in self.source_data.bills if identity[0] in covered}
        assert held.keys() == expected_bills, f"the feed has too few or too many bills, expected: {expected_bills}"
        for (shop_id, bill_id), bill in held.items():
            served = self.ask(f"transactions/{bill_id}", with_key=self.shop_keys[shop_id])["data"]
            assert bill == served, f"a change to {(shop_id, bill_id)} is missing from the feed"

    def ask(self, path: str, **query: Any) -> Json:
        key = query.pop("with_key", self.truth_key)
        for _ in range(ATTEMPTS):
            body = self.service.ask(key, path, **query)
            if body.get("error") != TEMPORARY:
                break
        assert "data" in body, f"the request for {path} failed: {body}"
        return body
