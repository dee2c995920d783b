"""tfringrun on this machine, with real workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.launched import LIMIT_S, PYTHON, TFRINGRUN, Launched, bash, tfringrun
from tfring.launcher.cores import usable_cores


def test_who_the_workers_are() -> None:
    names = ["RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE", "HOST_ID"]
    script = "echo " + " ".join(f"$TFRING_{name}" for name in names)
    result = tfringrun("-np", "3", *bash(script))
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == [f"[{r}] {r} 3 {r} 3 0 1 0" for r in range(3)]
    assert result.stderr == ""


def test_workers_meet() -> None:
    script = (
        "import numpy, tfring\n"
        "from tfring.arrays import allgather_array\n"
        "tfring.init()\n"
        "mine = numpy.array([tfring.rank()], 'int64')\n"
        "print(allgather_array(mine, name='x').tolist())\n"
        "tfring.shutdown()\n"
    )
    result = tfringrun("-np", "3", PYTHON, "-c", script)
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == [f"[{rank}] [0, 1, 2]" for rank in range(3)]


def test_the_secret_is_on_no_command_line() -> None:
    script = (
        "import glob\n"
        "from tfring import config\n"
        "secret = config.environment()['TFRING_SECRET'].encode()\n"
        "assert len(secret) >= 32\n"
        "for path in glob.glob('/proc/[0-9]*/cmdline'):\n"
        "    try: assert secret not in open(path, 'rb').read(), path\n"
        "    except OSError: pass\n"
    )
    result = tfringrun("-np", "2", PYTHON, "-c", script)
    assert result.returncode == 0, result.stderr


def test_threads_are_shared_out_unless_the_user_says() -> None:
    script = "echo $OMP_NUM_THREADS $TF_NUM_INTRAOP_THREADS $PYTHONUNBUFFERED"
    unset = {"OMP_NUM_THREADS": "", "TF_NUM_INTRAOP_THREADS": "", "TF_NUM_INTEROP_THREADS": ""}
    cores = usable_cores()
    share = max(1, cores // 2)
    result = tfringrun("-np", "2", *bash(script), env=unset)
    assert result.stdout.splitlines()[0].split()[1:] == [str(share), str(share), "1"]
    result = tfringrun("-np", "1", *bash(script), env={**unset, "OMP_NUM_THREADS": "5"})
    assert result.stdout.split() == ["[0]", "5", str(cores), "1"]


def test_variables_and_settings_reach_workers() -> None:
    script = "echo $GIVEN/$NAMED/$TFRING_LOG_LEVEL/$TFRING_START_TIMEOUT_S"
    options = ["-x", "GIVEN=a b", "-x", "NAMED", "--log-level", "error", "--timeout-start", "7.5"]
    result = tfringrun("-np", "1", *options, *bash(script), env={"NAMED": "here"})
    assert result.stdout == "[0] a b/here/error/7.5\n"


def test_a_rank_that_never_joins_is_named() -> None:
    script = (
        "import time, tfring\n"
        "from tfring.config import Config\n"
        "if Config.from_environment().rank == 1: time.sleep(1000)\n"
        "tfring.init()\n"
    )
    result = tfringrun("-np", "2", "--timeout-start", "2", PYTHON, "-c", script)
    assert result.returncode == 1
    assert "RendezvousTimeoutError" in result.stderr and "rank 1" in result.stderr


@pytest.mark.parametrize(
    ("end", "status", "text"),
    [
        ("exit 3", 3, "exited with status 3"),
        ("kill -KILL $$", 137, "was ended by signal 9 (SIGKILL)"),
        ("kill -SEGV $$", 139, "was ended by signal 11 (SIGSEGV)"),
    ],
)
def test_the_first_failure_ends_all(tmp_path: Path, end: str, status: int, text: str) -> None:
    script = (
        "touch $UP.$TFRING_RANK; if [ $TFRING_RANK = 1 ]; then "
        f"echo my last words >&2; {end}; fi; sleep 1000 & sleep 1001"
    )
    with Launched("-np", "3", *bash(script), up=tmp_path / "up") as job:
        assert job.wait() == status
        assert f"rank 1 on localhost {text}; ending the others" in job.errors
        assert "the last lines of rank 1" in job.errors
        assert "tfringrun:   my last words" in job.errors
        assert job.errors.count("exited with") + job.errors.count("was ended") == 1
        job.check_nothing_left()


def test_workers_that_ignore_sigterm_are_killed(tmp_path: Path) -> None:
    script = (
        "trap '' TERM; touch $UP.$TFRING_RANK; "
        "if [ $TFRING_RANK = 0 ]; then while [ ! -e $UP.1 ]; do sleep 0.1; done; exit 4; fi; "
        "while true; do sleep 0.2; done"
    )
    with Launched("-np", "2", "--grace", "0.3", *bash(script), up=tmp_path / "up") as job:
        assert job.wait() == 4
        job.check_nothing_left()


def test_workers_may_clean_up_before_they_end(tmp_path: Path) -> None:
    script = (
        "trap 'echo cleaned up; exit 0' TERM; touch $UP.$TFRING_RANK; "
        "while true; do sleep 0.1; done"
    )
    with Launched("-np", "2", *bash(script), up=tmp_path / "up") as job:
        job.wait_up(2)
        job.signal(signal.SIGTERM)
        assert job.wait() == 143
        assert sorted(job.output.splitlines()) == ["[0] cleaned up", "[1] cleaned up"]


def test_success_needs_all() -> None:
    assert tfringrun("-np", "2", *bash("exit 0")).returncode == 0
    assert tfringrun("-np", "2", *bash("sleep 0.2; exit $TFRING_RANK")).returncode == 1


def test_what_succeeded_workers_leave_behind_is_ended(tmp_path: Path) -> None:
    script = "sleep 1000 & setsid sleep 1001 >/dev/null 2>&1 & touch $UP.$TFRING_RANK; exit 0"
    with Launched("-np", "2", *bash(script), up=tmp_path / "up") as job:
        assert job.wait() == 0
        job.check_nothing_left()


def test_command_not_found() -> None:
    result = tfringrun("-np", "2", "no-such-command")
    assert result.returncode == 127
    assert result.stderr.count("command not found: no-such-command") == 1


def test_a_script_without_python(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    result = tfringrun("-np", "1", "train.py", cwd=tmp_path)
    assert result.returncode == 127
    assert "to run the script: python train.py" in result.stderr


def test_a_command_that_cannot_be_executed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("no program")
    result = tfringrun("-np", "2", str(path))
    assert result.returncode == 126
    assert f"cannot run {path}: Permission denied" in result.stderr


def test_lines_are_never_torn() -> None:
    script = "for i in $(seq 2000); do printf 'one '; printf 'two '; printf 'three\\n'; done"
    result = tfringrun("-np", "3", *bash(script))
    lines = result.stdout.splitlines()
    assert len(lines) == 6000
    assert set(lines) == {f"[{rank}] one two three" for rank in range(3)}


def test_much_output_arrives_whole(tmp_path: Path) -> None:
    result = tfringrun("-np", "2", "--no-prefix", "--output-dir", str(tmp_path), "seq", "200000")
    assert sorted(map(int, result.stdout.split())) == sorted([*range(1, 200001)] * 2)
    for rank in range(2):
        text = (tmp_path / f"rank-{rank}.log").read_text()
        assert list(map(int, text.split())) == list(range(1, 200001))


def test_a_progress_bar_becomes_its_last_state() -> None:
    result = tfringrun("-np", "1", "printf", r"10%%\r50%%\r100%%\ndone")
    assert result.stdout == "[0] 100%\n[0] done\n"


def test_a_reader_that_leaves_ends_the_job() -> None:
    with subprocess.Popen([TFRINGRUN, "-np", "2", "yes"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().endswith(b"y\n")
        process.stdout.close()
        assert process.wait(LIMIT_S) == 128 + signal.SIGPIPE


@pytest.mark.parametrize("closed", [[0], [1], [2], [0, 1, 2]])
def test_closed_standard_streams(closed: list[int]) -> None:
    def close() -> None:
        for descriptor in closed:
            os.close(descriptor)

    command = [TFRINGRUN, "-np", "2", *bash("echo out; echo error >&2; exit 3")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=close
    ) as process:
        output, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 3
    assert (b"out" in output) == (1 not in closed)
    assert (b"exited with status 3" in errors) == (2 not in closed)


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"rmdir {gone}; exec {TFRINGRUN} -np 1 true"
    result = subprocess.run(
        bash(script), cwd=gone, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert result.returncode == 2
    assert "the working directory, where the workers shall run, has been deleted" in result.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_agent_ends_the_job_in_good_order(tmp_path: Path, number: int) -> None:
    # As when a batch system signals every process of the job.
    script = (
        "trap 'echo saved; exit 0' TERM; touch $UP.$TFRING_RANK; while true; do sleep 0.1; done"
    )
    with Launched("-np", "2", *bash(script), up=tmp_path / "up") as job:
        job.wait_up(2)
        children = Path(f"/proc/{job.process.pid}/task/{job.process.pid}/children").read_text()
        (agent,) = map(int, children.split())
        os.kill(agent, number)
        assert job.wait() == 1
        assert sorted(job.output.splitlines()) == ["[0] saved", "[1] saved"]
        assert "a signal ended the workers on localhost" in job.errors
        job.check_nothing_left()


def test_stdin_of_workers_is_empty() -> None:
    assert tfringrun("-np", "1", "cat").returncode == 0


def test_arguments_of_the_command_are_its_own() -> None:
    for dashes in ([], ["--"]):
        result = tfringrun("-np", "1", *dashes, "echo", "-np", "7", "--verbose", "-x", "--", "y")
        assert result.stdout == "[0] -np 7 --verbose -x -- y\n"


def test_verbose_tells_who_runs_where() -> None:
    result = tfringrun("-np", "1", "--verbose", "true")
    assert "rank 0 runs on localhost as process" in result.stderr
    assert "rank 0 on localhost exited with status 0" in result.stderr


def test_a_taken_interface_name() -> None:
    result = tfringrun("-np", "1", "--network-interface", "nosuch0", "true")
    assert result.returncode == 2
    assert "'nosuch0'" in result.stderr and "lo" in result.stderr
    assert tfringrun("-np", "2", "--network-interface", "lo", "true").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-np", "0", "true"], "received '0', expected a whole number of at least 1"),
        (["-np", "-3", "true"], "expected"),
        (["-np", "abc", "true"], "received 'abc', expected a whole number of at least 1"),
        (["-np", "2"], "no COMMAND to run"),
        (["true"], "say how many workers"),
        ([], "no COMMAND to run"),
        (["-np", "3", "-H", "localhost:2", "true"], "-np 3 asks for more workers"),
        (["-H", "localhost:1,localhost:1", "true"], "localhost is named twice"),
        (["-H", "localhost:x", "true"], "has 'x' slots"),
        (["--hostfile", "/no/such/file", "true"], "cannot read the hostfile /no/such/file"),
        (["-H", "localhost", "--hostfile", "x", "true"], "not allowed with"),
        (["-np", "1", "-x", "NOT_SET_HERE", "true"], "-x NOT_SET_HERE: the variable is not set"),
        (["-np", "1", "--timeout-start", "0", "true"], "received '0', expected seconds"),
        (["-np", "1", "--timeout-start", "nan", "true"], "received 'nan', expected seconds"),
        (["-np", "1", "--log-level", "loud", "true"], "invalid choice: 'loud'"),
        (["-np", "1", "--ssh-port", "0", "true"], "expected a port"),
        (["-np", "1", "-x", "TFRING_SPIN_US=x", "true"], "TFRING_SPIN_US"),
        (["--nonsense", "-np", "1", "true"], "--nonsense"),
    ],
)
def test_mistakes_are_explained(arguments: list[str], message: str) -> None:
    result = tfringrun(*arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_bad_line_of_a_hostfile(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("localhost slots=2\nother slots=many\n")
    result = tfringrun("--hostfile", str(path), "true")
    assert result.returncode == 2
    assert f"{path}, line 2: 'other slots=many' has 'many' slots" in result.stderr


def test_a_hostfile(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("# here\nlocalhost slots=2\n")
    result = tfringrun("--hostfile", str(path), *bash("echo $TFRING_SIZE"))
    assert sorted(result.stdout.splitlines()) == ["[0] 2", "[1] 2"]


def test_version_and_check_build() -> None:
    assert tfringrun("--version").stdout.startswith("tfringrun 0.")
    result = tfringrun("--check-build")
    assert result.returncode == 0
    for word in ("tfring", "Python", "libtfring.so", "libtfring_tf.so", "TensorFlow", "Keras"):
        assert word in result.stdout


def test_the_launcher_does_not_load_tensorflow() -> None:
    code = (
        "import sys\nfrom tfring.launcher import cli\ncli.main(['-np', '1', 'true'])\n"
        "heavy = {'tensorflow', 'keras', 'numpy'} & set(sys.modules)\nsys.exit(str(heavy or ''))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert result.stderr.strip() == "", result.stderr
