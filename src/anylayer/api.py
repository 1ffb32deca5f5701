"""The public API: read a network, inspect it, compile it, write it as another format.

A method imports what only this method needs, because that takes longer to import than the rest of anylayer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

import anylayer.compile as compiling
from anylayer.errors import FileError, InputError, nearest, need, need_name, plural, reading, within, wording
from anylayer.kernels.files import split
from anylayer.kernels.opencl.files import KernelSettings, OpenCL, opencl_of, user_file
from anylayer.layer import Definition, Registry, load_layers
from anylayer.layer.native import LoadedKernel
from anylayer.layer.registry import registered
from anylayer.network import Array, Function, Network, Node, Shape, TensorType, need_outputs, need_produced
from anylayer.readers import Option, Reader, is_keras_file, load_reader, networks_in, reader_of, readers
from anylayer.readers._recognize import unread

if TYPE_CHECKING:
    from anylayer.convert.conversion import Conversion
    from anylayer.convert.generation import Generation
    from anylayer.convert.job import HasOptions, Job
    from anylayer.inspect.costs import Profile
    from anylayer.inspect.report import Report
    from anylayer.readers.caffe import CaffeOptions
    from anylayer.readers.darknet import DarknetOptions
    from anylayer.readers.mxnet import MXNetOptions
    from anylayer.runtime.model import Model
    from anylayer.source import Written

    class ReadOptions(CaffeOptions, DarknetOptions, MXNetOptions, total=False):
        """The options of all readers, for type checkers. Each base is one reader's."""


PathLike = str | Path
LayerSources = PathLike | Iterable[Any]
"""What `read` takes as `layers`: a file, a mapping, or several files, classes and (type, class) pairs."""


