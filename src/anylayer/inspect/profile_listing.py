"""Write a profile as text: a table of nodes, and sentences about the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anylayer.errors import plural, some
from anylayer.inspect.tables import Column, count, parts_text, table, wrap_lines

if TYPE_CHECKING:
    from anylayer.inspect.costs import NodeCost, Profile

_COLUMNS = (
    Column("node", 8, "middle", worth=8),
    Column("type", 6, "middle"),
    Column("ms", right=True),
    Column("share", right=True),
    Column("MACs", right=True),
    Column("bytes", right=True),
    Column("arith", right=True),
    Column("band", right=True),
    Column("limit"),
)
_WHERE = {"native": "a native kernel", "python": "in Python", "free": "assumed free"}
VOID = "the estimate is void, because the values of a free layer decide about work"
_TYPES = 6
"""The number of layer types whose shares are listed."""
_LISTED = 4
"""The number of layers that a sentence names."""


def lines(profile: Profile, width: int | None) -> list[str]:
    """Return the lines of a profile: the nodes, the slowest first, and sentences of at most `width` characters."""
    by_time = sorted(profile.costs, key=lambda cost: -cost.seconds)
    head, *rows = table(_COLUMNS, [_cells(profile, cost) for cost in by_time], width)
    text = [*head, *(line for row in rows for line in row)]
    for sentence in _sentences(profile):
        text += wrap_lines(sentence, width)
    return text


def _cells(profile: Profile, cost: NodeCost) -> tuple[str, ...]:
    return (
        _name(profile, cost),
        _type(cost),
        f"{cost.seconds * 1e3:.3f}",
        f"{100 * cost.seconds / (profile.total or 1):.1f}%",
        count(cost.macs) if cost.macs else "-",
        count(cost.bytes) if cost.bytes else "-",
        _percent(profile.arithmetic(cost)),
        _percent(profile.bandwidth(cost)),
        profile.limit(cost) or "-",
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f}%"


def _name(profile: Profile, cost: NodeCost) -> str:
    if cost.where == "call":
        calls = [c.step for c in profile.costs if c.where == "call"]
        which = f" {calls.index(cost.step) + 1} of {len(calls)}" if len(calls) > 1 else ""
        return f"(call{which})"
    return " + ".join(cost.layers) or cost.parts[0].name


def _type(cost: NodeCost) -> str:
    """Return the types of the layers; "reorder" for a reorder, and the engine's word where there is no layer."""
    return "reorder" if cost.where == "reorder" else " + ".join(cost.types) or cost.parts[0].operation or "-"


def _sentences(profile: Profile) -> list[str]:
    threads = f", {plural(profile.threads, 'thread')}" if profile.threads else ""
    peaks = profile.peaks
    sentences = [
        f"{profile.engine}{threads}: {profile.seconds * 1e3:.3f} ms per run (median of {profile.runs}, without "
        f"counters); the rows add up to {profile.total * 1e3:.3f} ms",
        f"peaks: {count(round(peaks.macs))}MAC/s, {count(round(peaks.bytes))}B/s ({peaks.how}); arith and band "
        "are shares of them",
        f"by type: {', '.join(_by_type(profile))}",
    ]
    if not profile.counted:
        what = "each layer" if profile.engine == "numpy" else "each call"
        sentences.append(f"engine '{profile.engine}' has no counters: the time of {what} is measured from outside")
    if profile.engine_layers:
        sentences.append(parts_text(profile.engine_layers))
    if profile.unnamed:
        sentences.append(f"{profile.engine} names no node of its own for {_names(profile.unnamed)}")
    sentences += _about_reorders(profile) + _about_cuts(profile) + _about_free(profile)
    return sentences


def _by_type(profile: Profile) -> list[str]:
    """Return the types with the largest shares of the time. The time of layers that run as one is added to the
    type of the one that stands for all.
    """
    spent: dict[str, float] = {}
    for cost in profile.costs:
        kind = (
            cost.where if cost.where in ("reorder", "call") else cost.types[cost.lead] if cost.types else "other"
        )
        spent[kind] = spent.get(kind, 0.0) + cost.seconds
    largest = sorted(spent.items(), key=lambda item: -item[1])[:_TYPES]
    return [f"{kind} {100 * seconds / (profile.total or 1):.1f}%" for kind, seconds in largest]


def _about_reorders(profile: Profile) -> list[str]:
    reorders = [cost for cost in profile.costs if cost.where == "reorder"]
    if not reorders:
        return []
    spent = sum(cost.seconds for cost in reorders)
    number = sum(len(cost.parts) for cost in reorders)
    names = _names([name for cost in reorders for name in cost.layers])
    return [f"{plural(number, 'reorder')} of values in memory, {spent * 1e3:.3f} ms in all: at {names}"]


def _about_cuts(profile: Profile) -> list[str]:
    if not profile.cuts:
        return []
    calls = sum(cost.seconds for cost in profile.costs if cost.where == "call")
    graphs = len({c.step for c in profile.costs if c.where in ("engine", "call", "reorder")})
    names = _names([f"'{cut.layer}' ({cut.type}, {_WHERE[cut.where]})" for cut in profile.cuts])
    if not graphs:
        return [f"no layer runs in the engine, only {names}"]
    spent = f"; the calls cost {calls * 1e3:.3f} ms outside their nodes" if profile.counted else ""
    return [f"cut into {plural(graphs, 'graph')} around {names}{spent}"]


def _about_free(profile: Profile) -> list[str]:
    if not profile.free:
        return []
    sentences = [f"assumed free: {', '.join(profile.free)}. The times are those of the other layers"]
    if profile.steered:
        sentences.append(f"{VOID}: {_names([*map(str, profile.steered)])}")
    else:
        sentences.append("no work depends on their values, so the estimate holds")
    return sentences


def _names(names: list[str]) -> str:
    return some(list(dict.fromkeys(names)), _LISTED)
