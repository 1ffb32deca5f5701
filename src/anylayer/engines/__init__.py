"""Engines: each module of this folder compiles graphs for one runtime. Engine "numpy", which calls each layer's
`forward`, is not in this folder.

An engine is a module `anylayer.engines.<name>`, named after its package on PyPI, that meets the protocol `Engine`.
Operators that it computes wrongly are corrected or refused in corrections/<name>.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from anylayer.errors import EngineError, InputError, nearest, need
from anylayer.folders import load, modules
from anylayer.graph import Graph, Op
from anylayer.layer.native import NativeNode
from anylayer.network import Array


class Program(Protocol):
    """A compiled graph. Safe to call from several threads."""

    def __call__(self, inputs: Sequence[Array], out: Sequence[Array | None] | None = None) -> list[Array]:
        """Compute the outputs. An array in `out` is written to and returned for its output."""


@runtime_checkable
class KeepsOutputs(Program, Protocol):
    """A compiled graph that can leave outputs in the memory of its device, for other programs on this device."""

    def keep(self, outputs: Collection[int]) -> None:
        """Keep these outputs, by index, in the device's memory. For each of them, a call returns an object instead
        of an array. Only programs of the same engine on the same device accept this object as an input.
        """


@dataclass(frozen=True, slots=True)
class Counter:
    """The measurements of an engine for one node of its own optimized graph.

    `name` and `operation` are spelled as in the engine. `seconds` is the mean time of a run. `bytes` is the size
    of the node's inputs, weights and outputs. `holds` are the operators of the compiled graph that the node
    computes. A `reorder` changes only the memory layout; its `holds` are the operators next to it. `precision` is
    NumPy's name of the dtype in which the engine computes, or "" if the engine does not report it.
    """

    name: str
    operation: str
    seconds: float
    bytes: int
    holds: tuple[Op, ...]
    reorder: bool = False
    precision: str = ""


@runtime_checkable
class CountedProgram(Program, Protocol):
    """A compiled graph whose nodes the engine measures. One thread may call it.

    `graph` is the graph that the engine was given, with its corrections.
    """

    graph: Graph

    def reset(self) -> None:
        """Forget what was measured."""

    def counters(self) -> tuple[list[Counter], float]:
        """Return the measurements since `reset`: the nodes in computing order, and the mean seconds of the
        measured calls. It must be called once, as the last method.
        """


class Engine(Protocol):
    """A module that compiles graphs. It may also define the functions of `Optional`.

    PRECISIONS: the precisions in which it can compute, including "float32".
    GENERAL: whether it runs every graph, each operator as the graph has it. An engine that is not general runs
    some graphs only, in its own way, and one sample at a time.
    """

    PRECISIONS: Collection[str]
    GENERAL: bool

    def compile(self, graph: Graph, threads: int | None = None, precision: str = "float32") -> Program:
        """Compile a graph.

        threads: the number of threads; None lets the engine choose. precision: one of PRECISIONS, in which the
        engine computes. Raises EngineError where the engine refuses the graph.
        """


class Optional(Protocol):
    """The functions that an engine may define besides those of `Engine`."""

    def suits(self, graphs: Sequence[Graph]) -> bool:
        """Return whether engine "auto" measures this engine, which is not general, for these graphs."""

    def counted(self, graph: Graph, threads: int | None) -> CountedProgram:
        """Compile a graph so that its nodes are measured."""

    def embeds(self, kernel: NativeNode) -> bool:
        """Return whether the engine runs native layers as operators: see compile.plan.with_native_operators."""

    def embeds_on(self, kernel: NativeNode) -> bool:
        """Return the same for another device than the CPU."""

    def compile_alongside(self, graph: Graph, threads: int | None, precision: str) -> Program:
        """Compile a graph for a plan with graphs of other engines: the program's threads do not spin."""

    def suits_layer(self, graph: Graph) -> bool:
        """Return whether engine "auto" measures this engine for a custom layer or region, whose graph this is."""

    def open_file(
        self, path: Path, values: Collection[str] = ()
    ) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
        """Return a function that runs a file in the engine's own format, from inputs by name to outputs by name.

        values: names of values inside the network. The function also returns those of them that the file contains.
        Raises EngineError where the engine refuses the file.
        """


@runtime_checkable
class HasDevices(Engine, Protocol):
    """An engine that computes on other devices than the CPU.

    DEVICE_PRECISIONS: the precisions in which it can compute there. ON_CPU: whether it also computes on the CPU.
    If not, `compile` compiles for its first device.
    """

    DEVICE_PRECISIONS: Collection[str]
    ON_CPU: bool

    def devices(self) -> list[str]:
        """Return the other devices that are available, for example ["cuda"]."""

    def compile_on(self, graph: Graph, device: str, threads: int | None, precision: str) -> Program:
        """Compile a graph for a device: one of `devices`, with a number for several of a kind ("cuda:1"), or
        "gpu".

        Nothing of it runs on the CPU without a warning. Raises EngineError where the device is not available.
        """


def engines() -> list[str]:
    """Return the names of the engines, whether their packages are installed or not."""
    return [*modules("engines")]


