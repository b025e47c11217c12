"""Every command and example in the documents works, and every link and name in them leads somewhere."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

import sparkbleach.errors
import sparkbleach.kafka
from sparkbleach import RuleError, load_options, load_rules
from sparkbleach.evaluate.dirt import Kind
from sparkbleach.evaluate.experiments import EXPERIMENTS
from tests.support.commands import run_commands
from tests.support.documents import ROOT, blocks, is_set_up, working_directory

DOCS = ROOT / "docs"
DOCUMENTS = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    *(str(path.relative_to(ROOT)) for path in sorted(DOCS.rglob("*.md"))),
]


#: those with examples in Python; docs/kafka.md needs a broker and has a test of its own
WITH_EXAMPLES = [
    document
    for document in DOCUMENTS
    if document != "docs/kafka.md" and any(language == "python" for language, _ in blocks(document))
]


@pytest.mark.parametrize("document", WITH_EXAMPLES)
def test_python_examples_print_what_stands_below_them(
    document: str, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Python blocks of a document run one after the other and print the text block that follows."""
    found = blocks(document)
    names: dict[str, object] = {}
    with working_directory(spark, tmp_path):
        for (language, code), (next_language, text) in zip(found, [*found[1:], ("", "")], strict=True):
            if language == "python":
                assert next_language == "text"
                exec(compile(code, document, "exec"), names)  # noqa: S102 -- our own documents
                assert capsys.readouterr().out == text


@pytest.mark.parametrize("document", ["README.md", "docs/cli.md"])
def test_commands_work(document: str, tmp_path: Path, spark: SparkSession) -> None:
    """The `sparkbleach` commands of a document work, one after the other, in a directory of their own."""
    commands = [code for language, code in blocks(document) if language == "sh" and not is_set_up(code)]
    assert any("sparkbleach clean" in code for code in commands)
    if document == "README.md":  # its files are those of docs/cli.md, without the bad row
        first = next(code for language, code in blocks("docs/cli.md") if language == "sh")
        commands.insert(0, first.replace("x,75001,Paris\n", ""))
    bin, here = tmp_path / "bin", tmp_path / "here"
    bin.mkdir()
    here.mkdir()
    assert "Pariss" in run_commands("".join(commands), here, bin)
    cleaned = "".join(path.read_text() for path in (here / "clean").glob("*.csv"))
    assert "3,75001,Paris\n" in cleaned


def test_commands_of_the_evaluation_work(tmp_path: Path) -> None:
    """The commands of docs/evaluate.md work; it names every experiment and every kind of error."""
    document = "docs/evaluate.md"
    commands = [code for language, code in blocks(document) if language == "sh" and not is_set_up(code)]
    bin, here = tmp_path / "bin", tmp_path / "here"
    bin.mkdir()
    here.mkdir()
    printed = run_commands("".join(commands), here, bin)
    assert '"attribute": "city", "kind": "domain", "old": "Lyon", "new": "Paris"' in printed
    assert "1,75001,Pairs\n" in printed
    assert (here / "evaluation" / "report.html").exists()
    text = (ROOT / document).read_text()
    assert all(f"`{name}`" in text for name in (*EXPERIMENTS, *Kind))


