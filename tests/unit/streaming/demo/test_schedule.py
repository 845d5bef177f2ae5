from streaming.demo.schedule import make_actors, scheduled_steps


def test_demo_minute_has_every_action_in_both_groups() -> None:
    actions_by_group: dict[str, set[str]] = {}
    for step in scheduled_steps(60):
        actions_by_group.setdefault(make_actors()[step.name].group, set()).add(step.action)
    assert actions_by_group == {
        "orders-eager": {"start", "leave", "crash"},
        "payments-cooperative": {"start", "leave", "crash"},
    }


def test_demo_steps_are_sorted_and_within_the_duration() -> None:
    for duration in (1, 30, 60, 200):
        times = [step.at for step in scheduled_steps(duration)]
        assert times == sorted(times)
        assert times[-1] < duration


def test_only_running_consumers_leave_and_only_absent_ones_start() -> None:
    present: set[str] = set()
    for step in scheduled_steps(240):
        assert (step.name in present) == (step.action != "start"), step
        (present.add if step.action == "start" else present.discard)(step.name)


def test_groups_and_topics_have_a_prefix_on_a_shared_cluster() -> None:
    assert {actor.group for actor in make_actors().values()} == {"orders-eager", "payments-cooperative"}
    assert {(actor.group, actor.topic) for actor in make_actors("demo-1.").values()} == {
        ("demo-1.orders-eager", "demo-1.orders"),
        ("demo-1.payments-cooperative", "demo-1.payments"),
    }
