"""Our declarations of TensorFlow's C API agree with the installed TensorFlow."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import tensorflow as tf

HERE = Path(__file__).parent
OURS = HERE.parents[1] / "custom_ops" / "tensorflow"
CHECK = (HERE / "tf_c_api_signatures.cc").read_text()


def compile_check(include: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    source = tmp_path / "check.cc"
    source.write_text(CHECK)
    command = [compiler, "-std=c++17", "-fsyntax-only", "-w"]
    command += [f"-I{include}", f"-I{tf.sysconfig.get_include()}", str(source)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_declarations_agree(tmp_path: Path) -> None:
    result = compile_check(OURS, tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("file", "line", "wrong"),
    [
        ("tf_c_api.h", "TF_Tensor* tensor, int dim_index", "TF_Tensor* tensor, long dim_index"),
        ("tf_c_types.h", "TF_HALF = 19", "TF_HALF = 18"),
    ],
    ids=["function", "value"],
)
def test_a_difference_is_noticed(tmp_path: Path, file: str, line: str, wrong: str) -> None:
    for name in ("tf_c_api.h", "tf_c_types.h"):
        text = (OURS / name).read_text()
        if name == file:
            assert line in text
            text = text.replace(line, wrong)
        (tmp_path / name).write_text(text)
    assert compile_check(tmp_path, tmp_path).returncode != 0
