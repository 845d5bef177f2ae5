"""Which mutants there are, and which of them a seed draws."""

from __future__ import annotations

import ast
import contextlib
import random
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names

from tests.mutants.operators import OPERATORS

ROOT = Path(__file__).resolve().parents[2]
#: Modules of ``spark`` that work a session which they are given.
SHELLS = ("query.py", "listener.py", "inspection.py")
#: ``is`` where values are compared, and values where ``is`` is asked: what no test should rest on.
IDENTITY = re.compile("Comparison.*_(Is|IsNot)(_|$)")


@dataclass(frozen=True)
class Mutant:
    """One mutation of one place."""

    path: str
    line: int
    operator: str
    occurrence: int
    was: str
    became: str


def modules(room: str, tree: Path = ROOT) -> list[Path]:
    """The room's modules in a tree; of ``spark`` those that run without Spark."""
    base = Path("assignors") if room == "assignors" else Path("streaming", room)
    found = sorted(path.relative_to(tree) for path in (tree / base).rglob("*.py"))
    return [
        path for path in found if room != "spark" or not (path.name in SHELLS or _imports_spark(tree / path))
    ]


def _imports_spark(path: Path) -> bool:
    """Whether importing the module imports Spark."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if any("pyspark" in name or "pandas" in name for name in names):
            return True
    return "pyspark" in path.parts


def operators() -> dict[str, Operator]:
    """Every operator that needs no argument, by name."""
    named = {name.split("/")[-1]: get_operator(name) for name in operator_names()} | OPERATORS
    return {
        name: kind()
        for name, kind in named.items()
        if not kind.arguments() and (not IDENTITY.search(name) or name.endswith(("_Is_IsNot", "_IsNot_Is")))
    }


def spans_left_out(tree: ast.AST) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Annotations, ``if TYPE_CHECKING`` and what dataclasses are told of their own making."""
    found: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            found.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            found.append(node.returns)
        elif isinstance(node, ast.ClassDef):
            found += [*node.decorator_list, *(word.value for word in node.keywords)]
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            found.append(node.test)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and _is_type(node.value):
            found.append(node.value)
    return [((one.lineno, one.col_offset), (one.end_lineno or 0, one.end_col_offset or 0)) for one in found]


def _is_type(node: ast.expr) -> bool:
    """Whether this is a union of types by name, as aliases are."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.BitOr) and _is_type(node.left) and _is_type(node.right)
    return isinstance(node, ast.Constant | ast.Subscript) or (
        isinstance(node, ast.Name) and node.id[0].isupper()
    )


def places(source: str) -> list[list[tuple[str, int, int]]]:
    """Each place of a module with its mutations: (operator, occurrence, line)."""
    left_out = spans_left_out(ast.parse(source))
    nodes = list(ast_nodes(get_ast(source)))
    found: dict[object, list[tuple[str, int, int]]] = defaultdict(list)
    for name, operator in operators().items():
        spans = [span for node in nodes for span in operator.mutation_positions(node)]
        for occurrence, (start, end) in enumerate(spans):
            if not any(first <= start and end <= last for first, last in left_out):
                found[start, end].append((name, occurrence, start[0]))
    return [found[place] for place in sorted(found)]  # type: ignore[type-var] # spans are pairs of pairs


def drawn(room: str, seed: str, sample: int, tree: Path = ROOT) -> list[Mutant]:
    """So many mutants of a room, by the seed."""
    chance = random.Random(f"{seed}:{room}")
    sources = {path: (tree / path).read_text(encoding="utf-8") for path in modules(room, tree)}
    everywhere = [(path, place) for path, source in sources.items() for place in places(source)]
    chance.shuffle(everywhere)
    found: list[Mutant] = []
    for path, place in everywhere:
        if len(found) == sample:
            break
        name, occurrence, line = chance.choice(place)
        source = sources[path]
        with contextlib.suppress(
            SyntaxError, AttributeError
        ):  # no code, or a name that Cosmic Ray has no word for
            mutated = mutate_code(source, operators()[name], occurrence)
            if mutated is not None and _meaning(mutated) != _meaning(source):
                found.append(Mutant(str(path), line, name, occurrence, *_difference(source, mutated)))
    return found


def found_again(mutant: Mutant, tree: Path = ROOT) -> Mutant | None:
    """The same mutation where it stands now; None if the lines that it changes are no more."""
    source = (tree / mutant.path).read_text(encoding="utf-8")
    for name, occurrence, line in (one for place in places(source) for one in place):
        if name == mutant.operator:
            mutated = mutate_code(source, operators()[name], occurrence)
            if mutated is not None and _difference(source, mutated) == (mutant.was, mutant.became):
                return replace(mutant, line=line, occurrence=occurrence)
    return None


class _AnyWay(ast.NodeTransformer):
    """Whether an argument may be given by its place, its name or both is for mypy to say."""

    def visit_arguments(self, node: ast.arguments) -> ast.arguments:
        """All arguments as plain ones."""
        self.generic_visit(node)
        node.args = [*node.posonlyargs, *node.args, *node.kwonlyargs]
        node.defaults = [*node.defaults, *(one for one in node.kw_defaults if one is not None)]
        node.posonlyargs, node.kwonlyargs, node.kw_defaults = [], [], []
        return node


def _meaning(source: str) -> str:
    """What a module says, however it is written."""
    return ast.dump(_AnyWay().visit(ast.parse(source)))


def _difference(source: str, mutated: str) -> tuple[str, str]:
    """The lines that differ, before and after, as one line each."""
    before, after = source.splitlines(), mutated.splitlines()
    while before and after and before[0] == after[0]:
        del before[0], after[0]
    while before and after and before[-1] == after[-1]:
        del before[-1], after[-1]
    return " ".join(" ".join(before).split()), " ".join(" ".join(after).split())
