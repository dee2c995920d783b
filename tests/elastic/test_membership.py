"""A worker's side of an elastic job: what it does when generations come at any time."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elastic.fake_driver import LIMIT_S, SCRIPT, FakeDriver, FakeWorker

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[FakeDriver]:
    with FakeDriver(tmp_path) as driver:
        yield driver


def result(worker: FakeWorker) -> dict[str, Any]:
    status, output, errors = worker.end()
    assert status == 0, (worker.id, worker.words[-5:], output, errors)
    assert worker.words[-1]["kind"] == "done"
    return json.loads(output.splitlines()[-1])


def finish(driver: FakeDriver, workers: list[FakeWorker]) -> list[dict[str, Any]]:
    """All have trained to the same end."""
    driver.flag("end")
    results = [result(worker) for worker in workers]
    assert len({(r["step"], tuple(r["history"])) for r in results}) == 1, results
    assert results[0]["step"] > 0
    return results


def test_generations_at_any_moment_leak_nothing(driver: FakeDriver) -> None:
    """Some come while the one before is being joined, or while states are exchanged."""
    moments = random.Random(11)
    workers = driver.begin(3)
    count = 700
    for _ in range(count):
        time.sleep(moments.choice([0.0, 0.001, 0.003, 0.01, 0.03]))
        moments.shuffle(workers)
        driver.announce(workers)
    driver.wait(workers, "joined", generation=driver.number)
    for r in finish(driver, workers):
        # One that is over before a worker hears of it is left out; the last is not.
        assert r["recoveries"][-1] == count + 1
        assert r["recoveries"] == sorted(set(r["recoveries"]))
        assert r["resets"] == len(r["recoveries"]) - 1
        first, *_, last = r["used"]
        print(len(r["recoveries"]), "generations joined; used first and last:", first, last)
        print("median seconds of a change:", sorted(r["seconds"])[len(r["seconds"]) // 2])
        assert last["files"] <= first["files"] + 3  # the engine's may be there or not
        assert last["threads"] <= first["threads"] + 3
        assert last["rings"] <= first["rings"] + 2
        assert last["kilobytes"] < first["kilobytes"] + 8192


def test_a_newcomer_rehearses_and_gets_the_state(driver: FakeDriver) -> None:
    workers = driver.begin(2)
    driver.wait(workers, "joined", generation=1)
    (newcomer,) = driver.start()
    driver.wait([newcomer], "ready")
    # The others have not been interrupted for that.
    assert all(len(worker.hear()) == 2 for worker in workers)
    driver.announce([workers[1], workers[0], newcomer])
    driver.wait([*workers, newcomer], "joined", generation=2)
    time.sleep(0.2)
    results = finish(driver, [*workers, newcomer])
    assert [r["rehearsals"] for r in results] == [[], [], [0]]
    assert results[2]["history"][-1] == 3


def test_members_die_while_others_join_and_synchronise(driver: FakeDriver) -> None:
    workers = driver.begin(3)
    driver.wait(workers, "joined", generation=1)
    # In the middle of a sync: the newcomer needs the state, which whoever packs it dies of.
    (newcomer,) = driver.start()
    driver.wait([newcomer], "ready")
    driver.flag("unpacking-w2", "die")
    driver.announce([*workers, newcomer])
    driver.wait([workers[0], workers[1], newcomer], "failed", generation=2)
    assert workers[0].words[-1]["lost"] == [2]
    assert workers[2].end()[0] == -9
    # One that is dead already: the others wait for it until the generation is over.
    workers[1].process.kill()
    workers[1].process.wait(LIMIT_S)
    driver.announce([workers[0], workers[1], newcomer])
    time.sleep(0.1)
    assert not workers[0].said("joined", generation=3)
    driver.announce([workers[0], newcomer])
    driver.wait([workers[0], newcomer], "joined", generation=4)
    time.sleep(0.1)
    assert finish(driver, [workers[0], newcomer])[0]["history"][-1] == 2


def test_all_but_one_are_killed_at_once(driver: FakeDriver) -> None:
    workers = driver.begin(3)
    driver.wait(workers, "joined", generation=1)
    for worker in workers[:2]:
        worker.process.kill()
    driver.wait(workers[2:], "failed", generation=1)
    driver.announce(workers[2:])
    driver.wait(workers[2:], "joined", generation=2)
    (r,) = finish(driver, workers[2:])
    assert r["size"] == 1
    assert r["recoveries"] == [1, 2]


def test_a_drained_worker_leaves_and_a_stop_ends_the_others(driver: FakeDriver) -> None:
    workers = driver.begin(3)
    driver.wait(workers, "joined", generation=1)
    driver.announce(workers[:2])
    driver.wait(workers[:2], "joined", generation=2)
    status, output, _ = workers[2].end()
    assert (status, output) == (0, "")
    driver.stop(7, "too few are left")
    for worker in workers[:2]:
        status, output, errors = worker.end()
        assert (status, output) == (7, "")
        assert "too few are left" in errors
        assert "Traceback" not in errors


def test_an_error_of_its_own_is_raised(driver: FakeDriver) -> None:
    workers = driver.begin(2)
    driver.wait(workers, "joined", generation=1)
    driver.flag("step-w0", "fail")
    status, _, errors = workers[0].end()
    assert status == 1
    assert "RuntimeError: a bug of w0" in errors
    assert not workers[0].said("failed")
    assert not workers[0].said("done")


def test_without_a_driver_training_goes_on_until_somebody_is_lost(driver: FakeDriver) -> None:
    workers = driver.begin(2)
    driver.wait(workers, "joined", generation=1)
    driver.server.stop()
    time.sleep(0.3)
    assert all(worker.process.poll() is None for worker in workers)
    workers[0].process.kill()
    status, _, errors = workers[1].end()
    assert status == 1
    assert "connection was closed by the store" in errors


def test_a_loss_in_the_last_step_leaves_all_with_the_same(driver: FakeDriver) -> None:
    workers = driver.begin(3, STEPS="40")
    for _ in range(10):
        if any(worker.said("done") for worker in workers):
            break
        driver.announce(workers)
        time.sleep(0.01)
    # Some may be done when others are told to join once more.
    while left := [worker for worker in workers if not worker.said("done")]:
        driver.announce(left)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and not all(w.said("done") for w in left):
            time.sleep(0.01)
    results = [result(worker) for worker in workers]
    assert {r["step"] for r in results} == {40}
    assert len({tuple(r["history"]) for r in results}) == 1


def test_without_a_launcher_the_function_is_called_once(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("TFRING_")}
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={**env, "FLAGS": str(tmp_path), "STEPS": "5"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["step"], found["history"], found["size"]) == (5, [1] * 5, 1)
