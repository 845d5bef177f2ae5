"""The red-black tree of a HashMap bin: ``HashMap.TreeNode``'s insertion and deletion, node by node."""

from __future__ import annotations


class Node:
    """An entry; the tree fields matter in a tree bin only."""

    __slots__ = ("hash", "key", "left", "next", "parent", "prev", "red", "right", "tree")

    def __init__(self, key: int, spread: int) -> None:
        self.key = key
        self.hash = spread
        self.next: Node | None = None
        self.prev: Node | None = None
        self.parent: Node | None = None
        self.left: Node | None = None
        self.right: Node | None = None
        self.red = False
        self.tree = False


def root_of(node: Node) -> Node:
    """The root of the tree that ``node`` is in."""
    while node.parent is not None:
        node = node.parent
    return node


def _replace(root: Node, old: Node, new: Node | None) -> Node:
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


def _rotate(root: Node, node: Node, *, left: bool) -> Node:
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


def balance_insertion(root: Node, node: Node) -> Node:
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


def _swap_with_successor(root: Node, gone: Node, successor: Node) -> Node:
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


def delete(root: Node, gone: Node) -> Node:
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


def _balance_deletion(root: Node, node: Node | None) -> Node:
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
