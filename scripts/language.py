"""Lists names, docstrings and comments that break the project's language rules, as far as a program can detect this.

``python scripts/language.py [PATH…]`` prints ``file:line: rule: text`` and exits 1 if it finds anything.
``--check`` applies only the enforced rules, each in its folders (``make check``);
``--summary`` counts findings by package and rule; ``--sample SEED`` draws docstrings, identifiers and messages
at random, for a reader to judge.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("streaming", "assignors")
DEFAULT_PATHS = (*PACKAGES, "tests", "scripts", "benchmarks", "examples", "deploy")
#: Words that a name must not contain.
POOR_WORD = re.compile(
    "told|tells?|telling|hears?|heard|said|says|standing|standstill|stood|asks|asked|wish(es)?|wants|occasion"
    "|ripe|card|ledger|lives|faces|person|brief|aside|untouched|anew"
)
#: Names that are too vague on their own; as a part of a name (`run_once`, `known_members`) they are fine.
#: `signs`, a section of the configuration file, is public.
POOR_NAME = re.compile("one|found|known|given|others?|once|turns?|following|sign|life|answers")
POOR_LOCAL = re.compile("one|found|known|given|other")
POOR_MODULE = re.compile("beside|followed|meanwhile|outgoing|passing|remade|repeated|running|underway|unfit")
RIDDLE_STARTS = ("What", "Whether", "Of", "That", "Who", "How", "As")
_UNIT_PATTERN = r"(?:µs|ns|ms|s|seconds|kB|MB|GB|%)"
_FIGURE_PATTERN = rf"[\d.,]+ ?{_UNIT_PATTERN}(?!\w)"
HISTORY_PHRASES = re.compile(
    rf"\b(?:was|were|took|instead of|in place of) (?:about |some )?{_FIGURE_PATTERN}"
    rf"|{_FIGURE_PATTERN} (?:before|faster|slower|less|more than before)\b(?! (?:it|the|a|its|that|any|this)\b)"
    r"|\b[\d.,]+ ?(?:×|times) (?:as fast|faster|slower)"
)
#: Verbs of speech, which programs don't do: they publish, log and receive.
SPEECH_VERBS = re.compile(
    r"\b(?:told|tells?|telling|hears?|heard|stands?|stood|standing|sign of life|asked (?:of|for))\b"
)
#: A string of the page's scripts that reads as text: a capital letter first, then several words.
PAGE_TEXT = re.compile(r"[\"`]([A-Z][a-z]+ [^\"`\n]{6,})[\"`]")
#: Rules that ``make check`` enforces, each in these folders; a folder is added once it is clean.
_ALL_FOLDERS = tuple(f"{path}/" for path in DEFAULT_PATHS)
ENFORCED = {
    "test-name": ("tests/",),
    **dict.fromkeys(("local-name", "module-name", "name", "public-name", "riddle", "speech"), _ALL_FOLDERS),
}
TEST_NAME_LENGTH = 60
#: First words, and other words, that make a test's name unclear.
POOR_TEST_NAME = re.compile(
    "test_(?:what|who|whoever|whose|of|that|those|one_that)_"
    "|.*_(?:told|tells?|said|says?|stands?|stood|heard|hears|anew|nobody|somebody)(?:_|$)"
)
FIRST_SENTENCE_WORDS = 25
FUNCTION_LINES = 60
MODULE_LINES = 400
DOCUMENTED_NODES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
SAMPLE_SIZES = {"docstrings": 60, "identifiers": 60, "messages": 30}


class Finding(NamedTuple):
    """A violation of a language rule: the place in the code, the rule, and the text that violates it."""

    path: Path
    line: int
    rule: str
    text: str


def is_poor(name: str) -> bool:
    """Return true if a name is vague, or contains a word for which this project has a better one."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    vague_name = POOR_NAME.fullmatch(name.strip("_").lower())
    return vague_name is not None or any(POOR_WORD.fullmatch(word.lower()) for word in words)


def names(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """Yield every function, class, parameter, attribute and local variable as (kind, name, line)."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield "function", name, node.lineno
            case ast.ClassDef(name=name):
                yield "class", name, node.lineno
            case ast.arg(arg=name):
                yield "parameter", name, node.lineno
            case ast.Name(id=name, ctx=ast.Store()):
                yield "local", name, node.lineno
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield "attribute", name, node.lineno
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    yield "attribute", statement.target.id, statement.lineno


def docstrings(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield each docstring with the line where it begins."""
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED_NODES) and (text := ast.get_docstring(node)):
            yield text, node.body[0].lineno


