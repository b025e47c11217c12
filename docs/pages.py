"""Add the documents at the root of the repository to the site, with links that work there, too."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]

#: by document at the root: its name in the site
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "LICENSE": "LICENSE.txt",
}
_LINK = re.compile(r"\[([^\]]*)\]\(([^):#]+)((?:#[^)]*)?)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents at the root, with links as they are seen from docs/."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_LINK.sub(_link_from_docs, text)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Let links that leave docs/ lead to the pages that were added."""
    return _LINK.sub(_link_to_page, markdown)


def _link_from_docs(match: re.Match[str]) -> str:
    """Return a link of a document at the root as one of a document in docs/."""
    text, path, anchor = match.groups()
    path = path.removeprefix("docs/") if path.startswith("docs/") else f"../{path}"
    return f"[{text}]({path}{anchor})"


def _link_to_page(match: re.Match[str]) -> str:
    """Return a link to a document at the root as a link to its page; one to another file as its text."""
    text, path, anchor = match.groups()
    name = path.removeprefix("../")
    if path != name and name in PAGES:
        return f"[{text}]({PAGES[name]}{anchor})"
    if path != name and not name.endswith(".md"):
        return text
    return match[0]
