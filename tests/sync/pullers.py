"""Copies that the real puller keeps in a real DuckDB file, with crashes and changes at chosen moments."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count

from counterfoil.client import Client
from counterfoil.client.pull import Options, Puller
from counterfoil.client.reconcile import Reconciler
from counterfoil.client.sinks.duckdb import DuckDBSink
from empty_copy import with_empty_copy
from sync.in_process import InProcessService, in_process

_numbers = count()


class SimulatedCrash(BaseException):
    """Raised at the point where the simulated process dies."""


class CrashingSink(DuckDBSink):
    """A sink whose process may die just before or just after a commit."""

    dies_at: int | None = None
    after_it = False

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with super().transaction():
            yield
            self._count_down(before=True)
        self._count_down(before=False)

    def _count_down(self, *, before: bool) -> None:
        if self.dies_at is None:
            return
        self.dies_at -= before
        if self.dies_at == 0 and before is not self.after_it:
            raise SimulatedCrash


class PulledCopy:
    """A copy, and the key that it is pulled with."""

    puller: type[Puller] = Puller

    def __init__(self, service: InProcessService, key: str, limit: int) -> None:
        self.service = service
        self.key = key
        self.limit = limit
        self.sink = CrashingSink(with_empty_copy(service.folder / f"{next(_numbers)}.duckdb"))
        self.sink.run("SET threads = 1")

    def close(self) -> None:
        self.sink.close()

    def pull(
        self,
        cut: int | None = None,
        meanwhile: Mapping[int, Callable[[], None]] | None = None,
        dies_at: int | None = None,
        after_it: bool = False,
    ) -> None:
        """Pull once.

        The process crashes before request `cut`, or before or after commit `dies_at`.
        `meanwhile` maps request numbers to functions that are called before the request.
        """
        requests = 0

        def before() -> None:
            nonlocal requests
            requests += 1
            if meanwhile and requests in meanwhile:
                meanwhile[requests]()
            if requests == cut:
                raise SimulatedCrash

        self.sink.dies_at, self.sink.after_it = dies_at, after_it
        with self._client(before) as client:
            puller = self.puller(client, self.sink, Options(limit=self.limit, pages_per_batch=2, commit_sec=0))
            try:
                puller.run()
            except SimulatedCrash:
                """Only committed data survives, as after a real crash."""
            finally:
                self.sink.dies_at = None

    def reconcile(self) -> None:
        with self._client(lambda: None) as client:
            differences = list(Reconciler(client, self.sink, limit=self.limit).run())
        assert differences == [], "a pull has missed a change"

    def _client(self, before: Callable[[], None]) -> Client:
        return Client("http://service/ext/v1", self.key, connect=in_process(self.service, before))
