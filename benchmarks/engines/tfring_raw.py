"""tfring's engine through its C API: a request made beforehand, all tensors as one, in place."""

from __future__ import annotations

import ctypes

import tfring
from benchmarks.engines.engine import ArrayEngine, Run
from benchmarks.workloads import Workload
from tfring import arrays, native


class TfringRaw(ArrayEngine):
    """`tfr_run`."""

    title = "tfring"

    def join(self) -> None:
        tfring.init()
        self.rank, self.size = tfring.rank(), tfring.size()

    def prepare(self, work: Workload, value: float) -> Run:
        self.allocate(work, value)
        tensors = (native.Tensor * len(self.arrays))()
        for tensor, array in zip(tensors, self.arrays, strict=True):
            tensor.input = tensor.output = array.ctypes.data
            tensor.dims, tensor.rank = (ctypes.c_int64 * array.ndim)(*array.shape), array.ndim
        request = native.Request(
            struct_size=ctypes.sizeof(native.Request),
            name=f"benchmark/{work.name}/{work.dtype}".encode(),
            kind=native.ALLREDUCE,
            dtype=arrays.DTYPES[work.dtype],
            reduce_op=tfring.Sum.value,
            prescale=1.0,
            postscale=1.0,
            tensors=tensors,
            num_tensors=len(tensors),
        )
        request.memory = self.arrays  # to live as long
        reference, run_request = ctypes.byref(request), native.load().tfr_run

        def run() -> None:
            code = run_request(reference)
            if code:
                native.check(code)

        return run

    def leave(self) -> None:
        tfring.shutdown()
