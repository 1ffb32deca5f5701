"""What is shown of an output: the best classes, detections, a map, or its values; as text and as plain data.

`show` names the presentation: "top", "detections", "map", "classes", "picture", "tiles", "values", or "auto",
which goes by the output's shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.cli.preprocess import Placement
from anylayer.errors import FileError, InputError, at, need
from anylayer.network import Array, TensorType

PICTURES = ("map", "classes", "picture", "tiles")
_FEW = 1000  # values that JSON holds
_SHORT = 16  # values that a line holds


@dataclass(frozen=True)
class Options:
    """How results are shown. `labels` are the classes' names, by number; `channels_last` says that maps lie (N, H,
    W, C)."""

    show: str = "auto"
    top: int = 5
    threshold: float = 0.5
    labels: Sequence[str] = ()
    channels_last: bool = False


@dataclass(frozen=True)
class Detection:
    """One box: its class, score, and corners (left, top, right, bottom)."""

    number: int
    label: str
    score: float
    box: tuple[float, float, float, float]


def read_labels(path: Path) -> list[str]:
    """One label a line, line i (from 0) for class i; blank lines at the end do not count."""
    with at(str(path)):
        try:
            lines = path.read_text("utf-8-sig").rstrip().splitlines()
        except FileNotFoundError:
            raise FileError("there is no such file") from None
        except UnicodeDecodeError:
            raise FileError("labels are text in UTF-8, one per line") from None
        need(lines, "there are no labels in the file", FileError)
    return ["".join(c for c in line.strip() if c.isprintable()) for line in lines]


def channels_first(output: Array, channels_last: bool) -> Array:
    """An output as (N, C, H, W), where it has 4 dimensions."""
    return output.transpose(0, 3, 1, 2) if channels_last and output.ndim == 4 else output


def kind_of(output: Array, show: str = "auto", channels_last: bool = False) -> str:
    """How an output is presented: "top", "detections", "map" (a picture of some kind) or "values"."""
    if show != "auto":
        return "map" if show in PICTURES else show
    if _is_rows(output):
        return "detections"
    output = channels_first(output, channels_last)
    if output.ndim == 4 and output.shape[2] * output.shape[3] > 1 and output.shape[0] == 1:
        return "map"
    wide = [d for d in output.shape if d > 1]
    return "top" if len(wide) == 1 and output.ndim in (1, 2, 4) else "values"


def _is_rows(output: Array) -> bool:
    """Whether an output is SSD's detections: [1, 1, N, 7], whole image and class numbers, scores in 0..1."""
    if output.ndim != 4 or output.shape[:2] != (1, 1) or output.shape[3] != 7:
        return False
    rows = output.reshape(-1, 7)
    rows = rows[rows[:, 0] >= 0]
    whole = bool((rows[:, :2] == np.floor(rows[:, :2])).all())
    return whole and bool((rows[:, 1] >= -1).all()) and bool(((rows[:, 2] >= 0) & (rows[:, 2] <= 1)).all())


def detected(output: Array) -> Array:
    """An output without the rows of detections that hold none."""
    return output[:, :, output[0, 0, :, 0] >= 0] if _is_rows(output) else output


def split(outputs: Mapping[str, Array], batch: int) -> list[dict[str, Array]]:
    """The outputs of each of the `batch` items that ran together; detections go by their image number."""
    if batch == 1:
        return [dict(outputs)]
    parts: list[dict[str, Array]] = [{} for _ in range(batch)]
    for name, output in outputs.items():
        if _is_rows(output):
            for i, part in enumerate(parts):
                rows = output[:, :, output[0, 0, :, 0] == i].copy()
                rows[..., 0] = 0
                part[name] = rows
            continue
        need(
            output.ndim > 0 and output.shape[0] == batch,
            f"output '{name}' {TensorType.of(output.shape, output.dtype)} does not tell {batch} inputs apart: "
            "take --batch 1",
            InputError,
        )
        for i, part in enumerate(parts):
            part[name] = output[i : i + 1]
    return parts


def join(results: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """The outputs of several items as one array each: along axis 0; detections below each other, numbered."""
    joined: dict[str, Array] = {}
    for name in results[0]:
        arrays = [r[name] for r in results]
        rows = all(_is_rows(a) for a in arrays)
        if rows and len(arrays) > 1:
            arrays = [a.copy() for a in arrays]
            for i, a in enumerate(arrays):
                a[..., 0] = np.where(a[..., 0] >= 0, i, a[..., 0])
        shapes = {a.shape[1:2] if rows else a.shape[1:] for a in arrays}
        need(
            len(shapes) == 1,
            f"output '{name}' has a shape of its own for each input: write each to a file of its own, with "
            "{name} in its path",
            InputError,
        )
        joined[name] = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, 2 if rows else 0)
    return joined


