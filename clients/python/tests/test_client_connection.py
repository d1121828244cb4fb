"""Which server is found, and to which one the local token is sent: the rules of the command line."""

from __future__ import annotations

import os
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

import jobhall
from jobhall import _running
from jobhall._connection import DEFAULT_SERVER, Connection, find_server, is_loopback, parse_addresses
from jobhall._tls import ssl_context

from .conftest import Hall, binary, wait_for


def test_the_one_running_server_is_found_with_its_token(own_hall: Hall) -> None:
    found = find_server(env=own_hall.env)
    assert (found.addresses, found.token) == ((own_hall.url,), own_hall.token)
    command = [binary(), "config", "show", "--json"]
    shown = subprocess.run(command, env=own_hall.env, capture_output=True, text=True, check=True)
    assert own_hall.url in shown.stdout, "the command line finds the same one"
    assert find_server(own_hall.url, env={}).token == "", "without a record there is no token"
    named = find_server(data_dir=own_hall.data, env={})
    assert (named.addresses, named.token) == ((own_hall.url,), own_hall.token)


def test_the_local_token_is_sent_only_to_the_address_beside_it(own_hall: Hall) -> None:
    assert find_server("http://127.0.0.1:1", env=own_hall.env).token == ""
    assert find_server(own_hall.url + "/", env=own_hall.env).token == own_hall.token
    own_hall.stop()
    left = find_server(env=own_hall.env)
    assert (left.addresses, left.token) == ((DEFAULT_SERVER,), "")
    with pytest.raises(jobhall.ConfigurationError, match="no server is running on the data directory"):
        find_server(data_dir=own_hall.data, env=own_hall.env)


def test_a_record_without_a_lock_or_of_a_shared_directory_does_not_count(own_hall: Hall, tmp_path: Path) -> None:
    text = (own_hall.data / "server.json").read_text()
    other = tmp_path / "other"
    other.mkdir()
    (other / "server.json").write_text(text)
    (other / "admin.token").write_text("stolen")
    with pytest.raises(jobhall.ConfigurationError):
        find_server(data_dir=other, env={})
    state = Path(own_hall.env["XDG_STATE_HOME"]) / "jobhall"
    assert list(state.glob("server-*.json"))
    state.chmod(0o777)
    assert find_server(env=own_hall.env).addresses == (DEFAULT_SERVER,)
    state.chmod(0o700)


def test_none_of_several_running_servers_is_chosen(own_hall: Hall, tmp_path: Path) -> None:
    other = Hall(tmp_path / "second")
    other.env |= {name: own_hall.env[name] for name in ("HOME", "XDG_STATE_HOME")}
    other.data.mkdir(parents=True)
    log = (tmp_path / "second.log").open("wb")
    command = [binary(), "server", "--data", str(other.data), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, env=other.env, stdout=log, stderr=log)
    try:
        state = Path(own_hall.env["XDG_STATE_HOME"]) / "jobhall"
        wait_for(lambda: len(_running.servers([state])) == 2, "two servers")
        with pytest.raises(jobhall.ConfigurationError, match="several servers are running, and none is named") as error:
            find_server(env=own_hall.env)
        assert own_hall.url in str(error.value)
        named = find_server(data_dir=other.data, env=own_hall.env)
        assert own_hall.url not in named.addresses
        assert named.token == (other.data / "admin.token").read_text().strip(), "each has its own token"
        assert find_server(own_hall.url, env=own_hall.env).token == own_hall.token
    finally:
        process.kill()
        process.wait()
        log.close()


def test_arguments_come_before_the_environment_and_files(tmp_path: Path) -> None:
    config = tmp_path / "config"
    (config / "jobhall").mkdir(parents=True)
    (config / "jobhall/config.toml").write_text("server = 'http://user:1'\ntoken = 'of-user'\n")
    env = {"XDG_CONFIG_HOME": str(config), "HOME": str(tmp_path)}
    none = tmp_path / "none.toml"
    given = {"directory": tmp_path, "system": none}
    assert find_server(env=env, **given) == Connection(("http://user:1",), "of-user")  # type: ignore[arg-type]
    env |= {"JOBHALL_SERVER": "http://env:1, http://env:2/", "JOBHALL_TOKEN": "of-env"}
    found = find_server(env=env, directory=tmp_path, system=none)
    assert (found.addresses, found.token) == (("http://env:1", "http://env:2"), "of-env")
    found = find_server(["http://a:1"], "mine", env=env, directory=tmp_path, system=none)
    assert (found.addresses, found.token) == (("http://a:1",), "mine")
    assert "mine" not in repr(found)


