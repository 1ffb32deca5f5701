"""A layer type of a configuration of OpenCL kernels, and an instance of it for one node and set of input types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anylayer.errors import EngineError, LayerError, at, need
from anylayer.kernels import abi
from anylayer.kernels.call import CompiledKernel, Slot
from anylayer.kernels.opencl.configuration import CustomLayer, KernelArgument, read_configuration
from anylayer.kernels.opencl.defines import TYPES, KernelTensor, built_ins, user_defines
from anylayer.kernels.opencl.files import KernelSettings
from anylayer.kernels.params import need_sizes
from anylayer.layer import Definition
from anylayer.layer.bound import stated_types
from anylayer.layer.order import ORDERS
from anylayer.network import ABSENT, MAX_VALUES, Array, DType, Network, Node, TensorType

if TYPE_CHECKING:
    from anylayer.kernels.opencl.call import OpenCLProgram
    from anylayer.libraries.pyopencl import Device
import re

_AXES = {"B": "N", "F": "C", "Y": "H", "X": "W"}
_BLOB_NAMES = ("weights", "biases")
"""The names of the first blobs of a node whose file has no names for them. Blob i is "blob<i>" then."""


class KernelFile:
    """A configuration that was read, with the kernels of its layer types."""

    def __init__(self, path: str, settings: KernelSettings) -> None:
        self.path = path
        self.types = read_configuration(Path(path), [Path(folder) for folder in settings.asked.folders])
        self.kernels = {name: OpenCLType(self, layer, settings) for name, layer in self.types.items()}


class OpenCLType:
    """A layer type that a configuration defines. Calling it makes an OpenCLLayer."""

    constants_are_blobs = False
    states_shapes = False

    def __init__(self, library: KernelFile, layer: CustomLayer, settings: KernelSettings) -> None:
        self.library, self.layer, self.settings = library, layer, settings
        self.type, self.origin = layer.type, layer.file
        self.notes: list[str] = []
        self._network: Network | None = None
        self._shapes: Definition | None = None
        self.__doc__ = f"OpenCL kernel {layer.entry} in {', '.join(s.name for s in layer.sources)}"

    def within(self, network: Network, shapes: Definition | None = None) -> OpenCLType:
        """Return the layer type for nodes of a network. Their output shapes come from `shapes`, a class that only
        defines getMemoryShapes, or else from the network's file.
        """
        bound_type = OpenCLType(self.library, self.layer, self.settings)
        bound_type.notes, bound_type._network = self.notes, network
        bound_type._shapes = None if shapes is None else replace(shapes, kernel=bound_type)
        return bound_type

    def __call__(
        self,
        node: Node,
        types: Sequence[TensorType],
        dtype: DType | None = None,
        outputs: Sequence[TensorType] | None = None,
    ) -> OpenCLLayer:
        """Create an instance for a node and these input types. `outputs` are the types that the NumPy class
        returns; if there is no class (None), they come from getMemoryShapes or the file. Raises LayerError.
        """
        if outputs is None and self._shapes is not None:
            outputs = stated_types(self._shapes, node, types, dtype)
        return OpenCLLayer(self, node, types, outputs if outputs is not None else self._declared(node, types))

    def _declared(self, node: Node, types: Sequence[TensorType]) -> list[TensorType]:
        """Return the output types that the file declares for a node. Raises LayerError for other input types."""
        remedy = f"Give a NumPy class of type '{self.type}', or one that has getMemoryShapes only"
        declared = {} if self._network is None else {**self._network.inputs, **self._network.declared}
        declared_types = [kind for value in node.outputs if (kind := declared.get(value)) is not None]
        name = Path(self.origin).name
        rule = f"{name}: an OpenCL kernel states no shapes of outputs, and neither does the file. {remedy}"
        need(len(declared_types) == len(node.outputs), rule)
        for i, (value, kind) in enumerate(zip(node.inputs, types)):
            stated = declared.get(value)
            rule = (
                f"{name}: input {i} is {kind}, the file states the shapes of outputs for {stated} only. {remedy}"
            )
            need(stated == kind, rule)
        return declared_types

    def __repr__(self) -> str:
        return f"<OpenCL layer type {self.type!r} of {self.layer.file}>"


class OpenCLLayer(CompiledKernel):
    """An instance of an OpenCL layer type: one node, one set of input types.

    `inputs` and `results` map the indices of bound ports to the conversion of their arrays. `arguments` are the
    kernel's arguments in order. `blobs` maps data arguments to arrays, and `scratch` maps internal arguments to
    sizes in bytes. `whole` and `local` are the global and local work sizes; `whole` is empty if the outputs have
    no elements. `text` is the program.
    """

    def __init__(
        self, kernel: OpenCLType, node: Node, types: Sequence[TensorType], outputs: Sequence[TensorType]
    ) -> None:
        self.kernel, self.node, self.types = kernel, node, tuple(types)
        self.layer, self.outputs = kernel.layer, list(outputs)
        self.arguments = self.layer.arguments
        self.name = Path(self.layer.file).name
        self.notes = list(kernel.notes)
        self.checked = False
        try:
            self._need_known()
            self._prepare()
        except LayerError as error:
            if not error.places:
                error.message = f"{self.name}: {error.message}"
            raise
        if kernel.settings.dump is not None:
            kernel.settings.dump.write(self.text.shown(node.name), self.text.compiled)

    def _need_known(self) -> None:
        for i, kind in enumerate([*self.types, *self.outputs]):
            what = f"input {i}" if i < len(self.types) else f"output {i - len(self.types)}"
            need_sizes(kind, what)
            if kind != ABSENT:
                need(kind.dtype.name in TYPES, f"{what} is {kind.dtype}, which OpenCL kernels do not support")
                need(math.prod(kind.shape) <= MAX_VALUES, f"{what} is {kind}, which is too large for a kernel")
                need(len(kind.shape) <= 4, f"{what} has {len(kind.shape)} axes, a kernel has B, F, Y and X")

    def _prepare(self) -> None:
        """Compute the conversions of arguments, the work sizes and the program's text."""
        ports = self._ports()
        read_ports = {i: a for (kind, i), a in ports.items() if kind == "input"}
        written_ports = {i: a for (kind, i), a in ports.items() if kind == "output"}
        self.inputs = {i: self._slot(self.types[i], a) for i, a in read_ports.items()}
        self.results = {i: self._slot(self.outputs[i], a) for i, a in written_ports.items()}
        inputs = [self._tensor(f"INPUT{i}", a, self.types[i], self.inputs[i]) for i, a in read_ports.items()]
        outputs = [
            self._tensor(f"OUTPUT{i}", a, self.outputs[i], self.results[i]) for i, a in written_ports.items()
        ]
        self.blobs = {i: self._blob(a) for i, a in enumerate(self.arguments) if a.kind == "data"}
        for place, (index, blob) in enumerate(self.blobs.items(), len(self.types)):
            kind = TensorType(blob.shape, blob.dtype)
            slot = Slot(kind, blob.dtype, -1, None, abi.ANY)
            inputs.append(self._tensor(f"INPUT{place}", self.arguments[index], kind, slot))
        source = inputs[self._dim()] if self.layer.dim is not None else outputs[0]
        self._work_sizes(dict(zip("BFYX", source.sizes)), outputs[0])
        self.scratch = {i: a.size.size(self.sizes) for i, a in enumerate(self.arguments) if a.size is not None}
        self.internals = [TensorType((size,), np.dtype(np.uint8)) for size in self.scratch.values()]
        lines = built_ins([*inputs, *outputs], self.whole, self.local)
        self.text = ProgramText(self.layer, lines, user_defines(self.layer, self.node))
        self._note()

    def _ports(self) -> dict[tuple[str, int], KernelArgument]:
        """Return the argument of each bound port, in order. Raise LayerError for a port that the layer does not
        have, for one that is bound in two formats, and for an output that is not bound."""
        counts = {"input": len(self.types), "output": len(self.outputs)}
        bound: dict[tuple[str, int], KernelArgument] = {}
        for argument in self.arguments:
            if argument.kind not in counts:
                continue
            count, where = counts[argument.kind], f"{self.layer.file}:{argument.line}"
            what = f"{argument.kind} {argument.port}"
            if argument.port >= count:
                plural = "" if count == 1 else "s"
                raise LayerError(f"the kernel has {what}, the layer has {count} {argument.kind}{plural}", where)
            other = bound.setdefault((argument.kind, argument.port), argument)
            if other.format != argument.format:
                raise LayerError(f"{what} is {argument.format}, and {other.format} in line {other.line}", where)
            if argument.kind == "input" and self.types[argument.port] == ABSENT:
                raise LayerError(f"{what} is absent in the network, but the kernel reads it", where)
        for i in range(len(self.outputs)):
            need(("output", i) in bound, f"output {i} of the layer is not bound to an argument of the kernel")
        return dict(sorted(bound.items()))

    def _file_axes(self, rank: int) -> str:
        """Return the axes of a value in the file's order, in the letters of NCHW."""
        return self.node.layout if rank == 4 and self.node.layout in ORDERS else "NCHW"[:rank]

    def _slot(self, kind: TensorType, argument: KernelArgument) -> Slot:
        """Return the conversion of a port: to the format's order of axes, and to float where half is missing."""
        rank, dtype, what = len(kind.shape), kind.dtype, f"{argument.kind} {argument.port}"
        if dtype == np.float16 and not self._has_half():
            dtype = np.dtype(np.float32)
            self.notes.append(f"{self.name} has {what} as float32: the device has no half")
        if argument.format == "ANY":
            return Slot(TensorType(kind.shape, dtype), kind.dtype, -1, None, abi.ANY)
        mixed = self.node.layout == "mixed" and rank == 4
        need(not mixed, "the network has channels-first and channels-last layers; only format ANY is possible")
        file = self._file_axes(rank)
        order = tuple(file.index(_AXES[a]) for a in argument.format if _AXES[a] in file)
        shape = tuple(kind.shape[i] for i in order)
        turned = None if order == tuple(range(rank)) else order
        if turned is not None:
            seen = f"{argument.format} {list(shape)}"
            rule = f"the file has {file}: it is transposed in each call"
            self.notes.append(f"{self.name} sees {what} as {seen}, {rule}")
        return Slot(TensorType(shape, dtype), kind.dtype, -1, turned, abi.ANY)

    def _has_half(self) -> bool:
        try:
            return self.device().half
        except EngineError:  # a report is possible without a device
            return True

    def _tensor(self, name: str, argument: KernelArgument, kind: TensorType, slot: Slot) -> KernelTensor:
        """Return the description of a tensor for the defines. Axes that it does not have have size 1."""
        file = self._file_axes(len(kind.shape))
        size = {a: kind.shape[file.index(_AXES[a])] if _AXES[a] in file else 1 for a in _AXES}
        order = [a for f in file for a in _AXES if _AXES[a] == f]
        memory = [*order, *(a for a in _AXES if a not in order)] if argument.format == "ANY" else argument.format
        pitch = {a: math.prod(size[b] for b in memory[i + 1 :]) for i, a in enumerate(memory)}
        sizes, pitches = tuple(size.values()), tuple(pitch[a] for a in _AXES)
        return KernelTensor(name, TYPES[slot.seen.dtype.name], argument.format, sizes, pitches)

    def _blob(self, argument: KernelArgument) -> Array:
        """Return the blob of a data argument, floats as float32. Raise LayerError where there is none."""
        names = self.node.blob_names or [
            _BLOB_NAMES[i] if i < len(_BLOB_NAMES) else f"blob{i}" for i in range(len(self.node.blobs))
        ]
        where = f"{self.layer.file}:{argument.line}"
        if argument.blob not in names:
            listed = ", ".join(names) or "none"
            raise LayerError(f"the layer has no blob '{argument.blob}'; it has: {listed}", where)
        blob = self.node.blobs[names.index(argument.blob)]
        need(
            blob.dtype.name in TYPES,
            f"blob '{argument.blob}' is {blob.dtype}, which OpenCL kernels do not support",
        )
        need(blob.ndim <= 4, f"blob '{argument.blob}' has {blob.ndim} axes, a kernel has B, F, Y and X")
        return np.array(blob, np.float32 if blob.dtype.kind == "f" else blob.dtype, order="C")

    def _dim(self) -> int:
        """Return the position among the bound inputs of the input whose sizes the formulas use."""
        bound = list(self.inputs)
        need(self.layer.dim in bound, f"dim is input {self.layer.dim}, which the kernel does not read")
        return bound.index(self.layer.dim or 0)

    def _work_sizes(self, sizes: dict[str, int], output: KernelTensor) -> None:
        count = math.prod(output.sizes)
        self.sizes = sizes
        self.whole: tuple[int, ...] = ()
        self.local: tuple[int, ...] = ()
        if any(math.prod(kind.shape) for kind in self.outputs):
            self.whole = tuple(f.size(sizes) for f in self.layer.whole) or (count,)
            self.local = tuple(f.size(sizes) for f in self.layer.local)
        rule = f"{len(self.local)} local and {len(self.whole)} global work sizes, expected the same number"
        need(len(self.local) in (0, len(self.whole)), rule)

    def _note(self) -> None:
        formats = " and ".join(dict.fromkeys(a.format for a in self.arguments if a.kind in ("input", "output")))
        sizes = f"global {' x '.join(map(str, self.whole)) or 'none'}"
        local = f", local {' x '.join(map(str, self.local))}" if self.local else ""
        self.configuration = f"OpenCL, {formats}, {sizes}{local}"
        left = [i for i, kind in enumerate(self.types) if i not in self.inputs and kind != ABSENT]
        self.notes += [f"{self.name} does not read input {i}" for i in left]

    def device(self) -> Device:
        """Return the device that the user names. Raises EngineError where there is none."""
        return self.kernel.settings.find_device()

    def program(self, threads: int | None = None) -> OpenCLProgram:
        """Return a function that computes the layer on the device, which decides on the number of threads."""
        with at(self.node.place):
            self.device()  # first, because the next line imports pyopencl
        from anylayer.kernels.opencl.call import OpenCLProgram

        return OpenCLProgram(self)


