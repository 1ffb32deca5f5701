"""Compare anylayer.export with other tools that trace functions of arrays: `python benchmarks/exporters.py`.

Each function is written once, for a module `np` with NumPy's functions: NumPy itself, or the tool's own module. A
tool passes if it turns the function into a program without Python and the program returns what NumPy returns, for
another input than the traced one. `--python PATH` names another Python, which runs the tools that this one lacks.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

Function = Callable[[Any, Any], Any]


def normalize(np: Any, x: Any) -> Any:
    return (x - np.mean(x, axis=1, keepdims=True)) / np.std(x, axis=1, keepdims=True)


def softmax(np: Any, x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def threshold(np: Any, x: Any) -> Any:
    return np.where(x > 0, x, 0.1 * x)


def write_into_zeros(np: Any, x: Any) -> Any:
    y = np.zeros((4, 6), dtype=np.float32)
    y[:, 1:5] = x[:, 1:5]
    return y


def write_by_mask(np: Any, x: Any) -> Any:
    y = x + 0
    y[y < 0] = 0
    return y


def accumulate_in_a_loop(np: Any, x: Any) -> Any:
    y = np.zeros((4,), dtype=np.float32)
    for i in range(x.shape[1]):
        y += x[:, i] * i
    return y


def gather_rows(np: Any, x: Any) -> Any:
    return x[np.argsort(x[:, 0])]


def sort_descending(np: Any, x: Any) -> Any:
    return np.sort(x, axis=1)[:, ::-1]


def label_of_each_row(np: Any, x: Any) -> Any:
    return np.argmax(x, axis=1)


def running_sum(np: Any, x: Any) -> Any:
    return np.cumsum(x, axis=1)


def pad_with_edges(np: Any, x: Any) -> Any:
    return np.pad(x, ((1, 2), (0, 1)), mode="edge")


def einsum(np: Any, x: Any) -> Any:
    return np.einsum("ij,kj->ik", x, x)


def distances(np: Any, x: Any) -> Any:
    return np.linalg.norm(x[:, None, :] - x[None, :, :], axis=2)


def grid(np: Any, x: Any) -> Any:
    rows, columns = np.meshgrid(np.arange(4), np.arange(6), indexing="ij")
    return x * rows + columns


def interpolate(np: Any, x: Any) -> Any:
    return np.interp(x[0], np.linspace(-3, 3, 6), x[1])


def histogram_index(np: Any, x: Any) -> Any:
    return np.searchsorted(np.linspace(-2, 2, 9), x)


def out_argument(np: Any, x: Any) -> Any:
    y = np.empty((4, 6), dtype=np.float32)
    np.multiply(x, 2, out=y)
    return y


def ufunc_reduce(np: Any, x: Any) -> Any:
    return np.maximum.reduce(x, axis=1)


def float32_stays(np: Any, x: Any) -> Any:
    return x * np.float32(0.5) + np.sqrt(np.float32(2))


def round_to_even(np: Any, x: Any) -> Any:
    return np.round(x * 2) / 2


def branch_on_a_value(np: Any, x: Any) -> Any:
    return x if x[0, 0] > 0 else -x


FUNCTIONS: list[Function] = [
    *(normalize, softmax, threshold, write_into_zeros, write_by_mask, accumulate_in_a_loop, gather_rows),
    *(sort_descending, label_of_each_row, running_sum, pad_with_edges, einsum, distances, grid, interpolate),
    *(histogram_index, out_argument, ufunc_reduce, float32_stays, round_to_even, branch_on_a_value),
]
TRACED, OTHER = numpy.random.default_rng(0).standard_normal((2, 4, 6)).astype(numpy.float32)
TRACED[0, 0], OTHER[0, 0] = 1, -1


def with_anylayer(function: Function) -> Any:
    """Return the output of the ONNX file that anylayer.export writes, run by ONNX Runtime."""
    import onnxruntime

    import anylayer

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.onnx"
        anylayer.export(lambda x: function(numpy, x), TRACED, path=path)
        return onnxruntime.InferenceSession(str(path)).run(None, {"x": OTHER})[0]


def with_torch_compile(function: Function) -> Any:
    """Return the output of the graph that torch.compile captures without a break."""
    import torch

    torch._dynamo.reset()
    compiled = torch.compile(lambda x: function(numpy, x), fullgraph=True, backend="eager")
    compiled(TRACED)
    return compiled(OTHER)


def with_torch_export(function: Function) -> Any:
    """Return the output of the program that torch.export makes."""
    import torch

    class Module(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.from_numpy(function(numpy, x.numpy()))

    program = torch.export.export(Module(), (torch.from_numpy(TRACED),), strict=True)
    return program.module()(torch.from_numpy(OTHER)).numpy()


def with_jax(function: Function) -> Any:
    """Return the output of the StableHLO that jax.export makes."""
    import jax
    import jax.export

    exported = jax.export.export(jax.jit(lambda x: function(jax.numpy, x)))(TRACED)
    return numpy.asarray(jax.export.deserialize(exported.serialize()).call(OTHER))


def with_ndonnx(function: Function) -> Any:
    """Return the output of the ONNX model that ndonnx builds, run by ONNX Runtime."""
    import ndonnx
    import onnxruntime

    x = ndonnx.argument(shape=(4, 6), dtype=ndonnx.float32)
    model = ndonnx.build({"x": x}, {"y": function(ndonnx, x)})
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": OTHER})[0]


TOOLS = {
    "anylayer.export": ("anylayer", with_anylayer),
    "torch.compile": ("torch", with_torch_compile),
    "torch.export": ("torch", with_torch_export),
    "jax.export": ("jax", with_jax),
    "ndonnx": ("ndonnx", with_ndonnx),
}


def verdict(run: Callable[[Function], Any], function: Function) -> str:
    """Return "yes", "wrong", "wrong dtype", or the type of the error."""
    want = numpy.asarray(function(numpy, OTHER))
    try:
        got = numpy.asarray(run(function))
    except Exception as error:
        return type(error).__name__
    if got.shape != want.shape or not numpy.allclose(got, want, rtol=1e-4, atol=1e-5):
        return "wrong"
    return "yes" if got.dtype == want.dtype else f"{got.dtype}, not {want.dtype}"


def column(tool: str, python: str | None) -> list[str] | None:
    """Return a verdict per function; None where the tool is installed nowhere."""
    package, run = TOOLS[tool]
    if importlib.util.find_spec(package) is not None:
        return [verdict(run, function) for function in FUNCTIONS]
    if python is None:
        return None
    done = subprocess.run([python, __file__, "--tool", tool], stdout=subprocess.PIPE, text=True, check=True)
    found: list[str] | None = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print the table in Markdown; with --tool, one column as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", help="another Python, with the tools that are not installed in this one")
    parser.add_argument("--tool", choices=TOOLS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.tool:
        print(json.dumps(column(given.tool, None)))
        return
    columns = {tool: column(tool, given.python) for tool in TOOLS}
    present = {tool: found for tool, found in columns.items() if found is not None}
    for tool in columns.keys() - present.keys():
        print(f"{tool} is not installed: pip install {TOOLS[tool][0]}, or --python PATH", file=sys.stderr)
    print(f"| function | {' | '.join(present)} |\n| :-- |{' :-- |' * len(present)}")
    for i, function in enumerate(FUNCTIONS):
        print(f"| {function.__name__.replace('_', ' ')} | {' | '.join(found[i] for found in present.values())} |")
    counts = [f"{sum(v == 'yes' for v in found)} of {len(FUNCTIONS)}" for found in present.values()]
    print(f"| **yes** | {' | '.join(counts)} |")


if __name__ == "__main__":
    main()