def first_sentence(docstring: str) -> str:
    """Return the first sentence of a docstring as one line."""
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?:])\s(?=[A-Z`])", paragraph)[0]


def _text_findings(path: Path, source: str, tree: ast.Module) -> Iterator[Finding]:
    docstrings_and_comments = list(docstrings(tree))
    for text, line in docstrings_and_comments:
        sentence = first_sentence(text)
        if len(sentence.split()) > FIRST_SENTENCE_WORDS:
            yield Finding(path, line, "long-docstring", sentence)
        if sentence.split()[0].rstrip(",") in RIDDLE_STARTS:
            yield Finding(path, line, "riddle", sentence)
        if sentence.count(";") > 1:
            yield Finding(path, line, "semicolons", sentence)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    docstrings_and_comments += [(token.string, token.start[0]) for token in tokens if token.type == tokenize.COMMENT]
    for text, line in docstrings_and_comments:
        for rule, pattern in (("history", HISTORY_PHRASES), ("speech", SPEECH_VERBS)):
            if match := pattern.search(text):
                yield Finding(path, line, rule, match[0])


def _name_findings(path: Path, tree: ast.Module) -> Iterator[Finding]:
    for kind, name, line in sorted(set(names(tree)), key=lambda entry: entry[2]):
        if kind == "local":
            if POOR_LOCAL.fullmatch(name):
                yield Finding(path, line, "local-name", name)
        elif kind == "function" and name.startswith("test_"):
            if len(name) > TEST_NAME_LENGTH:
                yield Finding(path, line, "test-name", f"{name} ({len(name)} characters)")
            elif POOR_TEST_NAME.match(name):
                yield Finding(path, line, "test-name", name)
        elif is_poor(name):
            is_public = kind != "parameter" and not name.startswith("_")
            yield Finding(path, line, "public-name" if is_public else "name", f"{kind} {name}")


def _size_findings(path: Path, source: str, tree: ast.Module) -> Iterator[Finding]:
    lines = source.count("\n")
    if lines > MODULE_LINES:
        yield Finding(path, 1, "long-module", f"{lines} lines")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            if length > FUNCTION_LINES:
                yield Finding(path, node.lineno, "long-function", f"{node.name}: {length} lines")


def check(path: Path, source: str) -> Iterator[Finding]:
    """Yield the violations of the language rules in one module."""
    tree = ast.parse(source)
    if POOR_MODULE.fullmatch(path.stem) or is_poor(path.stem):
        yield Finding(path, 1, "module-name", path.stem)
    yield from _name_findings(path, tree)
    yield from _text_findings(path, source, tree)
    yield from _size_findings(path, source, tree)


def repeated_classes(sources: dict[Path, str]) -> Iterator[Finding]:
    """Yield public top-level classes that have the same name as a class of an earlier module."""
    first: dict[str, Path] = {}
    for path, source in sources.items():
        body = ast.parse(source).body if path.parts[0] in PACKAGES else []
        for node in body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                earlier = first.setdefault(node.name, path)
                if earlier != path:
                    yield Finding(path, node.lineno, "repeated-class", f"{node.name}, also in {earlier}")


def is_enforced(finding: Finding) -> bool:
    """Return true if ``make check`` enforces the finding's rule in the folder of its file."""
    return finding.path.as_posix().startswith(ENFORCED.get(finding.rule, ()))


def _value_name(node: ast.AST) -> str:
    """Return a name for an expression: of its variable, attribute or called function, else the first name inside."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Call(func=ast.Name(id=name)):
            return name.strip("_")
    return next(filter(None, map(_value_name, ast.iter_child_nodes(node))), "")


def _text(node: ast.expr) -> str:
    """Return the text of a string literal or f-string; each value of an f-string is a name in angle brackets."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    return str(node.value) if isinstance(node, ast.Constant) else f"<{_value_name(node) or 'value'}>"


def has_words(text: str) -> bool:
    """Return true if a message contains at least two words besides the values that are inserted into it."""
    return len(re.findall(r"[A-Za-z]{2,}", re.sub(r"<\w+>", "", text))) > 1


def page_texts(script: str) -> Iterator[str]:
    """Yield the texts for people in a script of the page, with a name in angle brackets for each inserted value."""
    for text in PAGE_TEXT.findall(script):
        yield re.sub(r"\$\{(?:[^}]*?)(\w*)\W*(?:\}|$)", lambda value: f"<{value[1] or 'value'}>", text)


def messages(tree: ast.Module) -> Iterator[str]:
    """Yield the messages of raised exceptions and the help texts of options."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from (_text(argument) for argument in node.exc.args[:1])
        elif isinstance(node, ast.keyword) and node.arg in ("help", "epilog"):
            yield _text(node.value)


def sample(seed: int, sources: dict[Path, str], scripts: list[str]) -> Iterator[str]:
    """Yield docstrings, identifiers and messages that are drawn at random with the seed."""
    trees = {path: ast.parse(source) for path, source in sources.items()}
    code = [tree for path, tree in trees.items() if path.parts[0] != "tests"]
    texts = {text for tree in code for text in messages(tree)}.union(*map(page_texts, scripts))
    texts_by_kind = {
        "docstrings": {text for tree in trees.values() for text, _ in docstrings(tree)},
        "identifiers": {name for tree in trees.values() for _, name, _ in names(tree) if len(name) > 1},
        "messages": set(filter(has_words, texts)),
    }
    draw = random.Random(seed)  # noqa: S311 - a sample, no secret
    for kind, pool in texts_by_kind.items():
        yield f"\n# {kind} (seed {seed}, {len(pool)} in all)"
        for number, text in enumerate(draw.sample(sorted(pool), min(SAMPLE_SIZES[kind], len(pool))), 1):
            yield f"{number:2} {' '.join(text.split())}"


def package(path: Path) -> str:
    """Return the package of a file; all tests of a package count as one package."""
    name = re.search(r"assignors|streaming(/\w+)?|\w+$", path.parent.as_posix())
    return ("tests of " if path.parts[0] == "tests" else "") + (name[0] if name else "")


def summary(findings: list[Finding]) -> Iterator[str]:
    """Yield a table of violation counts: a line for each package, a column for each rule."""
    rules = sorted({finding.rule for finding in findings})
    counts = Counter((package(finding.path), finding.rule) for finding in findings)
    yield f"{'':34}" + "".join(f"{rule:>15}" for rule in rules)
    for name in sorted({package(finding.path) for finding in findings}):
        yield f"{name:34}" + "".join(f"{counts[name, rule]:15}" for rule in rules)
    yield f"{'all':34}" + "".join(f"{sum(f.rule == rule for f in findings):15}" for rule in rules)


def read(paths: list[str], suffix: str = ".py") -> dict[Path, str]:
    """Return the text of every file below the paths that ends in the suffix, by its path in the repository."""
    existing_paths = [ROOT / path for path in paths]
    if missing := [str(path) for path in existing_paths if not path.exists()]:
        sys.exit(f"{', '.join(missing)}: no such file or folder")
    files = {path for path in existing_paths if path.is_file()}.union(
        *(path.rglob(f"*{suffix}") for path in existing_paths)
    )
    return {file.relative_to(ROOT): file.read_text() for file in sorted(files)}


def main() -> None:
    """Print violations of the language rules, their counts by package, or a random sample of names and docstrings."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("paths", nargs="*", default=DEFAULT_PATHS, metavar="PATH", help="files or folders to check")
    parser.add_argument("--check", action="store_true", help="apply only the rules that `make check` enforces")
    parser.add_argument("--summary", action="store_true", help="counts by package and rule")
    parser.add_argument(
        "--sample",
        type=int,
        metavar="SEED",
        help="print random docstrings, names and messages, to be judged by a reader",
    )
    options = parser.parse_args()
    sources = read([str(Path(path).resolve()) for path in options.paths])
    if options.sample is not None:
        scripts = read(["streaming/serve/page"], ".js")
        print("\n".join(sample(options.sample, sources, list(scripts.values()))))
        return
    findings = [finding for path, source in sources.items() for finding in check(path, source)]
    findings += repeated_classes(sources)
    if options.check:
        findings = [finding for finding in findings if is_enforced(finding)]
    all_lines = (f"{path}:{line}: {rule}: {text}" for path, line, rule, text in sorted(findings))
    for output in summary(findings) if options.summary else all_lines:
        print(output)
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