class Net:
    """A network with the layer classes that define its nodes.

    `network` is the network as it was read. `definitions` maps each layer type to its classes, [] where it has
    none. `user_layers` maps the layer types that the user defines to their classes.
    """

    def __init__(
        self, network: Network, users: Mapping[str, Definition], kernels: Mapping[str, LoadedKernel] | None = None
    ) -> None:
        self.network = network
        self._registry = Registry.of(network.format)
        types = {node.type for node in network.nodes}
        owned = {t: definition for t in types if (definition := self._users(t, users))}
        definitions = {t: [owned[t]] if t in owned else self._registry.find(t) for t in types}
        self.user_layers = {t: d for u in users.values() for t, d in owned.items() if d is u}
        self._unused = [t for t, u in users.items() if all(d is not u for d in owned.values())]
        self.kernels = kernels or {}
        """The native kernels that were given, by layer type."""
        if self.kernels:
            from anylayer.kernels.selection import with_kernels

            self._unused += [t for t in self.kernels if t not in types]
            definitions = with_kernels(definitions, self.kernels, network)
        self.definitions = definitions
        self._known_outputs: dict[str, TensorType | None] | None = None

    def _users(self, type_: str, users: Mapping[str, Definition]) -> Definition | None:
        """Return the user's definition of a type, or None.

        Keras writes a registered class as "Gate" or, with its package, as "my>Gate". Each of the two names stands
        for the other, except where "Gate" is a built-in type.
        """
        bare = type_.rpartition(">")[2]
        if type_ in users or bare in users:
            return users.get(type_) or users[bare]
        same = [d for t, d in users.items() if ">" in t and t.rpartition(">")[2] == type_]
        return same[0] if len(same) == 1 and not self._registry.find(type_) else None

    @property
    def inputs(self) -> dict[str, TensorType | None]:
        """The type of each input, by name: None where the file does not give the shape."""
        return dict(self.network.inputs)

    @property
    def outputs(self) -> dict[str, TensorType | None]:
        """The type of each output, by name: None where it cannot be computed from the file alone."""
        if self._known_outputs is None:
            self._known_outputs = self._output_types()
        return dict(self._known_outputs)

    def _output_types(self, shapes: Mapping[str, Sequence[int]] | None = None) -> dict[str, TensorType | None]:
        types = dict(self.network.inputs)
        types.update({name: kind for node in self.inspect(shapes).nodes for name, kind in node.outputs})
        return {public: types.get(value) for public, value in self.network.outputs.items()}

    @property
    def unknown(self) -> list[Node]:
        """The nodes without a definition: their layer type is unknown, or they are programs inside the file."""
        return [n for n in self.network.nodes if all(d.is_code for d in self.definitions[n.type])]

    def note_unused(self, types: Iterable[str]) -> None:
        """Add a note for each of the types that no layer has, and whose name is similar to a layer's type."""
        for type_ in types:
            if type_ in self._unused and (hint := nearest(type_, set(self.definitions) - set(self.user_layers))):
                self.network.notes.append(f"no layer has the type '{type_}', for which a class is given{hint}")

    def require_known(self, outputs: Mapping[str, str] | None = None) -> None:
        """Raise UnknownLayers where types of nodes have no definition. The message lists all of them.

        outputs: maps names to values of the network; only the nodes that compute these values are checked. None
        stands for all nodes.
        """
        if self.unknown:
            net, types = self.network, self._registry.types()
            needed = net.nodes if outputs is None else compiling.inputs.needed_nodes(net, outputs)
            compiling.nodes.unknown_layers(net, needed, self.definitions, types, self._unused)

    def compile(
        self,
        engine: str = "auto",
        shapes: Mapping[str, Sequence[int | str]] | None = None,
        threads: int | None = None,
        outputs: Sequence[str] | None = None,
        precision: str = "float32",
        exact: bool = False,
        device: str | None = None,
    ) -> Model:
        """Compile the network, and return a Model.

        engine: "auto" (measure the installed engines and take the fastest), "numpy" (the layers' own forward), or
        an engine by name (engines.engines() lists them, docs/engines.md describes them). shapes: input shapes in
        place of the file's, for example {"data": (1, 3, 224, 224)}. A size may be open: a name, a sum or a
        multiple of names (1, 3, "32*h", "W>=64"). One program then serves every size. threads: the number of
        threads; None lets the engine choose. outputs: names of blobs to compute in place of the network's outputs.
        precision: "float32", or another one in which the engine then computes ("float16", "bfloat16"; inputs and
        outputs stay float32). exact: leave out optimizations that change the last bits of results. device: "cpu",
        "cuda", "cuda:1" or "gpu" (any); None lets "auto" measure all devices, and other engines use the CPU.

        Raises UnknownLayers, LayerError, InputError, EngineError.
        """
        from anylayer.engines import on_device
        from anylayer.runtime.model import Model

        names = [outputs] if isinstance(outputs, str) else outputs
        targets = self.network.outputs if names is None else {name: self._blob(name) for name in names}
        need_outputs(self.network, targets)
        self.require_known(targets)
        return Model(
            self.network,
            self.definitions,
            targets,
            engine=on_device(engine, device),
            shapes=shapes,
            threads=threads,
            precision=precision,
            exact=exact,
        )

    def _blob(self, name: str) -> str:
        """Return the value that the file calls `name`. Raises InputError where there is none."""
        blobs = {**{v: v for node in self.network.nodes for v in node.outputs}, **self.network.blobs}
        need(name in blobs, f"{self.network.source}: there is no blob '{name}'{nearest(name, blobs)}", InputError)
        return blobs[name]

    def write(
        self,
        path: PathLike,
        format: str | None = None,
        *,
        functions: bool | Sequence[str] = False,
        keep: Sequence[str] = (),
        batch: str | int | bool | None = None,
        dialect: str | None = None,
        shapes: Mapping[str, Sequence[int | str]] | None = None,
        verify: bool | Mapping[str, Any] = True,
        **options: Any,
    ) -> Conversion:
        """Write the network as a file of another format. The file appears only after it was verified: it must
        compute what the layers compute in NumPy.

        format: "onnx", "openvino" or "caffe"; by default the one that the suffix of `path` means. functions: True,
        or layer types; the user's layers, or layers of these types, stay calls of functions in the file. keep:
        layers of these types stay as they are, for a runtime that has them. batch: the batch size, or a name for a
        symbolic one (True: "N"). dialect: the fork of Caffe to write for. shapes: as in `compile`; a size may be
        open: a name, a sum or a multiple of names ("N", 3, "32*h", "W>=64"). verify: False,
        or inputs to compare on in place of seeded noise. options: other options of the writer.

        Raises what `compile` raises, InputError, and ConversionError where the file computes something else. Then
        no file is left.
        """
        from anylayer.convert.conversion import convert
        from anylayer.writers import format_of, load_writer

        path = Path(path)
        format = format if format is not None else format_of(path)
        writer = load_writer(format)
        options.update(functions=functions, keep=tuple(keep), batch=batch, dialect=dialect)
        job = self._job(shapes, writer, options)
        inputs = [] if verify is False else None if verify is True else [job.input_arrays(verify)]
        return convert(job, self.network.outputs, writer, format, path, inputs, self._reopen, _prove)

    def generate(
        self,
        target: str,
        folder: PathLike,
        *,
        batch: str | int | bool | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        inputs: Mapping[str, Any] | None = None,
        test: bool = True,
        force: bool = False,
        **options: Any,
    ) -> Generation:
        """Write the network as a project in source code, which does not need anylayer.

        The project contains its own test with inputs and the outputs that the layers compute in NumPy. The test is
        run where its tools are installed, and the folder appears only if it passes.

        target: "pytorch", "opencv", "opencv-python" or "dv". folder: the project's folder. batch: the batch size;
        by default the code accepts any, if the network allows it. shapes: as in `compile`. inputs: those of the
        test in place of seeded noise. test: whether to run it. force: replace a folder whose files were edited
        since they were generated. options: other options of the target.

        Raises what `compile` raises, InputError, and ConversionError where the test fails. Then no folder is left.
        """
        from anylayer.convert.generation import generate
        from anylayer.generators import load_target

        writer = load_target(target)
        job = self._job(shapes, writer, {**options, "batch": batch})
        arrays = None if inputs is None else job.input_arrays(inputs)
        return generate(job, self.network.outputs, writer, target, Path(folder), arrays, test=test, force=force)

    def _job(
        self, shapes: Mapping[str, Sequence[int | str]] | None, writer: HasOptions, options: Mapping[str, Any]
    ) -> Job:
        from anylayer.convert.job import job_of

        need_outputs(self.network, self.network.outputs)
        self.require_known(self.network.outputs)
        return job_of(self.network, self.definitions, shapes, writer, options)

    def _reopen(self, written: Written) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
        """Read a file that was written from this network, with this network's user layers, to run it in NumPy."""
        *others, main = [written.stand_in] if written.stand_in else written.files
        weights = others[-1] if others else None
        layers = [(type_, definition.cls) for type_, definition in self.user_layers.items()]
        settings = OpenCL(user_file=False)
        return read(main, weights, layers=layers, kernels=settings, **written.reading).compile("numpy")

    def before(self, function: Function, *inputs: Any) -> Net:
        """Return a network whose inputs are computed by a NumPy function, for example from a picture.

        The function is traced like a layer. It takes one array per new input, of which `inputs` gives an example
        array or a pair (shape, dtype). It returns the network's inputs: one array, a tuple or list in their order,
        or a dict by name. The new inputs are named after the function's parameters.

        Raises TraceError with the line that cannot be recorded, and InputError.
        """
        from anylayer import function_nodes

        network, definition = function_nodes.before(self.network, function, inputs)
        return Net(network, {**self.user_layers, definition.type: definition}, self.kernels)

    def after(self, function: Function, shapes: Mapping[str, Sequence[int]] | None = None) -> Net:
        """Return a network whose outputs are computed by a NumPy function of its outputs, for example labels.

        The function is traced like a layer. Its parameters are outputs of the network: by name where all of them
        are names of outputs, else in order. It returns one array ("output"), a tuple or list ("output0", ...), or
        a dict by name. shapes: as in compile, for a file that states no sizes.

        Raises TraceError with the line that cannot be recorded, and InputError.
        """
        from anylayer import function_nodes

        network, definition = function_nodes.after(self.network, function, self._output_types(shapes))
        return Net(network, {**self.user_layers, definition.type: definition}, self.kernels)

    def inspect(self, shapes: Mapping[str, Sequence[int | str]] | None = None) -> Report:
        """Return a table of the nodes: params, shapes, weights, multiply-adds, and where each of them runs.

        It works without weights, and with unknown layers as far as shapes are known. shapes: as in `compile`.
        """
        from anylayer.inspect.report import make_report

        return make_report(self.network, self.definitions, shapes)

    def report(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        engine: str = "auto",
        threads: int | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        seconds: float = 0.5,
        compare: bool = True,
        blobs: Sequence[str] | None = None,
        conversion: Conversion | None = None,
    ) -> Report:
        """Return the table of `inspect` with times, errors against NumPy, pictures and the code of your layers.

        A notebook shows it as a page, and `save(path)` writes that page as one HTML file. inputs: seeded noise by
        default. engine, threads, shapes: as in `compile`. seconds: as in `profile`. compare: whether each node is
        compared with NumPy. blobs: the feature maps to draw [the last one of each size]. conversion: the result of
        `write`, to show what it changed. What cannot be measured is in the report with the reason.
        """
        from anylayer.inspect.full import full_report

        how: dict[str, Any] = {"engine": engine, "threads": threads, "shapes": shapes, "seconds": seconds}
        return full_report(self, inputs, compare=compare, blobs=blobs, conversion=conversion, **how)

    def profile(
        self,
        inputs: Mapping[str, Any],
        engine: str = "auto",
        threads: int | None = None,
        seconds: float = 1.0,
        assume_free: Mapping[str, Sequence[Shape] | str | None] | None = None,
    ) -> Profile:
        """Run the network, and return what each node costs: time, multiply-adds, bytes, and what limits it.

        The times are the engine's own counters, where it has them. engine, threads: as in `compile`. seconds: how
        long the network runs with counters, and how long without. assume_free: layer types that are replaced by
        stubs that take no time, with the shapes of their outputs, "same" (the input's), or None (those that the
        layer's class or the file declares). Raises what `compile` raises.
        """
        from anylayer.inspect.profile import profile

        return profile(self.assume_free(assume_free or {}), inputs, engine, threads, seconds)

    def assume_free(self, types: Mapping[str, Sequence[Shape] | str | None]) -> Net:
        """Return the network with stubs that take no time in place of layers; see `profile`."""
        from anylayer.inspect.free import with_stubs

        other = copy(self)
        other.definitions = with_stubs(self.network, self.definitions, types)
        return other

    def fill(self, seed: int = 0, shapes: Mapping[str, Sequence[Any]] | None = None) -> Net:
        """Give random weights to every layer that has none, for tests of shapes and speed, and return the network.

        Their shapes follow from the input shapes: `shapes`, as in `compile`, or the file's.
        """
        from anylayer.inspect.report import fill_weights

        fill_weights(self.network, self.definitions, np.random.default_rng(seed), shapes)
        return self

    def _repr_html_(self) -> str:
        return self.inspect()._repr_html_()

    def __repr__(self) -> str:
        ends = f"inputs {', '.join(self.network.inputs)}; outputs {', '.join(self.network.outputs)}"
        return f"<anylayer.Net {self.network.name!r}: {plural(len(self.network.nodes), 'node')}, {ends}>"


