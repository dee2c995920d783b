"""Ranks started by mpirun, mpiexec, srun, torchrun and horovodrun, by their variables."""

from __future__ import annotations

import pytest

from tfring.config import Config
from tfring.errors import InvalidArgumentError
from tfring.foreign_launchers import node_names, tasks_per_node, variables_of

OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_MCA_orte_hnp_uri": "42.0;tcp://10.0.0.5,192.168.0.5:41455",
    "PMIX_NAMESPACE": "42",
}
MPICH = {
    "PMI_RANK": "1",
    "PMI_SIZE": "2",
    "MPI_LOCALRANKID": "1",
    "MPI_LOCALNRANKS": "2",
    "PMI_PORT": "host:1234",
}
SLURM = {
    "SLURM_PROCID": "5",
    "SLURM_STEP_NUM_TASKS": "7",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "2",
    "SLURM_STEP_TASKS_PER_NODE": "2(x3),1",
    "SLURM_STEP_NODELIST": "node[08-10],big",
    "SLURM_JOB_ID": "99",
    "SLURM_STEP_ID": "0",
}
TORCHRUN = {
    "RANK": "2",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "MASTER_ADDR": "10.0.0.7",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "job",
    "TORCHELASTIC_RESTART_COUNT": "1",
}
HOROVODRUN = {
    "HOROVOD_RANK": "1",
    "HOROVOD_SIZE": "2",
    "HOROVOD_LOCAL_RANK": "0",
    "HOROVOD_LOCAL_SIZE": "1",
    "HOROVOD_CROSS_RANK": "1",
    "HOROVOD_CROSS_SIZE": "2",
    "HOROVOD_HOSTNAME": "b",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.9",
    "HOROVOD_GLOO_RENDEZVOUS_PORT": "3333",
}


@pytest.mark.parametrize(
    ("environ", "place", "host"),
    [
        (OPEN_MPI, (3, 4, 1, 2, 1, 2), "10.0.0.5"),
        (MPICH, (1, 2, 1, 2, 0, 1), "127.0.0.1"),
        (SLURM, (5, 7, 1, 2, 2, 4), "node08"),
        (TORCHRUN, (2, 4, 0, 2, 1, 2), "10.0.0.7"),
        (HOROVODRUN, (1, 2, 0, 1, 1, 2), "10.0.0.9"),
    ],
    ids=["mpirun", "mpiexec", "srun", "torchrun", "horovodrun"],
)
def test_place_and_meeting_place(environ, place, host):
    config = Config.from_environment(environ)
    found = (
        *(config.rank, config.size, config.local_rank, config.local_size),
        *(config.cross_rank, config.cross_size),
    )
    assert found == place
    address, _, port = config.store.rpartition(":")
    assert address == host
    assert 20000 <= int(port) < 32000
    assert len(config.secret) == 64
    assert not config.store_serve


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        (OPEN_MPI, "OMPI_COMM_WORLD_RANK"),
        (MPICH, "PMI_RANK"),
        (TORCHRUN, "RANK"),
        (HOROVODRUN, "HOROVOD_RANK"),
    ],
)
def test_all_ranks_derive_the_same_and_rank_0_serves(environ, rank):
    first = variables_of({**environ, rank: "0"})
    other = variables_of({**environ, rank: "1"})
    assert first["TFRING_STORE"] == other["TFRING_STORE"]
    assert first["TFRING_SECRET"] == other["TFRING_SECRET"]
    assert (first["TFRING_STORE_SERVE"], other["TFRING_STORE_SERVE"]) == ("1", "0")


def test_jobs_differ_in_secret_and_port():
    one = variables_of(TORCHRUN)
    two = variables_of({**TORCHRUN, "TORCHELASTIC_RUN_ID": "another"})
    assert one["TFRING_SECRET"] != two["TFRING_SECRET"]
    assert one["TFRING_STORE"] != two["TFRING_STORE"]


def test_a_restart_by_torchrun_is_another_generation():
    assert Config.from_environment(TORCHRUN).generation == 1


def test_own_variables_win_over_those_of_the_launcher():
    config = Config.from_environment({**TORCHRUN, "TFRING_STORE": "h:1", "TFRING_SECRET": "s"})
    assert (config.rank, config.store, config.secret) == (2, "h:1", "s")


def test_tfringrun_inside_an_mpi_job_is_tfringruns():
    config = Config.from_environment(
        {**OPEN_MPI, "TFRING_RANK": "0", "TFRING_SIZE": "2", "TFRING_STORE": "h:1"}
    )
    assert (config.rank, config.size, config.local_size) == (0, 2, 1)


def test_a_batch_script_of_slurm_is_one_process():
    assert variables_of({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}) == {}


def test_unknown_host_of_rank_0_says_what_to_set():
    environ = {**OPEN_MPI, "OMPI_MCA_orte_hnp_uri": ""}
    with pytest.raises(InvalidArgumentError, match="TFRING_STORE=HOST:PORT"):
        Config.from_environment(environ)


@pytest.mark.parametrize(
    ("text", "counts"), [("4", [4]), ("2(x3),1", [2, 2, 2, 1]), ("1,1", [1, 1])]
)
def test_tasks_per_node(text, counts):
    assert tasks_per_node(text) == counts


def test_bad_tasks_per_node():
    with pytest.raises(InvalidArgumentError, match="2xx"):
        tasks_per_node("2xx")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        ("gpu[1-2,07],login", ["gpu1", "gpu2", "gpu07", "login"]),
        ("n[08-10]-ib", ["n08-ib", "n09-ib", "n10-ib"]),
        ("r[1-2]n[7,9]", ["r1n7", "r1n9", "r2n7", "r2n9"]),
    ],
)
def test_node_names(text, names):
    assert node_names(text) == names


@pytest.mark.parametrize("text", ["", "a[1", "a[]", "a[-1]", "a,,b", "a[x]"])
def test_bad_node_names(text):
    with pytest.raises(InvalidArgumentError, match="SLURM_STEP_NODELIST: expected"):
        node_names(text)


@pytest.mark.parametrize(
    ("environ", "name", "value"),
    [
        (OPEN_MPI, "OMPI_COMM_WORLD_RANK", "x"),
        (OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE", "0"),
        (MPICH, "PMI_SIZE", ""),
        (SLURM, "SLURM_PROCID", "-1"),
        (SLURM, "SLURM_NODEID", "4"),
        (TORCHRUN, "WORLD_SIZE", "four"),
        (HOROVODRUN, "HOROVOD_CROSS_SIZE", "0"),
    ],
)
def test_bad_values_are_named(environ, name, value):
    with pytest.raises(InvalidArgumentError, match=f"{name}: expected .*received"):
        variables_of({**environ, name: value})
