"""``java.util.HashMap`` to the node, for orders that depend on the real table.

A bin that gets a ninth key doubles the table while it is smaller than 64, and becomes a red-black tree in a larger
one; a tree keeps its nodes in a list of their own order with the root in front. Iteration shows all of it, so the
tree is built as the JDK builds it (``HashMap.TreeNode``). Keys are ints of the caller's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

DEFAULT_CAPACITY = 16
#: A list bin that would exceed this is treeified (``TREEIFY_THRESHOLD``).
TREEIFY_ABOVE = 8
#: … unless the table is smaller than this (``MIN_TREEIFY_CAPACITY``): then the table doubles.
TREE_CAPACITY = 64
#: A tree bin that a resize leaves with so few becomes a list again (``UNTREEIFY_THRESHOLD``).
UNTREEIFY_AT = 6


def threshold(capacity: int) -> int:
    """Return the number of keys at which a table doubles: three quarters."""
    return capacity * 3 // 4


class Node:
    """An entry. ``kids`` (left and right), ``parent`` and ``red`` matter in a tree bin only."""

    __slots__ = ("hash", "key", "kids", "next", "parent", "prev", "red", "tree")

    def __init__(self, key: int, spread: int) -> None:
        self.key = key
        self.hash = spread
        self.next: Node | None = None
        self.prev: Node | None = None
        self.parent: Any = None
        self.kids: list[Any] = [None, None]
        self.red = False
        self.tree = False


class HashTable:
    """A HashSet of int keys with given hash codes.

    Args:
        capacity: a power of two.
        compared: by key, what orders keys of equal hash code in a tree (``Comparable``); None: their own value,
            where Java would use an identity hash that no one can predict.
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY, compared: Sequence[bytes] | None = None) -> None:
        self._bins: list[Node | None] = [None] * capacity
        self._nodes: dict[int, Node] = {}
        self._compared = compared
        self._above: Node | None = None

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, key: int) -> bool:
        return key in self._nodes

    def __iter__(self) -> Iterator[int]:
        for head in self._bins:
            node = head
            while node is not None:
                yield node.key
                node = node.next

    def add(self, key: int, code: int) -> None:
        """``HashMap.putVal`` of a key with this (signed) hash code; a key that is there stays where it is."""
        if key in self._nodes:
            return
        spread = code ^ (code >> 16 & 0xFFFF)
        fresh = self._nodes[key] = Node(key, spread)
        index = spread & (len(self._bins) - 1)
        head = self._bins[index]
        if head is None:
            self._bins[index] = fresh
        elif head.tree:
            self._put_tree(head, fresh)
        else:
            count = 1
            last = head
            while last.next is not None:
                last = last.next
                count += 1
            last.next = fresh
            if count >= TREEIFY_ABOVE:
                self._treeify_bin(index)
        if len(self._nodes) > threshold(len(self._bins)):
            self._resize()

    def remove(self, key: int) -> None:
        """``HashMap.removeNode``; the table never shrinks."""
        gone = self._nodes.pop(key)
        index = gone.hash & (len(self._bins) - 1)
        if gone.tree:
            self._remove_tree(index, gone)
            return
        node = self._bins[index]
        if node is gone:
            self._bins[index] = gone.next
            return
        while node is not None:
            if node.next is gone:
                node.next = gone.next
                return
            node = node.next

    # Growing

    def _resize(self) -> None:
        old = self._bins
        bit = len(old)
        self._bins = [*old, *[None] * bit]
        for index, head in enumerate(old):
            if head is None:
                continue
            tree = head.tree
            low, high = _split(head, bit)
            for place, half, other_half in ((index, low, high), (index + bit, high, low)):
                self._bins[place] = half[0] if half else None
                if tree and half:
                    if len(half) <= UNTREEIFY_AT:
                        _untreeify(half)
                    elif other_half:  # a bin that kept all its nodes is still the tree it was
                        self._treeify(half[0])

    def _treeify_bin(self, index: int) -> None:
        if len(self._bins) < TREE_CAPACITY:
            self._resize()
            return
        head = node = self._bins[index]
        before = None
        while node is not None:
            node.tree = True
            node.prev = before
            before, node = node, node.next
        if head is not None:
            self._treeify(head)

    # Trees, by the names of HashMap.TreeNode

    def _goes_left(self, key: int, spread: int, at: Node) -> bool:
        if spread != at.hash:
            return spread < at.hash
        if self._compared is not None:
            return self._compared[key] <= self._compared[at.key]
        return key <= at.key

    def _treeify(self, head: Node) -> None:
        root: Node | None = None
        node: Node | None = head
        while node is not None:
            node.kids, node.parent = [None, None], None
            root = node if root is None else self._insert(root, node)
            root.red = False
            node = node.next
        if root is not None:
            self._root_to_front(root)

    def _put_tree(self, head: Node, fresh: Node) -> None:
        fresh.tree = True
        root = self._insert(_root_of(head), fresh)
        above = self._above  # the list that iteration follows takes the new node after its parent in the tree
        if above is not None:
            fresh.next, fresh.prev = above.next, above
            if above.next is not None:
                above.next.prev = fresh
            above.next = fresh
        self._root_to_front(root)

    def _insert(self, root: Node, fresh: Node) -> Node:
        """Put ``fresh`` under ``root``; the root afterwards. ``_above`` is the node above it."""
        at: Node | None = root
        side = 0
        while at is not None:
            above = at
            side = int(not self._goes_left(fresh.key, fresh.hash, at))
            at = at.kids[side]
        self._above = fresh.parent = above
        above.kids[side] = fresh
        return _balance_insertion(root, fresh)

    def _root_to_front(self, root: Node) -> None:
        index = root.hash & (len(self._bins) - 1)
        first = self._bins[index]
        if root is first:
            return
        self._bins[index] = root
        if root.next is not None:
            root.next.prev = root.prev
        if root.prev is not None:
            root.prev.next = root.next
        if first is not None:
            first.prev = root
        root.next, root.prev = first, None

    def _remove_tree(self, index: int, gone: Node) -> None:
        """``TreeNode.removeTreeNode``."""
        first = self._bins[index]
        if gone.prev is None:
            first = self._bins[index] = gone.next
        else:
            gone.prev.next = gone.next
        if gone.next is not None:
            gone.next.prev = gone.prev
        if first is None:
            return
        root = _root_of(gone if gone.parent is None else first)
        if None in root.kids or root.kids[0].kids[0] is None:  # too small to stay a tree
            _untreeify(list(_listed(first)))
            return
        self._root_to_front(_delete(root, gone))


