"""Several clusters in one server: paths, access, readiness, metrics, and clusters that fail."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import ASGIApp

from assignors.errors import OutsideFailure
from streaming.records.events import Event
from streaming.serve import server
from streaming.serve.app import build
from streaming.serve.board import FeedStatus, Stale
from streaming.serve.clusters import Cluster, ServeOptions
from streaming.serve.history import History
from streaming.serve.security import Access
from tests.support.asgi import ask
from tests.support.feed import FailingSource, MemorySource, cluster_of, connected_cluster, records, service
from tests.support.feed_server import running, served_cluster
from tests.support.histories import Group
from tests.support.wait import eventually

TOKEN = "a-long-enough-token"  # noqa: S105 - a made-up token
PATHS = ("/groups", "/groups/orders", "/rounds", "/stream", "/annotations", "/openapi.json", "/clusters", "/none")


@pytest.fixture
def second(tmp_path: Path) -> Iterator[History]:
    history = History(tmp_path / "second.sqlite", cluster_id="c-2", diffs_topic="rebalance.diffs")
    yield history
    history.close()


@pytest.fixture
def clusters(history: History, second: History) -> list[Cluster]:
    return [connected_cluster(history, "eu"), connected_cluster(second, "us")]


def groups_at(app: ASGIApp, prefix: str = "") -> list[str]:
    return [group["groupId"] for group in ask(app, f"{prefix}/api/v1/groups").json["groups"]]


@pytest.fixture
def app(history: History, second: History) -> ASGIApp:
    history.append(records(Group("orders", {"t": 6}, 1).diffs(4)))
    second.append(records(Group("team/a\nb", {"t": 6}, 1).diffs(3)))
    return service(history, second, names=("eu", "us"))


def test_each_cluster_has_its_own_paths(app: ASGIApp) -> None:
    assert groups_at(app) == groups_at(app, "/clusters/eu") == ["orders"]
    assert groups_at(app, "/clusters/us") == ["team/a\nb"]
    path = "/clusters/us/api/v1/groups/team%2Fa%0Ab"
    assert ask(app, path).json["group"]["groupId"] == "team/a\nb"
    assert len(ask(app, f"{path}/rounds").json["rounds"]) == 3
    unknown = ask(app, "/clusters/us/api/v1/groups/orders")
    assert (unknown.status, unknown.json["instance"]) == (404, "/clusters/us/api/v1/groups/orders")


@pytest.mark.parametrize("accept", ["application/json", "text/html"])
def test_unknown_cluster_answer_names_the_known_clusters(app: ASGIApp, accept: str) -> None:
    answer = ask(app, "/clusters/asia/api/v1/groups", {"accept": accept})
    assert (answer.status, answer.json["type"]) == (404, "/problems#cluster")
    assert answer.json["detail"] == "no cluster 'asia' is served; there are eu, us"


@pytest.mark.parametrize(
    "path",
    [
        *("/clusters", "/clusters/us", "/clusters/us/metrics", "/clusters/us/api/v1/groups/", "/clusters/us/api/v1"),
        *("/metrics/", "/health/", "/api/v1/groups/", "/api/v1/stream/", "//evil.example/"),
    ],
)
def test_other_paths_are_neither_served_nor_redirected(app: ASGIApp, path: str) -> None:
    answer = ask(app, path)
    assert answer.status == 404
    assert "location" not in answer.headers


def test_the_only_cluster_answers_by_its_name_too(history: History) -> None:
    app = service(history, names=("eu",))
    assert ask(app, "/clusters/eu/api/v1/groups").json == ask(app, "/api/v1/groups").json
    assert ask(app, "/clusters/us/api/v1/groups").json["detail"] == "no cluster 'us' is served; there are eu"
    service_with_long_name = service(history, names=("an id / {x}",))
    assert ask(service_with_long_name, "/clusters/eu/api/v1/groups").json["type"] == "/problems#not-found"
    assert ask(app, "/ready").json == {"ready": False, "lag": 0, "seq": 0}
    assert b"cluster=" not in ask(app, "/metrics").body
    assert ask(app, "/api/v1/clusters").json == {
        "clusters": [{"name": "eu", "clusterId": "c", "ready": False, "lag": 0, "seq": 0}]
    }


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("prefix", ["", "/clusters/eu", "/clusters/us", "/clusters/asia", "/clusters/%75s"])
def test_a_token_guards_the_api_of_every_cluster(history: History, second: History, prefix: str, path: str) -> None:
    app = service(history, second, names=("eu", "us"), token=TOKEN, loopback_only=False)
    answer = ask(app, f"{prefix}/api/v1{path}")
    assert (answer.status, answer.json["type"]) == (401, "/problems#token")
    assert b"eu" not in answer.body.replace(prefix.encode(), b"")
    is_admitted = ask(app, f"{prefix}/api/v1{path}", {"authorization": f"Bearer {TOKEN}"}, method="HEAD")
    assert is_admitted.status in (200, 404)


@pytest.mark.parametrize(
    "path", ["//clusters/us/api/v1/groups", "/clusters//api/v1/groups", "/x/clusters/us/api/v1/groups"]
)
def test_no_other_spelling_of_a_path_reaches_a_cluster(history: History, second: History, path: str) -> None:
    app = service(history, second, names=("eu", "us"), token=TOKEN)
    assert ask(app, path).status in (401, 404)
    assert ask(app, path, {"authorization": f"Bearer {TOKEN}"}).status == 404


def test_annotation_is_published_to_the_cluster_in_its_path(clusters: list[Cluster]) -> None:
    published: dict[str, list[Event]] = {"eu": [], "us": []}
    for cluster in clusters:
        cluster.publish = published[cluster.name].append
    app = build(clusters, ServeOptions(max_clients=9), Access(lambda: [TOKEN]))
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    body = b'{"text": "deploy"}'
    sent = {**headers, "content-length": str(len(body))}
    assert ask(app, "/clusters/us/api/v1/annotations", sent, method="POST", body=body).status == 202
    assert [len(events) for events in published.values()] == [0, 1]
    assert ask(app, "/clusters/us/api/v1/groups", headers, method="POST").status == 405


def samples(app: ASGIApp) -> dict[tuple[str, str | None], float]:
    families = text_string_to_metric_families(ask(app, "/metrics").body.decode())
    return {
        (sample.name, sample.labels.get("cluster")): sample.value for family in families for sample in family.samples
    }


def test_metrics_of_several_clusters_have_the_label_cluster(app: ASGIApp, history: History) -> None:
    exported = samples(app)
    assert {cluster for _, cluster in exported} == {"eu", "us"}
    assert [exported["rebalance_monitor_feed_rounds_total", name] for name in ("eu", "us")] == [4, 3]
    text = ask(app, "/metrics").body.decode()
    assert text.count("# TYPE rebalance_monitor_feed_rounds_total counter") == 1
    metric_names = {name for name, _ in samples(service(history))}
    assert {name for name, _ in exported} == metric_names


def test_clients_are_limited_over_all_clusters(clusters: list[Cluster]) -> None:
    app = build(clusters, ServeOptions(max_clients=2), Access())
    with clusters[0].board.listener_event():
        assert ask(app, "/clusters/us/api/v1/stream", method="HEAD").status == 200
        with clusters[1].board.listener_event():
            full = ask(app, "/api/v1/stream", method="HEAD")
    assert (full.status, full.headers["retry-after"]) == (503, "10")


def test_serve_is_ready_once_all_clusters_are_ready(clusters: list[Cluster]) -> None:
    clusters.append(cluster_of(None, "asia"))
    clusters[2].problem = "broker asia:1 does not answer"
    app = build(clusters, ServeOptions(max_clients=2), Access())
    clusters[0].board.progress(FeedStatus(caught_up=True))
    clusters[1].board.progress(FeedStatus(stale=Stale("topic-missing", "Topic t is missing", 7)))
    answer = ask(app, "/ready")
    stale = {"kind": "topic-missing", "reason": "Topic t is missing", "since": 7}
    listed = [
        {"name": "eu", "clusterId": "c", "ready": True, "lag": 0, "seq": 0},
        {"name": "us", "clusterId": "c", "ready": False, "lag": 0, "seq": 0, "stale": stale},
        {"name": "asia", "clusterId": None, "ready": False, "problem": "not connected; the log has the reason"},
    ]
    assert (answer.status, answer.json) == (503, {"ready": False, "clusters": listed})
    assert ask(app, "/api/v1/clusters").json == {"clusters": listed}
    away = ask(app, "/clusters/asia/api/v1/groups")
    assert (away.status, away.json["type"]) == (503, "/problems#unconnected")
    assert away.json["detail"] == "cluster asia: broker asia:1 does not answer"
    exported = samples(app)
    assert [exported["rebalance_monitor_feed_caught_up", name] for name in ("eu", "us", "asia")] == [1, 0, 0]
    clusters.pop()
    clusters[1].board.progress(FeedStatus(caught_up=True))
    app = build(clusters, ServeOptions(max_clients=2), Access())
    assert (ask(app, "/ready").status, ask(app, "/ready").json["ready"]) == (200, True)


@pytest.mark.parametrize("error", [OutsideFailure("broker us:1 does not answer"), RuntimeError("odd")])
def test_failing_cluster_does_not_stop_others_and_reconnects(
    options: ServeOptions, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    monkeypatch.setattr(server, "_RECONNECT_SECONDS", 0.05)
    first, away = MemorySource(), FailingSource(cluster_id="c-2")
    first.put(*records(Group("eu-group", {"t": 6}, 1).diffs(2)))
    away.put(*records(Group("us-group", {"t": 6}, 1).diffs(3)))
    away.error = error
    own = replace(options, history=options.history and options.history.with_stem("h-us"))
    with running(options, first, name="eu", further_clusters=[Cluster(away.connect, own, name="us")]) as feed:

        def ready() -> dict[str, bool]:
            return {cluster["name"]: cluster["ready"] for cluster in feed.get("/api/v1/clusters")["clusters"]}

        eventually(lambda: ready() == {"eu": True, "us": False})
        eventually(lambda: str(error) in feed.get("/clusters/us/api/v1/groups")["detail"])
        assert (feed.ask("/ready")[0], feed.ask("/clusters/us/api/v1/stream")[0]) == (503, 503)
        assert [group["groupId"] for group in feed.get("/api/v1/groups")["groups"]] == ["eu-group"]
        for _ in range(2):
            away.error = None
            eventually(lambda: ready() == {"eu": True, "us": True})
            assert feed.ask("/ready")[0] == 200
            listed = feed.get("/clusters/us/api/v1/groups")
            assert [(group["groupId"], group["rounds"]) for group in listed["groups"]] == [("us-group", 3)]
            assert listed["cluster"] == "us"
            away.error = error
            eventually(lambda: ready() == {"eu": True, "us": False})
        assert feed.ended == []
    assert feed.ended == [None]
    warnings = [message for message in caplog.messages if message.startswith("cluster us: ")]
    assert 1 <= len(warnings) < 6  # one for each reason, however often it is tried
    reopened = served_cluster(MemorySource(cluster_id="c-2"), own, name="us")
    with running(options, first, name="eu", further_clusters=[reopened]) as feed:
        eventually(lambda: feed.ask("/ready")[0] == 200)  # both histories were closed
