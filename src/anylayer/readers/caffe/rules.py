"""Select the layers of a network by phase, level and stages (Caffe's net.cpp, FilterNet, StateMeetsRule)."""

from __future__ import annotations

from dataclasses import dataclass

from anylayer.errors import nearest
from anylayer.network import Flag
from anylayer.protobuf.tree import Block, Entry, shortened_text

PHASES = {"TRAIN": 0, "TEST": 1}
_RULE_FIELDS = ("phase", "min_level", "max_level", "stage", "not_stage")


@dataclass(frozen=True, slots=True)
class State:
    """The state of a network that the include and exclude rules of its layers test."""

    phase: str = "TEST"
    level: int = 0
    stages: frozenset[str] = frozenset()

    def __str__(self) -> str:
        stages = f", stages {', '.join(sorted(self.stages))}" if self.stages else ""
        return f"phase {self.phase}, level {self.level}{stages}"


def network_state(net: Block, phase: str, level: int, stages: tuple[str, ...]) -> State:
    """Return the requested state, combined with the stages of the file, and with its level if `level` is 0."""
    state = net.block("state")
    if state is None:
        return State(phase, level, frozenset(stages))
    for entry in state:
        if entry.name not in ("phase", "level", "stage"):
            raise state.fail(f"'state' has no field '{entry.name}'", entry.line)
    return State(phase, level or state.integer("level"), frozenset(stages) | frozenset(state.texts("stage")))


def phase_of(block: Block, default: str) -> str:
    """Return the phase that a block names, or the default."""
    entry = block.entry("phase")
    return default if entry is None else _phase(block, entry)


def _phase(block: Block, entry: Entry) -> str:
    for name, number in PHASES.items():
        if entry.value == name or (entry.value == number and not isinstance(entry.value, Flag)):
            return name
    raise block.fail(f"'phase' must be TRAIN or TEST, got {shortened_text(entry.value)}", entry.line)


def takes_part(layer: Block, state: State) -> bool:
    """Return whether the layer's include and exclude rules keep it. Raise FileError if it has both kinds."""
    included, excluded = layer.blocks("include"), layer.blocks("exclude")
    if included and excluded:
        raise layer.fail("a layer must have only one of 'include' and 'exclude' rules, got both", excluded[0].line)
    if included:
        return any(_holds(rule, state) for rule in included)
    return not any(_holds(rule, state) for rule in excluded)


def _holds(rule: Block, state: State) -> bool:
    for entry in rule:
        if entry.name not in _RULE_FIELDS:
            hint = nearest(entry.name, _RULE_FIELDS)
            raise rule.fail(f"an include or exclude rule has no field '{entry.name}'{hint}", entry.line)
    stages, not_stages = rule.texts("stage"), rule.texts("not_stage")
    return (
        phase_of(rule, state.phase) == state.phase
        and rule.integer("min_level", state.level) <= state.level <= rule.integer("max_level", state.level)
        and state.stages.issuperset(stages)
        and state.stages.isdisjoint(not_stages)
    )
