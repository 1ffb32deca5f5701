"""What all Keras layers share: fields that do not affect inference, the arguments of calls, wrapped layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from anylayer.errors import LayerError, shortened
from anylayer.layer import Layer, Registry, attribute, need
from anylayer.layer.arguments import axis_of, inner_layer
from anylayer.layers._table import define
from anylayer.network import Array, Node

_HARMLESS = frozenset((
    "name", "trainable", "batch_input_shape", "batch_shape", "input_shape", "activity_regularizer", "seed",
    "autocast", "build_config", "quantization_config", "quantization_mode", "lora_rank", "lora_alpha",
    "implementation", "ragged", "sparse", "optional", "input_dtype",
))  # fmt: skip
"""Fields of any configuration that do not affect inference. Keras stores weights with LoRA added."""
_ENDINGS = ("_initializer", "_regularizer", "_constraint")


class KerasLayer(Layer):
    """A Keras layer, whose fields are those of its configuration (get_config)."""

    message = "config"
    harmless: ClassVar[frozenset[str]] = frozenset()
    """Further fields of the configuration of this class that do not affect inference."""
    called_with: ClassVar[frozenset[str]] = frozenset()
    """Names of the arguments that a call of the layer may have besides its inputs."""

    masks: ClassVar[str] = ""
    """What the layer does with the mask of a sequence.

    "passes" it on with the output; "makes" one as its second output; "takes" it as argument `mask` and passes it
    on; "joins": passes it on where all inputs have the same; "refuses" it, as the mask would need a form that is
    not supported; "" drops it.
    """

    call: dict[str, Any]

    @classmethod
    def makes_mask(cls, config: Mapping[str, Any]) -> bool:
        """Return whether a layer of this configuration makes a mask, where its class "makes" one."""
        return True

    def prepare(self, node: Node, dialect: str | None) -> None:
        config = node.params.get("config", {})
        fields = {name: value for name, value in config.items() if name in self.fields or not self._harmless(name)}
        dtype = fields.pop("dtype", None)
        self.call = dict(node.params.get("call", {}))
        unread = sorted(set(self.call.get("kwargs", {})) - self.called_with)
        need(not unread, f"is called with {', '.join(unread)}, which is not supported")
        super().prepare(replace(node, params={"config": fields}), dialect)
        self._dtype(dtype)

    def arguments(self, inputs: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional and the keyword arguments of the call, with the inputs in their places."""
        if not self.call:
            return list(inputs), {}
        args, kwargs = with_inputs(self.call["args"], inputs), with_inputs(self.call["kwargs"], inputs)
        if len(args) == 1 and isinstance(args[0], list):
            args = args[0]
        need(args, "takes at least 1 input, got 0")
        for name, value in [*((f"input {i}", v) for i, v in enumerate(args)), *kwargs.items()]:
            missing = value is None and name == "input 0"
            fits = name in _SWITCHES or (_is_tensors(value) and not missing)
            need(fits, f"{name} must be a tensor, got {shortened(repr(value), 80)}")
        return args, kwargs

    def inner(self, spec: Any, first: int, count: int | None = None) -> KerasLayer:
        """Return the layer that a configuration wraps, with `count` weights of this layer from `first` on.

        All weights from `first` on belong to it when `count` is None.
        """
        need(
            isinstance(spec, dict) and isinstance(spec.get("config"), dict),
            f"the wrapped layer must be a configuration with class_name and config, got {spec!r}",
        )
        kind, config = str(spec.get("class_name")), spec["config"]
        definitions = [d for d in Registry.of("keras").find(kind) if d.typed]
        need(definitions, f"wraps a {kind}, which is not supported in a wrapper")
        blobs = self._blobs[first:] if count is None else self._blobs[first : first + count]
        node = Node(self.name, kind, [""], [""], {"config": config}, list(blobs))
        return inner_layer(definitions[0], node, self.dialect)

    def adopt(self, layer: KerasLayer, first: int) -> None:
        """Count the weights that an inner layer has requested as this layer's weights from `first` on."""
        self._wanted.update({first + index: request for index, request in layer._wanted.items()})
        for text in layer.notes:
            self.note(text)

    def _harmless(self, name: str) -> bool:
        return name in _HARMLESS or name in self.harmless or name.endswith(_ENDINGS)

    def _dtype(self, dtype: Any) -> None:
        """Refuse quantized layers. Note a precision other than float32, since the layer computes in float32."""
        policy = dtype.get("config", {}) if isinstance(dtype, dict) else {"name": dtype}
        name = policy.get("name") if isinstance(policy, dict) else None
        need(
            not (isinstance(dtype, dict) and "Quantized" in str(dtype.get("class_name")))
            and not str(name).startswith(("int8", "int4", "float8", "gptq", "awq")),
            f"is quantized (dtype {name!r}), which is not supported. Save the model before model.quantize()",
        )
        if name not in (None, "float32") and not str(name).startswith(("int", "uint", "bool")):
            self.note(f"dtype {name}: computed in float32")


