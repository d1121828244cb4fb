"""Lost answers, lost servers, and servers that ask to come back later."""

from __future__ import annotations

import signal
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

import jobhall
from jobhall import _core, errors, spec
from jobhall._connection import DEFAULT_SERVER

from .conftest import Hall
from .proxy import Proxy


def test_a_lost_answer_makes_no_second_job(own_hall: Hall) -> None:
    proxy = Proxy(own_hall.url, drops=2)
    with jobhall.Client(proxy.url, own_hall.token) as client, own_hall.client() as direct:
        one = client.submit("x", n=1)
        assert [b" 201 " in answer for answer in proxy.dropped] == [True, True], "the server had committed"
        assert [job.id for job in direct.jobs()] == [one.id]
        proxy.drops = 1
        many = client.submit_many([spec("x", n=2), spec("x", n=3)])
        proxy.drops = 1
        group = client.create_group([spec("x", n=4)])
        assert len(proxy.dropped) == 4
        ids = {one.id, *(job.id for job in many), *(job.id for job in group.data.jobs)}
        assert {job.id for job in direct.jobs()} == ids
        assert len(ids) == 4
        one.cancel()
        client.set_schedule("nightly", every="24h", job=spec("x", n=5), paused=True)
        proxy.drops = 1
        again = one.retry()
        proxy.drops = 1
        run = client.run_schedule("nightly")
        assert len(proxy.dropped) == 6
        assert {job.id for job in direct.jobs()} == {*ids, again.id, run.id}
    proxy.close()


def test_what_must_not_be_repeated_is_not(own_hall: Hall) -> None:
    proxy = Proxy(own_hall.url, drops=0)
    with jobhall.Client(proxy.url, own_hall.token) as client, own_hall.client() as direct:
        client.set_schedule("nightly", every="24h", job=spec("x"), paused=True)
        proxy.drops = 1
        with pytest.raises(jobhall.ConnectionFailed):
            client.remove_schedule("nightly")
        assert list(direct.schedules()) == [], "the one request was executed; another one would find no schedule"
    proxy.close()


def test_another_address_is_used_when_one_does_not_answer(own_hall: Hall) -> None:
    dead = "http://127.0.0.1:1"
    with jobhall.Client([dead, own_hall.url], own_hall.token) as client:
        job = client.submit("x")
        assert client._core.address == own_hall.url
        assert client.job(job.id).state == "queued"
    with jobhall.Client(dead, "token") as client, pytest.raises(jobhall.ConnectionFailed, match=dead):
        client.submit("x")


def test_without_any_server_the_error_says_how_to_start_one() -> None:
    core = _core.Core([DEFAULT_SERVER], "")
    op = core.send(_core.get("jobs", 1))
    with pytest.raises(
        jobhall.ConnectionFailed, match=r"no server answers at .*: refused; start one with `jobhall up`"
    ):
        _refuse_all(op)


def _refuse_all(op: Any) -> None:
    """Has each try fail before anything was sent."""
    effect = next(op)
    while True:
        effect = op.throw(_core.Lost("refused", unsent=True)) if isinstance(effect, _core.Send) else op.send(None)


class _Busy(BaseHTTPRequestHandler):
    """Answers 503 to everything."""

    calls = 0

    def do_POST(self) -> None:
        type(self).calls += 1
        self.rfile.read(int(self.headers["content-length"]))
        body = b'{"type":"x","title":"t","status":503,"detail":"stopping","code":"unavailable"}'
        self.send_response(503)
        self.send_header("retry-after", "2")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_a_server_that_is_unavailable_is_left_for_another(own_hall: Hall) -> None:
    busy = HTTPServer(("127.0.0.1", 0), _Busy)
    threading.Thread(target=busy.serve_forever, daemon=True).start()
    try:
        with jobhall.Client([f"http://127.0.0.1:{busy.server_port}", own_hall.url], own_hall.token) as client:
            assert client.submit("x").state == "queued"
            assert _Busy.calls == 1
    finally:
        busy.shutdown()
        busy.server_close()


def test_the_pause_is_what_the_server_asks_for() -> None:
    core = _core.Core(["http://a"], "")
    op = core.send(_core.get("jobs", 1))
    assert isinstance(next(op), _core.Send)
    body = b'{"detail":"stopping","code":"unavailable"}'
    pause = op.send(_core.Reply(503, {"retry-after": "2"}, body))
    assert isinstance(pause, _core.Pause)
    assert pause.seconds >= 2


def test_a_wait_survives_a_restart_of_the_server(own_hall: Hall) -> None:
    with own_hall.client() as client:
        job = client.submit("x")
        events = job.events()
        assert next(events).data["state"] == "queued"
        address = own_hall.url.removeprefix("http://")
        own_hall.stop(signal.SIGKILL)
        own_hall.start(address)
        with own_hall.client() as other:
            other.job(job.id).cancel()
        assert [event.data["state"] for event in events][-1] == "cancelled"
        assert job.wait(timeout=20).state == "cancelled"


def test_a_wrong_token_is_refused(own_hall: Hall) -> None:
    with jobhall.Client(own_hall.url, "wrong") as client, pytest.raises(errors.Unauthorized) as refused:
        client.submit("x")
    assert refused.value.status == 401
    assert "wrong" not in repr(refused.value)


def test_bulk_is_cut_at_the_bounds_of_the_server(own_hall: Hall) -> None:
    proxy = Proxy(own_hall.url, drops=0)
    with jobhall.Client(proxy.url, own_hall.token) as client:
        made = client.submit_many({"type": "x", "params": {"n": n}} for n in range(10_001))
        assert len({one.id for one in made}) == 10_001
        large = client.submit_many(spec("x", text="a" * 200_000) for _ in range(11))
        assert len(large) == 11
        with pytest.raises(jobhall.PartlySubmitted) as partly:
            client.submit_many([*(spec("x", text="a" * 200_000) for _ in range(6)), spec("no type")])
        assert 0 < len(partly.value.submitted) < 7
        assert isinstance(partly.value.__cause__, errors.BadRequest)
    proxy.close()
