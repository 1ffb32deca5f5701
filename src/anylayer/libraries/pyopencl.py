"""OpenCL through pyopencl: devices, programs, buffers. This is the only file that imports pyopencl.

Importing this file raises ImportError where pyopencl is not installed.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl

from anylayer.errors import EngineError, nearest, need, wording
from anylayer.network import Array, DType, Shape

cl: Any = pyopencl
Error: type[Exception] = cl.Error
_lock = threading.RLock()
_devices: dict[str, Device] = {}
_ALIGNMENT = 128
"""Bytes at which shared memory begins: the size of OpenCL's largest vectors."""
_KINDS = ("GPU", "CPU", "ACCELERATOR", "CUSTOM")


class Device:
    """An OpenCL device with a context and the programs that were built for it."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.name: str = handle.name.strip()
        self.platform: str = handle.platform.name.strip()
        extensions = handle.extensions.split()
        self.half, self.double = "cl_khr_fp16" in extensions, "cl_khr_fp64" in extensions
        self.shared = _shares_memory(handle)
        self.context = cl.Context([handle])
        self._programs: dict[tuple[str, tuple[str, ...]], Any] = {}

    def __str__(self) -> str:
        return f"{self.name} ({self.platform})"

    def program(self, text: str, options: Sequence[str], kept: bool = True) -> Any:
        """Return a built program, which is `kept` for the next call with this text and these options. Raise
        pyopencl's error with the compiler's log."""
        key = (text, tuple(options))
        with _lock:
            built = self._programs.get(key)
            if built is None:
                built = cl.Program(self.context, text)
                with warnings.catch_warnings():  # pyopencl warns where the compiler says anything
                    warnings.simplefilter("ignore")
                    built = built.build(list(options), [self._handle], cache_dir=False)
                if kept:
                    self._programs[key] = built
            return built

    def log(self, error: Exception) -> str:
        """Return the compiler's messages from an error of `program`."""
        text = str(error)
        after = text.partition("\n\nBuild on ")[2].partition("\n")[2]
        return (after or text).rpartition("\n(options: ")[0].strip() or after.strip() or text

    def queue(self) -> Any:
        """Return a queue that runs one command after the other and measures them."""
        return cl.CommandQueue(self.context, properties=cl.command_queue_properties.PROFILING_ENABLE)

    def memory(self, shape: Shape, dtype: DType) -> Memory:
        """Return memory for an array that a kernel reads or writes."""
        if not self.shared:
            return _Buffer(self.context, np.empty(shape, dtype))
        count = max(1, math.prod(shape))
        array = cl.fsvm_empty(self.context, (count,), dtype, alignment=_ALIGNMENT)
        return Memory(array[: math.prod(shape)].reshape(shape), cl.SVM(array))


class Memory:
    """Memory that host and device share: `array` is the host's view, `argument` a kernel's argument for it."""

    def __init__(self, array: Array, argument: Any) -> None:
        self.array, self.argument = array, argument

    def upload(self, queue: Any) -> None:
        """Let the device see what was written to `array`, before the queue's next command."""

    def download(self, queue: Any) -> None:
        """Let `array` have what the device wrote, when the queue has finished."""


class _Buffer(Memory):
    """A buffer of a device without shared memory, which is copied from and to an array."""

    def __init__(self, context: Any, array: Array) -> None:
        super().__init__(array, cl.Buffer(context, cl.mem_flags.READ_WRITE, max(array.nbytes, 1)))

    def upload(self, queue: Any) -> None:
        if self.array.size:
            cl.enqueue_copy(queue, self.argument, self.array, is_blocking=False)

    def download(self, queue: Any) -> None:
        if self.array.size:
            cl.enqueue_copy(queue, self.array, self.argument, is_blocking=False)


def kernel(program: Any, entry: str) -> Any:
    """Return a kernel of a program, with arguments of its own. Raise pyopencl's error where there is none."""
    return cl.Kernel(program, entry)


def run(queue: Any, kernel: Any, whole: Sequence[int], local: Sequence[int] | None) -> Any:
    """Enqueue a kernel and return its event."""
    return cl.enqueue_nd_range_kernel(queue, kernel, whole, local)


def seconds(event: Any) -> float:
    """Return how long the command of an event has run on the device."""
    return float(event.profile.end - event.profile.start) * 1e-9


def _shares_memory(handle: Any) -> bool:
    """Return whether host and device may use the same memory without commands between (fine-grained SVM)."""
    try:
        return bool(handle.svm_capabilities & cl.device_svm_capabilities.FINE_GRAIN_BUFFER)
    except Error:  # OpenCL 1
        return False


def _list_devices() -> list[Any]:
    try:
        platforms = cl.get_platforms()
    except Error:  # no driver is installed
        return []
    devices = []
    for platform in platforms:
        try:
            devices += platform.get_devices()
        except Error:  # a platform without a device
            continue
    return devices


def device(name: str = "") -> Device:
    """Return the device whose kind (CPU, GPU, ACCELERATOR) is `name`, or whose name or platform contains it; the
    first GPU, else the first device, for "".

    Raise EngineError where there is none.
    """
    with _lock:
        if name not in _devices:
            handle = _choose_device(name)
            same = (d for d in _devices.values() if d._handle == handle)
            _devices[name] = next(same, None) or Device(handle)
        return _devices[name]


def _choose_device(name: str) -> Any:
    devices = _list_devices()
    need(
        devices,
        "there is no OpenCL device. Install a driver; PoCL provides the CPU as a device (Debian: apt-get install "
        "pocl-opencl-icd)",
        EngineError,
    )
    kinds = [next((k for k in _KINDS if d.type & getattr(cl.device_type, k)), "other") for d in devices]
    if not name:
        return devices[kinds.index("GPU") if "GPU" in kinds else 0]
    lower = name.lower()
    for handle, kind in zip(devices, kinds):
        if lower == kind.lower() or lower in handle.name.lower() or lower in handle.platform.name.lower():
            return handle
    names = [d.name.strip() for d in devices]
    option = wording("device", "--device")
    listed = ", ".join(f"{kind} {n}" for kind, n in zip(kinds, names))
    raise EngineError(f"{option}: there is no OpenCL device '{name}'{nearest(name, names)}; devices: {listed}")
