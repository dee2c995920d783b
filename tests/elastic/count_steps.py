"""What the workers of a FakeDriver run: an elastic job that counts, with an ObjectState.

A step adds up a one from each worker; history is the list of sums. The file `end` in $FLAGS ends
the training; others make a worker fail (see `_obey`). The last line of output is JSON.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

import tfring
from tfring import arrays, engine
from tfring.reduce_op import ReduceOp

FLAGS = Path(os.environ["FLAGS"])
STEPS = int(os.environ.get("STEPS", "0"))  # 0: until there is the file `end`
TRAININGS = int(os.environ.get("TRAININGS", "1"))
LINGER_S = float(os.environ.get("LINGER_S", "0"))  # after the first
WORKER = os.environ.get("TFRING_WORKER_ID", "alone")


class Dies:
    """An attribute that kills the process when it is packed, as in the middle of a sync."""

    def state_dict(self) -> dict[str, Any]:
        _obey("packing")
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        _obey("unpacking")


def _obey(where: str) -> None:
    flag = FLAGS / f"{where}-{WORKER}"
    if not flag.exists() or engine.rehearsing():
        return
    how = flag.read_text()
    flag.unlink()
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    raise RuntimeError(f"a bug of {WORKER}")


def usage() -> dict[str, int]:
    status = Path("/proc/self/status").read_text().splitlines()
    resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    return {
        "files": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "rings": Path("/proc/self/maps").read_text().count("memfd"),
        "kilobytes": resident,
    }


def main() -> None:
    tfring.init()
    rehearsals: list[int] = []
    used: list[dict[str, int]] = []
    resets: list[int] = []
    state = tfring.elastic.ObjectState(step=0, history=[], dies=Dies())
    state.register_reset_callbacks([lambda: resets.append(engine.config().generation)])

    @tfring.elastic.run
    def train(state: Any) -> str:
        if len(resets) % 40 == 20:
            used.append(usage())
        while True:
            if engine.rehearsing():
                rehearsals.append(state.step)
            _obey("step")
            end = (FLAGS / "end").exists() or 0 < STEPS <= state.step
            (total,) = arrays.allreduce_arrays(
                [np.array([1, int(end)])], op=ReduceOp.SUM, name="step"
            )
            if total[1] > 0:
                return "trained"
            state.step += 1
            state.history = [*state.history, int(total[0])][-50:]
            state.commit()

    result = train(state)
    (FLAGS / f"done-{WORKER}").write_text(str(os.getpid()))
    time.sleep(LINGER_S)
    if TRAININGS == 2:
        second = tfring.elastic.ObjectState(step=0, history=[], dies=Dies())
        train(second)
        assert second.step == STEPS
        result = "trained twice"
    print(
        json.dumps(
            {
                "result": result,
                "step": state.step,
                "history": state.history,
                "size": engine.size(),
                "rehearsals": rehearsals,
                "resets": len(resets),
                "recoveries": [r.generation for r in tfring.elastic.recoveries()],
                "seconds": [sum(r.seconds.values()) for r in tfring.elastic.recoveries()],
                "used": used,
            }
        )
    )


if __name__ == "__main__":
    main()
