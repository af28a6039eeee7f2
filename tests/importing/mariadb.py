"""A real MariaDB server on loopback, if Debian's mariadb-server is installed."""

import shutil
from functools import cache
from typing import Any

import pymysql
import pytest

from servers import Server

needs_mariadb = pytest.mark.skipif(
    shutil.which("mariadbd") is None or shutil.which("mariadb-install-db") is None,
    reason="the MariaDB server is not on the PATH, so MySQL was NOT tested (Debian: apt-get install mariadb-server)",
)


class MariaDb(Server):
    """A MariaDB server without a password, with its own data folder."""

    def __init__(self) -> None:
        super().__init__("mariadb")
        data = self.folder / "data"
        shared = (f"--datadir={data}", "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db")
        self.run("mariadb-install-db", *shared[1:2], shared[0], *shared[2:])
        self.launch(
            shutil.which("mariadbd") or "",
            "--no-defaults",
            f"--datadir={data}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--socket={self.folder / 'socket'}",
            f"--pid-file={self.folder / 'pid'}",
            "--skip-name-resolve",
            "--default-time-zone=+07:00",
            "--innodb-flush-log-at-trx-commit=0",
        )
        self.await_answer(lambda: self.connect("mysql").close(), pymysql.Error)

    def connect(self, database: str) -> Any:
        return pymysql.connect(host="127.0.0.1", port=self.port, user="root", database=database)

    def url(self, database: str) -> str:
        return f"mysql://root@127.0.0.1:{self.port}/{database}"


@cache
def mariadb() -> MariaDb:
    return MariaDb()
