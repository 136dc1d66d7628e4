"""Every link between our pages leads to a file, and every `#part` of one to a heading."""

import re
from pathlib import Path

from tests.tidy.test_tree import name, text_of, tracked

LINK = re.compile(r"\]\((?!\w+:)([^)\s#]*)(?:#([\w-]+))?\)")
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def headings(page: Path) -> set[str]:
    """The anchors that a page's headings get."""
    titles = re.findall(r"^#+ (.+)$", CODE_BLOCK.sub("", text_of(page)), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_links_lead_somewhere() -> None:
    broken = []
    for page in (path for path in tracked() if path.suffix == ".md"):
        for target, part in LINK.findall(CODE_BLOCK.sub("", text_of(page))):
            there = page.parent / target if target else page
            if not there.exists():
                broken.append(f"{name(page)}: {target}")
            elif part and there.suffix == ".md" and part not in headings(there):
                broken.append(f"{name(page)}: {target}#{part}")
    assert broken == []
