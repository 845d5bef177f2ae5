"""Shapes of the operators' resources that we use, as far as we use them: a typo or a wrong type is refused.

From the types of kubeflow/spark-operator (v1beta2) and prometheus-operator (v1).
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, defstruct

Labels = dict[str, str]
Anything = dict[str, Any]


def shape(kind: str, /, **fields: Any) -> type[Struct]:
    """An object of these fields and no others; a field given as ``(type, default)`` may be left out."""
    listed = [(field, *what) if isinstance(what, tuple) else (field, what) for field, what in fields.items()]
    return defstruct(kind, listed, forbid_unknown_fields=True, rename="camel", kw_only=True)


def resource(name: str, api_version: str, spec: type[Struct]) -> type[Struct]:
    metadata = shape("Metadata", name=str, namespace=(str | None, None), labels=(Labels, {}))
    return shape(name, api_version=Literal[api_version], kind=Literal[name], metadata=metadata, spec=spec)


POD: dict[str, Any] = {
    "cores": int,
    "memory": str,
    "memory_overhead": str,
    "labels": Labels,
    "env_from": list[Anything],
    "security_context": Anything,
    "volume_mounts": list[Anything],
}
RETRIES = dict.fromkeys(
    (
        "on_failure_retry_interval",
        "on_submission_failure_retry_interval",
        "on_failure_retries",
        "on_submission_failure_retries",
    ),
    (int | None, None),
)
PORT = shape("Port", name=str, protocol=Literal["TCP", "UDP"], container_port=int)
SPARK_APPLICATION = shape(
    "SparkApplicationSpec",
    type=Literal["Java", "Scala", "Python", "R"],
    python_version=str,
    mode=Literal["cluster", "client"],
    spark_version=str,
    image=str,
    image_pull_policy=Literal["Always", "IfNotPresent", "Never"],
    main_application_file=str,
    arguments=list[str],
    restart_policy=shape("RestartPolicy", type=Literal["Never", "Always", "OnFailure"], **RETRIES),
    volumes=list[Anything],
    driver=shape("Driver", **POD, service_account=str, ports=(list[PORT], [])),
    executor=shape("Executor", **POD, instances=int),
)
SELECTOR = shape("Selector", match_labels=Labels)
RELABELING = shape(
    "Relabeling", target_label=str, source_labels=(list[str], []), replacement=(str | None, None)
)
ENDPOINTS = list[
    shape("Endpoint", port=str, interval=str, path=(str, "/metrics"), relabelings=(list[RELABELING], []))
]
SERVICE_MONITOR = shape("ServiceMonitorSpec", selector=SELECTOR, endpoints=ENDPOINTS)
POD_MONITOR = shape("PodMonitorSpec", selector=SELECTOR, pod_metrics_endpoints=ENDPOINTS)

SHAPES: dict[str, type[Struct]] = {
    "SparkApplication": resource("SparkApplication", "sparkoperator.k8s.io/v1beta2", SPARK_APPLICATION),
    "ServiceMonitor": resource("ServiceMonitor", "monitoring.coreos.com/v1", SERVICE_MONITOR),
    "PodMonitor": resource("PodMonitor", "monitoring.coreos.com/v1", POD_MONITOR),
}
