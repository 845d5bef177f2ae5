"""``java.util.HashMap`` to the node, for what only the real table tells.

A bin that gets a ninth key doubles the table while it is smaller than 64, and becomes a red-black tree in a larger
one; a tree keeps its nodes in a list of their own order with the root in front. Iteration shows all of it, so the
tree is built as the JDK builds it (``HashMap.TreeNode``). Keys are ints of the caller's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

DEFAULT_CAPACITY = 16
#: A list bin that would exceed this is treeified (``TREEIFY_THRESHOLD``).
TREEIFY_ABOVE = 8
#: … unless the table is smaller than this (``MIN_TREEIFY_CAPACITY``): then the table doubles.
TREE_CAPACITY = 64
#: A tree bin that a resize leaves with so few becomes a list again (``UNTREEIFY_THRESHOLD``).
UNTREEIFY_AT = 6


def threshold(capacity: int) -> int:
    """How many keys a table holds before it doubles: three quarters."""
    return capacity * 3 // 4


class _Node:
    """An entry; the tree fields matter in a tree bin only."""

    __slots__ = ("hash", "key", "left", "next", "parent", "prev", "red", "right", "tree")

    def __init__(self, key: int, spread: int) -> None:
        self.key = key
        self.hash = spread
        self.next: _Node | None = None
        self.prev: _Node | None = None
        self.parent: _Node | None = None
        self.left: _Node | None = None
        self.right: _Node | None = None
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
        self._bins: list[_Node | None] = [None] * capacity
        self._nodes: dict[int, _Node] = {}
        self._compared = compared
        self._above: _Node | None = None

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
        fresh = self._nodes[key] = _Node(key, spread)
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
            for place, half, other in ((index, low, high), (index + bit, high, low)):
                self._bins[place] = half[0] if half else None
                if tree and half:
                    if len(half) <= UNTREEIFY_AT:
                        _untreeify(half)
                    elif other:  # a bin that kept all its nodes is still the tree it was
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

    def _goes_left(self, key: int, spread: int, at: _Node) -> bool:
        if spread != at.hash:
            return spread < at.hash
        if self._compared is not None:
            return self._compared[key] <= self._compared[at.key]
        return key <= at.key

    def _treeify(self, head: _Node) -> None:
        root: _Node | None = None
        node: _Node | None = head
        while node is not None:
            node.left = node.right = node.parent = None
            root = node if root is None else self._insert(root, node)
            root.red = False
            node = node.next
        if root is not None:
            self._root_to_front(root)

    def _put_tree(self, head: _Node, fresh: _Node) -> None:
        fresh.tree = True
        root = self._insert(_root(head), fresh)
        above = self._above  # the list that iteration follows takes the new node after its parent in the tree
        if above is not None:
            fresh.next, fresh.prev = above.next, above
            if above.next is not None:
                above.next.prev = fresh
            above.next = fresh
        self._root_to_front(root)

    def _insert(self, root: _Node, fresh: _Node) -> _Node:
        """Put ``fresh`` under ``root``; the root afterwards. ``_above`` tells under which node it came."""
        at: _Node | None = root
        left = False
        while at is not None:
            above = at
            left = self._goes_left(fresh.key, fresh.hash, at)
            at = at.left if left else at.right
        self._above = fresh.parent = above
        if left:
            above.left = fresh
        else:
            above.right = fresh
        return _balance_insertion(root, fresh)

    def _root_to_front(self, root: _Node) -> None:
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

    def _remove_tree(self, index: int, gone: _Node) -> None:
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
        root = _root(gone if gone.parent is None else first)
        if root.right is None or root.left is None or root.left.left is None:  # too small to stay a tree
            _untreeify(list(_listed(first)))
            return
        self._root_to_front(_delete(root, gone))


def _listed(node: _Node | None) -> Iterator[_Node]:
    while node is not None:
        yield node
        node = node.next


def _split(head: _Node, bit: int) -> tuple[list[_Node], list[_Node]]:
    """The bin's nodes that stay and those that go to the new half, each relinked in its order."""
    low: list[_Node] = []
    high: list[_Node] = []
    for node in list(_listed(head)):
        half = high if node.hash & bit else low
        node.prev = half[-1] if half else None
        if half:
            half[-1].next = node
        node.next = None
        half.append(node)
    return low, high


def _untreeify(nodes: list[_Node]) -> None:
    for node in nodes:
        node.tree = node.red = False
        node.parent = node.left = node.right = node.prev = None


def _root(node: _Node) -> _Node:
    while node.parent is not None:
        node = node.parent
    return node


