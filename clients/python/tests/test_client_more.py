"""What the client offers besides a submit and its result, each against the real server."""

from __future__ import annotations

import os
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import jobhall
from jobhall import errors, spec

from .conftest import Hall
from .test_client_jobs import result_of, script


def test_an_idempotency_key_of_the_caller_makes_one_job(client: jobhall.Client) -> None:
    key = uuid.uuid4().hex
    first = client.submit("exec", idempotency_key=key, **result_of("1"))
    assert client.submit("exec", idempotency_key=key, **result_of("1")).id == first.id
    with pytest.raises(errors.IdempotencyKeyReused) as reused:
        client.submit("exec", idempotency_key=key, **result_of("2"))
    assert reused.value.code == "idempotency_key_reused"


def test_every_field_that_can_be_edited(client: jobhall.Client) -> None:
    job = client.submit("exec", needs="gpu>=99", params={"argv": ["a"]})
    # Within the window, so that the window does not move it.
    at = datetime.now(UTC).replace(hour=23, minute=30, second=0, microsecond=0) + timedelta(days=1)
    edited = job.edit(
        params={"argv": ["b"]},
        priority=9,
        run_at=at,
        needs="gpu>=98",
        uses="gpu=1",
        windows="22:00-06:00",
        tags=["x", "y"],
        owner="me",
        retry={"max_attempts": 4},
        timeout=90,
        silence=timedelta(seconds=30),
        avoid=True,
        throttle_factor=3,
    ).data
    assert (edited.params, edited.priority, edited.run_at) == ({"argv": ["b"]}, 9, at)
    assert (edited.needs, edited.uses, edited.tags, edited.owner) == ("gpu>=98", "gpu=1", ["x", "y"], "me")
    assert (edited.max_attempts, edited.avoid, edited.throttle_factor) == (4, True, 3)
    assert edited.windows.startswith("22:00-06:00")
    assert edited.timeouts is not None
    assert (edited.timeouts.total, edited.timeouts.silence) == ("1m30s", "30s")
    job.cancel()
    with pytest.raises(errors.Conflict):
        job.edit(priority=1)


def test_a_process_that_a_signal_ends_is_a_crash(client: jobhall.Client) -> None:
    with pytest.raises(jobhall.JobCrashed) as crashed:
        client.submit("exec", **script("kill -9 $$")).result(timeout=20)
    assert crashed.value.job.state == "crashed"
    failed = client.submit("exec", retry={"max_attempts": 2, "delay": "10ms"}, **script("exit 4"))
    assert failed.wait(timeout=20).state == "failed"
    attempts = failed.attempts()
    assert [attempt.id for attempt in attempts] == [f"{failed.id}-1", f"{failed.id}-2"], "the oldest first"
    assert [list(failed.log(attempt=attempt.id)) for attempt in attempts] == [[], []]


def test_a_key_supersedes_or_runs_again(client: jobhall.Client) -> None:
    key = uuid.uuid4().hex
    first = client.submit("exec", key=key, needs="gpu>=99", **script("true"))
    second = client.submit("exec", key=key, on_duplicate="supersede", **result_of("2"))
    assert (second.disposition, second.result(timeout=20)) == ("superseding", 2)
    assert first.wait(timeout=20).state == "cancelled"
    reused = client.submit("exec", key=key, reuse="1h", **result_of("3"))
    assert (reused.disposition, reused.id, reused.result(timeout=20)) == ("reused", second.id, 2)


def test_a_log_is_followed_while_it_is_written(client: jobhall.Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    job = client.submit("exec", **script(f"echo first; read line < {gate}; echo $line; echo last"))
    lines = job.log(follow=True)
    assert next(lines) == "first"
    assert job.refresh().is_completed is False
    gate.write_text("from the test\n")
    assert list(lines) == ["from the test", "last"]


def test_ends_come_in_their_order(client: jobhall.Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    late = client.submit("exec", **script(f"read line < {gate}"))
    early = client.submit("exec", **script("true"))
    ended = client.as_completed([late, early.id], timeout=20)
    assert next(ended).id == early.id
    gate.write_text("go\n")
    assert [job.id for job in ended] == [late.id]


def test_a_large_artifact_is_read_in_pieces(client: jobhall.Client, tmp_path: Path) -> None:
    job = client.submit("exec", **script("head -c 3000000 /dev/zero > $JOBHALL_OUTPUT/zero.bin"))
    job.wait(timeout=20)
    pieces = list(job.read_artifact("zero.bin"))
    assert sum(map(len, pieces)) == 3_000_000
    assert len(pieces) > 1
    job.download("zero.bin", tmp_path / "zero", attempt=f"{job.id}-1")
    assert (tmp_path / "zero").read_bytes() == bytes(3_000_000)
    with pytest.raises(errors.NotFound):
        list(job.read_artifact("none"))


def test_events_and_lists_of_groups(client: jobhall.Client) -> None:
    tag = uuid.uuid4().hex[:8]
    group = client.create_group([spec("exec", **result_of("1"))], name="g", tags=[tag], closed=True)
    assert group.wait(timeout=20).state == "succeeded"
    assert [one.id for one in client.groups(tag=tag)] == [group.id]
    event = next(event for event in client.events(after="0", group=group.id) if event.name == "group")
    assert event.data["id"] == group.id
    assert client.group(group.id).refresh().data.name == "g"


def test_queues_types_workers_and_ticks(client: jobhall.Client) -> None:
    name = f"n{uuid.uuid4().hex[:8]}"
    client.set_queue(name, paused=True)
    assert name in [queue.name for queue in client.queues()]
    client.set_type(name, {"retry": {"max_attempts": 3}})
    assert client.type(name).retry.max_attempts == 3
    assert name in [one.name for one in client.types()]
    (worker,) = client.workers()
    assert worker.connected
    assert worker.name
    client.set_schedule(name, every="10m", job=spec("exec", **script("true")), paused=True)
    first, second, *rest = client.schedule_ticks(name, 5)
    assert second.tick - first.tick == timedelta(minutes=10)
    assert len(rest) == 3
    client.remove_schedule(name)


def test_the_environment_names_several_servers(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBHALL_SERVER", f"http://127.0.0.1:1, {hall.url}")
    monkeypatch.setenv("JOBHALL_TOKEN", hall.token)
    with jobhall.Client() as client:
        assert client.submit("exec", **result_of("6")).result(timeout=20) == 6


async def test_asynchronous_streams_graphs_and_lists(hall: Hall) -> None:
    async with jobhall.AsyncClient(hall.url, hall.token) as client:
        made = await client.submit_graph(
            {"a": spec("exec", **result_of("1")), "b": spec("exec", after="a", **result_of("2"))}
        )
        assert await client.results(made.values(), timeout=20) == [1, 2]
        job = await client.job(made["b"].id)
        assert [event.data["state"] async for event in job.events() if event.name == "job"][-1] == "succeeded"
        assert (await job.explain()).reasons
        assert [one.outcome for one in await job.attempts()] == ["succeeded"]
        many = await client.submit_many([spec("exec", tags=["async"], needs="gpu>=99")] * 3)
        assert {one.id for one in many} <= {one.id async for one in client.jobs(tag="async")}
        for one in many:
            await (await client.job(one.id)).cancel()
        key = uuid.uuid4().hex
        await client.submit("exec", key=key, needs="gpu>=99", params={"argv": ["a"]})
        with pytest.raises(jobhall.ParamsDiffer):
            await client.submit("exec", key=key, params={"argv": ["b"]})
        assert [worker.connected for worker in await client.workers()] == [True]
