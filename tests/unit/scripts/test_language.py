import subprocess
import sys
from pathlib import Path

import pytest

from scripts import language

ROOT = Path(__file__).parents[3]


def rules(source: str, path: str = "streaming/kafka/topics.py") -> list[tuple[int, str, str]]:
    return [(finding.line, finding.rule, finding.text) for finding in language.check(Path(path), source + "\n")]


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        ("def told(): ...", (1, "public-name", "function told")),
        ("def _asked_at(): ...", (1, "name", "function _asked_at")),
        ("class HeardMembers: ...", (1, "public-name", "class HeardMembers")),
        ("def read(found): ...", (1, "name", "parameter found")),
        ("class Member:\n    standing: str", (2, "public-name", "attribute standing")),
        ("for one in range(3): ...", (1, "local-name", "one")),
        ("def test_" + "x" * 60 + "(): ...", (1, "test-name", "test_" + "x" * 60 + " (65 characters)")),
        ("def test_what_is_told(): ...", (1, "test-name", "test_what_is_told")),
        ("def test_a_loss_is_told(): ...", (1, "test-name", "test_a_loss_is_told")),
        ('"""What it is for."""', (1, "riddle", "What it is for.")),
        ('"""One; two; three."""', (1, "semicolons", "One; two; three.")),
        ('"""Of a group."""', (1, "riddle", "Of a group.")),
        ("x = 1  # was 22 µs before", (1, "history", "was 22 µs")),
        ("x = 1  # 3 times faster", (1, "history", "3 times faster")),
        ("x = 1  # the topic that the broker told", (1, "speech", "told")),
        ("x = 1\n" * 401, (1, "long-module", "402 lines")),
        ("def run():" + "\n    run()" * 60, (1, "long-function", "run: 61 lines")),
    ],
)
def test_violated_language_rule_is_found(source: str, finding: tuple[int, str, str]) -> None:
    assert rules(source) == [finding]


@pytest.mark.parametrize(
    "source",
    [
        "def known_members(run_once, member): ...",
        'def records():\n    """Return the records.\n\n    What follows is not the first sentence."""',
        "x = 1  # a fetch costs 50 µs before the first record",
        "def test_" + "x" * 55 + "(): ...",
    ],
)
def test_accepted_code_gives_no_language_finding(source: str) -> None:
    assert rules(source) == []


def test_the_first_sentence_has_at_most_25_words() -> None:
    sentence = "Return " + "a " * 24 + "list."
    assert rules(f'"""{sentence} More."""') == [(1, "long-docstring", sentence)]


def test_module_named_by_a_verb_is_found() -> None:
    assert rules("", "streaming/collect/telling.py") == [(1, "module-name", "telling")]
    assert rules("", "streaming/collect/underway.py") == [(1, "module-name", "underway")]


def test_repeated_public_class_name_is_found() -> None:
    source = "class Record: ...\nclass _Private: ..."
    paths = ["streaming/a.py", "streaming/b.py", "tests/c.py"]
    assert [finding[1:] for finding in language.repeated_classes(dict.fromkeys(map(Path, paths), source))] == [
        (1, "repeated-class", "Record, also in streaming/a.py")
    ]


def test_language_rule_is_enforced_only_in_its_folders() -> None:
    findings = [language.Finding(Path(path), 1, "riddle", "What.") for path in ("scripts/a.py", "kernel/a.py")]
    assert [language.is_enforced(finding) for finding in findings] == [True, False]
    assert not language.is_enforced(findings[0]._replace(rule="history"))


def test_messages_are_texts_of_exceptions_and_options() -> None:
    source = 'raise ValueError(f"{name}: not a {kind(x)}")\ntyper.Option(help="Topic prefix")'
    assert list(language.messages(language.ast.parse(source))) == ["<name>: not a <kind>", "Topic prefix"]


def test_quoted_values_of_the_page_have_names() -> None:
    script = 'show(`No cluster is called ${visible(cluster)}`); title = "All causes"'
    assert list(language.page_texts(script)) == ["No cluster is called <cluster>", "All causes"]


def test_messages_without_words_are_not_sampled() -> None:
    texts = ("<name>: <error>", "topic <name>", "no such topic")
    assert [text for text in texts if language.has_words(text)] == ["no such topic"]


def test_a_sample_depends_only_on_the_seed() -> None:
    sources = {Path("streaming/a.py"): "\n".join(f'def name_{i}():\n    """Text {i}."""' for i in range(99))}
    first = list(language.sample(1, sources, ['x = "Page text here"']))
    assert first == list(language.sample(1, sources, ['x = "Page text here"']))
    assert first != list(language.sample(2, sources, ['x = "Page text here"']))
    assert len(first) == 3 + 60 + 60 + 1


def test_findings_are_counted_by_package_and_rule() -> None:
    paths = ["streaming/kafka/a.py", "tests/unit/streaming/kafka/test_a.py", "assignors/classic/a.py"]
    findings = [language.Finding(Path(path), 1, "name", "x") for path in paths]
    assert [line.split() for line in language.summary(findings)] == [
        ["name"],
        ["assignors", "1"],
        ["streaming/kafka", "1"],
        ["tests", "of", "streaming/kafka", "1"],
        ["all", "3"],
    ]


def test_the_exit_status_is_0_without_findings(tmp_path: Path) -> None:
    def run(path: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "scripts/language.py", path]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)

    clean_run = run("scripts/language.py")
    assert (clean_run.returncode, clean_run.stdout) == (0, "")
    missing = run("scripts/missing.py")
    assert (missing.returncode, missing.stderr) == (1, f"{ROOT}/scripts/missing.py: no such file or folder\n")