def _prove(written: Written) -> None:
    """Compare the parameters in written files with the source's, where the format's reader can."""
    if written.params is not None:
        _, reader = _reader_of(written.files[-1])
        prove: Callable[..., None] = getattr(reader, "prove")  # noqa: B009 (not every reader has it)
        prove(written.files, written.params)


def read(
    model: PathLike,
    weights: PathLike | None = None,
    *,
    layers: LayerSources | None = None,
    isolate: bool | float = False,
    kernels: PathLike | Iterable[PathLike] | OpenCL | None = None,
    constants: Mapping[str, Any] | None = None,
    **options: Unpack[ReadOptions],
) -> Net:
    """Read a network of any format; its content decides which.

    model: the file, or the folder of a SavedModel or an unpacked Keras archive. weights: the file of its weights,
    where the model does not name it (.caffemodel, .caffemodel.h5, .weights, .weights.h5, .bin, .params). layers:
    Python files that define layers (they are executed), "Type=file.py:Class", (type, class) pairs, or a mapping
    of types to classes; they replace built-in layers of the same types. Libraries of native layers ("lib.so",
    "Type=lib.so" for one type) are loaded. isolate: load each library in a child process, so that a crash, or a
    call of more than 60 seconds or this number, is an error; calls are slower. kernels: configurations of OpenCL
    kernels (.xml), or an OpenCL, which names the device. constants: values of inputs: {"sr": 16000}.

    options: those of the file's format; None means not given. Caffe: dialect (the fork, where forks disagree about
    the file's layers), proto (the fork's caffe.proto), phase, level and stages (for include and exclude rules).
    MXNet: outputs (in place of the symbol's). Darknet: dialect, and raw (maps, without decoding boxes).

    Raises FileError, NetworkError, LayerError; InputError for an option that the format does not have.
    """
    path, file = Path(model), Path(weights) if weights is not None else None
    need_name(path)
    need_name(file or path)
    with reading(str(path)):
        if not path.exists():
            raise FileError("there is no such file", str(path))
        sources, libraries = split(layers)
        definitions = load_layers(sources)
        library_kernels, personal = _kernels(libraries, isolate, opencl_of(kernels))
        users = {**registered(), **definitions}
        all_kernels = {**personal, **library_kernels}
        defined = {*users, *(type_ for type_, kernel in all_kernels.items() if kernel.constants_are_blobs)}
        defined |= {type_.rpartition(">")[2] for type_ in defined}
        computed = frozenset(all_kernels).difference(defined)
        reader, network = _network(path, file, frozenset(defined), computed, options)
    if constants:
        from anylayer.function_nodes import with_constants

        network = with_constants(network, constants, users)
    types = {node.type for node in network.nodes}
    net = Net(network, users, {**{t: k for t, k in personal.items() if t in types}, **library_kernels})
    net.note_unused([*definitions, *library_kernels])
    if network.format == "caffe" and file is not None and not network.weights:  # see _network
        from anylayer.convert.transfer import fill_by_name

        with reading(str(file)), within(str(file)):
            fill_by_name(net, file, lambda other: Net(other, {}))
    if hasattr(reader, "complete"):
        reader.complete(network, net.definitions)
    if hasattr(reader, "fill") and network.weights:
        reader.fill(network, net.definitions, compiling.nodes.trace_nodes)
    return net