class PassesMask(KerasLayer):
    """A layer that passes the mask of a sequence on, and may be called with it."""

    masks = "passes"
    called_with = frozenset({"mask"})


FORMATS = ("channels_last", "channels_first")


class Spatial(KerasLayer):
    """A layer of inputs with `rank` spatial axes and channels."""

    rank: ClassVar[int] = 2
    data_format: Any = attribute(
        "any", "channels_last", doc="channels_last: (N, ..., C); channels_first: (N, C, ...)"
    )

    def setup(self) -> None:
        self.data_format = one_of(self.data_format or "channels_last", FORMATS, "data_format")

    def need_rank(self, x: Array) -> None:
        """Raise LayerError unless `x` has a batch axis, `rank` axes and channels."""
        need(
            len(x.shape) == self.rank + 2,
            f"takes an input of rank {self.rank + 2} (batch, {self.rank} axes, channels), got {tuple(x.shape)}",
        )


class WindowLayer(Spatial):
    """A layer that slides a window over its spatial axes."""

    paddings: ClassVar[Sequence[str]] = ("valid", "same")

    strides: Any = attribute("any", None, doc="strides per axis; those of a pooling default to pool_size")
    padding: str = attribute("string", "valid", doc="valid: no padding; same: ceil(size / stride) windows")

    def setup(self) -> None:
        super().setup()
        self.padding = one_of(self.padding.lower(), self.paddings, "padding")


_SWITCHES = frozenset({"return_attention_scores", "use_causal_mask", "training"})
"""Names of the arguments of a call that are not tensors."""


def _is_tensors(value: Any) -> bool:
    """Return whether a value is a tensor, None, or a nested list of these."""
    if isinstance(value, list):
        return all(map(_is_tensors, value))
    return value is None or (hasattr(value, "shape") and hasattr(value, "dtype"))


def with_inputs(value: Any, inputs: Sequence[Any]) -> Any:
    """Return the arguments of a call with the inputs in place of {"input": index}."""
    if isinstance(value, dict):
        if set(value) == {"input"} and type(value["input"]) is int:
            return inputs[value["input"]]
        return {key: with_inputs(item, inputs) for key, item in value.items()}
    if isinstance(value, list):
        return [with_inputs(item, inputs) for item in value]
    return value


_SIZES = {1: ("T",), 2: ("H", "W"), 3: ("D", "H", "W")}


def by_rank(
    base: type[KerasLayer],
    summary: str,
    details: str,
    ranks: Sequence[int] = (1, 2, 3),
    name: str = "",
    **body: Any,
) -> None:
    """Define layers Name1D to Name3D for a base Name, which has an attribute `rank`; or layers of another `name`,
    which contains {rank}. `body` are further attributes of the classes.

    In `summary` and `details`, {rank} stands for the rank, {axes} for "two axes", {sizes} for "H, W", {new} for
    "H', W'", {ones} for "1, 1", and {kernel} for "kh, kw".
    """
    for rank in ranks:
        sizes = _SIZES[rank]
        words = {
            "rank": rank,
            "axes": ("one axis", "two axes", "three axes")[rank - 1],
            "sizes": ", ".join(sizes),
            "new": ", ".join(f"{size}'" for size in sizes),
            "ones": ", ".join("1" * rank),
            "kernel": ", ".join(f"k{size.lower()}" for size in sizes) if rank > 1 else "k",
        }
        texts = summary.format(**words), details.format(**words)
        define((name or f"{base.__name__}{{rank}}D").format(rank=rank), base, *texts, rank=rank, **body)


def axes_of(value: Any, rank: int, what: str = "axis") -> tuple[int, ...]:
    """Return one axis or a list of several as sorted indices of 0 or more."""
    listed = value if isinstance(value, list) else [value]
    return tuple(sorted({axis_of(int(axis), rank, what) for axis in listed}))


def plain_value(value: Any) -> Any:
    """Return a value of a configuration, which Keras 2 may write as {"type": "ndarray", "value": 0.1}."""
    if isinstance(value, dict):
        inner = value.get("config", value)
        return inner.get("value", inner) if isinstance(inner, dict) else inner
    return value


def numbers(value: Any, count: int, what: str) -> tuple[int, ...]:
    """Return `count` integers from one integer for all or a sequence of `count`."""
    listed = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value] * count
    need(
        len(listed) == count and all(type(v) is int for v in listed),
        f"parameter '{what}' must be {count} integers, got {value!r}",
    )
    return tuple(listed)


def positive(value: Any, count: int, what: str) -> tuple[int, ...]:
    """Return `count` integers of 1 or more from one integer for all or a sequence of `count`."""
    integers = numbers(value, count, what)
    need(min(integers) >= 1, f"parameter '{what}' must be at least 1, got {value!r}")
    return integers


def one_of(value: Any, words: Sequence[str], what: str) -> str:
    """Return `value`. Raise LayerError when it is not one of the words `words`."""
    if not isinstance(value, str) or value not in words:
        raise LayerError(f"parameter '{what}' must be one of {', '.join(words)}, got {value!r}")
    return value
