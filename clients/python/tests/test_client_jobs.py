"""The client against the real server."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import jobhall
from jobhall import errors, spec

from .conftest import Hall


def script(text: str) -> dict[str, Any]:
    return {"script": text}


def result_of(value: str) -> dict[str, Any]:
    return script(f"printf '%s' '{value}' > \"$JOBHALL_RESULT\"")


def test_a_job_runs_and_has_a_result(client: jobhall.Client) -> None:
    job = client.submit("exec", **result_of('{"sum": 5}'))
    assert job.disposition == "created"
    assert job.result(timeout=20) == {"sum": 5}
    assert job.state == "succeeded"


def test_a_result_that_is_stored_as_an_artifact_is_read(client: jobhall.Client) -> None:
    job = client.submit("exec", **script("python3 -c 'print([7] * 50000)' > \"$JOBHALL_RESULT\""))
    assert job.result(timeout=20) == [7] * 50_000
    assert job.data.result is None


def test_a_failure_and_a_cancel_are_exceptions(client: jobhall.Client) -> None:
    with pytest.raises(jobhall.JobFailed, match="exit_3") as failed:
        client.submit("exec", **script("exit 3")).result(timeout=20)
    assert failed.value.job.error is not None
    held = client.submit("exec", needs="gpu>=99", **script("true"))
    assert any("gpu" in reason.text for reason in held.explain().reasons)
    for timeout in (0, 0.05):
        with pytest.raises(jobhall.WaitTimeout, match=f"job {held.id} has not ended within {timeout} s; it is queued"):
            held.wait(timeout=timeout)
    held.cancel("unwanted", "by a test")
    with pytest.raises(jobhall.JobCancelled, match="unwanted: by a test"):
        held.result(timeout=20)
    assert held.wait(timeout=0).state == "cancelled", "one that has ended needs no time"
    again = held.retry()
    assert again.data.retry_of == held.id
    again.cancel()


def test_hold_edit_release_and_list(client: jobhall.Client) -> None:
    tag = uuid.uuid4().hex[:8]
    later = datetime.now(UTC) + timedelta(hours=1)
    job = client.submit("exec", run_at=later, tags=[tag], priority=7, timeout=30, max_attempts=2, **script("true"))
    assert (job.state, job.data.priority, job.data.max_attempts) == ("scheduled", 7, 2)
    assert job.data.timeouts is not None
    assert job.data.timeouts.total == "30s"
    assert job.data.run_at == later.replace(microsecond=later.microsecond // 1000 * 1000)
    assert job.hold().data.hold
    assert job.edit(priority=3).data.priority == 3
    assert not job.release().data.hold
    assert [one.id for one in client.jobs(tag=tag)] == [job.id]
    assert job.run_now().wait(timeout=20).state == "succeeded"
    assert [attempt.outcome for attempt in job.attempts()] == ["succeeded"]


def test_pages_are_followed(client: jobhall.Client) -> None:
    tag = uuid.uuid4().hex[:8]
    made = client.submit_many(spec("exec", needs="gpu>=99", tags=[tag]) for _ in range(130))
    assert sorted(job.id for job in client.jobs(tag=tag)) == [one.id for one in made]
    for job in client.jobs(tag=tag):
        job.cancel()


def test_a_pending_key_with_other_params(client: jobhall.Client) -> None:
    key = uuid.uuid4().hex
    first = client.submit("exec", key=key, needs="gpu>=99", params={"argv": ["a"]})
    assert client.submit("exec", key=key, needs="gpu>=99", params={"argv": ["a"]}).disposition == "joined"
    with pytest.raises(jobhall.ParamsDiffer) as differ:
        client.submit("exec", key=key, params={"argv": ["b"]})
    assert differ.value.id == first.id
    with pytest.raises(jobhall.ParamsDiffer):
        client.submit_many([spec("exec", key=key, params={"argv": ["c"]})])
    assert client.submit("exec", key=key, on_duplicate="join", params={"argv": ["b"]}).id == first.id
    with pytest.raises(errors.KeyHeld) as held:
        client.submit("exec", key=key, on_duplicate="reject", params={"argv": ["b"]})
    assert (held.value.code, held.value.status) == ("key_held", 409)
    first.cancel()


def test_a_graph_by_name_and_results_in_order(client: jobhall.Client) -> None:
    made = client.submit_graph(
        {
            "last": spec("exec", after=["left", "right"], **result_of("3")),
            "left": spec("exec", **result_of("1")),
            "right": spec("exec", after="left", **result_of("2")),
        }
    )
    assert list(made) == ["last", "left", "right"]
    assert client.results(made.values(), timeout=30) == [3, 1, 2]
    assert client.job(made["last"].id).data.after == [made["left"].id, made["right"].id]


def test_bad_input_is_a_clear_exception(client: jobhall.Client) -> None:
    for wrong in (float("nan"), object(), {1, 2}):
        with pytest.raises(jobhall.InvalidRequest, match="JSON"):
            client.submit("exec", value=wrong)
    with pytest.raises(jobhall.InvalidRequest, match="cycle"):
        client.submit_graph({"a": spec("x", after="b"), "b": spec("x", after="a")})
    with pytest.raises(jobhall.InvalidRequest, match="not in the graph"):
        client.submit_graph({"a": spec("x", after="c")})
    with pytest.raises(jobhall.InvalidRequest, match="time zone"):
        spec("x", run_at=datetime(2030, 1, 1))
    with pytest.raises(jobhall.InvalidRequest, match=r"tags is a list of texts: write \['demo'\]"):
        client.submit("exec", tags="demo")
    with pytest.raises(jobhall.InvalidRequest, match="tags is a list"):
        client.create_group(tags="demo")
    with pytest.raises(errors.BadRequest) as bad:
        client.submit("no type")
    assert bad.value.code == "bad_request"
    assert bad.value.request_id
    with pytest.raises(errors.NotFound):
        client.job(2**40)


def test_logs_events_and_artifacts(client: jobhall.Client, tmp_path: Path) -> None:
    job = client.submit("exec", **script("echo one; echo two >&2; printf hi > $JOBHALL_OUTPUT/a.txt"))
    assert sorted(job.log(follow=True)) == ["one", "two"]
    states = [event.data["state"] for event in job.events() if event.name == "job"]
    assert states[-1] == "succeeded"
    assert list(job.log(stream="stderr")) == ["two"]
    assert len(job.log_bytes()) == 8
    (artifact,) = job.artifacts()
    job.download(artifact, tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == "hi"


def test_events_of_the_hall_can_be_resumed(client: jobhall.Client) -> None:
    job = client.submit("exec", needs="gpu>=99")
    events = client.events(after="0")
    seen = next(event for event in events if event.data.get("id") == job.id)
    events.close()  # type: ignore[attr-defined]
    job.cancel()
    later = next(event for event in client.events(after=seen.id) if event.data.get("id") == job.id)
    assert later.data["state"] == "cancelled"


def test_groups(client: jobhall.Client) -> None:
    group = client.create_group([spec("exec", **result_of("1"))], name="numbers")
    group.add([spec("exec", **result_of("2"))])
    with pytest.raises(jobhall.WaitTimeout):
        group.wait(timeout=0.05)
    group.close()
    assert group.results(timeout=20) == [1, 2]
    assert group.data.counts.succeeded == 2
    with pytest.raises(errors.GroupClosed):
        group.add([spec("exec")])
    failing = client.create_group([spec("exec", **script("exit 1"))], closed=True)
    with pytest.raises(jobhall.GroupFailed):
        failing.results(timeout=20)
    assert failing.retry().data.retry_of == failing.id
    endless = client.create_group([spec("exec", needs="gpu>=99")], closed=True)
    assert endless.cancel().wait(timeout=20).state == "cancelled"


def test_schedules_queues_and_types(client: jobhall.Client) -> None:
    name = f"s{uuid.uuid4().hex[:8]}"
    made = client.set_schedule(name, cron="0 3 * * *", zone="Europe/Berlin", job=spec("exec", **script("true")))
    assert (made.zone, made.cron) == ("Europe/Berlin", "0 3 * * *")
    assert client.set_schedule(name, paused=True).paused
    assert name in [one.name for one in client.schedules()]
    assert client.job(client.run_schedule(name).id).wait(timeout=20).data.schedule in (name, None)
    client.remove_schedule(name)
    with pytest.raises(errors.NotFound):
        client.schedule(name)
    queue = f"q{uuid.uuid4().hex[:8]}"
    assert client.set_queue(queue, paused=True, limits=[{"concurrency": 1}]).paused
    assert client.queue(queue).limits[0].concurrency == 1
    assert client.set_type(f"t{queue}", {"retry": {"max_attempts": 9}}).retry.max_attempts == 9


async def test_the_asynchronous_client_does_the_same(hall: Hall) -> None:
    async with jobhall.AsyncClient(hall.url, hall.token) as client:
        job = await client.submit("exec", **result_of('"async"'))
        assert await job.result(timeout=20) == "async"
        group = await client.create_group([spec("exec", **result_of("4"))], closed=True)
        assert await group.results(timeout=20) == [4]
        stuck = await client.submit("exec", needs="gpu>=99")
        with pytest.raises(jobhall.WaitTimeout):
            await stuck.wait(timeout=0.05)
        await stuck.cancel()
        assert [line async for line in (await client.submit("exec", **script("echo x"))).log(follow=True)] == ["x"]
