"""What all of Keras' layers share: the fields that no number depends on, and how they are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from anylayer.errors import LayerError
from anylayer.layer import Layer, Registry, need
from anylayer.network import Node

_HARMLESS = frozenset(
    {
        "name",
        "trainable",
        "batch_input_shape",
        "batch_shape",
        "input_shape",
        "activity_regularizer",
        "seed",
        "autocast",
        "build_config",
        "quantization_config",
        "quantization_mode",
        "lora_rank",
        "lora_alpha",
        "implementation",
        "ragged",
        "sparse",
        "optional",
        "input_dtype",
    }
)
"""Fields of any configuration that say nothing about inference. (Weights are stored with their LoRA added.)"""
_ENDINGS = ("_initializer", "_regularizer", "_constraint")


class KerasLayer(Layer):
    """A layer of Keras: its fields are those of its configuration (get_config)."""

    message = "config"
    harmless: ClassVar[frozenset[str]] = frozenset()
    """Further fields of the class's configuration that say nothing about inference."""
    called_with: ClassVar[frozenset[str]] = frozenset()
    """The arguments that a call of the layer may have beside its inputs."""

    masks: ClassVar[str] = ""
    """What becomes of a sequence's mask: "passes" it goes on with the output, "makes" the layer gives one as its
    second output, "takes" the layer reads it as its argument `mask` and it goes on, "joins" it goes on where all
    inputs have the same, "refuses" the layer would need it in a form that is not supported; "" it ends here."""

    call: dict[str, Any]

    @classmethod
    def makes_mask(cls, config: Mapping[str, Any]) -> bool:
        """Whether a layer of this configuration gives a mask, where its class "makes" one."""
        return True

    def prepare(self, node: Node, dialect: str | None) -> None:
        config = node.params.get("config", {})
        kept = {name: value for name, value in config.items() if name in self.fields or not self._harmless(name)}
        dtype = kept.pop("dtype", None)
        self.call = dict(node.params.get("call", {}))
        unread = sorted(set(self.call.get("kwargs", {})) - self.called_with)
        need(not unread, f"is called with {', '.join(unread)}, which is not supported here")
        super().prepare(replace(node, params={"config": kept}), dialect)
        self._dtype(dtype)

    def arguments(self, inputs: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """The call's arguments, its inputs in their places: positional ones, and by name."""
        if not self.call:
            return list(inputs), {}
        args, kwargs = placed(self.call["args"], inputs), placed(self.call["kwargs"], inputs)
        if len(args) == 1 and isinstance(args[0], list):
            args = args[0]
        need(args, "takes at least 1 input, got 0")
        for name, value in [*((f"input {i}", v) for i, v in enumerate(args)), *kwargs.items()]:
            missing = value is None and name == "input 0"
            fits = name in _SWITCHES or (_is_tensors(value) and not missing)
            need(fits, f"{name} must be a tensor, got {_shown(value)}")
        return args, kwargs

    def inner(self, spec: Any, first: int, count: int | None = None) -> KerasLayer:
        """The layer that a configuration wraps, with this layer's weights from `first` on."""
        need(isinstance(spec, dict) and isinstance(spec.get("config"), dict), f"the layer it wraps is {spec!r}")
        kind, config = str(spec.get("class_name")), spec["config"]
        found = [d for d in Registry.of("keras").find(kind) if d.typed]
        need(found, f"wraps a {kind}, which is not supported in a wrapper")
        cls: Any = found[0].cls
        made: KerasLayer = cls.__new__(cls)
        blobs = self._blobs[first:] if count is None else self._blobs[first : first + count]
        made.prepare(Node(self.name, kind, [""], [""], {"config": config}, list(blobs)), self.dialect)
        return made

    def adopt(self, made: KerasLayer, first: int) -> None:
        """Count what an inner layer has asked for as this layer's weights from `first` on."""
        self._wanted.update({first + index: wanted for index, wanted in made._wanted.items()})
        for text in made.notes:
            self.note(text)

    def _harmless(self, name: str) -> bool:
        return name in _HARMLESS or name in self.harmless or name.endswith(_ENDINGS)

    def _dtype(self, dtype: Any) -> None:
        """Refuse quantised layers; say where another precision than float32 was asked for."""
        policy = dtype.get("config", {}) if isinstance(dtype, dict) else {"name": dtype}
        name = policy.get("name") if isinstance(policy, dict) else None
        need(
            not (isinstance(dtype, dict) and "Quantized" in str(dtype.get("class_name")))
            and not str(name).startswith(("int8", "int4", "float8", "gptq", "awq")),
            f"is quantised (dtype {name!r}), which is not supported. Save the model before model.quantize()",
        )
        if name not in (None, "float32") and not str(name).startswith(("int", "uint", "bool")):
            self.note(f"dtype {name}: computed in float32")


_SWITCHES = frozenset({"return_attention_scores", "use_causal_mask", "training"})
"""The arguments of a layer's call that are not tensors."""


def _is_tensors(value: Any) -> bool:
    """Whether a value is a tensor, None, or a list of those."""
    if isinstance(value, list):
        return all(map(_is_tensors, value))
    return value is None or (hasattr(value, "shape") and hasattr(value, "dtype"))


def _shown(value: Any) -> str:
    """Return a value of the file for a message, shortened."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def placed(value: Any, inputs: Sequence[Any]) -> Any:
    """Arguments of a call with its inputs in place of {"input": index}."""
    if isinstance(value, dict):
        if set(value) == {"input"} and type(value["input"]) is int:
            return inputs[value["input"]]
        return {key: placed(item, inputs) for key, item in value.items()}
    if isinstance(value, list):
        return [placed(item, inputs) for item in value]
    return value


FORMATS = ("channels_last", "channels_first")


def numbers(value: Any, count: int, what: str) -> tuple[int, ...]:
    """`count` integers, from one or as many."""
    listed = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value] * count
    need(
        len(listed) == count and all(type(v) is int for v in listed),
        f"parameter '{what}' must be {count} integers, got {value!r}",
    )
    return tuple(listed)


def positive(value: Any, count: int, what: str) -> tuple[int, ...]:
    """`count` integers of at least 1."""
    found = numbers(value, count, what)
    need(min(found) >= 1, f"parameter '{what}' must be at least 1, got {value!r}")
    return found


def single(inputs: Sequence[Any]) -> Any:
    """The one input."""
    need(len(inputs) == 1, f"takes 1 input, got {len(inputs)}")
    return inputs[0]


def one_of(value: Any, known: Sequence[str], what: str) -> str:
    """`value`, which must be one of a few words."""
    if not isinstance(value, str) or value not in known:
        raise LayerError(f"parameter '{what}' must be one of {', '.join(known)}, got {value!r}")
    return value


def channels_first(x: Any, data_format: str) -> Any:
    """`x` with its channels at axis 1, as the operators want them; `restored` turns it back."""
    if data_format == "channels_first":
        return x
    rank = len(x.shape)
    return x.transpose(0, rank - 1, *range(1, rank - 1))


def restored(x: Any, data_format: str) -> Any:
    """`x` (N, C, ...) as `data_format` has it."""
    if data_format == "channels_first":
        return x
    return x.transpose(0, *range(2, len(x.shape)), 1)


def same_pads(size: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """TensorFlow's padding "same" along one axis: the odd cell goes to the end."""
    total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def axis_of(axis: int, rank: int, what: str = "axis") -> int:
    """An axis counted from 0."""
    need(-rank <= axis < rank, f"{what}={axis} is no axis of an input of rank {rank}")
    return axis % rank
