"""Every command and example in the documents works, and every link and name in them leads somewhere."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
from pathlib import Path

import pytest

from sparkbleach import RuleError, load_rules

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/rules.md", "docs/glossary.md"]
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def blocks(document: str) -> list[tuple[str, str]]:
    """Return the fenced blocks of a document: language and text."""
    return BLOCK.findall((ROOT / document).read_text())


@pytest.mark.parametrize("document", ["README.md", "docs/rules.md"])
def test_python_examples_print_what_stands_below_them(document: str) -> None:
    """The Python blocks of a document run one after the other and print the text block that follows."""
    names: dict[str, object] = {}
    found = blocks(document)
    ran = 0
    for (language, code), (next_language, expected) in zip(found, [*found[1:], ("", "")], strict=True):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, document, "exec"), names)  # noqa: S102 - the point of the test
        assert next_language == "text"
        assert printed.getvalue() == expected
        ran += 1
    assert ran


def test_the_yaml_example_loads(tmp_path: Path) -> None:
    """The file of rules in docs/rules.md is read, and a mistake in it is told with its line."""
    (text,) = [code for language, code in blocks("docs/rules.md") if language == "yaml"]
    path = tmp_path / "rules.yml"
    path.write_text(text)
    assert [rule.id for rule in load_rules(path)] == ["zip_city", "ca_state, ca_city -> ca_zip", "dialling"]
    path.write_text(text.replace("rhs: city\n    when", "rhs: zipcode\n    when"))
    with pytest.raises(RuleError, match=r"rules\.yml:\d: rule 'zip_city', rhs"):
        load_rules(path)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_commands_exist(document: str) -> None:
    """Each `make` command that a document names is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / document).read_text(), re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    """Each relative link of a document is a file of the repository."""
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / document).read_text()):
        assert (ROOT / document).parent.joinpath(target).exists(), target


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "docs/glossary.md"])
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
