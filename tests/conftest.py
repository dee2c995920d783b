"""Settings of all Python tests. They must be in place before TensorFlow is imported."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from harness.ssh_server import SshServer

# Many processes share few cores: no GPU, one thread each, no log of TensorFlow's start.
QUIET = {
    "CUDA_VISIBLE_DEVICES": "",
    "KERAS_BACKEND": "tensorflow",
    "OMP_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
}
for _name, _value in QUIET.items():
    os.environ.setdefault(_name, _value)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--ranks",
        type=int,
        default=2,
        help="number of processes for tests that work with any number (default: 2)",
    )


@pytest.fixture(scope="session")
def ranks(request: pytest.FixtureRequest) -> int:
    """How many ranks a test that works with any number runs on."""
    return int(request.config.getoption("--ranks"))


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    """A host of that module's tests, which tfringrun reaches by ssh."""
    server = SshServer(tmp_path_factory.mktemp("sshd"))
    yield server
    server.close()
