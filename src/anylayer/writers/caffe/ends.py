"""The ends of a network: every output is a blob of its name that nothing reads, and no other blob is left
unread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from anylayer.errors import at
from anylayer.writers.caffe.builder import Builder
from anylayer.writers.caffe.layers import CaffeLayer, CaffeNet, free
from anylayer.writers.caffe.opencv import name_outputs
from anylayer.writers.caffe.views import View


def name_blobs(b: Builder, views: Mapping[str, View]) -> None:
    """Give blobs without steps the names of the outputs that they are. One that is read, or is an input, or
    several outputs, is copied by a layer."""
    shared = Counter(view.name for view in views.values())
    blobs = {}
    for name, view in views.items():
        with at(f"output '{name}'"), b.within(name):
            ends = b.reads(view.name) == 0 and shared[view.name] == 1 and view.name in b.layers
            blobs[name] = view.name if ends else b.add("Split", [view], view.base).name
    changed = {blob: name for name, blob in blobs.items() if blob != name}
    for holder in set(changed.values()).intersection(b.layers) - set(changed):
        changed[holder] = free(f"{holder}/blob", b.blobs)
    for layer in b.net.layers:
        layer.tops = [changed.get(t, t) for t in layer.tops]
        layer.bottoms = [changed.get(t, t) for t in layer.bottoms]


def finish(net: CaffeNet, outputs: Collection[str]) -> None:
    """Leave no ends but the outputs: other blobs that nothing reads are silenced. OpenCV, which knows ends by
    their layers, gets a layer of the name for each output."""
    if net.dialect.name == "opencv":
        name_outputs(net, outputs)
        return
    read = {v for layer in net.layers for v in layer.bottoms}
    tops = [*net.inputs, *(v for layer in net.layers for v in layer.tops)]
    unread = [v for v in dict.fromkeys(tops) if v not in read and v not in outputs]
    if unread:
        taken = {layer.name for layer in net.layers}
        net.layers.append(CaffeLayer(free("silence", taken), "Silence", unread))
