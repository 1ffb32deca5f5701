"""Judge a program on an engine: equal to NumPy, run in Python, refused, a stated difference, or wrong."""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.api import Net
from anylayer.convert.conversion import Conversion
from anylayer.errors import AnyLayerError, EngineError
from anylayer.layer import Definition
from anylayer.network import Network, Node, TensorType

from .program import Program
from .stated import is_stated

TOLERANCE = {"f4": 1e-4, "f8": 1e-4, "f2": 1e-2}
"""The tolerance, relative to the largest value and to the size of each value."""
HALF_TOLERANCE = 2e-3
"""The tolerance on OpenVINO for a program with float16, which OpenVINO computes in float32."""
_CONDITIONS = "the sizes must fulfil: "
_WRONG_TRACE = "differs from what was recorded"
"""The part of a reason that says that a comparison on noise has prevented a wrong result."""
_STEPS = 16
"""How often last bits are changed, to see the effect of rounding on the outputs."""


@dataclass(slots=True)
class Verdict:
    """A result. `what`: "traced" (and equal), "in Python" (and equal), "refused", "stated",
    "differs", "raises".
    """

    what: str
    reason: str = ""


def network(program: Program, folder: Path) -> tuple[Net, Any]:
    """Return the program as a network of one layer, and its class."""
    path = folder / "program.py"
    path.write_text(program.text)
    scope: dict[str, Any] = {"__name__": "program", "__file__": str(path)}
    exec(compile(program.text, str(path), "exec", dont_inherit=True), scope)  # as an import compiles it
    types = {n: TensorType.of(x.shape, x.dtype) for n, x in program.feeds[0].items()}
    outputs = [f"out{i}" for i in range(program.outputs)]
    node = Node("program", "Program", list(types), outputs, place="layer 'program' (Program)")
    net = Network("program", "onnx", dict(types), [node], {o: o for o in outputs}, source=str(path))
    return Net(net, {"Program": Definition("Program", scope["Program"], str(path))}), scope["Program"]


def judge(program: Program, engine: str) -> Verdict:
    """Run a program on an engine with all its inputs, and compare the results with NumPy.

    engine: its name. With "file:" before it, the written file is run by the plain engine; with "open:" before
    that, one program or file serves every size.
    """
    feeds = [*program.feeds]
    shapes = None
    if engine.startswith("open:"):
        engine = engine.removeprefix("open:")
        shapes = {n: tuple(f"n{d}" if d > 1 else d for d in x.shape) for n, x in program.feeds[0].items()}
        shapes = program.shapes or shapes
        feeds += program.others
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net, cls = network(program, Path(folder))
        try:
            run, reason, conditions = _model(net, engine, shapes, Path(folder))
            for feed in (f for f in feeds if _is_allowed(f, shapes, conditions)):
                verdict = _compared(program, cls, run, feed, engine.removeprefix("file:"))
                if verdict is not None and verdict.what == "differs" and "file:" in engine:
                    _file(net, engine.removeprefix("file:"), shapes, Path(folder), verify=True)  # may refuse it
                if verdict is not None:
                    return verdict
        except AnyLayerError as error:
            return _reasoned("refused", str(error), program, cls, engine)
        except Exception:
            return Verdict("raises", traceback.format_exc()[-1500:])
    return _reasoned("in Python", reason, program, cls, engine) if reason else Verdict("traced")


def _reasoned(what: str, reason: str, program: Program, cls: Any, engine: str) -> Verdict:
    """Return the verdict on a program that an engine does not compute. It differs where only a comparison on noise
    has prevented a wrong result.
    """
    if _WRONG_TRACE in reason:
        body = program.text.partition("    def forward")[2]
        values = frozenset[str]().union(*(_values(cls, feed, body) for feed in program.feeds))
        what = "stated" if is_stated(body, engine.rpartition(":")[2], values) else "differs"
    return Verdict(what, _brief(reason))


def _is_allowed(feed: dict[str, Any], shapes: Any, conditions: Sequence[str]) -> bool:
    """Return whether the inputs' sizes fulfil the conditions that a file states."""
    named = {e: d for n, shape in (shapes or {}).items() for e, d in zip(shape, feed[n].shape)}
    return all(eval(c, {}, named) for c in conditions)


def _model(
    net: Net, engine: str, shapes: Any, folder: Path
) -> tuple[Callable[[dict[str, Any]], Any], str, Sequence[str]]:
    """Return a function that runs a network, why it has a host call ("": it has none), and the conditions on sizes
    that a file states.
    """
    if engine.startswith("file:"):
        run, written = _file(net, engine.removeprefix("file:"), shapes, folder)
        stated = [n.removeprefix(_CONDITIONS).split("; ") for n in written.notes if n.startswith(_CONDITIONS)]
        return run, "", [re.sub(r" \([^()=<>*/]*\)$", "", c) for conditions in stated for c in conditions]
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        model = net.compile(engine=engine, threads=1, shapes=shapes)
    if shapes is not None and model.open_sizes is None:
        raise EngineError("; ".join(str(n.message) for n in notes) or "no size is open")
    return model, _brief(model.host_calls[0][2]) if model.host_calls else "", ()


