"""Model: a compiled network, with one program per set of input shapes, or one for every size."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from anylayer import runtime
from anylayer.compile.inputs import absent_input, advising_batch, has_open_sizes, input_types, needed_inputs
from anylayer.compile.nodes import Definitions
from anylayer.compile.plan import Plan
from anylayer.engines import engines
from anylayer.errors import AnyLayerError, EngineError, InputError, at, need, need_one_of, plural, warn
from anylayer.layer.exclusive import in_user_code
from anylayer.network import Array, Network, TensorType
from anylayer.runtime.compilation import Compilation, InputKey, key_of, key_of_arrays, require_precision, volume
from anylayer.runtime.order import transposed_inputs
from anylayer.runtime.run import SHAPES_KEPT, NumpyRunner, PlanRunner
from anylayer.source import lost_effects

if TYPE_CHECKING:
    from anylayer.compile.segments import EnginePart
    from anylayer.graph.open_sizes import OpenSizes
    from anylayer.runtime.open import OpenProgram

    Runner: TypeAlias = PlanRunner | NumpyRunner | OpenProgram

_SIZES_COMPILED = 8
"""The number of programs for single sizes after which one program for every size is compiled. To compile that one
takes as long as to compile 2 to 8 others."""
_MEASURED_AGAIN = 8
"""Engine "auto" measures again for inputs with at least so many times more values than those it has measured: det1
of MTCNN takes 16 us on ONNX Runtime and 19 us on OpenVINO at 12 x 12, but 3.0 and 1.2 ms at 240 x 320."""
_SIZES_ALLOWED = 1024
"""The number of sets of input types that are known to fulfil the conditions in the network's file."""


