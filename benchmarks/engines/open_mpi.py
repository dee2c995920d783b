"""Open MPI through mpi4py, tensor by tensor and in place."""

from __future__ import annotations

from benchmarks.engines.engine import ArrayEngine, Run
from benchmarks.workloads import Workload


class OpenMpi(ArrayEngine):
    """`MPI_Allreduce` with `MPI_IN_PLACE`."""

    title = "Open MPI"

    def join(self) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self.rank, self.size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size

    def prepare(self, work: Workload, value: float) -> Run:
        self.allocate(work, value)
        mpi = self._mpi
        reduce, place = mpi.COMM_WORLD.Allreduce, mpi.IN_PLACE
        buffers = [[array, array.size, mpi.FLOAT] for array in self.arrays]

        def run() -> None:
            for buffer in buffers:
                reduce(place, buffer)

        return run

    def leave(self) -> None:
        self._mpi.Finalize()
