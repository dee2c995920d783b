"""tfringrun over a real ssh: localhost and 127.0.0.1 stand for two hosts."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from harness.launched import PYTHON, Launched, bash, tfringrun
from harness.ssh_server import SshServer
from tfring.monitoring.timeline.summary import load

HOSTS = ["-H", "localhost:1,127.0.0.1:2"]
SLEEP = "touch $UP.$TFRING_RANK; sleep 1000 & sleep 1001"


def test_who_the_workers_are(sshd: SshServer) -> None:
    names = ["RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE", "HOST_ID"]
    script = "echo " + " ".join(f"$TFRING_{name}" for name in names)
    result = tfringrun(*HOSTS, *sshd.options, *bash(script), env=sshd.env)
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == [
        "[0] 0 3 0 1 0 2 0",
        "[1] 1 3 0 2 1 2 1",
        "[2] 2 3 1 2 1 2 1",
    ]


def test_workers_of_two_hosts_meet(sshd: SshServer) -> None:
    script = (
        "import numpy, tfring\n"
        "from tfring.arrays import allgather_array\n"
        "tfring.init()\n"
        "mine = numpy.array([tfring.rank()], 'int64')\n"
        "print(tfring.cross_size(), allgather_array(mine, name='x').tolist())\n"
        "tfring.shutdown()\n"
    )
    result = tfringrun(*HOSTS, *sshd.options, PYTHON, "-c", script, env=sshd.env)
    assert result.returncode == 0, result.stderr
    expected = [f"[{rank}] 2 [0, 1, 2]" for rank in range(3)]
    assert sorted(result.stdout.splitlines()) == expected


def test_timelines_come_from_the_other_host(sshd: SshServer, tmp_path: Path) -> None:
    script = (
        "import os, signal, tfring\n"
        "from tfring.arrays import barrier\n"
        "tfring.init()\n"
        "for _ in range(5): barrier(name='both')\n"
        "if tfring.rank() == 2:\n"
        "    tfring.engine.native.load().tfr_shutdown()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = ["--timeline", "t.json", PYTHON, "-c", script]
    result = tfringrun(*HOSTS, *sshd.options, *command, env=sshd.env, cwd=tmp_path)
    assert result.returncode == 137
    assert "tfringrun: timeline of 3 ranks" in result.stderr
    content = load(tmp_path / "t.json")
    assert content["otherData"]["ranks"] == [0, 1, 2]
    assert 2 in content["otherData"]["incomplete_ranks"]
    for rank in range(3):
        named = [e for e in content["traceEvents"] if e["pid"] == rank and e["name"] == "both"]
        assert len(named) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


def test_variables_and_directory_reach_the_other_host(sshd: SshServer, tmp_path: Path) -> None:
    script = "echo $TFRING_RANK $GIVEN $TF_MINE $(pwd)"
    env = {**sshd.env, "TF_MINE": "forwarded"}
    result = tfringrun(*HOSTS, *sshd.options, "-x", "GIVEN=a", *bash(script), env=env, cwd=tmp_path)
    assert "[2] 2 a forwarded " + str(tmp_path) in result.stdout.splitlines()


def test_nothing_secret_is_on_a_command_line(sshd: SshServer) -> None:
    script = (
        "import glob\n"
        "from tfring import config\n"
        "for name in 'TFRING_SECRET', 'GIVEN':\n"
        "    value = config.environment()[name].encode()\n"
        "    for path in glob.glob('/proc/[0-9]*/cmdline'):\n"
        "        try: assert value not in open(path, 'rb').read(), path\n"
        "        except OSError: pass\n"
    )
    env = {**sshd.env, "GIVEN": "password-of-something"}
    result = tfringrun(*HOSTS, *sshd.options, "-x", "GIVEN", PYTHON, "-c", script, env=env)
    assert result.returncode == 0, result.stderr


def test_output_of_the_other_host(sshd: SshServer, tmp_path: Path) -> None:
    options = ["--no-prefix", "--output-dir", str(tmp_path)]
    result = tfringrun(
        *HOSTS, *sshd.options, *options, *bash("seq 50000; echo err >&2"), env=sshd.env
    )
    assert sorted(map(int, result.stdout.split())) == sorted([*range(1, 50001)] * 3)
    assert result.stderr == "err\n" * 3
    assert len((tmp_path / "rank-2.log").read_text().splitlines()) == 50001


def test_what_the_login_shell_prints_is_no_trouble(sshd: SshServer) -> None:
    startup = sshd.env["PATH"].split("/bin:")[0] + "/home/.bashrc"
    Path(startup).write_text("echo Welcome; echo to this host >&2\n")
    try:
        result = tfringrun(*HOSTS, *sshd.options, "echo", "hello", env=sshd.env)
    finally:
        Path(startup).unlink()
    assert sorted(result.stdout.splitlines()) == [f"[{rank}] hello" for rank in range(3)]
    assert result.returncode == 0 and result.stderr == ""


@pytest.mark.parametrize("failing", [0, 2])
def test_the_first_failure_ends_both_hosts(sshd: SshServer, tmp_path: Path, failing: int) -> None:
    script = f"if [ $TFRING_RANK = {failing} ]; then echo bye >&2; exit 6; fi; {SLEEP}"
    arguments = [*HOSTS, *sshd.options, *bash(script)]
    with Launched(*arguments, up=tmp_path / "up", env=sshd.env) as job:
        assert job.wait() == 6
        host = "localhost" if failing == 0 else "127.0.0.1"
        assert f"rank {failing} on {host} exited with status 6" in job.errors
        job.check_nothing_left()


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_the_end_of_the_launcher_ends_both_hosts(
    sshd: SshServer, tmp_path: Path, number: int, status: int
) -> None:
    arguments = [*HOSTS, *sshd.options, *bash(SLEEP)]
    with Launched(*arguments, up=tmp_path / "up", env=sshd.env) as job:
        job.wait_up(3)
        job.signal(number)
        assert job.wait() == status
        job.check_nothing_left()


def test_a_broken_connection_ends_both_hosts(sshd: SshServer, tmp_path: Path) -> None:
    arguments = [*HOSTS, *sshd.options, *bash(SLEEP)]
    with Launched(*arguments, up=tmp_path / "up", env=sshd.env) as job:
        job.wait_up(3)
        children = Path(f"/proc/{job.process.pid}/task/{job.process.pid}/children").read_text()
        for pid in children.split():
            if b"ssh" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]:
                signal.pidfd_send_signal(_pidfd(int(pid)), signal.SIGKILL)
        assert job.wait() == 1
        assert "lost 127.0.0.1, where these ranks ran: 1, 2" in job.errors
        job.check_nothing_left()


def _pidfd(pid: int) -> int:
    import os

    return os.pidfd_open(pid)


def test_command_not_found_on_the_other_host(sshd: SshServer) -> None:
    result = tfringrun("-H", "localhost:1,127.0.0.1:1", *sshd.options, "no-such", env=sshd.env)
    assert result.returncode == 127
    assert result.stderr.count("command not found: no-such") == 1


def fails(sshd: SshServer, *arguments: str) -> str:
    result = tfringrun(*arguments, "true", env=sshd.env)
    assert result.returncode == 2, result
    assert result.stdout == "" and "Traceback" not in result.stderr
    return result.stderr


def test_nobody_listens(sshd: SshServer) -> None:
    errors = fails(sshd, *HOSTS, "--ssh-port", "1")
    assert "cannot start on 127.0.0.1; ssh ended with status 255" in errors
    assert "Connection refused" in errors


def test_the_wrong_key(sshd: SshServer, tmp_path: Path) -> None:
    wrong = tmp_path / "key"
    wrong.write_bytes((sshd.key.parent / "host_key").read_bytes())
    wrong.chmod(0o600)
    options = ["--ssh-port", str(sshd.port), "--ssh-identity-file", str(wrong)]
    assert "Permission denied" in fails(sshd, *HOSTS, *options)


def test_an_unknown_host(sshd: SshServer) -> None:
    assert "no route" in fails(sshd, "-H", "localhost:1,host.invalid:1", *sshd.options)


def test_no_tfring_on_the_other_host(sshd: SshServer, tmp_path: Path) -> None:
    without = tmp_path / "python"
    without.write_text(f'#!/bin/sh\nexec {PYTHON} -I -S "$@"\n')
    without.chmod(0o755)
    errors = fails(sshd, *HOSTS, *sshd.options, "--remote-python", str(without))
    assert "No module named" in errors and "--remote-python" in errors
    errors = fails(sshd, *HOSTS, *sshd.options, "--remote-python", "/no/python")
    assert "/no/python" in errors


def test_a_host_that_does_not_answer(sshd: SshServer, tmp_path: Path) -> None:
    silent = tmp_path / "python"
    silent.write_text("#!/bin/sh\nread line\n")
    silent.chmod(0o755)
    options = [*sshd.options, "--remote-python", str(silent), "--timeout-start", "1"]
    assert "no answer from 127.0.0.1 within 1 s" in fails(sshd, *HOSTS, *options)


def test_a_host_that_talks_nonsense(sshd: SshServer) -> None:
    errors = fails(sshd, *HOSTS, *sshd.options, "--remote-python", "/bin/echo")
    assert "cannot start on 127.0.0.1" in errors


def test_hosts_that_do_not_answer_are_given_up_together(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nfor word; do [ "$word" = -G ] && exit 1; done\nexec sleep 1000\n')
    ssh.chmod(0o755)
    # Each in turn they would take longer than the test may.
    hosts = ",".join(f"198.18.0.{number}" for number in range(1, 41))
    with Launched(
        *("-H", hosts, "--timeout-start", "1", "true"),
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    ) as job:
        assert job.wait() == 2
        assert "no answer from 198.18.0.1, 198.18.0.2," in job.errors
        job.check_nothing_left()
