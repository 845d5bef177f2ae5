"""The tree of a bin stays a red-black tree; that it is Java's very tree is for the oracle to say."""

from __future__ import annotations

from random import Random

import pytest

from assignors.java_hash_table import Node, _balance_insertion, _delete


def insert(root: Node | None, node: Node) -> Node:
    if root is None:
        return node
    above: Node | None = root
    while above is not None:
        node.parent = above
        above = above.kids[node.hash >= above.hash]
    node.parent.kids[node.hash >= node.parent.hash] = node
    return _balance_insertion(root, node)


def ordered(node: Node | None) -> list[int]:
    return [] if node is None else [*ordered(node.kids[0]), node.hash, *ordered(node.kids[1])]


def black_height(node: Node | None) -> int:
    """Black nodes on each way down, the same on all: Cormen et al., 13.1."""
    if node is None:
        return 1
    for child in node.kids:
        assert child is None or (child.parent is node and not (node.red and child.red))
    left, right = map(black_height, node.kids)
    assert left == right
    return left + (not node.red)


@pytest.mark.parametrize("seed", range(20))
def test_changes_keep_a_red_black_tree_of_its_keys(seed: int) -> None:
    chance = Random(seed)
    nodes = [Node(number, number) for number in chance.sample(range(1000), 40)]
    root: Node | None = None
    there: list[Node] = []
    for node in nodes:
        root = insert(root, node)
        there.append(node)
        assert ordered(root) == sorted(one.hash for one in there)
        black_height(root)
        assert (root.parent, root.red) == (None, False)
    chance.shuffle(there)
    while len(there) > 1:
        assert root is not None
        root = _delete(root, there.pop())
        assert ordered(root) == sorted(one.hash for one in there)
        black_height(root)
        assert (root.parent, root.red) == (None, False)
