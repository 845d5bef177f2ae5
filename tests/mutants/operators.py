"""Mutations beside Cosmic Ray's: statements left out, calls taken for their neighbours, filters left open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import parso
from cosmic_ray.operators.operator import Example, Operator
from parso.python.tree import Keyword, Name
from parso.tree import NodeOrLeaf

Span = tuple[tuple[int, int], tuple[int, int]]

#: Calls that a tired person takes for each other.
_NEIGHBOURS = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "sorted": "list",
    "reversed": "list",
    "startswith": "endswith",
    "endswith": "startswith",
    "partition": "rpartition",
    "rpartition": "partition",
    "union": "intersection",
    "intersection": "union",
    "issuperset": "issubset",
    "issubset": "issuperset",
    "update": "copy",
    "extend": "append",
}


class StatementRemoved(Operator):
    """An assignment to something that outlives the line, a call, a ``del``, a ``raise``: ``pass`` instead."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Span]:
        """The whole statement."""
        if node.type == "simple_stmt" and _has_effect(node.children[0]) and _in_function(node):
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        """The statement as ``pass``, at its place."""
        del index
        first = node.children[0].get_first_leaf()
        node.children[0] = Keyword("pass", first.start_pos, first.prefix)
        return node

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Before and after."""
        return (Example("def f(a):\n    del a[0]\n", "def f(a):\n    pass\n"),)


def _has_effect(statement: NodeOrLeaf) -> bool:
    if statement.type == "expr_stmt":
        target, sign = statement.children[0], statement.children[1]
        if sign.type == "operator" and sign.value == "=":
            return target.type == "atom_expr"  # a name that nobody has set is found by any test
        return sign.type != "annassign"
    if statement.type == "del_stmt":
        return statement.children[1].type != "name"  # `del name` says that an argument is not used
    return statement.type == "raise_stmt" or (
        statement.type in ("atom_expr", "await") and statement.get_last_leaf().value == ")"
    )


def _in_function(node: NodeOrLeaf) -> bool:
    return parso.tree.search_ancestor(node, "funcdef") is not None


class CallSwapped(Operator):
    """A call of the function that lies next to it in the mind."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Span]:
        """The function's name."""
        if node.type == "name" and node.value in _NEIGHBOURS and node.get_next_leaf().value == "(":
            yield node.start_pos, node.end_pos

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        """The other name."""
        del index
        return Name(_NEIGHBOURS[node.value], node.start_pos, node.prefix)

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Before and after."""
        return (Example("min(a)", "max(a)"),)


class FilterOpened(Operator):
    """The condition of a comprehension, always met."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Span]:
        """The condition."""
        if node.type == "comp_if":
            yield node.children[1].start_pos, node.children[1].end_pos

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        """``if True``."""
        del index
        node.children[1] = Keyword("True", node.children[1].start_pos, " ")
        return node

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Before and after."""
        return (Example("[a for a in b if a]", "[a for a in b if True]"),)


OPERATORS: dict[str, type[Operator]] = {
    one.__name__: one for one in (StatementRemoved, CallSwapped, FilterOpened)
}
