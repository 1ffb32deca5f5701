"""Run a NumPy function as NumPy runs it, or compiled by Numba, JAX, torch.compile or Pythran.

spec: tool, function (a name of benchmarks.functions), inputs (.npz), threads, kept (a folder for what Pythran
compiles). Each tool gets the same source, in the form that its documentation names first.
"""

from __future__ import annotations

import faulthandler
import hashlib
import importlib.util
import inspect
import os
import subprocess
import sys
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.functions import case
from benchmarks.runners import Loaded, read_inputs

Call = Callable[[], Any]
Function = Callable[..., Any]


_PATIENCE = 120
"""Seconds that a tool may take to compile a function. Its process ends after them."""


def load(spec: dict[str, Any]) -> Loaded:
    """Compile, and run once."""
    arrays = list(read_inputs(spec["inputs"]).values())
    faulthandler.dump_traceback_later(_PATIENCE, exit=True)  # a signal would not interrupt a compiler
    calls, version = _TOOLS[spec["tool"]](case(spec["function"]).function, arrays, spec)
    for call in calls.values():
        call()
    faulthandler.cancel_dump_traceback_later()
    return Loaded(calls, lambda name: named(calls[name]()), {"version": version})


def named(result: Any) -> dict[str, np.ndarray]:
    """Return the outputs of a function by their places."""
    parts = result if isinstance(result, (tuple, list)) else [result]
    return {str(i): np.asarray(part) for i, part in enumerate(parts)}


def _numpy(function: Function, arrays: Sequence[Any], spec: dict[str, Any]) -> tuple[dict[str, Call], str]:
    return {"call": lambda: function(*arrays)}, np.__version__


_IN_PARALLEL = """
import sys, numba
from benchmarks.functions import case
from benchmarks.runners import read_inputs
numba.njit(parallel=True, cache=True)(case(sys.argv[1]).function)(*read_inputs(sys.argv[2]).values())
"""


def _numba(function: Function, arrays: Sequence[Any], spec: dict[str, Any]) -> tuple[dict[str, Call], str]:
    """Compile serially, and in parallel where Numba can and there are several threads. A process of its own
    compiles the parallel form into Numba's cache, because it may take more time than there is.
    """
    os.environ["NUMBA_CACHE_DIR"] = spec["kept"]
    import numba

    numba.set_num_threads(spec["threads"])
    serial = numba.njit(function)
    serial(*arrays)
    calls: dict[str, Call] = {"serial": lambda: serial(*arrays)}
    if spec["threads"] > 1:
        command = [sys.executable, "-c", _IN_PARALLEL, spec["function"], str(spec["inputs"])]
        with suppress(subprocess.SubprocessError):
            subprocess.run(command, capture_output=True, check=True, timeout=_PATIENCE / 2)
            parallel = numba.njit(parallel=True, cache=True)(function)
            calls["parallel"] = lambda: parallel(*arrays)
    return calls, numba.__version__


def _jax(function: Function, arrays: Sequence[Any], spec: dict[str, Any]) -> tuple[dict[str, Call], str]:
    """Replace NumPy by jax.numpy, and compile. Inputs are arrays of NumPy's or on JAX's device."""
    if spec["threads"] == 1:
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    import jax

    known = {**function.__globals__, "np": jax.numpy}
    compiled = jax.jit(types.FunctionType(function.__code__, known, function.__name__))
    held = [jax.device_put(x) for x in arrays]

    def arrays_of(given: Sequence[Any]) -> Any:
        return jax.block_until_ready(compiled(*given))

    calls = {"arrays": lambda: jax.tree.map(np.asarray, arrays_of(arrays)), "held": lambda: arrays_of(held)}
    return calls, jax.__version__


def _torch(function: Function, arrays: Sequence[Any], spec: dict[str, Any]) -> tuple[dict[str, Call], str]:
    """Compile the NumPy function for tensors, or for arrays where that fails."""
    import torch

    torch.set_num_threads(spec["threads"])
    tensors, compiled = [torch.from_numpy(x) for x in arrays], torch.compile(torch.compiler.wrap_numpy(function))
    try:
        compiled(*tensors)
    except Exception as error:
        print("tensors:", error, file=sys.stderr)
        plain = torch.compile(function)
        return {"arrays": lambda: plain(*arrays)}, torch.__version__
    return {"tensors": lambda: compiled(*tensors)}, torch.__version__


def _pythran(function: Function, arrays: Sequence[Any], spec: dict[str, Any]) -> tuple[dict[str, Call], str]:
    """Compile the function's source with OpenMP, for this processor."""
    import pythran

    name = function.__name__
    kinds = ", ".join(x.dtype.name + (f"[{', '.join(':' * x.ndim)}]" if x.ndim else "") for x in arrays)
    text = f"#pythran export {name}({kinds})\nimport numpy as np\n\n{inspect.getsource(function)}"
    digest = hashlib.sha256((pythran.__version__ + text).encode()).hexdigest()[:16]
    source, library = (Path(spec["kept"]) / f"{name}_{digest}{suffix}" for suffix in (".py", ".so"))
    if not library.exists():
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        flags = ["-O3", "-fopenmp", "-march=native"]
        command = [sys.executable, "-m", "pythran.run", *flags, str(source), "-o", str(library)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["Pythran failed"])[-1])
    found = importlib.util.spec_from_file_location(source.stem, library)
    if found is None or found.loader is None:
        raise RuntimeError(f"{library} cannot be loaded")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    compiled = getattr(module, name)
    return {"call": lambda: compiled(*arrays)}, pythran.__version__


_TOOLS = {"numpy": _numpy, "numba": _numba, "jax": _jax, "torch.compile": _torch, "pythran": _pythran}
TOOLS = tuple(_TOOLS)
