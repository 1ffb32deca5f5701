"""Write a network as a model of a Triton repository: `name/1/model.onnx` and `name/config.pbtxt`.

OpenVINO Model Server and KServe read the same folders. The fields of config.pbtxt are those of Triton's
model_config.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anylayer.errors import InputError, need, wording
from anylayer.graph import Dim, Value
from anylayer.protobuf.text import quoted
from anylayer.source import Source, Written
from anylayer.writers import onnx

WHAT = "a model of a Triton repository (a folder with config.pbtxt)"
SUFFIXES = ()
FOLDER = True
OPTIONS = frozenset(onnx.OPTIONS - {"keep"} | {"max_batch", "version"})
RUNS = onnx.RUNS
QUANTIZED = True

_MAX_BATCH = 8
"""The largest batch that the server makes of requests, if the caller does not specify one."""
_NAMES = {"float32": "FP32", "float64": "FP64", "float16": "FP16", "bfloat16": "BF16", "str": "STRING"}
"""Triton's names of types that are not NumPy's in capitals. An object array holds strings."""


def write(
    source: Source,
    path: Path,
    *,
    max_batch: int | None = None,
    version: int = 1,
    external: bool | None = None,
    **options: Any,
) -> Written:
    """Write the folder `path`, whose name is the name of the model.

    max_batch: the largest batch that the server makes of several requests, where the batch size is open; 8 by
        default, 0 for none. version: the number of the folder with the model. external, options: those of the ONNX
        writer.

    Raises what the ONNX writer raises, and InputError for options that do not fit.
    """
    need(
        isinstance(version, int) and 0 < version < 1 << 31,
        f"version must be a positive integer, got {version}",
        InputError,
    )
    need(
        max_batch is None or (isinstance(max_batch, int) and 0 <= max_batch < 1 << 31),
        f"max_batch must be an integer of at least 0, got {max_batch}",
        InputError,
    )
    folder = path / str(version)
    folder.mkdir(parents=True)
    done = onnx.write(source, folder / "model.onnx", external=external, **options)
    batch, why = _batch(source, _MAX_BATCH if max_batch is None else max_batch)
    if why and max_batch:
        raise InputError(f"max_batch={max_batch}: {why}")
    done.notes += [f"the server does not join requests into batches: {why}"] if why else []
    config = path / "config.pbtxt"
    config.write_text("".join(f"{line}\n" for line in _config(source, path.name, batch, done)), "utf-8")
    done.files.insert(0, config)
    done.settings.append(config)
    if batch:
        remedy = wording("max_batch=0", "--set max_batch=0")
        done.by_sample = f"a server that joins requests into batches would change their results: give {remedy}"
    return done


def _batch(source: Source, most: int) -> tuple[int, str]:
    """Return the largest batch, 0 for none. If there is none although the caller has not asked for that, also
    return the reason.
    """
    if most == 0:
        return 0, ""
    ends = [*source.graph.inputs, *source.graph.outputs]
    first = {v.shape[0].name if v.shape and isinstance(v.shape[0], Dim) else "" for v in ends}
    name = next(iter(first))
    sizes = source.sizes
    if sizes is None or not sizes.shapes:
        return 0, "the batch size is not open (" + wording("batch='N'", "--batch N") + ")"
    if len(first) != 1 or name not in sizes.ranges:
        return 0, "the first size of every input and output must be the same open size"
    others = {n for shape in sizes.shapes.values() for e in shape[1:] for n in e.symbols}
    if name in others:
        return 0, f"size {name} is also another size than the first one"
    most = min(most, sizes.ranges[name][1])
    refused = next((n for n in range(1, most + 1) if not sizes.allow({**sizes.traced[0], name: n})), 0)
    if refused:
        return 0, f"the layers do not allow {name} = {refused}"
    return most, ""


def _config(source: Source, model: str, batch: int, done: Written) -> Iterator[str]:
    """Yield the lines of config.pbtxt."""
    yield f"name: {quoted(model)}"
    yield 'backend: "onnxruntime"'
    yield 'default_model_filename: "model.onnx"'
    yield f"max_batch_size: {batch}"
    for name, order in source.network.channel_orders.items():
        yield f"# input {quoted(name)} takes images in {order} order"
    for value in source.graph.inputs:
        yield from _tensor("input", value.name, value, batch)
    for public, value in zip(source.outputs, source.graph.outputs):
        yield from _tensor("output", done.outputs.get(public, public), value, batch)
    if batch:
        yield "dynamic_batching { }"


def _tensor(kind: str, name: str, value: Value, batch: int) -> Iterator[str]:
    """Yield the lines of an input or output. Triton's shapes have at least one size."""
    shape = [-1 if isinstance(d, Dim) else int(d) for d in value.shape][bool(batch) :]
    yield f"{kind} {{"
    yield f"  name: {quoted(name)}"
    yield f"  data_type: TYPE_{_NAMES.get(value.dtype.name, value.dtype.name.upper())}"
    yield f"  dims: {shape or [1]}"
    if not shape:
        yield "  reshape { shape: [] }"
    yield "}"
