from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings

import pytest

from tfring import compatibility


def run_without_tensorflow(code: str) -> str:
    """Runs code where no TensorFlow can be found; returns what it prints."""
    hide = """
        import sys
        class Hide:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] == "tensorflow":
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        sys.meta_path.insert(0, Hide())
        import importlib.util
        real = importlib.util.find_spec
        importlib.util.find_spec = lambda n, p=None: None if n == "tensorflow" else real(n, p)
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(hide) + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_names_that_need_tensorflow_say_how_to_install_it() -> None:
    printed = run_without_tensorflow(
        """
        import tfring
        for name in ("allreduce", "DistributedOptimizer", "callbacks"):
            try:
                getattr(tfring, name)
            except ImportError as error:
                print(name, error)
        """
    )
    assert printed.count("pip install 'tfring[cpu]'") == 3
    assert printed.count("pip install 'tfring[gpu]'") == 3


def test_other_names_work_without_tensorflow() -> None:
    printed = run_without_tensorflow(
        "import tfring; tfring.init(); print(tfring.rank(), tfring.size()); tfring.shutdown()"
    )
    assert printed.split() == ["0", "1"]


@pytest.mark.parametrize("version", ["2.15.1", "1.15.0", "2.9.0-rc1"])
def test_old_tensorflow_is_refused(version: str) -> None:
    with pytest.raises(ImportError, match=rf"2\.16 or newer.*TensorFlow {version}"):
        compatibility.check_tensorflow_version(version)


@pytest.mark.parametrize("version", ["2.16.0", "2.16.2", "2.18.1", "2.21.0", "2.21.0-rc0"])
def test_tested_tensorflow_is_accepted_silently(version: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compatibility.check_tensorflow_version(version)


@pytest.mark.parametrize("version", ["2.22.0", "2.22.0-dev20270101", "3.0.0"])
def test_newer_tensorflow_gives_a_warning(version: str) -> None:
    with pytest.warns(RuntimeWarning, match=rf"TensorFlow {version} is newer"):
        compatibility.check_tensorflow_version(version)


def test_old_keras_is_refused() -> None:
    with pytest.raises(ImportError, match=r"Keras 3\.5 or newer; this is Keras 3\.4\.1"):
        compatibility.check_keras("3.4.1", "tensorflow")
    with pytest.raises(ImportError, match=r"this is Keras 2\.15\.0"):
        compatibility.check_keras("2.15.0", "tensorflow")
    compatibility.check_keras("3.5.0", "tensorflow")


def test_another_backend_is_refused() -> None:
    with pytest.raises(ImportError, match=r"backend here is 'jax'.*KERAS_BACKEND=tensorflow"):
        compatibility.check_keras("3.15.1", "jax")
