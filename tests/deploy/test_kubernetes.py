"""The Kubernetes manifests are valid and hardened, and their load script works."""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from counterfoil import __version__
from counterfoil.settings import TABLE
from deploy.programs import DEPLOY, needs_script, output_of, script

pytestmark = pytest.mark.programs

MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
# The oldest Kubernetes version that is still widely used. By default, the validator uses the newest that it supports.
OLDEST = "1.31"
SHOP = b'{"kind":"shop","id":"sh_1","name":"Riverside"}\n'


@cache
def every_object() -> list[dict[str, Any]]:
    return [found for manifest in MANIFESTS for found in yaml.safe_load_all(manifest.read_text("utf-8"))]


def objects(*kinds: str) -> list[dict[str, Any]]:
    return [one for one in every_object() if one["kind"] in kinds]


def pods() -> Iterator[dict[str, Any]]:
    """Yield the specification of every pod that the manifests create."""
    for one in objects("StatefulSet", "Deployment", "Job"):
        yield one["spec"]["template"]["spec"]
    for one in objects("CronJob"):
        yield one["spec"]["jobTemplate"]["spec"]["template"]["spec"]


@needs_script("kubernetes-validate")
@pytest.mark.parametrize(
    "version", [(), pytest.param(("--kubernetes-version", OLDEST), marks=pytest.mark.long)], ids=["newest", OLDEST]
)
def test_kubernetes_knows_every_field_of_the_manifests(version: tuple[str, ...]) -> None:
    said = output_of(script("kubernetes-validate"), "--strict", *version, *MANIFESTS)
    assert said.count(" passed ") == len(every_object())


def test_a_pod_with_an_embedded_store_runs_init_first_because_the_service_never_creates_a_store() -> None:
    (pod,) = [one["spec"]["template"]["spec"] for one in objects("StatefulSet")]
    assert [container["args"] for container in pod["initContainers"]] == [["init"]]


def test_every_pod_runs_without_privileges_and_on_a_read_only_system() -> None:
    found = list(pods())
    assert found
    for pod in found:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        # Otherwise Kubernetes would set COUNTERFOIL_PORT to the URL of a Service named counterfoil.
        assert pod["enableServiceLinks"] is False
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            assert container["image"] == f"counterfoil:{__version__}"
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in container["resources"]["limits"]


def test_the_manifests_set_only_settings_that_exist_and_take_secrets_from_the_secret() -> None:
    known = {setting.variable for setting in TABLE}
    (example,) = objects("Secret")
    for pod in pods():
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            for variable in container["env"]:
                assert variable["name"] in known
                if "valueFrom" in variable:
                    assert variable["valueFrom"]["secretKeyRef"]["key"] in example["stringData"]
                else:
                    assert variable["name"] in ("COUNTERFOIL_ADMIN_HOST", "COUNTERFOIL_WORKERS")


def test_a_store_on_sqlite_has_one_replica_and_its_load_the_same_volume() -> None:
    (stateful,) = objects("StatefulSet")
    assert stateful["spec"]["replicas"] == 1
    (template,) = stateful["spec"]["volumeClaimTemplates"]
    claim = f"{template['metadata']['name']}-{stateful['metadata']['name']}-0"
    claims = [volume.get("persistentVolumeClaim", {}).get("claimName") for pod in pods() for volume in pod["volumes"]]
    assert claim in claims


def scripts() -> list[str]:
    return [pod["containers"][0]["command"][2] for pod in pods() if "command" in pod["containers"][0]]


def run_load(folder: Path, store: Path) -> int:
    """Run the CronJob's script with the real command; return its exit status."""
    program = folder.parent / "bin" / "counterfoil"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m counterfoil "$@"\n', "utf-8")
    program.chmod(0o755)
    here = os.environ | {
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "COUNTERFOIL_STORE": str(store),
    }
    return subprocess.run(["/bin/sh", "-c", scripts()[0]], cwd=folder, env=here, check=False).returncode


@pytest.mark.long
def test_the_job_loads_deliveries_and_fails_when_lines_are_rejected(tmp_path: Path) -> None:
    assert len(scripts()) == 2
    assert len(set(scripts())) == 1
    folder, store = tmp_path / "deliveries", tmp_path / "store"
    folder.mkdir()
    assert run_load(folder, store) == 0
    (folder / "incoming" / "a.ndjson").write_bytes(SHOP + b"nonsense\n")
    (folder / "incoming" / ".half.ndjson").write_bytes(SHOP[:9])
    assert run_load(folder, store) == 3
    assert [file.name for file in (folder / "loaded").iterdir()] == ["a.ndjson"]
    assert [file.name for file in (folder / "incoming").iterdir()] == [".half.ndjson"]
    assert run_load(folder, store) == 0
