"""Runs the real command on the test's store in this process. `PYTHON` is the command line for a separate process."""

import json
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from counterfoil.cli.main import program

PYTHON = (sys.executable, "-m", "counterfoil")

SHOPS = (
    b'{"kind":"shop","id":"sh_1","name":"Riverside","franchiseId":"fr_a","providerId":"mb_a"}',
    b'{"kind":"shop","id":"sh_2","name":"Hillside","franchiseId":"fr_a","providerId":"mb_a"}',
)


class Command:
    """Runs `counterfoil` commands on one store."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self._runner = CliRunner()

    def __call__(self, *arguments: object, status: int = 0, stdin: bytes | None = None) -> Result:
        words = [str(argument) for argument in arguments]
        result = self._runner.invoke(program, [*words, "--store", str(self.store)], input=stdin)
        assert result.exit_code == status, result.output
        assert "Traceback" not in result.output
        return result

    def bare(self, *arguments: object, status: int = 0) -> Result:
        """Run the command without `--store`."""
        result = self._runner.invoke(program, [str(argument) for argument in arguments])
        assert result.exit_code == status, result.output
        return result

    def json(self, *arguments: object, status: int = 0, stdin: bytes | None = None) -> Any:
        return json.loads(self(*arguments, "--json", status=status, stdin=stdin).stdout)


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Let every write beyond this size fail, as on a full disk, but with the error "File too large"."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
