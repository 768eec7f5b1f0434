"""What a log says of memory: sure, perhaps, or not at all. The texts are what libraries print."""

import pytest

from infrarsi.execute.memory_errors import memory_failure

SURE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total ...",
    "RuntimeError: CUDA error: out of memory",
    "RuntimeError: [enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't "
    "allocate memory: you tried to allocate 4000000000 bytes. Error code 12",
    "MemoryError",
    "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB for an array with ...",
    "terminate called after throwing an instance of 'std::bad_alloc'",
)
PERHAPS = (
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR",
    "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1269, unhandled cuda error, NCCL version ...",
    "torch.distributed.DistBackendError: NCCL error ... ncclSystemError: System call failed",
    "OSError: [Errno 12] Cannot allocate memory",
    "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed.",
    "RuntimeError: unable to write to file </torch_29_3114> : No space left on device (28)",
    "Memory cgroup out of memory: oom-kill: process 812 (python)",
)
NOT = (
    "ValueError: loss is not finite",
    "OSError: [Errno 28] No space left on device: 'checkpoints/step_100.pt'",
    "bytes.decode('utf-8', errors='ignore') on stderr",
    "NCCL version 2.21.5+cuda12.4",
    "CUBLAS_WORKSPACE_CONFIG is not set",
)


@pytest.mark.parametrize("text", SURE)
def test_an_allocators_own_words_are_an_out_of_memory(text):
    assert memory_failure(f"step 3\n{text}\n", exit_code=1) == "yes"


@pytest.mark.parametrize("text", PERHAPS)
def test_cublas_cudnn_and_nccl_allocation_failures_are_disguised_ooms(text):
    assert memory_failure(f"step 3\n{text}\n", exit_code=1) == "ambiguous"


@pytest.mark.parametrize("text", NOT)
def test_other_words_are_no_out_of_memory(text):
    assert memory_failure(f"step 3\n{text}\n", exit_code=1) == "no"


@pytest.mark.parametrize("exit_code", [-9, 137])
def test_a_kill_from_outside_is_perhaps_one(exit_code):
    assert memory_failure("step 3\n", exit_code=exit_code) == "ambiguous"
