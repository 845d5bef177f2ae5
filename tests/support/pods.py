"""Runs the containers of a rendered pod in Docker: its arguments, user, root file system, limits and volumes."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Self
from urllib.request import urlopen

from tests.support.container import CONTAINER_LABEL, docker_client
from tests.support.wait import eventually

_MEBIBYTE = 2**20


class Pod:
    """The containers of a pod, started as a kubelet would start them; its end removes them.

    Args:
        spec: the pod's spec, as rendered.
        network: name of the Docker network.
        image: the image in place of the one that the spec names.
        config_map: content of the pod's config map by file name.
        secret: content of the Secret that the containers have in their environment.
        folder: place of the volumes; a claim keeps its folder, so that pods may share it.
    """

    def __init__(
        self,
        spec: dict[str, Any],
        *,
        network: str,
        image: str,
        config_map: Mapping[str, str],
        secret: Mapping[str, str],
        folder: Path,
    ) -> None:
        self._spec, self._network, self._image, self._secret = spec, network, image, dict(secret)
        self._folders = {volume["name"]: self._folder(volume, folder, config_map) for volume in spec["volumes"]}
        self._stack = ExitStack()
        #: Running container by the name that the spec gives it.
        self.containers: dict[str, Any] = {}

    def _folder(self, volume: Mapping[str, Any], folder: Path, config_map: Mapping[str, str]) -> Path:
        place = folder / volume["name"]
        place.mkdir(exist_ok=True)
        if "configMap" in volume:
            for name, text in config_map.items():
                (place / name).write_text(text)
        elif "emptyDir" in volume:
            place.chmod(0o777)
        else:  # a claim, which belongs to the pod's group
            os.chown(place, -1, self._spec["securityContext"]["fsGroup"])
            place.chmod(0o2775)
        return place

    def _run(self, container: Mapping[str, Any]) -> Any:
        user, security = self._spec["securityContext"], container["securityContext"]
        mounts = {
            str(self._folders[mount["name"]]): {
                "bind": mount["mountPath"],
                "mode": "ro" if mount.get("readOnly") else "rw",
            }
            for mount in container["volumeMounts"]
        }
        made = docker_client().containers.run(
            self._image,
            container["args"],
            detach=True,
            labels={CONTAINER_LABEL: "pod"},
            network=self._network,
            environment=self._secret if container["envFrom"] else {},
            user=f"{user['runAsUser']}:{user['runAsGroup']}",
            read_only=security["readOnlyRootFilesystem"],
            cap_drop=security["capabilities"]["drop"],
            security_opt=[] if security["allowPrivilegeEscalation"] else ["no-new-privileges:true"],
            mem_limit=int(container["resources"]["limits"]["memory"].removesuffix("Mi")) * _MEBIBYTE,
            volumes=mounts,
        )
        self._stack.callback(made.remove, force=True, v=True)
        return made

    def __enter__(self) -> Self:
        try:
            for container in self._spec.get("initContainers", ()):
                made = self._run(container)
                status = made.wait()["StatusCode"]
                assert status == 0, f"{container['name']}: {made.logs().decode()[-3000:]}"
            self.containers = {container["name"]: self._run(container) for container in self._spec["containers"]}
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def address(self, name: str, port: str) -> str:
        """Return host and number of a container's named port, for the machine that runs Docker."""
        (number,) = [
            published["containerPort"]
            for container in self._spec["containers"]
            for published in container["ports"]
            if (container["name"], published["name"]) == (name, port)
        ]
        container = self.containers[name]
        container.reload()
        assert container.status == "running", container.logs().decode()[-3000:]
        return f"{container.attrs['NetworkSettings']['Networks'][self._network]['IPAddress']}:{number}"

    def await_probes(self) -> None:
        """Wait until each container passes its startup probe, or else its readiness probe, in the time that it has."""
        for container in self._spec["containers"]:
            probe = container.get("startupProbe") or container["readinessProbe"]
            seconds = probe.get("failureThreshold", 12) * probe["periodSeconds"]
            eventually(partial(self._passes, container["name"], **probe["httpGet"]), timeout=seconds, every=0.2)

    def _passes(self, name: str, *, path: str, port: str) -> bool:
        try:
            with urlopen(f"http://{self.address(name, port)}{path}", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self) -> dict[str, int]:
        """Stop the containers as a deleted pod's are stopped; return their exit status by name."""
        for container in self.containers.values():
            container.stop(timeout=self._spec["terminationGracePeriodSeconds"])
        return {name: container.wait()["StatusCode"] for name, container in self.containers.items()}
