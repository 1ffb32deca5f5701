"""The word `as_runtime`: a test that one operator gives on every engine what ONNX Runtime gives for the file."""

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
    """What ONNX Runtime gives for a file, without its optimizers."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return list(ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, feed))


def steps(got: np.ndarray, want: np.ndarray, what: str, most: int = 0, atol: float = 1e-5) -> None:
    """Fail unless dtypes and shapes are equal, whole numbers differ by `most` at most, real ones by rounding."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape), what
    off = np.abs(got.astype(np.float64) - want.astype(np.float64)).max(initial=0)
    scale = max(float(np.abs(want.astype(np.float64)).max(initial=0)), 1.0)
    assert off <= (most if want.dtype.kind in "iu" else atol * scale), f"{what}: off by {off} of {scale}"


def as_runtime(
    op: str,
    inputs: Sequence[Any],
    attrs: dict[str, Any] | None = None,
    *,
    domain: str = MICROSOFT,
    outputs: int = 1,
    opset: int = 21,
    most: int = 0,
    engines_most: int = 1,
    engines: Sequence[str] = ENGINES,
    data: Sequence[int] = (0,),
) -> Callable[[Path, Any], None]:
    """Return a test of one operator. `inputs` are arrays, None for one left out. Those of `data` are given to the
    network, and the others are constants. NumPy may be `most` steps off, the other engines `engines_most`.
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
                steps(got[name], want, f"{engine}, {name}", most if engine == "numpy" else engines_most)

    return test
