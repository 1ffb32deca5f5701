"""Net: a network with the interface of cv2.dnn.Net."""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from anylayer import api
from anylayer.errors import EngineError, InputError, given, need, need_one_of, plural, writing
from anylayer.libraries.whole import write_whole
from anylayer.network import Array, DType, Network
from anylayer.opencv import constants as c
from anylayer.opencv import registry
from anylayer.opencv.blob import Numbers, scalar
from anylayer.opencv.buffers import NetworkFiles, content, network_files
from anylayer.opencv.errors import converted
from anylayer.opencv.layer import Layer, set_weight
from anylayer.opencv.measures import Row, dot, shapes_of
from anylayer.opencv.table import FIRST, LAST, LayerEntry, LayerTable, layouts_of, table_of
from anylayer.runtime.model import Model

_ENGINES = {c.DNN_BACKEND_INFERENCE_ENGINE: "openvino"}
"""The engine for a backend; "auto" for each other one."""
_CPU = (c.DNN_TARGET_CPU, c.DNN_TARGET_CPU_FP16)

Shape = Sequence[int]


class AsyncArray:
    """The result of forwardAsync, which may not be computed yet."""

    def __init__(self, future: Future[Array]) -> None:
        self._future = future

    @converted
    def get(self, timeoutNs: float | None = None) -> Any:
        """Return the array. With a timeout, return (True, array), or (False, None) if it is not ready in time."""
        if timeoutNs is None:
            return self._future.result()
        return (True, self._future.result()) if self.wait_for(timeoutNs) else (False, None)

    def wait_for(self, timeoutNs: float) -> bool:
        """Wait at most this many nanoseconds, and return whether the array is ready."""
        try:
            self._future.exception(timeout=timeoutNs / 1e9)
        except TimeoutError:
            return False
        return True

    def valid(self) -> bool:
        """Return whether there is a result to wait for."""
        return True


class LayerNumber(int):
    """The number of a layer, which is also a list of one number: `i[0]`, as scripts for OpenCV 3 take it."""

    def __getitem__(self, index: int) -> int:
        return [int(self)][index]


class LayerNumbers(np.ndarray[tuple[int], np.dtype[np.int32]]):
    """An array of numbers of layers. A loop over it gives LayerNumber."""

    def __iter__(self) -> Any:
        return map(LayerNumber, self.tolist())


