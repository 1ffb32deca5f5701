"""Helpers for the test file of a layer: `case`, `rejects` and `reads`, each of which returns one test, and
`refuses`, which returns one for each row of a table.

    from tests.layers.harness import case, ramp, rejects

    test_two_groups = case("ShuffleChannel", {"group": 2}, inputs=[ramp(1, 4)], outputs=[[[0, 2, 1, 3]]])
    test_group_divides = rejects(
        "ShuffleChannel", {"group": 4}, inputs=[ramp(1, 6)], text="group=4 does not divide 6 channels"
    )

`params` are the fields of the layer's own message, or whole messages: `{"relu_param": {"negative_slope": 0.1}}`.
Arrays may be given as nested lists; floats become float32. A test from `case` keeps its Case in the attribute
`case`, by which the conformance tests find all of them (see `cases`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anylayer.errors import AnyLayerError
from anylayer.layer import Bound, Registry, bind
from anylayer.network import Array, Node, TensorType
from anylayer.testing import assert_same, check_function
from tests.engine_names import GENERAL

ENGINES = GENERAL


def ramp(*shape: int, start: float = 0.0, step: float = 1.0) -> Array:
    """Return 0, 1, 2, ... in float32. No two elements are equal, so a test sees where each came from."""
    return (start + step * np.arange(int(np.prod(shape)))).astype(np.float32).reshape(shape)


def noise(*shape: int, seed: int = 0, scale: float = 1.0) -> Array:
    """Return seeded normal noise in float32."""
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


class Deferred(Sequence[Any]):
    """The outputs of a case whose reference takes long: `compute` is called when they are read first."""

    def __init__(self, count: int, compute: Callable[[], Sequence[Array]]) -> None:
        self._count, self._compute = count, compute

    @cached_property
    def _arrays(self) -> list[Array]:
        return [_array(a) for a in self._compute()[: self._count]]

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        return self._arrays[index]


@dataclass(frozen=True)
class Case:
    """A layer, its inputs, and the outputs that it must compute on every engine."""

    type: str
    params: Mapping[str, Any] = field(default_factory=dict)
    inputs: Sequence[Array] = ()
    outputs: Sequence[Array] = ()
    blobs: Sequence[Array] = ()
    dialect: str | None = None
    format: str = "caffe"
    in_place: bool = False
    engines: Sequence[str] = ENGINES
    tolerance: float | None = None
    notes: Sequence[str] = ()
    tops: int = 1

    def node(self) -> Node:
        """Return the node as a reader makes it."""
        return Node(
            name="layer1",
            type=self.type,
            inputs=[f"in{i}" for i in range(len(self.inputs))],
            outputs=[f"out{i}" for i in range(len(self.outputs) or self.tops)],
            params=self._messages(),
            blobs=list(self.blobs),
            place=f"layer 'layer1' ({self.type})",
            in_place=self.in_place,
        )

    def _messages(self) -> dict[str, Any]:
        if not self.params or all(isinstance(v, Mapping) and k.endswith("_param") for k, v in self.params.items()):
            return dict(self.params)
        found = Registry.of(self.format).find(self.type)
        messages = sorted({d.cls.message for d in found})
        if len(messages) != 1:
            raise ValueError(f"{self.type} has the messages {messages}: name one in params")
        return {messages[0]: dict(self.params)}

    def bind(self) -> Bound:
        """Return the node with an instance of its class, for these inputs."""
        definitions = Registry.of(self.format).find(self.type)
        if not definitions:
            raise ValueError(f"there is no layer type {self.type}")
        types = [TensorType.of(x.shape, x.dtype) for x in self.inputs]
        return bind(self.node(), definitions, types, self.dialect)

    def run(self) -> None:
        """Fail unless NumPy computes `outputs`, and each engine matches NumPy."""
        bound = self.bind()
        got = bound([x.copy() for x in self.inputs])
        for i, (g, w) in enumerate(zip(got, self.outputs)):
            assert_same(np.asarray(g), w, f"NumPy, output {i}", self.tolerance)
        for text in self.notes:
            assert any(text in n for n in bound.notes), f"no note says {text!r}: {bound.notes}"
        if self.inputs and self.engines:
            check_function(
                lambda *xs: self.bind()(xs), *self.inputs, engines=self.engines, tolerance=self.tolerance
            )


def _array(x: Any) -> Array:
    array = np.asarray(x)
    return array.astype(np.float32) if not isinstance(x, np.ndarray) or array.dtype == np.float64 else array


def _case(type: str, params: Mapping[str, Any] | None, given: dict[str, Any]) -> Case:
    outputs = given.pop("outputs", ())
    if not isinstance(outputs, Deferred):
        outputs = [_array(a) for a in outputs]
    arrays = {k: [_array(a) for a in given.pop(k, ())] for k in ("inputs", "blobs")}
    return Case(type, params or {}, outputs=outputs, **arrays, **given)


def case(type: str, params: Mapping[str, Any] | None = None, **given: Any) -> Callable[[], None]:
    """Return a test that a layer computes these outputs from these inputs, in NumPy and on every engine.

    Keywords: inputs, outputs, blobs (lists of arrays), dialect, in_place, engines, tolerance, format, and notes
    (texts that the notes of the layer must contain).
    """
    made = _case(type, params, given)

    def test() -> None:
        made.run()

    test.case = made
    return test


def rejects(
    type: str, params: Mapping[str, Any] | None = None, *, text: str, tops: int = 1, **given: Any
) -> Callable[[], None]:
    """Return a test that a layer refuses these params, blobs or inputs with a message that contains `text`."""
    made = _case(type, params, {**given, "tops": tops})

    def test() -> None:
        with pytest.raises(AnyLayerError) as caught:
            made.bind()([x.copy() for x in made.inputs])
        assert text in str(caught.value), f"{text!r} is not in {str(caught.value)!r}"

    return test


Refusal = tuple[Mapping[str, Any], str] | tuple[Mapping[str, Any], str, Mapping[str, Any]]
"""Params, the text of the message, and keywords of `rejects` that only this row has."""


def refuses(
    type: str, rows: Mapping[str, Refusal], *, params: Mapping[str, Any] | None = None, **given: Any
) -> Callable[..., None]:
    """Return a test that `rejects` each row of a table; the keys are the ids of the cases.

    All rows have these `params`, to which each adds its own, and the keywords of `rejects`.
    """

    @pytest.mark.parametrize(("own", "text", "others"), [(*row, {})[:3] for row in rows.values()], ids=rows)
    def test(own: Mapping[str, Any], text: str, others: Mapping[str, Any]) -> None:
        rejects(type, {**(params or {}), **own}, text=text, **{**given, **others})()

    return test


def reads(text: str, *, dialect: str | None = None, inputs: int = 1, **fields: Any) -> Any:
    """Return a test that this text of a Caffe file (one layer) becomes a layer with these values of its fields."""

    def test(tmp_path: Path) -> None:
        from anylayer.readers import caffe

        head = "".join(f'input: "in{i}" input_shape {{ dim: 1 dim: 4 dim: 8 dim: 8 }}\n' for i in range(inputs))
        path = tmp_path / "deploy.prototxt"
        path.write_text(head + text)
        network = caffe.read(
            path, None, dialect=dialect, proto=None, phase="TEST", level=0, stages=(), user_types=frozenset()
        )
        node = network.nodes[-1]
        definitions = Registry.of("caffe").find(node.type)
        types = [TensorType.of((1, 4, 8, 8)) for _ in node.inputs]
        instance = bind(node, definitions, types, network.dialect).instance
        assert {name: getattr(instance, name) for name in fields} == fields

    return test


def cases() -> Iterator[tuple[str, Case]]:
    """Yield every Case of the test files in this folder, with the id of its test."""
    here = Path(__file__).parent
    for path in sorted(here.glob("**/test_*.py")):
        stem = ".".join(path.relative_to(here).with_suffix("").parts)
        module = importlib.import_module(f"tests.layers.{stem}")
        for name, value in vars(module).items():
            if isinstance(getattr(value, "case", None), Case):
                yield f"{stem}.{name}", value.case