def best(output: Array, options: Options, name: str) -> list[list[tuple[int, str, float]]]:
    """The `top` largest values of each row of (N, C, 1...) as (class, label, score); ties go by class."""
    rows = output.reshape(1, -1) if output.ndim == 1 or output.shape[0] == output.size else output
    rows = rows.reshape(rows.shape[0], -1)
    classes = rows.shape[1]
    need(
        not options.labels or len(options.labels) == classes,
        f"output '{name}' has {classes} classes, the labels file has {len(options.labels)} lines",
        InputError,
    )
    found = []
    for row in rows:
        order = np.argsort(-row, kind="stable")[: options.top]
        found.append([(int(i), options.labels[i] if options.labels else "", float(row[i])) for i in order])
    return found


def detections(output: Array, options: Options, place: Placement | None) -> list[Detection]:
    """The rows (image, class, score, x0, y0, x1, y1) of at least the threshold, the best first.

    Corners are relative to the input; `place` turns them into the picture's pixels.
    """
    need(
        output.ndim >= 2 and output.shape[-1] == 7,
        f"detections have 7 values a row, the output has shape {output.shape}",
        InputError,
    )
    rows = output.reshape(-1, 7)
    rows = rows[(rows[:, 0] >= 0) & (rows[:, 1] >= 0) & (rows[:, 2] >= options.threshold)]
    found = []
    for _, number, score, *box in rows[np.argsort(-rows[:, 2], kind="stable")].tolist():
        found.append(Detection(int(number), _label(int(number), options.labels), score, _placed(box, place)))
    return found


def _label(number: int, labels: Sequence[str]) -> str:
    need(
        not labels or number < len(labels),
        f"class {number} is detected, the labels file has {len(labels)} lines: line i, from 0, is class i (the "
        "background counts)",
        InputError,
    )
    return labels[number] if labels else ""


def _placed(box: Sequence[float], place: Placement | None) -> tuple[float, float, float, float]:
    x0, y0, x1, y1 = box
    if place is None:
        return x0, y0, x1, y1
    return (
        place.left + x0 * place.width,
        place.top + y0 * place.height,
        place.left + x1 * place.width,
        place.top + y1 * place.height,
    )


def lines(name: str, output: Array, options: Options, place: Placement | None) -> Iterator[str]:
    """An output as text."""
    kind = kind_of(output, options.show, options.channels_last)
    head = f"{name} {TensorType.of(output.shape, output.dtype)}"
    if kind == "top":
        yield head
        for i, row in enumerate(rows := best(output, options, name)):
            if len(rows) > 1:
                yield f"  row {i}"
            yield from (f"  {score:10.6g}  {number:5d}  {label}".rstrip() for number, label, score in row)
    elif kind == "detections":
        found = detections(output, options, place)
        unit = "pixels" if place else "relative to the input"
        yield f"{name}: {len(found)} of {output.size // 7} with a score of at least {options.threshold:g} ({unit})"
        if found:
            yield "  score  " + " ".join(f"{side:>8}" for side in ("left", "top", "right", "bottom")) + "  class"
        for d in found:
            corners = " ".join(_coordinate(v, 1 if place else 4) for v in d.box)
            yield f"  {d.score:.3f}  {corners}  {d.number:3d}  {d.label}".rstrip()
    elif output.size <= _SHORT:
        yield f"{head}: {' '.join(f'{v:.6g}' for v in output.ravel().tolist())}"
    else:
        yield f"{head}: {summary(output)}"


def _coordinate(value: float, digits: int) -> str:
    return f"{value:8.{digits}f}" if abs(value) < 1e5 else f"{value:8.2g}"


def summary(output: Array) -> str:
    """`0.01..0.98, mean 0.2`, and how many values are not finite."""
    finite = output[np.isfinite(output)]
    text = "no values"
    if finite.size:
        text = f"{finite.min():.6g}..{finite.max():.6g}, mean {finite.mean(dtype=np.float64):.6g}"
    odd = output.size - finite.size
    return text + (f"; {odd} of {output.size} values are NaN or infinite" if odd else "")


def plain(name: str, output: Array, options: Options, place: Placement | None) -> dict[str, Any]:
    """An output as plain data for JSON: what `lines` shows, and the values where they are few."""
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
        if output.size <= _FEW:
            data["values"] = output.tolist()
    return data
