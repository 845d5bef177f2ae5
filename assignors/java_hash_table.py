"""``java.util.HashMap`` node by node, for iteration orders that depend on the real table.

A ninth key in a bin doubles a table smaller than 64; in a larger table the bin becomes a red-black tree. Iteration
follows a list of the bin's keys with the tree's root in front, so the tree is built as in the JDK
(``HashMap.TreeNode``). Keys are ints that the caller chooses.
"""

from collections.abc import Iterator, Sequence
from typing import Any

DEFAULT_CAPACITY = 16
#: A list bin with more keys than this becomes a tree (``TREEIFY_THRESHOLD``).
TREEIFY_ABOVE = 8
#: In a table smaller than this, a full bin doubles the table instead (``MIN_TREEIFY_CAPACITY``).
TREE_CAPACITY = 64
#: A tree bin that a resize leaves with this many keys or fewer becomes a list again (``UNTREEIFY_THRESHOLD``).
UNTREEIFY_AT = 6


def threshold(capacity: int) -> int:
    """Return the number of keys at which a table doubles: three quarters of its capacity."""
    return capacity * 3 // 4


class HashTable:
    """A HashSet of int keys with given hash codes.

    ``capacity`` is a power of two. ``compared`` orders keys with equal hash codes in a tree (``Comparable``). None
    orders such keys by their value, where Java would use an unpredictable identity hash.
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY, sort_keys: Sequence[bytes] | None = None) -> None:
        self._bins: list[list[int]] = [[] for _ in range(capacity)]
        self._trees: dict[int, _Tree] = {}
        self._hashes: dict[int, int] = {}
        self._sort_keys = sort_keys

    def __len__(self) -> int:
        return len(self._hashes)

    def __iter__(self) -> Iterator[int]:
        for keys in self._bins:
            yield from keys

    def add(self, key: int, code: int) -> None:
        """Add a key with this (signed) hash code (``HashMap.putVal``); an existing key keeps its place."""
        if key in self._hashes:
            return
        hash_code = self._hashes[key] = code ^ (code >> 16 & 0xFFFF)
        index = hash_code & (len(self._bins) - 1)
        keys, tree = self._bins[index], self._trees.get(index)
        if tree is not None:  # In the list, the new key follows its parent in the tree.
            keys.insert(keys.index(tree.insert(key, self._rank(key))) + 1, key)
            self._move_root_to_front(index)
        else:
            keys.append(key)
            if len(keys) > TREEIFY_ABOVE:
                if len(self._bins) < TREE_CAPACITY:
                    self._resize()
                else:
                    self._build_tree(index)
        if len(self._hashes) > threshold(len(self._bins)):
            self._resize()

    def remove(self, key: int) -> None:
        """Remove a key (``HashMap.removeNode``); the table never shrinks."""
        index = self._hashes.pop(key) & (len(self._bins) - 1)
        self._bins[index].remove(key)
        tree = self._trees.get(index)
        if tree is None:
            return
        root = tree.root
        if None in root.children or root.children[0].children[0] is None:  # too small for a tree
            del self._trees[index]
        else:
            tree.delete(key)
            self._move_root_to_front(index)

    def _rank(self, key: int) -> tuple[int, Any]:
        return self._hashes[key], key if self._sort_keys is None else self._sort_keys[key]

    def _resize(self) -> None:
        moved_bit, hashes, trees = len(self._bins), self._hashes, self._trees
        low = [[key for key in keys if not hashes[key] & moved_bit] for keys in self._bins]
        self._bins = low + [[key for key in keys if hashes[key] & moved_bit] for keys in self._bins]
        self._trees = {}
        for index, tree in trees.items():
            for place, sibling in ((index, index + moved_bit), (index + moved_bit, index)):
                if len(self._bins[place]) > UNTREEIFY_AT:
                    if self._bins[sibling]:
                        self._build_tree(place)
                    else:  # A bin that kept all its keys keeps its tree.
                        self._trees[place] = tree

    def _build_tree(self, index: int) -> None:
        tree = self._trees[index] = _Tree()
        for key in self._bins[index]:
            tree.insert(key, self._rank(key))
        self._move_root_to_front(index)

    def _move_root_to_front(self, index: int) -> None:
        keys, root = self._bins[index], self._trees[index].root.key
        keys.remove(root)
        keys.insert(0, root)


class _Node:
    __slots__ = ("children", "is_red", "key", "parent", "rank")

    def __init__(self, key: int, rank: tuple[int, Any], parent: Any) -> None:
        self.key, self.rank, self.parent = key, rank, parent
        self.children: list[Any] = [None, None]
        self.is_red = True


def _is_red(node: _Node | None) -> bool:
    return node is not None and node.is_red


class _Tree:
    """The red-black tree of one bin of a hash table, as in ``HashMap.TreeNode`` (Cormen et al., chapter 13)."""

    def __init__(self) -> None:
        self.root: Any = None
        self._nodes: dict[int, _Node] = {}

    def insert(self, key: int, rank: tuple[int, Any]) -> int:
        """Insert a key (``putTreeVal``); return the key of its parent, or the key itself if it became the root."""
        upper_parent, at, child_index = None, self.root, 0
        while at is not None:
            upper_parent, child_index = at, int(rank > at.rank)
            at = at.children[child_index]
        node = self._nodes[key] = _Node(key, rank, upper_parent)
        if upper_parent is None:
            self.root = node
        else:
            upper_parent.children[child_index] = node
        self._balance_insertion(node)
        return key if upper_parent is None else int(upper_parent.key)

    def delete(self, key: int) -> None:
        """Delete a key (``removeTreeNode``)."""
        node = self._nodes.pop(key)
        if None not in node.children:
            successor = node.children[1]
            while successor.children[0] is not None:
                successor = successor.children[0]
            # Java exchanges the nodes and their colours, so the key moves and the position keeps its colour.
            node.key, node.rank = successor.key, successor.rank
            self._nodes[node.key] = node
            node = successor
        child = node.children[0] or node.children[1]
        if child is not None:
            self._replace(child, node)
        if not node.is_red:
            self._balance_deletion(child or node)
        if child is None:
            node.parent.children[node.parent.children[1] is node] = None

    def _replace(self, node: _Node, replaced: _Node) -> None:
        upper_parent = node.parent = replaced.parent
        if upper_parent is None:
            self.root = node
        else:
            upper_parent.children[upper_parent.children[1] is replaced] = node

    def _rotate(self, node: _Node, child_index: int) -> None:
        """Rotate ``node`` down to the left (side 0, ``rotateLeft``) or right (side 1, ``rotateRight``)."""
        child = node.children[1 - child_index]
        inner_child = node.children[1 - child_index] = child.children[child_index]
        if inner_child is not None:
            inner_child.parent = node
        self._replace(child, node)
        child.children[child_index] = node
        node.parent = child

    def _balance_insertion(self, node: _Node) -> None:
        while _is_red(parent := node.parent):
            grandparent = parent.parent
            child_index = int(parent is grandparent.children[1])
            uncle = grandparent.children[1 - child_index]
            grandparent.is_red = True
            if _is_red(uncle):
                uncle.is_red = parent.is_red = False
                node = grandparent
                continue
            if node is parent.children[1 - child_index]:
                self._rotate(parent, child_index)
                node, parent = parent, node
            parent.is_red = False
            self._rotate(grandparent, 1 - child_index)
        self.root.is_red = False

    def _balance_deletion(self, node: _Node) -> None:
        while node is not self.root and not node.is_red:
            upper_parent = node.parent
            child_index = int(node is upper_parent.children[1])
            sibling = upper_parent.children[1 - child_index]
            if sibling.is_red:
                sibling.is_red, upper_parent.is_red = False, True
                self._rotate(upper_parent, child_index)
                sibling = upper_parent.children[1 - child_index]
            if not any(map(_is_red, sibling.children)):
                sibling.is_red = True
                node = upper_parent
                continue
            if not _is_red(sibling.children[1 - child_index]):
                sibling.children[child_index].is_red = False
                sibling.is_red = True
                self._rotate(sibling, 1 - child_index)
                sibling = upper_parent.children[1 - child_index]
            sibling.is_red = upper_parent.is_red
            sibling.children[1 - child_index].is_red = upper_parent.is_red = False
            self._rotate(upper_parent, child_index)
            node = self.root
        node.is_red = False
