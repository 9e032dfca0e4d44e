"""`tickwheel broker`: what it prints, how it ends, and what it says to bad input."""

import signal
import socket
import subprocess
import sys

import asked
import pytest
from batchmaker import batch
from kioclient import Client, frame
from served import Apart


def refused(*arguments):
    """What it says on stderr to arguments with which it does not begin."""
    command = [sys.executable, "-m", "tickwheel.cli", "broker", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stdout) == (2, "")
    return ended.stderr


def test_it_says_where_it_listens(tmp_path):
    """One line, once clients can come; the port is the system's where 0 is given."""
    with Apart(tmp_path / "data", "--topic", "a:2", "--topic", "b:1") as broker:
        assert broker.ready == {
            "host": "127.0.0.1",
            "port": broker.address[1],
            "topics": {"a": 2, "b": 1},
        }
        with Client(broker.address) as client:
            assert [topic.name for topic in client.ask(asked.metadata()).topics] == ["a", "b"]
    command = [
        sys.executable,
        "-m",
        "tickwheel.cli.__main__",
        "broker",
        "--data",
        str(tmp_path),
        "--port",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        host, _, port = process.stdout.readline().removeprefix("listening at ").partition(":")
        Client((host, int(port))).close()
        process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_in_order(tmp_path, number, code):
    """What waits is answered, nothing is said, and all is there the next time."""
    with Apart(tmp_path, "--topic", "events:1") as broker, Client(broker.address) as client:
        client.ask(asked.produce({"events": {0: batch(b"a")}}))
        client.send(frame(asked.fetch({"events": {0: 1}}, max_wait=30)))
        with Client(broker.address) as another:
            another.ask(asked.metadata())
        assert broker.stop(number) == (code, "")
        client.receive()
    with Apart(tmp_path, "--topic", "events:1") as broker, Client(broker.address) as client:
        ((part,),) = (topic.partitions for topic in client.ask(asked.fetch({"events": {0: 0}}, 5)).responses)
        assert part.records


def test_its_log_goes_to_stderr(tmp_path):
    """A line for each connection that it closes."""
    with Apart(tmp_path, "--max-request", "1000") as broker:
        with Client(broker.address) as client:
            client.send(b"\0\0\xff\xff")
            assert client.is_closed()
        code, errors = broker.stop()
    assert code == 0
    assert "WARNING 127.0.0.1:" in errors
    assert errors.endswith("closed: a request must have 0 to 1000 bytes, got 65535\n")
    assert errors.count("\n") == 1


def test_options_reach_the_log(tmp_path):
    """Replicas, and topics that are made when they are asked for; silent clients are closed."""
    options = ["--replicas", "2", "--min-isr", "1", "--auto-create", "--flush", "--segment-bytes", "1k"]
    options += ["--lag-max", "1s", "--idle-timeout", "2s"]
    with Apart(tmp_path, *options) as broker, Client(broker.address) as client:
        response = client.ask(asked.metadata("new", create=True))
        assert len(response.brokers) == 2
        assert response.topics[0].partitions[0].replica_nodes == (0, 1)
        for _ in range(3):
            client.ask(asked.produce({"new": {0: batch(b"x" * 600)}}))
        assert len(list((tmp_path / "replica-0" / "new-0").glob("*.log"))) == 3
        assert client.is_closed()


def test_a_folder_has_one_broker(tmp_path):
    """The second is refused; when the first is gone, however it ended, the next one may have it."""
    with Apart(tmp_path) as broker:
        assert "--data must be in use by no other broker, got" in refused(
            "--data", str(tmp_path), "--port", "0"
        )
        broker.process.kill()
    with Apart(tmp_path):
        pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topic", "a"], "--topic must be NAME:PARTITIONS, got 'a'"),
        (["--topic", "a:x"], "--topic must be NAME:PARTITIONS, got 'a:x'"),
        (["--topic", "a:0"], "--topic's partitions must be between 1 and 10000, got 0"),
        (["--topic", "a b:1"], "--topic must be 1 to 249 of a-z, A-Z, 0-9, '.', '_', '-', got 'a b'"),
        (["--topic", "a:1", "--topic", "a:2"], "--topic must have the partitions it has, a:1, got 2"),
        (["--min-isr", "4"], "--min-isr must be between 1 and replicas (3), got 4"),
        (["--replicas", "0"], "--replicas must be a whole number >= 1"),
        (["--replicas", "101"], "--replicas must be between 1 and 100, got 101"),
        (["--port", "70000"], "--port must be between 0 and 65535, got 70000"),
        (["--host", "no name"], "--host must be an address or its name, got 'no name'"),
        (["--host", "a..b"], "--host must be an address or its name, got 'a..b'"),
        (["--lag-max", "soon"], "--lag-max must be a duration"),
        (["--max-request", "-1"], "--max-request must be a whole number >= 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line(tmp_path, arguments, message):
    """The option, the rule and the value seen; exit 2."""
    errors = refused("--data", str(tmp_path), "--port", "0", *arguments)
    assert errors.startswith(f"tickwheel: {message}")
    assert errors.count("\n") == 1


def test_a_place_that_is_taken_is_one_line(tmp_path):
    """A port that another program has; a folder that is a file."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        errors = refused("--data", str(tmp_path / "data"), "--port", str(port))
    assert "address already in use" in errors
    assert errors.count("\n") == 1
    (tmp_path / "file").touch()
    assert refused("--data", str(tmp_path / "file")) == f"tickwheel: {tmp_path / 'file'}: File exists\n"


def test_a_disk_that_refuses_is_one_line(tmp_path):
    """Where a topic cannot be made, and where an old one cannot be opened."""
    with Apart(tmp_path, "--topic", "old:1"):
        pass
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); "
        "from tickwheel.cli.__main__ import main; sys.exit(main())"
    )
    for folder, topics in ((tmp_path, ()), (tmp_path / "new", ("--topic", "new:1"))):
        command = [sys.executable, "-c", limited, "broker", "--data", str(folder), "--port", "0", *topics]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=30)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith("tickwheel: ")
        assert "File too large" in ended.stderr
        assert ended.stderr.count("\n") == 1


def test_without_kio_it_says_what_to_install(tmp_path):
    """One line, exit 2."""
    (tmp_path / "kio.py").write_text("raise ImportError")
    command = [sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv.pop(1)); "
               "from tickwheel.cli.__main__ import main; sys.exit(main())"]  # fmt: skip
    ended = subprocess.run(
        [*command, str(tmp_path), "broker", "--data", str(tmp_path / "data")],
        capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert ended.returncode == 2
    assert ended.stderr == "tickwheel: a broker needs kio: pip install 'tickwheel[broker]'\n"
    assert not (tmp_path / "data").exists()
