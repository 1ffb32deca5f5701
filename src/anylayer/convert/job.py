"""A conversion job: the network, the types of its inputs, and the options of the writer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from anylayer.compile.choices import verified_sizes
from anylayer.compile.inputs import input_arrays
from anylayer.compile.nodes import Definitions
from anylayer.compile.noise import noise
from anylayer.compile.open import open_types, trace_open
from anylayer.compile.symbolic import simplify_sized
from anylayer.compile.whole import Calls, whole
from anylayer.convert.calibration import CalibrationSets
from anylayer.errors import InputError, nearest, need, wording
from anylayer.graph.open_sizes import OpenSizes, parse_sizes
from anylayer.graph.sizes import is_static
from anylayer.layer import Bound
from anylayer.network import Array, Network, Node, TensorType
from anylayer.optimize.simplify import simplify
from anylayer.runtime.run import NumpyRunner
from anylayer.source import Source


class HasOptions(Protocol):
    """A writer or a generator's target. WHAT describes its output, and OPTIONS are the names of its options."""

    WHAT: str
    OPTIONS: Collection[str]


@dataclass(frozen=True, slots=True)
class Job:
    """The arguments of a conversion.

    `types` are the types of the network's inputs. `calls` says which layers stay calls in the file. `options` are
    the writer's. `sizes` are the sizes that stay open in the file, or None where all are numbers. If `by_node` is
    not None, the graph of each node is simplified on its own, with the rules for this target, and the whole graph
    is not.
    """

    network: Network
    definitions: Definitions
    types: Mapping[str, TensorType | None]
    calls: Calls = field(default_factory=Calls)
    options: Mapping[str, Any] = field(default_factory=dict)
    sizes: OpenSizes | None = None
    by_node: str | None = None

    def source(self, outputs: Mapping[str, str]) -> Source:
        """Return the traced network as the input of a writer. outputs: name of the output in the file -> name of
        its value.

        With open sizes, the network is traced at two choices of sizes, and the source has the guards of both
        traces.
        """
        if self.sizes is None:
            rewrite = None if self.by_node is None else partial(simplify, engine=self.by_node, exact=True)
            return whole(self.network, self.definitions, self.types, outputs, self.calls, rewrite)
        traces = trace_open(
            self.network,
            self.definitions,
            self.types,
            self.sizes,
            outputs,
            self.calls,
            by_node=self.by_node,
            relax=True,
        )
        return traces.source(simplify_sized if self.by_node is None else None)

    def with_open_batch(self) -> Job:
        """Return the job with an open batch size "N", where the inputs have a batch and no sizes are open."""
        types, sizes = _with_batch(self.network, self.types, self.sizes, "N")
        return replace(self, types=types, sizes=sizes)

    def input_arrays(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Return the inputs as arrays of the network's types. Raises InputError where one is missing."""
        return input_arrays(self.network, inputs)

    def inputs_to_compare(self, sizes: OpenSizes | None) -> list[dict[str, Array]]:
        """Return the inputs to verify on where the caller gives none: noise, or the first set of a calibration."""
        calibrate = self.options.get("calibrate", ())
        return [calibrate[0]] if calibrate else self.noise(0, sizes)

    def noise(self, seed: int, sizes: OpenSizes | None, scale: float = 1) -> list[dict[str, Array]]:
        """Return seeded inputs to verify on: one set, or one for each of five choices of open sizes.

        scale: the standard deviation of floats.

        If the guards allow no sizes other than those that were traced, the inputs have the traced sizes. sizes:
        the open sizes with the guards of a source.
        """
        if sizes is None:
            return [noise(self.network, self.definitions, self.types, seed, scale)]
        return [
            noise(self.network, self.definitions, sizes.types(self.types, symbols), seed, scale)
            for symbols in verified_sizes(sizes) or sizes.traced
        ]

    def part(self, inputs: Mapping[str, Array], values: Mapping[str, Array]) -> tuple[Network, dict[str, Array]]:
        """Return the network whose inputs are its own and `values`, and all these inputs."""
        feed = {**inputs, **values}
        nodes = [node for node in self.network.nodes if not {*node.outputs} & {*values}]
        types = {n: TensorType.of(x.shape, x.dtype) for n, x in feed.items()}
        return replace(self.network, inputs={**types}, nodes=nodes), feed

    def numpy(
        self,
        inputs: Mapping[str, Array],
        outputs: Mapping[str, str],
        values: Mapping[str, Array] = MappingProxyType({}),
    ) -> dict[str, Array]:
        """Return what the layers compute in NumPy, by the names of outputs. values: see `part`."""
        network, feed = self.part(inputs, values)
        return NumpyRunner(network, self.definitions, outputs).run(feed)

    def in_float64(
        self,
        inputs: Mapping[str, Array],
        outputs: Mapping[str, str],
        values: Mapping[str, Array] = MappingProxyType({}),
        change: Callable[[Array], Array] = lambda x: x,
    ) -> dict[str, Array]:
        """Return what the layers compute in NumPy in float64, by the names of outputs.

        values: see `part`. change: a function of each array that a layer returns.
        """

        def wide(x: Array) -> Array:
            return x.astype(np.float64) if x.dtype == np.float32 else x

        def watch(node: Node, bound: Bound, inputs: list[Array | None], outputs: list[Array]) -> None:
            outputs[:] = [change(wide(np.asarray(x))) for x in outputs]  # constants inside a node are float32

        network, feed = self.part({n: wide(x) for n, x in inputs.items()}, {n: wide(x) for n, x in values.items()})
        nodes = [replace(node, blobs=[wide(np.asarray(b)) for b in node.blobs]) for node in network.nodes]
        dtype = np.dtype(np.float64) if network.dtype is not None else None
        network = replace(network, nodes=nodes, dtype=dtype)
        runner = NumpyRunner(network, self.definitions, outputs)
        *_, results = runner.steps(feed, watch)
        return {public: results[value] for public, value in outputs.items()}


def job_of(
    network: Network,
    definitions: Definitions,
    shapes: Mapping[str, Sequence[int | str]] | None,
    writer: HasOptions,
    options: Mapping[str, Any],
) -> Job:
    """Return the job that the options of Net.write describe. An option that is None, False or empty is not given.

    Raises InputError for an option that the writer does not have.
    """
    chosen_options = {
        name: value for name, value in options.items() if value is not False and value not in (None, (), [])
    }
    for name in chosen_options:
        need(
            name in writer.OPTIONS,
            f"{_option(name)}: {writer.WHAT} has no such option{nearest(name, writer.OPTIONS)}; its options: "
            f"{', '.join(map(_option, sorted(writer.OPTIONS))) or 'none'}",
            InputError,
        )
    _need_flags(writer, chosen_options)
    functions, keep, batch = (
        chosen_options.get("functions", ()),
        chosen_options.get("keep", ()),
        chosen_options.get("batch"),
    )
    if functions is True:
        functions = [t for t, classes in definitions.items() if any(not d.built_in for d in classes)]
    layout: str = getattr(writer, "LAYOUT", "")
    quantized: bool = (
        getattr(writer, "QUANTIZED", False) and chosen_options.get("precision", "float32") == "float32"
    )
    calls = Calls(frozenset(functions) - frozenset(keep), frozenset(keep), layout, quantized=quantized)
    types, sizes = open_types(network, shapes)
    if batch is not None and batch is not False:
        types, sizes = _with_batch(network, types, sizes, batch)
    if "calibrate" in chosen_options:
        chosen_options["calibrate"] = CalibrationSets(chosen_options["calibrate"], network, types, sizes)
    return Job(network, definitions, types, calls, chosen_options, sizes)


def _need_flags(writer: HasOptions, options: Mapping[str, Any]) -> None:
    """Raise InputError if an option that takes True or False has another value."""
    declared = signature(getattr(writer, "write", _with_batch)).parameters
    for name, value in options.items():
        flag = name in declared and str(declared[name].annotation).startswith("bool")
        need(not flag or isinstance(value, bool), f"{_option(name)} is true or false, got {value!r}", InputError)


def _with_batch(
    network: Network, types: Mapping[str, TensorType | None], sizes: OpenSizes | None, batch: int | str
) -> tuple[dict[str, TensorType | None], OpenSizes | None]:
    """Return the types and the open sizes of the inputs after the batch size is set.

    batch: a number, which becomes the first size in the types; or a name, or True for the name "N", which becomes
    an open first size.
    """
    batched = batched_inputs(network, types)
    shaped = [name for name in batched if sizes is not None and name in sizes.shapes]
    need(
        not shaped, f"the batch of input '{shaped[0] if shaped else ''}' is given by its shape already", InputError
    )
    need_one_batch(first_sizes(types, batched))
    if batch is not True and isinstance(batch, int):
        return with_batch(types, batch, batched), sizes
    name = "N" if batch is True else str(batch)
    shapes: dict[str, Sequence[Any]] = dict(sizes.shapes) if sizes is not None else {}
    for input_name in batched:
        kind = types[input_name]
        if kind is not None and kind.shape:
            shapes[input_name] = (name, *kind.shape[1:])
    return dict(types), parse_sizes(shapes, network.dtypes)


def first_sizes(types: Mapping[str, TensorType | None], names: Collection[str]) -> dict[str, int]:
    """Return the first sizes of these inputs where they are numbers."""
    kinds = {name: kind for name in names if (kind := types[name]) is not None and is_static(kind.shape[:1])}
    return {name: kind.shape[0] for name, kind in kinds.items() if kind.shape}


def need_one_batch(firsts: Mapping[str, int]) -> None:
    """Raise InputError if the first sizes of the inputs differ."""
    shown = ", ".join(f"{name}: {size}" for name, size in firsts.items())
    need(
        len({*firsts.values()}) < 2,
        f"the first sizes of the inputs differ ({shown}), so it is not known which is the batch size: give "
        f"{wording('shapes', '--shape')} instead",
        InputError,
    )


_FLAGS = {
    **{n: n for n in ("functions", "keep", "batch", "layer", "precision", "float32", "calibrate")},
    "dialect": "to-dialect",
}
"""The options of Net.write and Net.generate that have an option of their own on the command line."""


def _option(name: str) -> str:
    """Return how the caller spells a writer's option: as an argument in Python, or on the command line."""
    return wording(name, f"--{_FLAGS.get(name, f'set {name}')}")


def batched_inputs(network: Network, types: Mapping[str, TensorType | None]) -> list[str]:
    """Return the inputs whose first size is the batch size: those with an open first size, or else all."""
    left_open = [name for name, shape in network.open.items() if shape and shape[0] is None]
    return left_open or [name for name, kind in types.items() if kind is None or kind.shape]


def with_batch(
    types: Mapping[str, TensorType | None], batch: int, batched: Collection[str]
) -> dict[str, TensorType | None]:
    """Return the types with `batch` as the first size of the inputs in `batched`."""
    changed = dict(types)
    for name in batched:
        kind = types[name]
        if kind is not None and kind.shape:
            changed[name] = TensorType((batch, *kind.shape[1:]), kind.dtype)
    return changed
