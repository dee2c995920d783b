"""The README's program runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from harness.rank_pool import launcher_command

README = Path(__file__).resolve().parents[2] / "README.md"

# What the README takes for granted: data and a model.
BEFORE = """
import keras
import numpy as np
import tensorflow as tf
import tfring

generator = np.random.default_rng(0)
x = generator.normal(size=(192, 4)).astype("float32")
y = (x.sum(axis=1) > 0).astype("int64")
train = tf.data.Dataset.from_tensor_slices((x, y))
validation = tf.data.Dataset.from_tensor_slices((x[:50], y[:50]))
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, activation="softmax")])
"""
AFTER = """
from tfring.variables import assert_identical
assert_identical(model.weights)
print(f"rank {tfring.rank()} of {tfring.size()} is done")
"""


def test_the_four_lines_train_a_model(tmp_path: Path) -> None:
    (program,) = [
        block
        for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
        if "tfring.init()" in block
    ]
    script = tmp_path / "train.py"
    script.write_text(BEFORE + program + AFTER)
    result = subprocess.run(
        [*launcher_command(2), sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    for rank in range(2):
        assert f"rank {rank} of 2 is done" in result.stdout