class Model:
    """A network that is compiled for an engine. Safe to call from several threads.

    `inputs` and `outputs` map names to types for the shapes that it was first compiled for; a type is None where
    sizes are open, and before the first call where the file gives no shape. `engine` is the engine in use, or the
    fastest single one where several engines together are faster. `timings` holds the seconds per call that "auto"
    measured on each engine, and on several ("ENGINE+ENGINE"). `host_calls` lists the layers that
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
        need_one_of(base, names, f"there is no engine '{base}'", "engines", EngineError)
        rule = f"engine 'numpy' computes on the CPU only, not on '{device}'"
        need(not device or base != "numpy", rule, EngineError)
        engine, on_device = (base, device) if base == "auto" else (engine, "")
        limit = max(64, 4 * (os.cpu_count() or 1))  # far more threads stall the whole machine
        need(threads is None or 0 < threads <= limit, f"threads must be 1 to {limit}, got {threads}", InputError)
        self._network, self._targets = network, dict(outputs)
        types, sizes = (
            runtime.open.open_types(network, shapes)
            if has_open_sizes(shapes)
            else (input_types(network, shapes), None)
        )
        self._types = {name: types[name] for name in needed_inputs(network, outputs)}
        self._names = list(self._types)
        self._compilation = Compilation(
            network, definitions, self._targets, self._names, engine, on_device, threads, precision, exact
        )
        self._runners: OrderedDict[InputKey, PlanRunner] = OrderedDict()
        self._open: OpenProgram | None = None
        self._allowed: set[InputKey] = set()
        self._seen: dict[InputKey, float] = {}
        self._attempts: list[OpenSizes] = []
        self._warned = False
        self._lock = threading.RLock()
        self._compiling: set[tuple[int, InputKey]] = set()
        self.engine = engine
        self.timings: dict[str, float] = {}
        self._choices: dict[int, tuple[str, Sequence[EnginePart]]] = {}
        self.plan: Plan | None = None
        if engine not in ("auto", "numpy"):
            require_precision(engine, precision)
        need(engine != "numpy" or precision == "float32", "engine 'numpy' computes in float32 only", EngineError)
        opened = sizes.of_inputs(self._names) if sizes is not None else None
        if engine == "numpy":
            self._numpy = self._compilation.numpy()
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
        """Return (node, layer type, reason) for each host call; none on engine "numpy"."""
        return self.plan.host_calls if self.plan else []

    @property
    def parts(self) -> list[tuple[str, list[str]]]:
        """Return (engine, its layers) for each graph in computing order; empty where one engine runs all."""
        return self.plan.engine_layers if self.plan else []

    @property
    def open_sizes(self) -> OpenSizes | None:
        """Return the sizes that one program serves, with their conditions; None where there is no such program."""
        return self._open.sizes if self._open is not None else None

    def __call__(
        self, inputs: Mapping[str, Any] | Array, out: Mapping[str, Array] | None = None
    ) -> dict[str, Array]:
        """Compute the outputs, and return them by name.

        inputs: arrays by name, or one array for a network with one input; each is converted to the input's dtype.
        A name may be another one that the file has for an input, for example that of a signature.
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
        direct: Mapping[str, Array] = {}
        if isinstance(runner, PlanRunner):
            direct = out
            for name, buffer in out.items():
                _require_type(name, buffer, runner.plan.types[self._targets[name]])
        try:
            results = runner(arrays, direct)
        except EngineError as error:
            direct, results = {}, self._on_another_engine(runner, arrays, error)
        if direct:
            return results
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
        names = self._network.inputs
        for name in inputs:
            if self._network.blobs.get(name) not in names:
                need_one_of(name, names, f"the network has no input '{name}'", "its inputs")

    def _array(self, name: str, inputs: Mapping[str, Any]) -> Array:
        if name not in inputs:
            aliases = [other for other, value in self._network.blobs.items() if value == name and other in inputs]
            if not aliases:
                return absent_input(self._network, name, self._targets)
            inputs = {name: inputs[aliases[0]]}
        kind = self._types[name]
        try:
            dtype = kind.dtype if kind is not None else self._network.input_dtype(name)
            array = np.asarray(inputs[name], dtype)
        except (TypeError, ValueError) as error:
            raise InputError(f"input '{name}' must be an array of numbers: {error}") from None
        return np.asarray(array, order="C")

    def _check_buffers(self, out: Mapping[str, Array], arrays: Sequence[Array]) -> None:
        """Refuse a buffer of an unknown output, one that cannot be written to, and one that shares memory."""
        arrays_in_use = list(arrays)
        for name, array in out.items():
            need_one_of(name, self._targets, f"there is no output '{name}'")
            if not (isinstance(array, np.ndarray) and array.flags.c_contiguous and array.flags.writeable):
                raise InputError(f"out['{name}'] must be a writable C-contiguous array")
            if any(np.may_share_memory(array, other) for other in arrays_in_use):
                raise InputError(f"out['{name}'] must share no memory with an input or another output")
            arrays_in_use.append(array)

    def _types_of(self, key: InputKey) -> dict[str, TensorType]:
        return {name: TensorType(shape, dtype) for name, (shape, dtype) in zip(self._names, key)}

    def _runner(self, key: InputKey) -> Runner:
        if self._network.sizes is not None and key not in self._allowed:
            with at(self._network.source):
                self._network.sizes.check(self._types_of(key))
            self._allowed = {key, *self._allowed} if len(self._allowed) < _SIZES_ALLOWED else {key}
        if self._compilation.engine == "numpy":
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
            return self._runners.get(key) or self._compile_new(key)
        finally:
            if held:
                self._lock.release()

    def _compile_new(self, key: InputKey) -> Runner:
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
            self._open = runtime.open.for_given_sizes(self._compilation, types, sizes, self._compile)
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
        seen = {k: (seconds, self._runners.get(k)) for k, seconds in self._seen.items()}
        self._seen.clear()
        if self.plan is not None and not self.plan.host_calls and not self.plan.native:
            with suppress(AnyLayerError):
                program = runtime.open.for_varied_sizes(self._compilation, seen, key, self._open, self._attempts)
                if program is not None:
                    self._open, self.engine = program, program.engine
                    if program.is_as_fast:
                        self._runners.clear()

    def _compile(self, key: InputKey) -> PlanRunner:
        """Compile for these input types, on the engine in use or on the fastest one."""
        types = self._types_of(key)
        for note in transposed_inputs(self._network, {name: t.shape for name, t in types.items()}):
            warn(note, stacklevel=6)
        compilation = self._compilation
        engine, parts = self._choice(volume(key))
        plan = compilation.plan(types, engine)
        if self.plan is None:
            self.plan = plan
            self._types = dict(types)
        if not self._warned:
            lines = [f"layer '{n}' ({t}) runs in Python: {reason}" for n, t, reason in plan.host_calls]
            lines += lost_effects(plan.nodes)
            if lines:
                self._warned = True
                warn("; ".join(lines), stacklevel=6)
        if engine != "auto":
            if parts:
                with suppress(EngineError):
                    return runtime.auto.in_parts(compilation, plan, parts, engine)
            try:
                return compilation.runner(plan, engine)
            except EngineError as error:  # the fastest engine may not support these shapes
                if compilation.engine != "auto":
                    run = partial(compilation.runner, plan)
                    raise runtime.remedy.name_able(compilation, error, run) from None
        fastest = runtime.auto.fastest(compilation, plan)
        self.engine = fastest.engine
        self._choices[volume(key)] = fastest.engine, fastest.parts
        self.timings = fastest.timings or self.timings
        self.plan = fastest.runner.plan if self.plan is plan else self.plan
        return fastest.runner

    def _choice(self, values: int) -> tuple[str, Sequence[EnginePart]]:
        """Return the engine for so many input values, and the parts of several: "auto" where they are measured."""
        if not self._choices:
            return self.engine, []
        if values >= _MEASURED_AGAIN * max(1, *self._choices):
            return "auto", []
        return self._choices[min(self._choices, key=lambda v: max(v, values) / max(min(v, values), 1))]

    def _on_another_engine(self, runner: Runner, arrays: Sequence[Array], error: EngineError) -> dict[str, Array]:
        """Run a call again that an engine refuses: on a program for its own size after one for every size, else on
        another engine that "auto" may use, which is then kept. Raises `error` where there is none.
        """
        if not isinstance(runner, (PlanRunner, NumpyRunner)):
            key = key_of_arrays(arrays)
            runner.refuse(key)
            return self._runner(key)(arrays, {})
        plan = runner.plan if isinstance(runner, PlanRunner) else None
        engine, results = runtime.remedy.on_another_engine(self._compilation, plan, self.engine, arrays, error)
        with self._lock:
            self.engine, self._open = engine, None
            self._choices.clear()
            self.plan = self.plan.whole if self.plan is not None else None
            self._runners.clear()
        return results


def _require_type(name: str, buffer: Array, kind: TensorType) -> None:
    """Refuse a buffer of another shape or dtype than its output."""
    if buffer.shape == kind.shape and buffer.dtype == kind.dtype:
        return
    need(
        all(isinstance(d, int) for d in kind.shape),
        f"the size of output '{name}' ({kind}) depends on data, so it cannot have a buffer",
        InputError,
    )
    raise InputError(f"out['{name}'] must be {kind}, got {TensorType(buffer.shape, buffer.dtype)}")