# ---- the text of a program

_HALF = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+OPENCL[ \t]+EXTENSION[ \t]+cl_khr_fp16[ \t]*:.*$", re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b", re.MULTILINE)


class ProgramText:
    """The program of a kernel for one set of parameters.

    `compiled` has #line directives, so that the compiler's messages name the user's files and lines, and no name
    of a layer, so that layers with equal parameters share a program. `prints` says that a source file calls
    printf, `includes` that one includes other files.
    """

    def __init__(self, layer: CustomLayer, built_ins: Sequence[str], defines: Sequence[tuple[int, str]]) -> None:
        self._layer, self._built_ins, self._defines = layer, list(built_ins), list(defines)
        lines = [*built_ins]
        for number, define in defines:
            lines += [f"#line {number} {_quote(layer.file)}", define]
        text = "\n".join(lines) + "\n"
        for source in layer.sources:
            text += f"#line 1 {_quote(source.name)}\n{_close(source.text)}"
        self.compiled = text
        self.prints = any(re.search(r"\bprintf\b", source.text) for source in layer.sources)
        self.includes = any(_INCLUDE.search(source.text) for source in layer.sources)

    def shown(self, name: str) -> str:
        """Return the text in the form of OpenVINO's documentation, with the name of a layer with these params."""
        layer = self._layer
        lines = [*self._built_ins, "", f"// Layer {_comment(name)} using Custom Layer {_comment(layer.type)}"]
        lines += ["// Custom Layer User Defines", *(define for _, define in self._defines)]
        text = "\n".join(lines) + "\n"
        for source in layer.sources:
            text += f"// Custom Layer Kernel {_comment(source.name)}\n{_close(source.text)}"
        return text

    def without_half(self) -> str:
        """Return the compiled text for a device without half, whose compiler may refuse its pragma."""
        return _HALF.sub("", self.compiled)


def _close(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"


def _quote(name: str) -> str:
    name = "".join(c if c.isprintable() else "?" for c in name)
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _comment(text: str) -> str:
    """Return a text that cannot end its comment: without control characters and line continuations."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain.replace("\\", "/").replace("??/", "?? /")
