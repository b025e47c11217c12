"""The source says things in plain words: some words stand for too many things, or for nothing."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    path
    for room in ("src", "tests", "examples")
    for path in (ROOT / room).rglob("*.py")
    if path != Path(__file__)
)
#: what to write instead
BANNED = {
    r"\bt(?:old|ells?|elling)\b": "a verb that says what happens: describes, reports, names, shows",
    r"\baside\b": "quarantined",
    r"\brejected\b": "quarantined (a row) or refused (an update)",
    r"\bdead.letters?\b": "quarantine",
    r"\bso many\b": "the number of what",
    r"\bworth (?:its|the) while\b": "the reason in numbers",
    r"\bis worth\b": "the reason in numbers",
    r"^it$": "a name that says what the thing is",
}


def said(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each comment, docstring and name of a module, with its line; names as separate words."""
    text = path.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                yield getattr(node, "lineno", 1), " ".join(docstring.split())
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
        elif token.type == tokenize.NAME and before + token.string != ".tell":  # of a file
            yield token.start[0], re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", token.string).strip()
        before = token.string


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_words_are_plain(path: Path) -> None:
    """No name, docstring or comment of a module has one of the words."""
    found = {
        f"{path.name}:{line}: {text[max(0, match.start() - 40) : match.end() + 40]!r}: write {instead}"
        for line, text in said(path)
        for pattern, instead in BANNED.items()
        if (match := re.search(pattern, text, re.IGNORECASE))
    }
    assert not found, "\n".join(sorted(found))
