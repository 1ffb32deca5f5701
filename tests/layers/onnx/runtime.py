"""A helper for the tests of ONNX layers: `as_runtime` compares an operator with ONNX Runtime on every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import helper

import anylayer
from tests.engine_names import ALL
from tests.readers.onnx.files import model, save, value

ENGINES = ALL
MICROSOFT = "com.microsoft"


def raw(path: Path, feed: dict[str, Any]) -> list[np.ndarray]:
    """Return the outputs of ONNX Runtime for a file, computed without its optimizers."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return list(ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, feed))


def steps(got: np.ndarray, want: np.ndarray, what: str, limit: int = 0, atol: float = 1e-5) -> None:
    """Fail unless dtypes and shapes are equal, integers differ by at most `limit`, and floats by rounding."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape), what
    off = np.abs(got.astype(np.float64) - want.astype(np.float64)).max(initial=0)
    scale = max(float(np.abs(want.astype(np.float64)).max(initial=0)), 1.0)
    assert off <= (limit if want.dtype.kind in "iu" else atol * scale), (
        f"{what}: largest difference {off}, largest value {scale}"
    )


def as_runtime(
    op: str,
    inputs: Sequence[Any],
    attrs: dict[str, Any] | None = None,
    *,
    domain: str = MICROSOFT,
    outputs: int = 1,
    opset: int = 21,
    limit: int = 0,
    engines_limit: int = 1,
    engines: Sequence[str] = ENGINES,
    data: Sequence[int] = (0,),
) -> Callable[[Path, Any], None]:
    """Return a test that an operator matches ONNX Runtime on every engine.

    `inputs` are arrays, None for an absent one. Those whose index is in `data` are inputs of the network, the
    others are constants. Integers may differ by `limit` in NumPy and by `engines_limit` on the other engines.
    """

    def test(tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.chdir(tmp_path)
        names = ["" if x is None else f"i{i}" for i, x in enumerate(inputs)]
        arrays = {n: np.asarray(x) for n, x in zip(names, inputs) if x is not None}
        feed = {f"i{i}": arrays[f"i{i}"] for i in data}
        held = {n: x for n, x in arrays.items() if n not in feed}
        node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], domain=domain, **(attrs or {}))
        given = [value(n, list(x.shape), x.dtype) for n, x in feed.items()]
        domains = [domain] if domain else []
        path = save(model([node], given, list(node.output), held, opset, domains=domains))
        wanted = raw(path, feed)
        for engine in engines:
            made = anylayer.read(path).compile(engine, threads=1)
            assert engine == "numpy" or not made.host_calls, made.host_calls
            got = made(feed)
            for name, want in zip(node.output, wanted):
                steps(got[name], want, f"{engine}, {name}", limit if engine == "numpy" else engines_limit)

    return test