def _replace(root: _Node, old: _Node, new: _Node | None) -> _Node:
    """Hang ``new`` where ``old`` hangs; the root afterwards (``old``'s own links stay)."""
    above = old.parent
    if new is not None:
        new.parent = above
    if above is None:
        return new if new is not None else root
    if above.left is old:
        above.left = new
    else:
        above.right = new
    return root


def _rotate(root: _Node, node: _Node, *, left: bool) -> _Node:
    """Rotate ``node`` down to the left or right; the root afterwards."""
    child = node.right if left else node.left
    if child is None:
        return root
    inner = child.left if left else child.right
    if left:
        node.right = inner
    else:
        node.left = inner
    if inner is not None:
        inner.parent = node
    root = _replace(root, node, child)
    if left:
        child.left = node
    else:
        child.right = node
    node.parent = child
    if child.parent is None:
        child.red = False  # rotateLeft and rotateRight blacken a new root
    return root


def _balance_insertion(root: _Node, node: _Node) -> _Node:
    """``TreeNode.balanceInsertion`` (Cormen et al., 13.3)."""
    node.red = True
    while True:
        parent = node.parent
        if parent is None:
            node.red = False
            return node
        grand = parent.parent
        if not parent.red or grand is None:
            return root
        on_left = parent is grand.left
        uncle = grand.right if on_left else grand.left
        if uncle is not None and uncle.red:
            uncle.red = parent.red = False
            grand.red = True
            node = grand
            continue
        if node is (parent.right if on_left else parent.left):
            node = parent
            root = _rotate(root, node, left=on_left)
            parent = node.parent
            grand = parent.parent if parent is not None else None
        if parent is not None:
            parent.red = False
            if grand is not None:
                grand.red = True
                root = _rotate(root, grand, left=not on_left)


def _swap_with_successor(root: _Node, gone: _Node, successor: _Node) -> _Node:
    """Exchange a node that has two children with its successor in the tree; the root afterwards."""
    gone.red, successor.red = successor.red, gone.red
    inner, left, right, above = successor.right, gone.left, gone.right, gone.parent
    if successor is right:
        gone.parent, successor.right = successor, gone
    else:
        lower = successor.parent
        gone.parent = lower
        if lower is not None:
            if successor is lower.left:
                lower.left = gone
            else:
                lower.right = gone
        successor.right = right
        if right is not None:
            right.parent = successor
    gone.left, gone.right = None, inner
    if inner is not None:
        inner.parent = gone
    successor.left, successor.parent = left, above
    if left is not None:
        left.parent = successor
    if above is None:
        return successor
    if gone is above.left:
        above.left = successor
    else:
        above.right = successor
    return root


def _delete(root: _Node, gone: _Node) -> _Node:
    """Take ``gone`` out of the tree; the root afterwards."""
    if gone.left is not None and gone.right is not None:
        successor = gone.right
        while successor.left is not None:
            successor = successor.left
        root = _swap_with_successor(root, gone, successor)
    child = gone.left or gone.right
    if child is not None:
        root = _replace(root, gone, child)
        if child.parent is None:
            child.red = False
        gone.left = gone.right = gone.parent = None
    if not gone.red:
        root = _balance_deletion(root, child or gone)
    if child is None:
        above, gone.parent = gone.parent, None
        if above is not None:
            if gone is above.left:
                above.left = None
            elif gone is above.right:
                above.right = None
    return root


def _balance_deletion(root: _Node, node: _Node | None) -> _Node:
    """``TreeNode.balanceDeletion`` (Cormen et al., 13.4)."""
    while node is not None and node is not root:
        above = node.parent
        if above is None:
            node.red = False
            return node
        if node.red:
            node.red = False
            return root
        on_left = node is above.left
        sibling = above.right if on_left else above.left
        if sibling is not None and sibling.red:
            sibling.red, above.red = False, True
            root = _rotate(root, above, left=on_left)
            above = node.parent
            sibling = None if above is None else above.right if on_left else above.left
        if sibling is None or above is None:
            node = above
            continue
        near, far = (sibling.left, sibling.right) if on_left else (sibling.right, sibling.left)
        if (near is None or not near.red) and (far is None or not far.red):
            sibling.red = True
            node = above
            continue
        if far is None or not far.red:
            if near is not None:
                near.red = False
            sibling.red = True
            root = _rotate(root, sibling, left=not on_left)
            above = node.parent
            sibling = None if above is None else above.right if on_left else above.left
            far = None if sibling is None else sibling.right if on_left else sibling.left
        if sibling is not None:
            sibling.red = False if above is None else above.red
            if far is not None:
                far.red = False
        if above is not None:
            above.red = False
            root = _rotate(root, above, left=on_left)
        node = root
    return root