def test_the_yaml_example_loads(tmp_path: Path) -> None:
    """The file of rules in docs/rules.md is read, and a mistake in it is reported with its line."""
    text, with_options = [code for language, code in blocks("docs/rules.md") if language == "yaml"]
    path = tmp_path / "rules.yml"
    path.write_text(text)
    assert [rule.id for rule in load_rules(path)] == ["zip_city", "ca_state, ca_city -> ca_zip", "dialling"]
    path.write_text(text.replace("rhs: city\n    when", "rhs: zipcode\n    when"))
    with pytest.raises(RuleError, match=r"rules\.yml:\d: rule 'zip_city', rhs"):
        load_rules(path)
    path.write_text(with_options)
    assert load_options(path) == {"repair": "vote", "accept_after": None, "remember": None}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_commands_exist(document: str) -> None:
    """Each `make` command that a document names is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / document).read_text(), re.MULTILINE))
    assert named <= targets


def test_the_figures_of_the_readme_are_those_of_the_documents() -> None:
    """Each figure in the README's table stands in the section with its command, or in docs/evaluate.md."""
    sections = (DOCS / "measurements.md").read_text().split("\n## ")
    rows = re.findall(
        r"^\| [^|]* \| ([^|]*) \| [^|]* \| `(make [^`]*)` \|$", (ROOT / "README.md").read_text(), re.M
    )
    assert rows
    for measured, command in rows:
        pages = [section for section in sections if f"`{command}`" in section]
        if "evaluate" in command:
            pages = [(DOCS / "evaluate.md").read_text()]
        for figure in re.findall(r"\d[\d,.]*\d", measured):
            assert any(figure in page for page in pages), f"{figure}, {command}"


def test_the_site_builds(tmp_path: Path) -> None:
    """The documents and the docstrings make a site without a warning."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 -- our own
    assert done.returncode == 0, done.stderr
    assert "repairs violations" in (tmp_path / "index.html").read_text()


def test_the_wheel_has_the_package(tmp_path: Path) -> None:
    """The wheel holds each file of the package, the licence, and nothing else."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)  # noqa: S603 -- our own
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
    source = ROOT / "src"
    files = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    assert found == {str(path) for path in files if "__pycache__" not in path.parts}


@pytest.mark.parametrize("module", [sparkbleach, sparkbleach.kafka])
def test_every_public_name_is_in_the_reference(module: ModuleType) -> None:
    """The API reference has each name that a package makes public."""
    pages = "".join(path.read_text() for path in (DOCS / "api").glob("*.md"))
    named = set(re.findall(r"^::: ([\w.]+)$", pages, re.MULTILINE))
    errors = {f"sparkbleach.{name}" for name in vars(sparkbleach.errors)}
    assert {f"{module.__name__}.{name}" for name in module.__all__} <= named | errors


def test_the_tree_is_that_of_the_repository() -> None:
    """The tree in ARCHITECTURE.md has each room of the package and of the tests, and no other."""
    tree = (ROOT / "ARCHITECTURE.md").read_text().split("```")[1]
    package, tests = tree.partition("src/sparkbleach/")[2].split("\ntests/")
    for text, root in ((package, ROOT / "src" / "sparkbleach"), (tests.split("\n")[0], ROOT / "tests")):
        named = set(re.findall(r"\b(\w\w+)/(?!\w)", text))
        assert {path.parent.name for path in root.glob("*/__init__.py")} <= named
        assert all(any(root.rglob(f"{room}/__init__.py")) for room in named)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    """Each relative link of a document is a file of the repository, and a heading of it if it names one."""
    for path, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", (ROOT / document).read_text()):
        target = (ROOT / document).parent / path if path else ROOT / document
        assert target.exists(), path
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            assert anchor in map(as_anchor, headings), f"{path}#{anchor}"


def as_anchor(heading: str) -> str:
    """Return how a link names a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize(
    "document", ["ARCHITECTURE.md", "docs/bayes.md", "docs/glossary.md", "docs/semantics.md"]
)
def test_symbols_exist(document: str) -> None:
    """Each `room/file.py: name` of a document names a symbol of that file."""
    found = re.findall(r"`([\w/]+)\.py: ([\w.]+)`", (ROOT / document).read_text())
    assert found
    for path, name in found:
        if path.startswith("tests/"):
            symbol: object = importlib.import_module(path.replace("/", "."))
        else:
            symbol = importlib.import_module("sparkbleach." + path.replace("/", "."))
        for part in name.split("."):
            assert hasattr(symbol, part), f"{path}.py: {name}"
            symbol = getattr(symbol, part)