class Net:
    """A network with the interface of cv2.dnn.Net.

    Layers are named and numbered as OpenCV does (see table_of). Images are NCHW, also for networks of TensorFlow,
    TFLite and Keras. A network is compiled when it first runs, for the input shapes that it gets; layers that are
    registered later do not change it. `net` is the anylayer.Net.
    """

    def __init__(self, source: NetworkFiles | None = None) -> None:
        self._source = source
        self._changes = -1
        self._net: api.Net | None = None
        self._table = LayerTable([], [])
        self._layouts: Mapping[str, str] = {}
        self._is_caffe = False
        self._names: dict[str, str] = {}
        self._dtypes: dict[str, DType] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._given: dict[str, Array] = {}
        self._models: dict[tuple[str, ...], Model] = {}
        self._default: tuple[str, ...] = ()
        self._engine = "auto"
        self._ticks = 0
        self._pool: ThreadPoolExecutor | None = None
        if source is not None:
            self._read(source)

    def _read(self, source: NetworkFiles) -> None:
        """Read the network with the layers that are registered now."""
        self._changes = registry.changes()
        net = self._net = source.read(registry.registered())
        self._table, self._layouts = table_of(net.network), layouts_of(net.network)
        last = self._table.last
        self._default = tuple(last.values[:1]) if last is not None and last.number else ()
        self._is_caffe = net.network.format == "caffe"
        inputs = net.network.inputs
        self._names = dict(zip(self._names or inputs, inputs))
        self._dtypes = {name: net.network.input_dtype(name) for name in inputs}

    def _checked(self) -> api.Net:
        """Return the network, read again if other layers are registered and it has not run yet."""
        if self._source is not None and self._changes != registry.changes():
            self._read(self._source)
        return given(self._net, "the network is empty; read one with readNet", InputError)

    def _net_in_use(self) -> api.Net:
        """Return the network, which keeps its layers' classes from now on."""
        net = self._checked()
        self._source = None
        return net

    @property
    def net(self) -> api.Net:
        """The network as anylayer reads it, for what OpenCV does not have: `net.write("net.onnx")`."""
        return self._checked()

    def __repr__(self) -> str:
        return f"<anylayer.opencv.Net: {self._net!r}>"

    # What the network is

    def empty(self) -> bool:
        """Return whether there is no network."""
        return self._net is None

    @converted
    def getLayerNames(self) -> tuple[str, ...]:
        """Return the names of the layers 1, 2, ..."""
        if self._net is not None:
            self._checked()
        return tuple(entry.name for entry in self._table.entries[1:])

    @converted
    def getLayerId(self, layer: str) -> int:
        """Return the number of a layer, -1 if no layer has this name."""
        self._checked()
        entry = self._table.by_name.get(layer)
        return -1 if entry is None else entry.number

    @converted
    def getLayer(self, layerId: int | str) -> Layer:
        """Return a layer by its number or name."""
        network = self._net_in_use().network
        return Layer(network, self._table.find(layerId), self._models.clear)

    @converted
    def getLayerTypes(self) -> tuple[str, ...]:
        """Return the types of the layers, sorted, with that of the input layer."""
        self._checked()
        return tuple(sorted({*(entry.type for entry in self._table.entries[1:]), "__NetInputLayer__"}))

    @converted
    def getLayersCount(self, layerType: str) -> int:
        """Return how many layers have a type."""
        self._checked()
        return sum(entry.type == layerType for entry in self._table.entries[1:])

    @converted
    def getUnconnectedOutLayers(self) -> LayerNumbers:
        """Return the numbers of the layers whose outputs are the network's outputs.

        The array has one axis, as since OpenCV 4.5.4. Scripts for older versions, which take `i[0]` of each
        number, work, too.
        """
        self._checked()
        return np.array([entry.number for entry in self._table.outputs], np.int32).view(LayerNumbers)

    @converted
    def getUnconnectedOutLayersNames(self) -> tuple[str, ...]:
        """Return the names of the layers whose outputs are the network's outputs."""
        self._checked()
        return tuple(entry.name for entry in self._table.outputs)

    @converted
    def getParam(self, layer: int | str, numParam: int = 0) -> Array:
        """Return one of a layer's weights."""
        return self.getLayer(layer).weight(numParam)

    @converted
    def setParam(self, layer: int | str, numParam: int, blob: Array) -> None:
        """Replace one of a layer's weights."""
        set_weight(self._net_in_use().network, self._table.find(layer), numParam, blob)
        self._models.clear()

    # What it costs

    @converted
    def getLayersShapes(self, netInputShapes: Any) -> tuple[Any, Any, Any]:
        """Return the numbers of the layers, and the shapes of their inputs and outputs."""
        rows = self._layer_shapes(netInputShapes)
        arrays = [[tuple(np.array(s, np.int32) for s in shapes) for shapes in row] for row in rows]
        numbers = np.array([entry.number for entry in self._table.entries], np.int32)
        return numbers, tuple(row[0] for row in arrays), tuple(row[1] for row in arrays)

    @converted
    def getFLOPS(self, netInputShapes: Any) -> int:
        """Return the number of operations of one run: two for each multiply-add."""
        return 2 * self._net_in_use().inspect(self._shapes_by_name(netInputShapes)).totals["macs"]

    @converted
    def getMemoryConsumption(self, netInputShape: Any) -> tuple[int, int]:
        """Return the bytes of all weights, and those of the outputs of all layers, including the input layer."""
        rows = self._layer_shapes(netInputShape)
        weights = sum(blob.nbytes for node in self._net_in_use().network.nodes for blob in node.blobs)
        return weights, sum(4 * math.prod(shape) for _, outputs in rows for shape in outputs)

    @converted
    def getPerfProfile(self) -> tuple[int, NDArray[np.float64]]:
        """Return the ticks of the last run (cv2.getTickFrequency per second), and 0 for each layer.

        Engines fuse layers, so a layer's share of a run is not known; `anylayer profile` measures each layer
        alone.
        """
        frequency = getattr(sys.modules.get("cv2"), "getTickFrequency", lambda: 1e9)()
        return round(self._ticks * frequency / 1e9), np.zeros(max(0, len(self._table.entries) - 1))

    def _layer_shapes(self, shapes: object) -> list[Row]:
        """Return (input shapes, output shapes) of each layer."""
        return shapes_of(self._net_in_use(), self._table, self._shapes_by_name(shapes), self._layouts)

    def _shapes_by_name(self, shapes: Any) -> dict[str, tuple[int, ...]]:
        """Return input shapes by name, in the file's order of axes; `shapes` is one shape or one per input."""
        several = list(shapes)
        if several and not np.iterable(several[0]):
            several = [several]
        by_name = self._by_input(several, "shape")
        return {name: self._shape_in_file(name, shape) for name, shape in by_name}

    def _by_input(self, values: Sequence[Any], what: str) -> list[tuple[str, Any]]:
        """Return each input's name with its value. Raise InputError unless there is one value per input."""
        inputs = list(self._checked().network.inputs)
        count = plural(len(inputs), "input")
        need(len(values) == len(inputs), f"the network has {count}, got {plural(len(values), what)}", InputError)
        return list(zip(inputs, values))

    def _shape_in_file(self, name: str, shape: Shape) -> tuple[int, ...]:
        sizes = tuple(int(d) for d in shape)
        order = LAST.get(len(sizes)) if self._layouts.get(name) == "NHWC" else None
        return tuple(sizes[i] for i in order) if order else sizes

    # How it runs

    @converted
    def setPreferableBackend(self, backendId: int) -> None:
        """Choose OpenVINO for DNN_BACKEND_INFERENCE_ENGINE, the fastest installed engine for every other one."""
        engine = _ENGINES.get(backendId, "auto")
        if engine != self._engine:
            self._engine = engine
            self._models.clear()

    @converted
    def setPreferableTarget(self, targetId: int) -> None:
        """Accept a target. Networks run on the CPU; a warning says so for any other target."""
        if targetId not in _CPU:
            warnings.warn(f"target {targetId} is not used: the network runs on the CPU", stacklevel=3)

    def enableFusion(self, fusion: bool) -> None:
        """Do nothing: engines fuse layers where results stay the same."""

    def enableWinograd(self, useWinograd: bool) -> None:
        """Do nothing: engines choose how they compute convolutions."""

    @converted
    def setInputsNames(self, inputBlobNames: Sequence[str]) -> None:
        """Call the inputs by other names, in their order."""
        self._names = {name: file_name for file_name, name in self._by_input(list(inputBlobNames), "name")}

    @converted
    def setInputShape(self, inputName: str, shape: Shape) -> None:
        """State the shape of an input, for networks whose file has none."""
        self._checked()
        name = self._input(inputName)
        self._shapes[name] = self._shape_in_file(name, shape)
        self._models.clear()

    def _input(self, name: str) -> str:
        """Return an input's name in the file; "" is the first one."""
        names = self._names
        if not name:
            return next(iter(names.values()))
        need_one_of(name, names, f"there is no input '{name}'", "inputs")
        return names[name]

    @converted
    def setInput(self, blob: Array, name: str = "", scalefactor: float = 1.0, mean: Numbers | None = None) -> None:
        """Set an input, the first one by default, to (blob - mean) * scalefactor. `mean` is per channel."""
        if self._source is not None or self._net is None:
            self._checked()
        key = self._names[name] if name in self._names else self._input(name)
        array = np.asarray(blob)
        if array.dtype.kind not in "biuf" and array.dtype != self._dtypes[key]:
            raise InputError(f"input '{key}' must be an array of numbers, got {array.dtype}")
        if scalefactor != 1.0 or mean is not None:
            array = _scale(array, scalefactor, scalar(() if mean is None else mean))
        if array.ndim in LAST and self._layouts.get(key) == "NHWC":
            array = array.transpose(LAST[array.ndim])
        buffer = self._given.get(key)
        if buffer is not None and buffer.shape == array.shape:
            buffer[...] = array
        else:
            self._given[key] = np.array(array, self._dtypes[key], order="C")

    @converted
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the network, and return outputs of layers.

        forward() returns the output of the last layer. forward(name) returns the first output of a layer.
        forward(names), with a list or tuple, returns a tuple with the first output of each layer.
        forward(outputBlobs, name) and forward(names, outputBlobs) return a tuple of arrays; the arrays that are
        given are not written to, as in OpenCV's Python interface where they do not fit.
        """
        if not args and not kwargs:
            return self._run(self._default)[0]
        named = kwargs.pop("outBlobNames", None)
        blobs = kwargs.pop("outputBlobs", None)
        name = kwargs.pop("outputName", None)
        need(not kwargs, f"forward has no argument '{next(iter(kwargs), '')}'", InputError)
        rest = list(args)
        if rest and (isinstance(rest[0], str) or _is_names(rest[0])):
            named = rest.pop(0)
        elif rest:
            blobs = rest.pop(0)
            blobs = () if blobs is None else blobs
            name = rest.pop(0) if rest else name
        names = named if named is not None else name if name is not None else ""
        if isinstance(names, str):
            entry = self._find(names)
            return self._run(tuple(entry.values)) if blobs is not None else self._run(tuple(entry.values[:1]))[0]
        return self._run(tuple(self._find(one).values[0] for one in names))

    @converted
    def forwardAndRetrieve(self, outBlobNames: Sequence[str]) -> tuple[tuple[Array, ...], ...]:
        """Run the network, and return all outputs of each of the layers."""
        entries = [self._find(name) for name in outBlobNames]
        values = tuple(dict.fromkeys(value for entry in entries for value in entry.values))
        results = dict(zip(values, self._run(values)))
        return tuple(tuple(results[value] for value in entry.values) for entry in entries)

    @converted
    def forwardAsync(self, outputName: str = "") -> AsyncArray:
        """Start a run with the inputs that are set now, and return an AsyncArray, which waits for the result."""
        values = tuple(self._find(outputName).values[:1])
        given, self._given = self._given, {name: array.copy() for name, array in self._given.items()}
        self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="anylayer-forward")
        return AsyncArray(self._pool.submit(lambda: self._run(values, given)[0]))

    def _find(self, name: str) -> LayerEntry:
        """Return a layer whose output is asked for: by its name, or the last one for ""."""
        self._checked()
        entry = self._table.find(name) if name else given(self._table.last, "the network is empty", InputError)
        need(entry.number > 0, "the input layer has no output to compute", InputError)
        need(entry.values, f"layer '{entry.name}' has no outputs", InputError)
        return entry

    def _run(self, values: tuple[str, ...], given: Mapping[str, Array] | None = None) -> tuple[Array, ...]:
        """Compute values from the inputs that are set, and return them as NCHW."""
        model = self._models.get(values) or self._compile(values)
        start = time.perf_counter_ns()
        results = model(self._given if given is None else given)
        self._ticks = time.perf_counter_ns() - start
        return tuple([self._as_opencv(value, results[value]) for value in values])

    def _as_opencv(self, value: str, array: Array) -> Array:
        """Return an output as OpenCV does: images as NCHW, and as in OpenCV 4 a column for one axis in Caffe."""
        if array.ndim in FIRST and self._layouts and self._layouts.get(value) == "NHWC":
            return np.ascontiguousarray(array.transpose(FIRST[array.ndim]))
        return array.reshape(-1, 1) if array.ndim < 2 and self._is_caffe else array

    def _compile(self, values: tuple[str, ...]) -> Model:
        """Compile the network for values, for the shapes that the inputs have now."""
        net = self._net_in_use()
        shapes = {**self._shapes, **{name: a.shape for name, a in self._given.items()}}
        others = list(self._models.values())
        engine = others[0].engine if others else self._engine  # the one that was measured to be the fastest
        try:
            model = net.compile(engine, shapes, outputs=values)
        except EngineError:
            if engine == self._engine:
                raise
            model = net.compile(self._engine, shapes, outputs=values)
        self._models[values] = model
        return model

    # How it is built

    @staticmethod
    @converted
    def readFromModelOptimizer(xml: Any, bin: Any) -> Net:
        """Read an OpenVINO model: the .xml and the .bin, each a path or a buffer."""
        return Net(network_files(content(xml, ".xml"), content(bin, ".bin"), (".xml", ".bin"), "openvino"))

    @converted
    def addLayer(self, *args: Any) -> NoReturn:
        """Raise an error: networks are read, not built."""
        raise InputError(
            "a network is read from a file or buffer; anylayer.caffe.NetSpec writes the text of a new one"
        )

    addLayerToPrev = connect = registerOutput = addLayer

    # Its text

    @converted
    def dump(self) -> str:
        """Return the network as a graph in DOT, the language of Graphviz."""
        network: Network = self._checked().network
        return dot(network, self._table)

    @converted
    def dumpToFile(self, path: str | Path) -> None:
        """Write the network as a graph in DOT."""
        text = self.dump()
        with writing(str(path)):
            write_whole(Path(path), lambda file: file.write(text.encode()))


def _is_names(value: Any) -> bool:
    """Return whether an argument of forward is a list of names of layers, not a list of arrays."""
    return isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)


def _scale(blob: Array, scale: float, mean: Sequence[float]) -> Array:
    """Return (blob - mean) * scale of a blob whose axis 1 is the channels, as float32."""
    array = blob.astype(np.float32)
    if not any(mean):
        return array * np.float32(scale)
    need(
        array.ndim > 1 and array.shape[1] <= len(mean),
        f"a mean needs a blob with 1 to 4 channels on axis 1, got shape {array.shape}",
        InputError,
    )
    shift = np.array(mean[: array.shape[1]], np.float32).reshape(-1, *[1] * (array.ndim - 2))
    return (array - shift) * np.float32(scale)