def installed(device: str = "") -> dict[str, Engine]:
    """Return the engines whose packages are installed, by name, the general ones first.

    An engine on another device than the CPU is called ENGINE@DEVICE, and is included if the device is available.
    device: include only engines on this device: "cpu", "gpu" for any other, or a name as in `on_device`.
    """
    by_name: dict[str, Engine] = {}
    for name in engines():
        try:
            engine = load_engine(name)
        except EngineError:
            continue
        devices = engine.devices() if isinstance(engine, HasDevices) and device != "cpu" else []
        if device in ("", "cpu") and is_on_cpu(engine):
            by_name[name] = engine
        for one in devices if device in ("", "gpu") else [device] * any(device.startswith(one) for one in devices):
            by_name[f"{name}@{one}"] = load_engine(f"{name}@{one}")
    return dict(sorted(by_name.items(), key=lambda item: not item[1].GENERAL))


def general() -> list[str]:
    """Return the installed engines that run every graph on the CPU. Raises EngineError if there are none."""
    names = [name for name, engine in installed("cpu").items() if engine.GENERAL]
    need(names, nothing_on("cpu"), EngineError)
    return names


def nothing_on(device: str) -> str:
    """Return the error message for the case that no engine, or no engine for this device, is installed."""
    if device in ("", "cpu"):
        return "no engine is installed: pip install onnxruntime"
    return (
        f"no installed engine computes on device '{device}'. NVIDIA's GPUs (cuda) need onnxruntime-gpu or "
        "tensorrt, Intel's (gpu) need openvino and a driver"
    )


def is_on_cpu(engine: Engine) -> bool:
    """Return whether an engine computes on the CPU."""
    return not isinstance(engine, HasDevices) or engine.ON_CPU


def on_device(engine: str, device: str | None) -> str:
    """Return the name of an engine on a device: "onnxruntime@cuda". None or "" means that none is chosen.

    Raises InputError where the name of the engine has a device already, and EngineError for the CPU where the
    engine computes on GPUs only.
    """
    if not device:
        return engine
    need("@" not in engine, f"engine '{engine}' names a device already; leave out device '{device}'", InputError)
    if device.lower() != "cpu" or engine == "auto":
        return f"{engine}@{device.lower()}"
    only_gpus = engine in engines() and not is_on_cpu(load_engine(engine))
    need(not only_gpus, f"engine '{engine}' computes on GPUs only, not on the CPU", EngineError)
    return engine


def optional(engine: Engine, name: str) -> Any:
    """Return a function of `Optional` that an engine defines, or None."""
    if name not in vars(Optional):
        raise ValueError(f"engines have no optional function '{name}'")
    return getattr(engine, name, None)


def counting(name: str) -> Callable[[Graph, int | None], CountedProgram] | None:
    """Return Optional.counted of an engine. Raises EngineError as load_engine does."""
    return optional(load_engine(name), "counted")


def embedding(name: str) -> Callable[[NativeNode], bool] | None:
    """Return Optional.embeds of an engine, or Optional.embeds_on on another device than the CPU."""
    engine = load_engine(name)
    return optional(engine.engine, "embeds_on") if isinstance(engine, _OnDevice) else optional(engine, "embeds")


def alongside(engine: Engine) -> Callable[[Graph, int | None, str], Program]:
    """Return Optional.compile_alongside of an engine, or its `compile` where it has none."""
    return optional(engine, "compile_alongside") or engine.compile


def suits(engine: Engine, graphs: Sequence[Graph], *, exact: bool = False) -> bool:
    """Return whether "auto" measures an engine for these graphs: a general one always. exact: and no other."""
    suits_graphs = None if exact else optional(engine, "suits")
    return engine.GENERAL or (suits_graphs is not None and bool(suits_graphs(graphs)))


def layer_engines(graph: Graph) -> dict[str, Engine]:
    """Return the engines that "auto" measures for a single custom layer or region, whose graph this is."""
    choices = {name: (engine, optional(engine, "suits_layer")) for name, engine in installed("cpu").items()}
    return {name: engine for name, (engine, suits) in choices.items() if suits is not None and suits(graph)}


@dataclass(slots=True)
class _OnDevice:
    """An engine on a device other than the CPU."""

    engine: HasDevices
    device: str
    PRECISIONS: Collection[str]
    GENERAL: bool

    def compile(self, graph: Graph, threads: int | None = None, precision: str = "float32") -> Program:
        """Compile a graph for the device: see HasDevices.compile_on."""
        return self.engine.compile_on(graph, self.device, threads, precision)


def load_engine(name: str) -> Engine:
    """Return an engine's module, or ENGINE@DEVICE on a device. Raises EngineError if it is not installed."""
    name, _, device = name.partition("@")
    if device:
        engine = load_engine(name)
        if not isinstance(engine, HasDevices):
            raise EngineError(f"engine '{name}' computes on the CPU only, not on device '{device}'")
        return _OnDevice(engine, device, engine.DEVICE_PRECISIONS, engine.GENERAL)
    names = engines()
    if name not in names:
        raise EngineError(f"there is no engine '{name}'{nearest(name, names)}; engines: numpy, {', '.join(names)}")
    try:
        return cast(Engine, load("engines", name))
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("anylayer"):
            raise
        raise EngineError(f"engine '{name}' needs: pip install {name}") from None
