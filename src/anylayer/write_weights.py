"""Write the trained state of a generated PyTorch module back into the file of its network."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from anylayer.api import PathLike, read
from anylayer.convert import write_back
from anylayer.convert.job import job_of
from anylayer.convert.parameters import stored_weights
from anylayer.errors import InputError, need, need_name, within, writing
from anylayer.generators import load_target
from anylayer.libraries.torch import load_state
from anylayer.libraries.whole import whole_path
from anylayer.readers.keras.archive import WEIGHTS, pack, unpack

_FORMATS = ("caffe", "keras")


def write_weights(
    model: PathLike,
    weights: PathLike | None,
    state: PathLike,
    path: PathLike,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    batch: str | int | bool | None = None,
    inputs: Mapping[str, Any] | None = None,
    **options: Any,
) -> write_back.WrittenWeights:
    """Write the weights file of a Caffe or Keras network again, with the trained parameters of the PyTorch module
    that `generate` wrote for the network. All else in the file stays as it is, byte for byte.

    The file appears after the network with it was compared in NumPy with the trained module. model, weights: the
    files of the network, as for `read`; weights is None where the model holds them. state: the module's
    state_dict(), as safetensors or written by torch.save; nothing in it is executed. path: the new file, in the
    format of the old one. shapes, batch: as they were given to `generate`. inputs: those of the comparison in
    place of seeded noise. options: those of `read`.

    Raises what `read` and `generate` raise, InputError for a parameter that cannot be written back, and
    ConversionError if the comparison fails. Then no file is left.
    """
    model, path, stored = Path(model), Path(path), Path(model if weights is None else weights)
    for file in (path, stored):
        need_name(file)
    with _as_files(model, stored) as (network_file, data_file, pack):
        net = read(network_file, data_file if weights is not None else None, **options)
        network = net.network
        need(network.format in _FORMATS, f"{model}: only Caffe and Keras files take weights back", InputError)
        rule = f"{stored}: it has no weights; name the network, the file of its weights, and the state"
        need(data_file.is_file() and stored_weights(network), rule, InputError)
        suffix = stored.suffix
        rule = f"{path}: give a name with the suffix {suffix}, as {stored.name} has"
        need(path.suffix == suffix, rule, InputError)
        need(path.resolve() != stored.resolve(), f"{path}: give another name than the old file's", InputError)
        net.require_known(network.outputs)
        job = job_of(network, net.definitions, shapes, load_target("pytorch"), {"batch": batch})
        arrays = load_state(Path(state))
        with within(str(state)):
            result = write_back.new_weights(job, network.outputs, arrays)
        examples = None if inputs is None else job.input_arrays(inputs)
        with writing(str(path)), whole_path(path) as temporary:
            pack(write_back.patch(network, data_file, result.weights).tobytes(), temporary)
            again = read(
                model if weights is not None else temporary, temporary if weights is not None else None, **options
            )
            report, notes = write_back.compare(result, again.network, network.outputs, examples, path)
    return write_back.WrittenWeights(path, len(result.weights), result.total, report, [*result.notes, *notes])


@contextmanager
def _as_files(model: Path, stored: Path) -> Iterator[tuple[Path, Path, Callable[[bytes, Path], object]]]:
    """Yield the file of the network, the file of its weights, and a function that writes new bytes of the latter
    to a path. A Keras archive is unpacked to a temporary folder, which is a model, too.
    """
    if not zipfile.is_zipfile(stored):
        yield model, stored, lambda data, path: path.write_bytes(data)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, stored.name)
        unpack(stored, folder)
        yield folder if model == stored else model, folder / WEIGHTS, partial(pack, stored)