def _kernels(
    libraries: Sequence[str], isolate: bool | float, opencl: OpenCL
) -> tuple[Mapping[str, LoadedKernel], Mapping[str, LoadedKernel]]:
    """Load libraries of native layers and configurations of OpenCL kernels. Return the kernels that they have, and
    those of the user's own configuration. The rest of `kernels` is imported only where there are any."""
    if not libraries and not opencl.files and not (opencl.user_file and user_file()):
        return {}, {}
    from anylayer.kernels.selection import load_kernels, load_user_kernels, without_given

    settings = KernelSettings(opencl)
    loaded, personal = load_kernels(libraries, isolate, settings), load_user_kernels(settings)
    return loaded, without_given(personal, loaded)


def _network(
    path: Path,
    weights: Path | None,
    user_types: frozenset[str],
    kernel_types: frozenset[str],
    options: Mapping[str, Any],
) -> tuple[Reader, Network]:
    """Read the network of a file, and return it with its reader. Refuse an option that the reader lacks."""
    name, reader = _reader_of(path)
    if name == "caffe" and weights is not None and is_keras_file(weights):
        weights = None  # they are matched by name in `read`
    chosen_options = {name: value for name, value in options.items() if value is not None}
    for name in chosen_options:
        hint = nearest(name, [*reader.OPTIONS, *_READ])
        need(
            name in reader.OPTIONS,
            f"{path}: {_option(name)}: {reader.WHAT} has no such option{hint}; "
            f"its options: {', '.join(map(_option, reader.OPTIONS)) or 'none'}",
            InputError,
        )
    if kernel_types and getattr(reader, "KERNEL_TYPES", False):
        chosen_options["kernel_types"] = kernel_types
    network = reader.read(path, weights, user_types=user_types, **chosen_options)
    with within(str(path)):
        need_produced(network)
    return reader, network


_READ = ("weights", "layers", "isolate", "kernels", "constants")  # the arguments of `read` for every format


def _option(name: str) -> str:
    """Spell an option as the caller does. The command line has the singular for an option that is repeated."""
    return wording(name, "--" + name.removesuffix("s"))


def read_options(model: PathLike) -> Mapping[str, Option]:
    """Return the options of `read` that the format of this file has, by name."""
    return _reader_of(Path(model))[1].OPTIONS


def _reader_of(path: Path) -> tuple[str, Reader]:
    """Return the format of a file and its reader. Raises FileError where no reader takes the file."""
    if not (path.is_file() or path.is_dir()):
        raise FileError("there is no such file", str(path))
    if (matching := reader_of(path)) is not None:
        return matching
    if path.suffix == ".py":
        how = wording("anylayer.read(model, layers=...)", "-l " + path.name)
        raise FileError(f"this is a Python file, not a network; give layers as {how}", str(path))
    what, remedy = (f"a folder{networks_in(path)}", "") if path.is_dir() else unread(path)
    formats = ", ".join(load_reader(name).WHAT for name in readers())
    raise FileError(f"this is {what}; anylayer reads {formats}{remedy}", str(path))
