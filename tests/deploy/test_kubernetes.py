"""The Kubernetes manifests are valid and hardened."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml

from counterfoil.model.version import __version__
from counterfoil.settings import TABLE
from deploy.programs import DEPLOY, needs_script, output_of, script

pytestmark = pytest.mark.programs

MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
# The oldest Kubernetes version that is still widely used. By default, the validator uses the newest that it supports.
OLDEST = "1.31"


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


def test_a_pod_that_can_answer_stays_in_the_service_and_a_new_one_must_first_reach_what_it_needs() -> None:
    """`tests/faults` shows that a node without its meter or its store is not ready, but serves errors."""
    probes = {}
    for one in objects("StatefulSet", "Deployment"):
        for container in one["spec"]["template"]["spec"]["containers"]:
            if container["args"] == ["serve"]:
                probes[one["kind"]] = [
                    container[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")
                ]
    assert probes == {
        "Deployment": ["/ready", "/serving", "/live"],
        # A single pod answers from the beginning, because no other one can.
        "StatefulSet": ["/live", "/serving", "/live"],
    }


def test_a_pod_with_an_embedded_store_runs_init_first_because_the_service_never_creates_a_store() -> None:
    (pod,) = [one["spec"]["template"]["spec"] for one in objects("StatefulSet")]
    assert [container["args"] for container in pod["initContainers"]] == [["init", "--share"]]


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
            for variable in container.get("env", []):
                assert variable["name"] in known
                if "valueFrom" in variable:
                    assert variable["valueFrom"]["secretKeyRef"]["key"] in example["stringData"]
                else:
                    assert variable["name"] not in ("COUNTERFOIL_SECRET", "COUNTERFOIL_STORE", "COUNTERFOIL_METER")


def test_a_store_on_sqlite_has_one_replica_and_its_load_the_same_volume() -> None:
    (stateful,) = objects("StatefulSet")
    assert stateful["spec"]["replicas"] == 1
    (template,) = stateful["spec"]["volumeClaimTemplates"]
    claim = f"{template['metadata']['name']}-{stateful['metadata']['name']}-0"
    claims = [volume.get("persistentVolumeClaim", {}).get("claimName") for pod in pods() for volume in pod["volumes"]]
    assert claim in claims


def test_what_reads_deliveries_has_a_user_of_its_own_and_no_secret_in_its_environment() -> None:
    found = [(pod, pod["containers"][0]) for pod in pods() if pod["containers"][0]["args"][0] == "load"]
    assert len(found) == 2
    others = {pod["securityContext"]["runAsUser"] for pod in pods() if pod not in [pod for pod, _ in found]}
    for pod, container in found:
        assert pod["securityContext"]["runAsUser"] not in others
        assert [variable["name"] for variable in container["env"] if "valueFrom" in variable] == []
        (secret,) = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
        assert secret["defaultMode"] == 0o440
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        files = {f"{mounts['secret']}/{item['path']}" for item in secret["items"]}
        named = {one["value"] for one in container["env"] if one["name"].endswith("_FILE")}
        assert named == files
        # The folders of the watcher are not on the volume that others write to.
        kept = {one["name"]: one["value"] for one in container["env"]}["COUNTERFOIL_KEPT"]
        assert (kept, container["args"][2]) == (mounts["kept"], mounts["deliveries"])
        claims = [
            volume["persistentVolumeClaim"]["claimName"]
            for volume in pod["volumes"]
            if len(volume) == 2 and "persistentVolumeClaim" in volume
        ]
        assert len(set(claims)) == len(claims)


def container_of(component: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [(pod, pod["containers"][0]) for pod in pods() if pod["containers"][0]["name"] == component]


def test_a_console_can_be_reached_only_through_a_forwarded_port_and_its_log_has_no_link() -> None:
    consoles = container_of("console")
    assert len(consoles) == 2
    for _, container in consoles:
        assert container["args"] == ["console", "--no-link"]
        # Without a host, it listens on loopback.
        assert "COUNTERFOIL_CONSOLE_HOST" not in [variable["name"] for variable in container["env"]]


def test_the_backup_is_on_a_volume_of_its_own_and_runs_once_at_a_time() -> None:
    ((pod, container),) = container_of("backup")
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert container["args"] == ["backup", "--keep", "14", "--without-secret", mounts["backups"]]
    claims = {volume["name"]: volume.get("persistentVolumeClaim") for volume in pod["volumes"]}
    assert claims["backups"] != claims["store"]
    (job,) = objects("CronJob")
    assert job["spec"]["concurrencyPolicy"] == "Forbid"
