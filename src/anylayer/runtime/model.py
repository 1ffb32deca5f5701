"""Model: a compiled network. It keeps one program per set of input shapes, or one for every size. Engine "auto"
measures the installed engines and takes the fastest."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from anylayer.compile.choices import verified_sizes
from anylayer.compile.comparison import Compiler
from anylayer.compile.inputs import absent_input, advising_batch, needed_inputs
from anylayer.compile.nodes import Definitions
from anylayer.compile.open import OpenTraces, open_types, trace_open
from anylayer.compile.plan import GraphStep, Plan, make_plan
from anylayer.compile.segments import EnginePart, engine_layers, whole, with_parts
from anylayer.engines import engines, installed, load_engine
from anylayer.errors import AnyLayerError, EngineError, InputError, nearest, need, plural, warn
from anylayer.graph.open_sizes import OpenSizes
from anylayer.layer.exclusive import in_user_code
from anylayer.network import Array, Network, TensorType
from anylayer.numerics import uniform_noise
from anylayer.runtime.choice import name_able, trusted
from anylayer.runtime.custom import fastest_split, kinds_of_layers
from anylayer.runtime.open import (
    InputKey,
    OpenProgram,
    Reference,
    fastest_open,
    key_of,
    key_of_arrays,
    open_program,
    suited,
    varied_sizes,
    volume,
)
from anylayer.runtime.order import transposed_inputs
from anylayer.runtime.pairs import PairFinder
from anylayer.runtime.run import SHAPES_KEPT, NumpyRunner, PlanRunner
from anylayer.runtime.timing import quiet_runs, timed_in_turns

_SIZES_COMPILED = 8
"""The number of programs for single sizes after which one program for every size is compiled. To compile that one
takes as long as to compile 2 to 8 others."""
_COMPARED = 2
"""The number of programs for one size with which a program for every size is compared."""
_MAX_ATTEMPTS = 4
"""The largest number of times that a program for every size is compiled, each time because other sizes vary."""

Runner = PlanRunner | NumpyRunner | OpenProgram


class Model:
    """A network that is compiled for an engine. Safe to call from several threads.

    `inputs` and `outputs` map names to types for the shapes that it was first compiled for; a type is None where
    sizes are open, and before the first call where the file gives no shape. `engine` is the engine in use, or the
    fastest single one where several engines together are faster. `timings` holds the seconds per call that "auto"
    measured on each engine, and on several ("onnxruntime+openvino"). `host_calls` lists the layers that
    run in Python, `native_layers` those that native kernels compute. `open_sizes` are the sizes that one program
    serves, or None.
    """

    def __init__(
        self,
        network: Network,
        definitions: Definitions,
        outputs: Mapping[str, str],
        *,
        engine: str = "auto",
        shapes: Mapping[str, Sequence[int | str]] | None = None,
        threads: int | None = None,
        precision: str = "float32",
        exact: bool = False,
    ) -> None:
        names = ("auto", "numpy", *engines())
        base, _, device = engine.partition("@")
        need(
            base in names,
            f"there is no engine '{base}'{nearest(base, names)}; engines: {', '.join(names)}",
            EngineError,
        )
        need(
            not device or base != "numpy",
            f"engine 'numpy' computes on the CPU only, not on '{device}'",
            EngineError,
        )
        engine, self._device = (base, device) if base == "auto" else (engine, "")
        limit = max(64, 4 * (os.cpu_count() or 1))  # far more threads stall the whole machine
        need(threads is None or 0 < threads <= limit, f"threads must be 1 to {limit}, got {threads}", InputError)
        self._network, self._definitions, self._targets = network, definitions, dict(outputs)
        self._threads = threads
        self._asked = engine
        types, sizes = open_types(network, shapes)
        self._types = {name: types[name] for name in needed_inputs(network, outputs)}
        self._names = list(self._types)
        self._runners: OrderedDict[InputKey, PlanRunner] = OrderedDict()
        self._open: OpenProgram | None = None
        self._seen: dict[InputKey, float] = {}
        self._attempts: list[OpenSizes] = []
        self._warned = False
        self._lock = threading.RLock()
        self._compiling: set[tuple[int, InputKey]] = set()
        self.engine = engine
        self.timings: dict[str, float] = {}
        self._parts: Sequence[EnginePart] = []
        self.plan: Plan | None = None
        self._precision, self._exact = precision, exact
        if engine not in ("auto", "numpy"):
            _require_precision(engine, precision)
        need(engine != "numpy" or precision == "float32", "engine 'numpy' computes in float32 only", EngineError)
        opened = sizes.of_inputs(self._names) if sizes is not None else None
        if engine == "numpy":
            self._numpy = NumpyRunner(network, definitions, self._targets)
        elif opened is not None:
            self._compile_open(opened)
        elif all(t is not None for t in self._types.values()):
            with advising_batch(network, self._types):
                self._runner(key_of(self._types))

    def __repr__(self) -> str:
        ends = [
            ", ".join(f"{name} {kind or '(shape not known)'}" for name, kind in types.items())
            for types in (self.inputs, self.outputs)
        ]
        calls = f"; in Python: {', '.join(name for name, _, _ in self.host_calls)}" if self.host_calls else ""
        return f"<anylayer.Model of {self._network.name!r} on {self.engine}: {ends[0]} -> {ends[1]}{calls}>"

    @property
    def inputs(self) -> dict[str, TensorType | None]:
        """Return the type of each input: None where the file gives no shape and nothing has run yet."""
        return dict(self._types)

    @property
    def outputs(self) -> dict[str, TensorType | None]:
        """Return the type of each output at the shapes of `inputs`: None where they are not known."""
        types = self.plan.types if self.plan else {}
        return {public: types.get(value) for public, value in self._targets.items()}

    @property
    def native_layers(self) -> list[tuple[str, str, str]]:
        """Return (node, layer type, library) for each layer that a native kernel computes."""
        return self.plan.native if self.plan else []

    @property
    def host_calls(self) -> list[tuple[str, str, str]]:
        """Return (node, layer type, reason) for each host call. The list is empty on engine "numpy", where every
        layer runs in Python."""
        return self.plan.host_calls if self.plan else []

    @property
    def parts(self) -> list[tuple[str, list[str]]]:
        """Return (engine, its layers) for each graph of the network, in computing order, where several engines run
        it. The list is empty where one engine does."""
        return engine_layers(self.plan) if self.plan else []

    @property
    def open_sizes(self) -> OpenSizes | None:
        """Return the sizes that one program serves, with their conditions; None where there is no such program."""
        return self._open.sizes if self._open is not None else None

    def __call__(
        self, inputs: Mapping[str, Any] | Array, out: Mapping[str, Array] | None = None
    ) -> dict[str, Array]:
        """Compute the outputs, and return them by name.

        inputs: arrays by name, or one array for a network with one input; each is converted to the input's dtype.
        The network is compiled again for shapes that are new; after eight of them, once for every size.
        out: C-contiguous arrays that outputs are written to, by name. Raises InputError for what does not fit, and
        EngineError where the engine stops.
        """
        if type(inputs) is not dict and not isinstance(inputs, Mapping):
            need(
                len(self._names) == 1,
                f"the network has {plural(len(self._names), 'input')} ({', '.join(self._names)}): give a dict",
                InputError,
            )
            inputs = {self._names[0]: inputs}
        arrays = [self._array(name, inputs) for name in self._names]
        if len(inputs) != len(arrays):
            self._refuse_others(inputs)
        if out is None:
            return self.run(arrays)
        need(isinstance(out, Mapping), f"out must be a dict of arrays, got {type(out).__name__}", InputError)
        runner = self._runner(key_of_arrays(arrays))
        self._check_buffers(out, arrays)
        if isinstance(runner, PlanRunner):
            for name, buffer in out.items():
                _require_type(name, buffer, runner.plan.types[self._targets[name]])
            try:
                return runner(arrays, out)
            except EngineError as error:
                results = self._on_another_engine(runner, arrays, error)
        else:
            try:
                results = runner(arrays, {})
            except EngineError as error:
                results = self._on_another_engine(runner, arrays, error)
        for name, buffer in out.items():
            _require_type(name, buffer, TensorType(results[name].shape, results[name].dtype))
            np.copyto(buffer, results[name])
        return {**results, **out}

    def run(self, arrays: Sequence[Array]) -> dict[str, Array]:
        """Compute the outputs, and return them by name.

        arrays: one per input, in the order of `inputs`. They must be C-contiguous and have the inputs' dtypes;
        this is not checked.
        """
        runner = self._runner(key_of_arrays(arrays))
        try:
            return runner(arrays, {})
        except EngineError as error:
            return self._on_another_engine(runner, arrays, error)

    def _refuse_others(self, inputs: Mapping[str, Any]) -> None:
        """Refuse a name that is not an input of the network. Ignore inputs that no output depends on."""
        for name in inputs:
            known = self._network.inputs
            need(
                name in known,
                f"the network has no input '{name}'{nearest(str(name), known)}; its inputs: {', '.join(known)}",
                InputError,
            )

    def _array(self, name: str, inputs: Mapping[str, Any]) -> Array:
        if name not in inputs:
            return absent_input(self._network, name, self._targets)
        known = self._types[name]
        try:
            dtype = known.dtype if known is not None else self._network.input_dtype(name)
            array = np.asarray(inputs[name], dtype)
        except (TypeError, ValueError) as error:
            raise InputError(f"input '{name}' must be an array of numbers: {error}") from None
        return np.asarray(array, order="C")

    def _check_buffers(self, out: Mapping[str, Array], arrays: Sequence[Array]) -> None:
        """Refuse a buffer of an unknown output, one that cannot be written to, and one that shares memory."""
        taken = list(arrays)
        for name, array in out.items():
            if name not in self._targets:
                raise InputError(f"there is no output '{name}'{nearest(name, self._targets)}")
            if not (isinstance(array, np.ndarray) and array.flags.c_contiguous and array.flags.writeable):
                raise InputError(f"out['{name}'] must be a writable C-contiguous array")
            if any(np.may_share_memory(array, other) for other in taken):
                raise InputError(f"out['{name}'] must share no memory with an input or another output")
            taken.append(array)

    def _runner(self, key: InputKey) -> Runner:
        if self._asked == "numpy":
            return self._numpy
        runner = self._runners.get(key)
        if runner is not None:
            if len(self._runners) > 1:
                with suppress(KeyError):  # another thread may have dropped it
                    self._runners.move_to_end(key)
            return runner
        program = self._open
        if program is not None and program.takes(key):
            return program
        # A thread inside a user's forward does not wait for the lock: the thread that compiles may be waiting for
        # that forward to end.
        held = self._lock.acquire(blocking=not in_user_code())
        try:
            return self._runners.get(key) or self._compiled(key)
        finally:
            if held:
                self._lock.release()

    def _compiled(self, key: InputKey) -> Runner:
        """Compile for these input types and keep the program. Raise LayerError if a user's forward, which this
        compilation calls, calls the model with the same types.
        """
        mine = (threading.get_ident(), key)
        need(
            mine not in self._compiling,
            "its forward calls the model that it is part of, which is being compiled for the same shapes. Define "
            "getMemoryShapes, so that forward is not called for the shapes, or call another model",
        )
        self._compiling.add(mine)
        try:
            if len(self._seen) >= _SIZES_COMPILED:
                self._open_varied(key)
                if self._open is not None and self._open.takes(key):
                    return self._open
            start = time.perf_counter()
            runner = self._runners[key] = self._compile(key)
            self._seen[key] = time.perf_counter() - start
        finally:
            self._compiling.discard(mine)
        while len(self._runners) > SHAPES_KEPT:
            self._runners.popitem(last=False)
        return runner

    def _compile_open(self, sizes: OpenSizes) -> None:
        """Compile one program for every size that the caller leaves open. Warn where that cannot be done."""
        types = dict(self._types)
        try:
            traces = trace_open(self._network, self._definitions, types, sizes, self._targets)
            keys = [key_of(traces.sizes.types(types, symbols)) for symbols in verified_sizes(traces.sizes)]
            references = [Reference(key, self._compile(key)) for key in keys[:_COMPARED]]
            self._open = self._fastest_open(traces, references, keys)
            self.plan, self.engine = self._open.runner.plan, self._open.engine
        except AnyLayerError as error:
            warn(
                f"there is no program for every size, so each set of input shapes is compiled: {error}",
                stacklevel=4,
            )
        self._types = {name: None if name in sizes.shapes else kind for name, kind in types.items()}

    def _open_varied(self, key: InputKey) -> None:
        """Compile one program for all values of the sizes that have varied between calls, if that makes first
        calls faster. `key` has the input types of the next call.
        """
        before = [key_of(self._open.types)] if self._open is not None else []
        keys = [*self._seen, key]
        sizes = varied_sizes(self._names, [*before, *keys])
        seconds = min(self._seen.values())
        kept = sorted((k for k in self._seen if k in self._runners), key=volume)[:_COMPARED]
        self._seen.clear()
        several = self.plan is None or self.plan.host_calls or self.plan.native
        if sizes is None or several or sizes in self._attempts or len(self._attempts) >= _MAX_ATTEMPTS:
            return
        self._attempts.append(sizes)
        types = {name: TensorType(*kind) for name, kind in zip(self._names, key)}
        with suppress(AnyLayerError):
            traces = trace_open(self._network, self._definitions, types, sizes, self._targets)
            references = [Reference(k, self._runners[k], seconds) for k in kept]
            self._open = self._fastest_open(traces, references, keys)
            self.engine = self._open.engine

    def _fastest_open(
        self, traces: OpenTraces, references: Sequence[Reference], keys: Sequence[InputKey]
    ) -> OpenProgram:
        able = suited(installed(self._device), references, self._precision, self._exact)

        def compiled(engine: str) -> OpenProgram:
            return open_program(traces, self._names, engine, self._plan_runner, exact=self._exact)

        return fastest_open(able if self._asked == "auto" else [self.engine], compiled, references, keys)

    def _plan_runner(self, plan: Plan, engine: str) -> PlanRunner:
        return PlanRunner(plan, engine, self._threads, self._precision, self._exact)

    def _compile(self, key: InputKey) -> PlanRunner:
        types = {name: TensorType(shape, dtype) for name, (shape, dtype) in zip(self._names, key)}
        for note in transposed_inputs(self._network, {name: t.shape for name, t in types.items()}):
            warn(note, stacklevel=6)
        checker = "onnxruntime" if self.engine == "auto" else self.engine
        plan = make_plan(self._network, self._definitions, types, self._targets, check=_compiler(checker))
        if self.plan is None:
            self.plan = plan
            self._types = dict(types)
        if plan.host_calls and not self._warned:
            self._warned = True
            lines = [f"layer '{n}' ({t}) runs in Python: {reason}" for n, t, reason in plan.host_calls]
            warn("; ".join(lines), stacklevel=6)
        if self.engine != "auto":
            if self._parts:
                with suppress(EngineError):
                    return self._plan_runner(with_parts(plan, self._parts), self.engine)
            try:
                return self._plan_runner(plan, self.engine)
            except EngineError as error:  # the fastest engine may not support these shapes
                if self._asked != "auto":
                    raise self._name_able(error, partial(self._plan_runner, plan)) from None
        with quiet_runs(plan):
            return self._fastest(plan)

    def _fastest(self, plan: Plan) -> PlanRunner:
        """Compile on the installed engines, and keep the fastest, or several together, for all later shapes."""
        runners: dict[str, PlanRunner] = {}
        refusals: list[EngineError] = []
        graphs = [step.graph for step in plan.steps if isinstance(step, GraphStep)]
        for name, engine in installed(self._device).items():
            if not (engine.GENERAL if self._exact else engine.suits(graphs)):
                continue
            try:
                _require_precision(name, self._precision)
                runners[name] = self._plan_runner(plan, name)
            except EngineError as error:
                refusals.append(error)
        if not runners:
            raise refusals[0] if refusals else EngineError(_nothing_on(self._device))
        tried = set(runners)
        if len(runners) > 1:
            runners = self._trusted(runners, plan)
        if len(runners) > 1 or (runners and kinds_of_layers(plan)):
            self.timings = _measure(runners, plan)
        self.engine = min(self.timings, key=self.timings.__getitem__) if self.timings else next(iter(runners))
        return self._divided(plan, runners, tried)

    def _divided(self, plan: Plan, runners: Mapping[str, PlanRunner], tried: set[str]) -> PlanRunner:
        """Return the runner of the fastest engine, or a faster one on several engines. Keep its parts for later
        shapes. tried: the engines that can run the whole network, even if their outputs are wrong.
        """
        alone = runners[self.engine]
        there = installed("cpu") if self._device in ("", "cpu") else {}
        able = {name: there[name] for name in runners if name in there}
        if self.engine not in able or not self.timings:
            return alone
        others = {n: e for n, e in there.items() if not (e.GENERAL or self._exact or n in tried)}
        compile_ = self._plan_runner
        finder = PairFinder(able, others, self.timings, self._threads, self._exact, compile_, self._numpy_run)
        best, self._parts = fastest_split(finder, plan, alone, self.engine, self._precision == "float32")
        if best.runner is not alone:
            self.timings = {**self.timings, best.name: best.seconds}
            self.plan = best.runner.plan if self.plan is plan else self.plan
        return best.runner

    def _numpy_run(self, arrays: Sequence[Array]) -> Mapping[str, Array]:
        """Run the network as its layers in NumPy define it."""
        return NumpyRunner(self._network, self._definitions, self._targets)(arrays, {})

    def _trusted(self, runners: Mapping[str, PlanRunner], plan: Plan) -> dict[str, PlanRunner]:
        """Return the runners whose outputs on noise are correct. Warn about each of the others."""
        runs = {name: partial(runner, out={}) for name, runner in runners.items()}
        kept, wrong = trusted(runs, uniform_noise(plan.inputs.values()), self._numpy_run)
        for name, how in wrong.items():
            warn(
                f"engine '{name}' is not used: {how}. anylayer verify --engine {name} names the layer",
                stacklevel=7,
            )
        return {name: runners[name] for name in kept}

    def _on_another_engine(self, runner: Runner, arrays: Sequence[Array], error: EngineError) -> dict[str, Array]:
        """Run a call on another engine, because the engine that "auto" has chosen refuses it, and keep that
        engine.

        If a program for every size raised the error, the call runs on a program for its own size. Raises `error`
        if no other engine runs the call.
        """
        if isinstance(runner, OpenProgram):
            key = key_of_arrays(arrays)
            runner.refuse(key)
            return self._runner(key)(arrays, {})
        plan = whole(runner.plan) if isinstance(runner, PlanRunner) else None
        paired = isinstance(runner, PlanRunner) and plan is not runner.plan
        for name, engine in installed(self._device).items() if self._asked == "auto" else ():
            if engine.GENERAL and plan is not None and (paired or name != self.engine):
                try:
                    other = self._plan_runner(plan, name)
                    results = other(arrays, {})
                except EngineError:
                    continue
                with self._lock:
                    self.engine, self._open, self._parts = name, None, []
                    self.plan = whole(self.plan) if self.plan is not None else None
                    self._runners.clear()
                return results
        if plan is not None and self._asked != "auto":
            self._name_able(error, lambda name: self._plan_runner(plan, name)(arrays, {}))
        raise error

    def _name_able(self, error: EngineError, run: Callable[[str], object]) -> EngineError:
        return name_able(error, {**installed(self._device), self.engine: None}, run, self._precision)


def _nothing_on(device: str) -> str:
    """Return the error message for the case that no engine, or no engine for this device, is installed."""
    if device in ("", "cpu"):
        return "no engine is installed: pip install onnxruntime"
    return (
        f"no installed engine computes on device '{device}'. NVIDIA's GPUs (cuda) need onnxruntime-gpu or "
        "tensorrt, Intel's (gpu) need openvino and a driver"
    )


def _require_type(name: str, buffer: Array, wanted: TensorType) -> None:
    """Refuse a buffer of another shape or dtype than its output."""
    if buffer.shape == wanted.shape and buffer.dtype == wanted.dtype:
        return
    need(
        all(isinstance(d, int) for d in wanted.shape),
        f"the size of output '{name}' ({wanted}) depends on data, so it cannot have a buffer",
        InputError,
    )
    raise InputError(f"out['{name}'] must be {wanted}, got {TensorType(buffer.shape, buffer.dtype)}")


def _require_precision(engine: str, precision: str) -> None:
    able = list(load_engine(engine).PRECISIONS)
    need(precision in able, f"engine '{engine}' computes in {', '.join(able)}, got '{precision}'", EngineError)


def _compiler(engine: str) -> Compiler:
    return lambda graph: load_engine(engine).compile(graph, 1)


def _measure(runners: Mapping[str, PlanRunner], plan: Plan) -> dict[str, float]:
    """Return the seconds of each runner's call on noise."""
    arrays = uniform_noise(plan.inputs.values())
    return timed_in_turns({name: partial(runner, arrays, {}) for name, runner in runners.items()})
