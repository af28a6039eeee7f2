"""An empty SQLite store that is created once per test process and then copied.

Running all migrations takes longer than most tests. Each copy gets its own store
ID, like a newly created store.
"""

import secrets
import struct
import tempfile
from functools import cache
from pathlib import Path

from counterfoil.backends.sqlite.files import read_write
from counterfoil.backends.sqlite.schema import NAMES

# The offset of the application ID in the header of an SQLite file. Counterfoil stores the ID of the store there.
ID_OFFSET = 68


def copy_empty_store(folder: Path) -> None:
    """Create the files of a migrated, empty store in this folder, which must not exist yet."""
    folder.mkdir(mode=0o700, parents=True)
    store_id = struct.pack(">i", secrets.randbelow(2**31 - 1) + 1)
    for name, content in _migrated().items():
        file = folder / f"{name}.sqlite3"
        file.write_bytes(content[:ID_OFFSET] + store_id + content[ID_OFFSET + len(store_id) :])
        file.chmod(0o600)


@cache
def _migrated() -> dict[str, bytes]:
    """Return the content of each file of a new store, keyed by name."""
    with tempfile.TemporaryDirectory(prefix="counterfoil-empty-") as place:
        folder = Path(place) / "store"
        read_write(folder, "books").close()
        assert sorted(file.name for file in folder.iterdir()) == sorted(f"{name}.sqlite3" for name in NAMES)
        return {name: (folder / f"{name}.sqlite3").read_bytes() for name in NAMES}
