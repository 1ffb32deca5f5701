"""Show an output as text or as data for JSON: the classes with the highest scores, detections, a map, or values.

`show` selects the presentation: "top", "detections", "map", "classes", "picture", "tiles", "values", or "auto",
which selects one by the output's shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.errors import FileError, InputError, at, need, plural
from anylayer.images.preprocess import Placement
from anylayer.inspect.drawing import has_detections, summary
from anylayer.network import Array, TensorType

DRAWN = ("map", "classes", "picture", "tiles")
"""The presentations that are images."""

_MAX_JSON_VALUES = 1000
"""The largest number of values of an output that JSON contains."""

_MAX_LINE_VALUES = 16
"""The largest number of values of an output that a line contains."""


@dataclass(frozen=True)
class ShowOptions:
    """How results are shown.

    `labels` are the names of the classes by number, and `file_labels` those that the network's file has by output.
    `channels_last` says that maps are (N, H, W, C).
    """

    show: str = "auto"
    top: int = 5
    threshold: float = 0.5
    labels: Sequence[str] = ()
    channels_last: bool = False
    file_labels: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Detection:
    """A detected box: its class, score, and corners (left, top, right, bottom)."""

    number: int
    label: str
    score: float
    box: tuple[float, float, float, float]


def read_labels(path: Path) -> list[str]:
    """Return the labels in a file: line i, from 0, is the label of class i. Empty lines at the end are ignored."""
    with at(str(path)):
        try:
            lines = path.read_text("utf-8-sig").rstrip().splitlines()
        except FileNotFoundError:
            raise FileError("there is no such file") from None
        except UnicodeDecodeError:
            raise FileError("labels must be UTF-8 text, one per line") from None
        need(lines, "the file has no labels", FileError)
    return ["".join(c for c in line.strip() if c.isprintable()) for line in lines]


def channels_first(output: Array, channels_last: bool) -> Array:
    """Return an output of rank 4 as (N, C, H, W); another one unchanged."""
    return output.transpose(0, 3, 1, 2) if channels_last and output.ndim == 4 else output


def kind_of(output: Array, show: str = "auto", channels_last: bool = False) -> str:
    """Return how an output is presented: "top", "detections", "map" (any kind of image) or "values"."""
    if show != "auto":
        return "map" if show in DRAWN else show
    if has_detections(output):
        return "detections"
    output = channels_first(output, channels_last)
    if output.ndim == 4 and output.shape[2] * output.shape[3] > 1 and output.shape[0] == 1:
        return "map"
    long_axes = [d for d in output.shape if d > 1]
    return "top" if len(long_axes) == 1 and output.ndim in (1, 2, 4) and not _is_box(output) else "values"


def _is_box(output: Array) -> bool:
    """Return whether an output can be one box: four numbers that are not all in 0..1, as probabilities are."""
    finite = output.size == 4 and output.dtype.kind == "f" and bool(np.isfinite(output).all())
    return finite and not bool(((output >= 0) & (output <= 1)).all())


def without_empty_rows(output: Array) -> Array:
    """Return an output of detections without the rows that hold none; another output unchanged."""
    return output[:, :, output[0, 0, :, 0] >= 0] if has_detections(output) else output


def split_batch(outputs: Mapping[str, Array], batch: int) -> list[dict[str, Array]]:
    """Split the outputs of a batch into those of its `batch` items. Detections are split by their image number.

    Raises InputError for an output whose first axis is not the batch.
    """
    if batch == 1:
        return [dict(outputs)]
    parts: list[dict[str, Array]] = [{} for _ in range(batch)]
    for name, output in outputs.items():
        if has_detections(output):
            for i, part in enumerate(parts):
                rows = output[:, :, output[0, 0, :, 0] == i].copy()
                rows[..., 0] = 0
                part[name] = rows
            continue
        need(
            output.ndim > 0 and output.shape[0] == batch,
            f"output '{name}' {TensorType.of(output.shape, output.dtype)} has no axis for {batch} samples: "
            "use --batch 1",
            InputError,
        )
        for i, part in enumerate(parts):
            part[name] = output[i : i + 1]
    return parts


def concat_results(results: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Concatenate the outputs of several items along axis 0. The image number of detections becomes the item's.

    Raises InputError for an output whose shape differs between items.
    """
    arrays_by_name: dict[str, Array] = {}
    for name in results[0]:
        arrays = [r[name] for r in results]
        rows = all(has_detections(a) for a in arrays)
        if rows and len(arrays) > 1:
            arrays = [a.copy() for a in arrays]
            for i, a in enumerate(arrays):
                a[..., 0] = np.where(a[..., 0] >= 0, i, a[..., 0])
        shapes = {a.shape[1:2] if rows else a.shape[1:] for a in arrays}
        need(
            len(shapes) == 1,
            f"output '{name}' has different shapes for the inputs: write each input to its own file, with "
            "{name} in the path",
            InputError,
        )
        arrays_by_name[name] = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, 2 if rows else 0)
    return arrays_by_name


