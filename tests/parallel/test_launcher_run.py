"""`tfring.run`: functions, results, exceptions."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfring
from harness.launched import LIMIT_S, PYTHON, Launched
from harness.ssh_server import SshServer
from tfring.errors import LaunchError
from tfring.launcher.run import RankTraceback


def test_results_are_in_rank_order() -> None:
    def body(a: int, b: int) -> tuple[int, int, int]:
        tfring.init()
        try:
            return tfring.rank(), tfring.size(), a + b
        finally:
            tfring.shutdown()

    assert tfring.run(body, (1,), {"b": 2}, np=3) == [(0, 3, 3), (1, 3, 3), (2, 3, 3)]


def test_ranks_meet() -> None:
    def body() -> list[int]:
        import numpy

        from tfring.arrays import allgather_array

        tfring.init()
        gathered = allgather_array(numpy.array([tfring.rank()]), name="x")
        tfring.shutdown()
        return gathered.tolist()

    assert tfring.run(body) == [[0, 1], [0, 1]]


def test_large_arguments_and_results() -> None:
    sent = bytes(range(256)) * (100 << 10)
    assert tfring.run(lambda data: data[::-1], (sent,), np=2) == [sent[::-1]] * 2


def test_an_exception_comes_back_with_rank_and_traceback() -> None:
    def body() -> None:
        tfring.init()
        if tfring.rank() == 1:
            raise KeyError("of rank one")
        import numpy

        from tfring.arrays import allgather_array

        allgather_array(numpy.ones(1), name="x")  # fails later, since rank 1 is lost

    with pytest.raises(KeyError, match="of rank one") as caught:
        tfring.run(body, np=2)
    cause = caught.value.__cause__
    assert isinstance(cause, RankTraceback) and cause.rank == 1
    assert "in body" in str(cause) and "on rank 1" in str(cause)


def test_exceptions_that_cannot_be_sent() -> None:
    def body() -> None:
        error = ValueError("text")
        error.lock = __import__("threading").Lock()  # type: ignore[attr-defined]
        raise error

    with pytest.raises(LaunchError, match=r"rank 0 failed: ValueError: text"):
        tfring.run(body, np=1)


@pytest.mark.parametrize("how", ["exit", "kill", "vanish"])
def test_a_worker_that_ends_without_a_result(how: str) -> None:
    def body() -> None:
        if how == "exit":
            sys.exit(3)
        elif how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(0)

    expected = {
        "exit": "SystemExit: 3",
        "kill": r"exit status 137[^$]*SIGKILL",
        "vanish": "rank 0 ended without returning",
    }
    with pytest.raises(LaunchError, match=expected[how]):
        tfring.run(body, np=1)


def test_results_that_do_not_pickle() -> None:
    with pytest.raises((TypeError, pickle.PicklingError), match="lock"):
        tfring.run(lambda: __import__("threading").Lock(), np=1)


def test_functions_that_do_not_pickle() -> None:
    lock = __import__("threading").Lock()
    with pytest.raises(LaunchError, match="cannot send"):
        tfring.run(lambda: lock)


def test_a_time_limit() -> None:
    with pytest.raises(LaunchError, match="did not finish within 1 s"):
        tfring.run(time.sleep, (1000,), timeout_s=1)


@pytest.mark.parametrize("np", [0, -1, 1.5, "2", True])
def test_np_must_be_a_number_of_workers(np: object) -> None:
    with pytest.raises(LaunchError, match="expected a whole number of at least 1"):
        tfring.run(print, np=np)  # type: ignore[arg-type]


def test_more_ranks_than_slots() -> None:
    with pytest.raises(LaunchError, match="more workers than"):
        tfring.run(print, np=3, hosts=["localhost:2"])


def test_env_reaches_the_workers() -> None:
    from tfring import config

    body = lambda: config.environment()["GIVEN"]  # noqa: E731
    assert tfring.run(body, env={"GIVEN": "a b"}) == ["a b"] * 2


def test_what_workers_print_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    tfring.run(print, ("hello",))
    assert sorted(capsys.readouterr().out.splitlines()) == ["[0] hello", "[1] hello"]


SCRIPT = """
import tfring
FACTOR = 10
def helper(x):
    return x * FACTOR
def body(x):
    tfring.init()
    return helper(x) + tfring.rank()
if __name__ == "__main__":
    print(tfring.run(body, (2,)))
"""


def test_from_main(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    assert python(str(path)) == "[20, 21]"


def test_from_an_interactive_session() -> None:
    session = SCRIPT.split("if __name__")[0].replace("\ndef", "\n\ndef") + "\n"
    session += "print(tfring.run(body, (2,)))\n"
    assert python("-i", "-q", "-c", "", stdin=session) == "[20, 21]"


def test_from_a_module_found_through_the_callers_path(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "my_module.py").write_text("def body():\n    return __name__\n")
    path = tmp_path / "script.py"
    path.write_text(
        f"import sys\nsys.path.append({str(tmp_path / 'mine')!r})\n"
        "import my_module, tfring\nprint(tfring.run(my_module.body))\n"
    )
    assert python(str(path)) == "['my_module', 'my_module']"


def test_the_caller_is_killed(tmp_path: Path) -> None:
    """Its workers end although nobody is left to end them."""
    path = tmp_path / "script.py"
    path.write_text(
        "import pathlib, sys, time, tfring\n"
        "from tfring import config\n"
        "def body():\n"
        "    pathlib.Path(config.environment()['UP'] + '.' + config.environment()['TFRING_RANK'])"
        ".touch()\n"
        "    time.sleep(1000)\n"
        "tfring.run(body)\n"
    )
    up = tmp_path / "up"
    with Launched(str(path), up=up, program=PYTHON) as job:
        job.wait_up(2)
        job.signal(signal.SIGKILL)
        job.wait()
        job.check_nothing_left()


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[SshServer]:
    server = SshServer(tmp_path)
    yield server
    server.close()


def test_on_two_hosts(sshd: SshServer, monkeypatch: pytest.MonkeyPatch) -> None:
    config = sshd.key.parent / "ssh_config"
    config.write_text(
        config.read_text() + f"Port {sshd.port}\nIdentityFile {sshd.key}\nIdentitiesOnly yes\n"
    )
    monkeypatch.setenv("PATH", sshd.env["PATH"])

    def body() -> tuple[int, int]:
        tfring.init()
        return tfring.cross_rank(), tfring.cross_size()

    assert tfring.run(body, hosts="localhost:1,127.0.0.1:1") == [(0, 2), (1, 2)]


def python(*arguments: str, stdin: str = "") -> str:
    """Standard output of a Python process, which must succeed."""
    result = subprocess.run(
        [PYTHON, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert result.returncode == 0 and "Traceback" not in result.stderr, result.stderr
    return result.stdout.strip()