def _file(
    net: Net, engine: str, shapes: Any, folder: Path, *, verify: bool = False
) -> tuple[Callable[[dict[str, Any]], Any], Conversion]:
    """Write a network, and return a function that runs the file in the plain engine, and what was written."""
    outputs = list(net.network.outputs)
    if engine == "openvino":
        written = net.write(folder / "program.xml", shapes=shapes, verify=verify)
        import openvino

        core = openvino.Core()
        hint = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
        compiled = core.compile_model(str(folder / "program.xml"), "CPU", hint)

        def run(feed: dict[str, Any]) -> Any:
            found = compiled([next(feed[n] for n in p.get_names() if n in feed) for p in compiled.inputs])
            return dict(zip(outputs, (np.array(found[p]) for p in compiled.outputs), strict=True))

        return run, written
    written = net.write(folder / "program.onnx", shapes=shapes, verify=verify)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(
        str(folder / "program.onnx"), options, providers=["CPUExecutionProvider"]
    )
    wanted = {i.name for i in session.get_inputs()}

    def run_session(feed: dict[str, Any]) -> Any:
        found = session.run(outputs, {n: x for n, x in feed.items() if n in wanted})
        return dict(zip(outputs, found, strict=True))

    return run_session, written


def _compared(program: Program, cls: Any, model: Any, feed: dict[str, Any], engine: str) -> Verdict | None:
    """Return None if all outputs equal NumPy's up to rounding, or if NumPy itself refuses the inputs."""
    try:
        want = _numpy(cls, feed)
    except Exception:
        return None
    got = model({n: x.copy() for n, x in feed.items()})
    if not any(_off(got[name], w, np.zeros(w.shape)) for name, w in zip(got, want)):
        return None
    free = [np.zeros(w.shape) for w in want] if program.exact else _free(program, feed, want, engine)
    for i, (name, w) in enumerate(zip(got, want)):
        off = _off(got[name], w, free[i])
        if off and w.shape == (0,) and not got[name].size:
            return Verdict("stated", "np.array([]) has the dtype and columns that it has with elements")
        if off and _is_other_number(program, cls, i, got[name], w):
            return Verdict("stated", "max and min of a NumPy scalar and a number have the dtype of the scalar")
        if off:
            body = program.text.partition("    def forward")[2]
            values = _values(cls, feed, body)
            # A comparison or a cast to integers may go either way within the rounding of float16.
            half = engine == "openvino" and "half" in values
            if half and (w.dtype.kind != "f" or not _off(got[name], w, free[i], HALF_TOLERANCE)):
                continue
            stated = is_stated(body, engine, values)
            return Verdict("stated" if stated else "differs", f"output {i}: {off}; {', '.join(values)}{body}")
    return None


def _is_other_number(program: Program, cls: Any, output: int, got: Any, want: Any) -> bool:
    """Return whether an output differs only in its dtype, which is NumPy's for other inputs, because Python's max
    or min returns a NumPy scalar or a Python number.
    """
    if got.dtype == want.dtype or got.shape != want.shape or not re.search(r"\b(max|min)\(", program.text):
        return False
    dtypes = []
    for feed in program.feeds:
        with contextlib.suppress(Exception):  # NumPy refuses the inputs
            dtypes.append(_numpy(cls, feed)[output].dtype)
    return got.dtype in dtypes and not _off(got, want.astype(got.dtype), np.zeros(want.shape))


def _values(cls: Any, feed: dict[str, Any], body: str) -> frozenset[str]:
    """Return the kinds of values that occur in the program (see stated.Row)."""
    met: set[str] = set()
    least = 0.0 if "uint" in body else -128.0 if "int8" in body else -32768.0 if "int16" in body else -(2.0**31)
    most = 128.0 if "int8" in body else 32768.0 if "int16" in body else 2.0**31

    def look(x: Any) -> None:
        if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "iuf" and x.size:
            size = np.abs(np.asarray(x, np.float64))
            if x.dtype.kind == "f":
                finite = x[np.isfinite(x)]
                met.update(["special", "large", "outside"] if finite.size < x.size else [])
                met.update(["half"] if x.dtype.itemsize == 2 else [])
                met.update(["large"] if (size >= 2.0**31).any() else [])
                met.update(["tiny"] if x.dtype.itemsize == 8 and ((size > 0) & (size < 1e-15)).any() else [])
                met.update(["minus zero"] if (np.signbit(x) & (x == 0)).any() else [])
                met.update(["outside"] if (finite < least).any() or (finite >= most).any() else [])
            else:
                met.update(
                    ["long", "wide"] if (size >= 2.0**53).any() else ["wide"] if (size > 2**24).any() else []
                )

    def watch(frame: Any, event: str, value: Any) -> Any:
        if frame.f_code.co_filename.endswith("program.py"):
            for x in frame.f_locals.values():
                look(x)
            return watch
        return None

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        _numpy(cls, feed)
    finally:
        sys.settrace(before)
    return frozenset(met)