def test_a_project_file_cannot_take_the_token_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "jobhall").mkdir()
    (tmp_path / "jobhall/config.toml").write_text("token = 'of-user'\n")
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    project = tmp_path / ".jobhall.toml"
    project.write_text("[client]\nserver = 'http://evil.example'\n")
    with pytest.raises(jobhall.ConfigurationError, match="is not sent to"):
        find_server(env=env, directory=tmp_path, system=tmp_path / "none")
    project.write_text("[client]\nca = 'evil.pem'\n")
    with pytest.raises(jobhall.ConfigurationError, match="is not trusted"):
        find_server("https://hall", env=env, directory=tmp_path, system=tmp_path / "none")
    project.write_text("[client]\nsever = 'x'\n")
    with pytest.raises(jobhall.ConfigurationError, match="unknown key 'sever'"):
        find_server(env=env, directory=tmp_path, system=tmp_path / "none")


def test_the_settings_of_a_repository_are_in_its_file(tmp_path: Path) -> None:
    inner = tmp_path / "src/inner"
    inner.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".jobhall.toml").write_text("[commands.a]\nrun = ['x']\n[client]\nserver = 'http://127.0.0.1:9'\n")
    found = find_server(token="t", env={}, directory=inner, system=tmp_path / "none")
    assert found.addresses == ("http://127.0.0.1:9",)
    (inner / "jobhall.toml").write_text("server = 'http://127.0.0.1:8'\n")
    with pytest.raises(jobhall.ConfigurationError, match=r"jobhall\.toml is not read"):
        find_server(token="t", env={}, directory=inner, system=tmp_path / "none")


@pytest.mark.parametrize("wrong", ["", "hall", "ftp://hall", "http://", "http://a,", "http://a:x", "http://u:p@a"])
def test_addresses_that_cannot_work_are_refused_at_once(wrong: str) -> None:
    with pytest.raises(jobhall.ConfigurationError):
        parse_addresses(wrong)
    with pytest.raises(jobhall.ConfigurationError, match="header"):
        find_server("http://a", "two\nlines")


def test_loopback() -> None:
    assert is_loopback("http://127.0.0.1:1, http://[::1]:2,http://localhost")
    assert not is_loopback("http://127.0.0.1.evil.example")
    assert not is_loopback("http://127.0.0.1@evil.example")
    assert not is_loopback("http://evil.example\\@127.0.0.1")


def _certificate(place: Path, name: str) -> tuple[Path, Path]:
    cert, key = place / f"{name}.crt", place / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-keyout", str(key), "-out", str(cert), "-subj", "/CN=hall.example", "-days", "2"]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


def test_a_pinned_certificate_is_the_only_one_that_is_trusted(tmp_path: Path) -> None:
    cert, key = _certificate(tmp_path, "one")
    other, _ = _certificate(tmp_path, "two")
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(cert, key)

    def handshake(pin: Path) -> None:
        import socket

        near, far = socket.socketpair()
        near.settimeout(10)
        far.settimeout(10)

        def serve() -> None:
            try:
                served.wrap_socket(far, server_side=True).close()
            except OSError:
                far.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            context = ssl_context(Connection(("https://h",), "", pin=os.fspath(pin)))
            context.wrap_socket(near, server_hostname="another.name").close()
        finally:
            near.close()
            thread.join(10)

    handshake(cert)
    with pytest.raises(ssl.SSLCertVerificationError, match="not the expected one"):
        handshake(other)
    with pytest.raises(jobhall.ConfigurationError):
        ssl_context(Connection(("https://h",), "", pin=str(key)))
