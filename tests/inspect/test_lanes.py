"""The lanes of a drawn graph: every edge is one unbroken line that no other node sits on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from anylayer.inspect.page import lanes

Graph = list[tuple[list[str], list[str]]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Draw a graph in computing order, whose nodes read any earlier values."""
    nodes: Graph = []
    known = ["data"]
    for i in range(draw(st.integers(1, 14))):
        made = [f"v{i}.{k}" for k in range(draw(st.integers(1, 2)))]
        nodes.append((draw(st.lists(st.sampled_from(known), max_size=3)), made))
        known += made
    return nodes


@given(graphs())
def test_every_edge_is_an_unbroken_line(nodes: Graph) -> None:
    rows = lanes(nodes, [])
    producer = {name: i for i, (_, made) in enumerate(nodes) for name in made}
    for i, (read, _) in enumerate(nodes):
        for p in {producer[name] for name in read if name in producer}:
            assert rows[p].below and rows[p].lane in rows[i].above
            between = range(p + 1, i)
            assert all(rows[p].lane in rows[k].through and rows[k].lane != rows[p].lane for k in between)


@given(graphs())
def test_nothing_is_drawn_without_an_edge(nodes: Graph) -> None:
    rows = lanes(nodes, [])
    for i, row in enumerate(rows):
        sources = {name for name in nodes[i][0] if name != "data"}
        assert len(row.above) == len({name.partition(".")[0] for name in sources})
        assert row.below == any({*nodes[i][1]} & {*read} for read, _ in nodes[i + 1 :])
        assert row.starts == ("data" in nodes[i][0])
        assert len({*row.through}) == len(row.through) and row.lane not in row.through


def test_chain_is_one_straight_line() -> None:
    rows = lanes([(["data"], ["a"]), (["a"], ["b"]), (["b"], ["c"])], ["c"])
    assert [row.lane for row in rows] == [0, 0, 0]
    assert [(row.starts, row.ends) for row in rows] == [(True, False), (False, False), (False, True)]


def test_branch_gets_a_lane_of_its_own() -> None:
    rows = lanes([(["data"], ["a"]), (["a"], ["left"]), (["a"], ["right"]), (["left", "right"], ["sum"])], ["sum"])
    assert [row.lane for row in rows] == [0, 1, 0, 0]
    assert rows[3].above == [0, 1] and rows[2].through == [1]