def _numpy(cls: Any, feed: dict[str, Any]) -> list[Any]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [np.asarray(o) for o in cls({}, ()).forward([x.copy() for x in feed.values()])]


_ROUNDED = re.compile(
    r"^( *)(v\d+) = .*(?:/|\*\*|sin|cos|tan|exp|log|sqrt|cbrt|deg|rad|power|hypot|angle|reciprocal"
    r"|mean|std|var|average|percentile|quantile|interp|cumprod|norm).*$",
    re.MULTILINE,
)
"""Statements whose results are rounded, also if their inputs are integers."""


def _free(program: Program, feed: dict[str, Any], want: Sequence[Any], engine: str) -> list[Any]:
    """Return how far each value of the outputs moves if the inputs and the results of rounded statements change in
    about the last bit of the dtype in which the engine computes. Rounding may have an effect of the same size.
    """
    most = np.dtype(np.float64 if engine == "onnxruntime" else np.float32)
    random = np.random.default_rng(0)

    def moved(x: Any, sizes: Any = None) -> Any:
        """Move an array in place, so that its views move with it, by a part of `sizes` or of the values."""
        if x.dtype.kind != "f":
            return x
        step = 4 * float(max(np.finfo(x.dtype).eps, np.finfo(most).eps))
        with np.errstate(all="ignore"):
            y = x + step * random.uniform(-1, 1, x.shape) * (x if sizes is None else sizes)
            if not (isinstance(x, np.ndarray) and x.flags.writeable):
                return np.asarray(y, x.dtype)
            x[...] = y
        return x

    def rounded(x: Any) -> Any:
        """Move the result of a statement. Its error can be relative to its largest value or to 1; 0 stays 0."""
        finite = np.abs(x[np.isfinite(x)])
        return moved(x, np.where(x == 0, 0, finite.max(initial=1))) if x.dtype.kind == "f" else x

    scope: dict[str, Any] = {"__name__": "program", "rounded": rounded}
    exec(_ROUNDED.sub(r"\g<0>\n\1\2 = rounded(\2)", program.text), scope)
    found = [np.zeros(w.shape) for w in want]
    for _ in range(_STEPS):
        try:
            again = _numpy(scope["Program"], {n: moved(x.copy()) for n, x in feed.items()})
        except Exception:
            continue
        for f, a, w in zip(found, again, want):
            if a.shape == w.shape:
                with np.errstate(all="ignore"):
                    off = np.abs(a.astype(np.float64) - w.astype(np.float64))
                same = (a == w) | (np.isnan(a) & np.isnan(w)) if w.dtype.kind == "f" else a == w
                np.maximum(f, np.where(same, 0, np.nan_to_num(off, nan=np.inf)), out=f)
    return found


def _off(got: Any, want: Any, free: Any, tolerance: float = 0.0) -> str:
    """Return how an output differs by more than rounding or a tolerance; "" if it does not."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    if want.dtype.kind != "f":
        wrong = (got != want) & (free == 0)
        return _text(got[wrong], want[wrong]) if wrong.any() else ""
    limit = max(tolerance, TOLERANCE[want.dtype.str[1:]])
    w, g = want.astype(np.float64), got.astype(np.float64)
    sizes = np.abs(w[np.isfinite(w)])
    scale = float(sizes.max(initial=0)) if sizes.size and sizes.max(initial=0) < 1e4 else 0.0
    with np.errstate(all="ignore"):
        allowed = limit * np.maximum(np.abs(w), scale) + 100 * free + 1e-6
        wrong = ~((np.abs(g - w) <= allowed) | (g == w) | (np.isnan(g) & np.isnan(w)) | np.isinf(free))
    return _text(got[wrong], want[wrong]) if wrong.any() else ""


def _text(got: Any, want: Any) -> str:
    few = slice(0, 4)
    return f"{got.ravel()[few].tolist()}, expected {want.ravel()[few].tolist()} ({want.dtype})"


def _brief(text: str) -> str:
    """Return a reason without the parts that are specific to the program: places, names, numbers."""
    text = re.sub(r"[\w./-]*program\.py:\d+: ", "", text).removeprefix("layer 'program' (Program): ")
    text = re.sub(r"\b(float|int|uint|bool)\d*\[[^]]*\]", "T[...]", text)
    return re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "N", re.sub(r"\([\d, -]*\)", "(...)", text))[:160]
