"""The tree of a hash bin stays a red-black tree; the oracle tests compare the tree with Java's."""

from random import Random
from typing import Any

import pytest

from assignors.java_hash_table import _Tree


def ordered(node: Any) -> list[int]:
    return [] if node is None else [*ordered(node.children[0]), node.key, *ordered(node.children[1])]


def black_height(node: Any) -> int:
    """Return the number of black nodes on every path to a leaf, which must be equal (Cormen et al., 13.1)."""
    if node is None:
        return 1
    for child in node.children:
        assert child is None or (child.parent is node and not (node.is_red and child.is_red))
    left, right_black_height = map(black_height, node.children)
    assert left == right_black_height
    return int(left + (not node.is_red))


@pytest.mark.parametrize("seed", range(20))
def test_red_black_tree_stays_balanced_after_changes(seed: int) -> None:
    chance, tree = Random(seed), _Tree()
    keys = chance.sample(range(1000), 40)
    changes = [(key, True) for key in keys] + [(key, False) for key in chance.sample(keys, 39)]
    there: set[int] = set()
    for key, is_new in changes:
        if is_new:
            tree.insert(key, (key, None))
            there.add(key)
        else:
            tree.delete(key)
            there.remove(key)
        assert ordered(tree.root) == sorted(there)
        black_height(tree.root)
        assert (tree.root.parent, tree.root.is_red) == (None, False)
