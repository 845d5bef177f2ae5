"""Shapes of the operators' resources that we use, as far as we use them: a typo or a wrong type is refused.

From the types of kubeflow/spark-operator (v1beta2) and prometheus-operator (v1).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Unknown fields are errors."""


class Metadata(Strict):
    name: str
    namespace: str | None = None
    labels: dict[str, str] = {}


class RestartPolicy(Strict):
    type: Literal["Never", "Always", "OnFailure"]
    on_failure_retry_interval: int | None = None
    on_submission_failure_retry_interval: int | None = None
    on_failure_retries: int | None = None
    on_submission_failure_retries: int | None = None


class Port(Strict):
    name: str
    protocol: Literal["TCP", "UDP"]
    container_port: int


class Pod(Strict):
    cores: int
    memory: str
    memory_overhead: str
    labels: dict[str, str]
    env_from: list[dict[str, Any]]
    security_context: dict[str, Any]
    volume_mounts: list[dict[str, Any]]


class Driver(Pod, kw_only=True):
    service_account: str
    ports: list[Port] = []


class Executor(Pod, kw_only=True):
    instances: int


class SparkApplicationSpec(Strict):
    type: Literal["Java", "Scala", "Python", "R"]
    python_version: str
    mode: Literal["cluster", "client"]
    spark_version: str
    image: str
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"]
    main_application_file: str
    arguments: list[str]
    restart_policy: RestartPolicy
    volumes: list[dict[str, Any]]
    driver: Driver
    executor: Executor


class SparkApplication(Strict):
    api_version: Literal["sparkoperator.k8s.io/v1beta2"]
    kind: Literal["SparkApplication"]
    metadata: Metadata
    spec: SparkApplicationSpec


class Selector(Strict):
    match_labels: dict[str, str]


class Relabeling(Strict):
    target_label: str
    source_labels: list[str] = []
    replacement: str | None = None


class Endpoint(Strict):
    port: str
    interval: str
    path: str = "/metrics"
    relabelings: list[Relabeling] = []


class ServiceMonitorSpec(Strict):
    selector: Selector
    endpoints: list[Endpoint]


class PodMonitorSpec(Strict):
    selector: Selector
    pod_metrics_endpoints: list[Endpoint]


class ServiceMonitor(Strict):
    api_version: Literal["monitoring.coreos.com/v1"]
    kind: Literal["ServiceMonitor"]
    metadata: Metadata
    spec: ServiceMonitorSpec


class PodMonitor(Strict):
    api_version: Literal["monitoring.coreos.com/v1"]
    kind: Literal["PodMonitor"]
    metadata: Metadata
    spec: PodMonitorSpec


SHAPES: dict[str, type[msgspec.Struct]] = {
    "SparkApplication": SparkApplication,
    "ServiceMonitor": ServiceMonitor,
    "PodMonitor": PodMonitor,
}