def best(output: Array, options: ShowOptions, name: str) -> list[list[tuple[int, str, float]]]:
    """Return the `top` largest values of each row of (N, C, 1...) as (class, label, score); ties sort by class."""
    rows = output.reshape(1, -1) if output.ndim == 1 or output.shape[0] == output.size else output
    rows = rows.reshape(rows.shape[0], -1)
    classes = rows.shape[1]
    need(
        not options.labels or len(options.labels) == classes,
        f"output '{name}' has {classes} classes, but the labels file has {plural(len(options.labels), 'line')}",
        InputError,
    )
    in_file = options.file_labels.get(name, ())
    labels = options.labels or (in_file if len(in_file) == classes else ())
    results = []
    for row in rows:
        order = np.argsort(-row, kind="stable")[: options.top]
        results.append([(int(i), labels[i] if labels else "", float(row[i])) for i in order])
    return results


def detections(output: Array, options: ShowOptions, place: Placement | None) -> list[Detection]:
    """Return the rows (image, class, score, x0, y0, x1, y1) with at least the threshold's score, sorted by score.

    Corners are relative to the input. With `place` they are converted to pixels of the original image.
    """
    need(
        output.ndim >= 2 and output.shape[-1] == 7,
        f"detections have 7 values per row, but the output has shape {output.shape}",
        InputError,
    )
    rows = output.reshape(-1, 7)
    rows = rows[(rows[:, 0] >= 0) & (rows[:, 1] >= 0) & (rows[:, 2] >= options.threshold)]
    results = []
    for _, number, score, *box in rows[np.argsort(-rows[:, 2], kind="stable")].tolist():
        results.append(Detection(int(number), _label(int(number), options.labels), score, _place_box(box, place)))
    return results


def _label(number: int, labels: Sequence[str]) -> str:
    need(
        not labels or number < len(labels),
        f"class {number} is detected, but the labels file has {len(labels)} lines. Line i, counted from 0, is "
        "class i (the background is a class)",
        InputError,
    )
    return labels[number] if labels else ""


def _place_box(box: Sequence[float], place: Placement | None) -> tuple[float, float, float, float]:
    x0, y0, x1, y1 = box
    if place is None:
        return x0, y0, x1, y1
    return (
        place.left + x0 * place.width,
        place.top + y0 * place.height,
        place.left + x1 * place.width,
        place.top + y1 * place.height,
    )


def lines(name: str, output: Array, options: ShowOptions, place: Placement | None) -> Iterator[str]:
    """Yield the lines of text that show an output."""
    kind = kind_of(output, options.show, options.channels_last)
    head = f"{name} {TensorType.of(output.shape, output.dtype)}"
    if kind == "top":
        yield head
        for i, row in enumerate(rows := best(output, options, name)):
            if len(rows) > 1:
                yield f"  row {i}"
            yield from (f"  {score:10.6g}  {number:5d}  {label}".rstrip() for number, label, score in row)
    elif kind == "detections":
        boxes = detections(output, options, place)
        unit = "pixels" if place else "relative to the input"
        yield f"{name}: {len(boxes)} of {output.size // 7} with a score of at least {options.threshold:g} ({unit})"
        if boxes:
            yield "  score  " + " ".join(f"{side:>8}" for side in ("left", "top", "right", "bottom")) + "  class"
        for d in boxes:
            corners = " ".join(_coordinate(v, 1 if place else 4) for v in d.box)
            yield f"  {d.score:.3f}  {corners}  {d.number:3d}  {d.label}".rstrip()
    elif output.size <= _MAX_LINE_VALUES:
        yield f"{head}: {' '.join(f'{v:.6g}' for v in output.ravel().tolist())}"
    else:
        yield f"{head}: {summary(output)}"


def _coordinate(value: float, digits: int) -> str:
    return f"{value:8.{digits}f}" if abs(value) < 1e5 else f"{value:8.2g}"


def json_data(name: str, output: Array, options: ShowOptions, place: Placement | None) -> dict[str, Any]:
    """Return an output as plain data for JSON: what `lines` shows, and the values if there are at most 1,000."""
    kind = kind_of(output, options.show, options.channels_last)
    data: dict[str, Any] = {"shape": list(output.shape), "dtype": output.dtype.name}
    if kind == "top":
        rows = [[{"class": c, "label": t, "score": s} for c, t, s in r] for r in best(output, options, name)]
        data["top"] = rows[0] if len(rows) == 1 else rows
    elif kind == "detections":
        data["unit"] = "pixels" if place else "relative"
        data["detections"] = [
            {"class": d.number, "label": d.label, "score": d.score, "box": list(d.box)}
            for d in detections(output, options, place)
        ]
    else:
        finite = output[np.isfinite(output)]
        data["finite"] = int(finite.size)
        if finite.size:
            mean = float(finite.mean(dtype=np.float64))
            data.update(min=finite.min().item(), max=finite.max().item(), mean=mean)
        if output.size <= _MAX_JSON_VALUES:
            data["values"] = output.tolist()
    return data