def _listed(node: Node | None) -> Iterator[Node]:
    while node is not None:
        yield node
        node = node.next


def _split(head: Node, bit: int) -> tuple[list[Node], list[Node]]:
    """The bin's nodes that stay and those that go to the new half, each relinked in its order."""
    low: list[Node] = []
    high: list[Node] = []
    for node in list(_listed(head)):
        half = high if node.hash & bit else low
        node.prev = half[-1] if half else None
        if half:
            half[-1].next = node
        node.next = None
        half.append(node)
    return low, high


def _untreeify(nodes: list[Node]) -> None:
    for node in nodes:
        node.tree = node.red = False
        node.parent = node.prev = None
        node.kids = [None, None]


# The red-black tree of a bin, by the methods of HashMap.TreeNode. Each returns the root afterwards.


def _root_of(node: Node) -> Node:
    while node.parent is not None:
        node = node.parent
    return node


def _replace(root: Node, old: Node, new: Node) -> Node:
    """Hang ``new`` where ``old`` hangs; ``old``'s own links stay."""
    above = new.parent = old.parent
    if above is None:
        return new
    above.kids[above.kids[1] is old] = new
    return root


def _rotate(root: Node, node: Node, side: int) -> Node:
    """``rotateLeft`` (side 0) or ``rotateRight`` (side 1): ``node`` goes down on that side."""
    child = node.kids[1 - side]
    if child is None:
        return root
    inner = node.kids[1 - side] = child.kids[side]
    if inner is not None:
        inner.parent = node
    root = _replace(root, node, child)
    child.kids[side] = node
    node.parent = child
    if child.parent is None:
        child.red = False
    return root


def _balance_insertion(root: Node, node: Node) -> Node:
    """``balanceInsertion`` (Cormen et al., 13.3)."""
    node.red = True
    while (parent := node.parent) is not None:
        grand = parent.parent
        if not parent.red or grand is None:
            return root
        side = int(parent is grand.kids[1])
        uncle = grand.kids[1 - side]
        if _is_red(uncle):
            uncle.red = parent.red = False
            grand.red = True
            node = grand
            continue
        if node is parent.kids[1 - side]:
            root = _rotate(root, parent, side)
            node, parent = parent, node
        parent.red = False
        grand.red = True
        root = _rotate(root, grand, 1 - side)
    node.red = False
    return node


def _is_red(node: Node | None) -> bool:
    return node is not None and node.red


def _swap_with_successor(root: Node, gone: Node, successor: Node) -> Node:
    """Exchange a node that has two children with its successor in the tree."""
    gone.red, successor.red = successor.red, gone.red
    inner, (left, right), above = successor.kids[1], gone.kids, gone.parent
    if successor is right:
        gone.parent, successor.kids[1] = successor, gone
    else:
        gone.parent = successor.parent
        gone.parent.kids[0] = gone
        right.parent, successor.kids[1] = successor, right
    gone.kids = [None, inner]
    if inner is not None:
        inner.parent = gone
    left.parent, successor.kids[0] = successor, left
    successor.parent = above
    if above is None:
        return successor
    above.kids[above.kids[1] is gone] = successor
    return root


def _delete(root: Node, gone: Node) -> Node:
    """Take ``gone`` out of the tree."""
    if None not in gone.kids:
        successor = gone.kids[1]
        while successor.kids[0] is not None:
            successor = successor.kids[0]
        root = _swap_with_successor(root, gone, successor)
    child = gone.kids[0] or gone.kids[1]
    if child is not None:
        root = _replace(root, gone, child)
        if child.parent is None:
            child.red = False
        gone.kids, gone.parent = [None, None], None
    if not gone.red:
        root = _balance_deletion(root, child or gone)
    if child is None and gone.parent is not None:
        if gone in gone.parent.kids:
            gone.parent.kids[gone.parent.kids[1] is gone] = None
        gone.parent = None
    return root


def _balance_deletion(root: Node, node: Node) -> Node:
    """``balanceDeletion`` (Cormen et al., 13.4)."""
    while node is not root:
        above = node.parent
        if above is None or node.red:
            node.red = False
            return root if above is not None else node
        side = int(node is above.kids[1])
        if _is_red(above.kids[1 - side]):
            above.kids[1 - side].red, above.red = False, True
            root = _rotate(root, above, side)
        sibling = above.kids[1 - side]
        if sibling is None or not (_is_red(sibling.kids[0]) or _is_red(sibling.kids[1])):
            if sibling is not None:
                sibling.red = True
            node = above
            continue
        if not _is_red(sibling.kids[1 - side]):
            sibling.kids[side].red = False
            sibling.red = True
            root = _rotate(root, sibling, 1 - side)
            sibling = above.kids[1 - side]
        sibling.red = above.red
        sibling.kids[1 - side].red = above.red = False
        root = _rotate(root, above, side)
        node = root
    return root
