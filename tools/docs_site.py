"""The documentation as a site, by Zensical: `python3 dev.py docs --build`, or `--serve`.

The pages stay plain Markdown that GitHub shows as well. A copy of them, beside Zensical's settings,
is what the site is made from: without the page for the package index, and with links out of
docs/ replaced, which lead to files that a site hasn't got.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS, TOOLS, DIST = ROOT / "docs", ROOT / "tools", ROOT / "dist"
NOT_FOR_THE_SITE = ("package.md",)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")
ENTRY = re.compile(r"([-*]|\d+\.) ")
CODE = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)


def main() -> int:
    """Build the site in dist/site, or show it and follow what is changed."""
    if "--serve" in sys.argv:
        return serve([word for word in sys.argv[1:] if word != "--serve"])
    done = build(DIST / "docs")
    print(done.stdout, end="")
    if done.returncode == 0:
        print(f"The site: {(DIST / 'site').relative_to(ROOT)}/index.html")
        shutil.rmtree(DIST / "site", ignore_errors=True)
        (DIST / "docs" / "site").rename(DIST / "site")
        shutil.rmtree(DIST / "docs")
    return done.returncode


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Make the site in `folder/site`; a warning, as of a link that leads nowhere, is a failure."""
    shutil.rmtree(folder, ignore_errors=True)
    stage(folder)
    return build_staged(folder)


def build_staged(folder: Path) -> subprocess.CompletedProcess[str]:
    """The same from what `stage` has put there."""
    return subprocess.run(
        [*zensical("build"), "--strict"],
        env={**os.environ, "NO_COLOR": "1"},
        cwd=folder,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def serve(options: list[str]) -> int:
    """Show the site until Ctrl-C. Options are Zensical's: `--open`, `--dev-addr localhost:9000`."""
    stage(DIST / "docs")
    server = subprocess.Popen([*zensical("serve"), *options], cwd=DIST / "docs")
    try:
        while server.poll() is None:
            time.sleep(0.5)
            stage(DIST / "docs")
    finally:
        server.terminate()
        server.wait()
    return server.returncode


def zensical(command: str) -> list[str]:
    """The words that run it."""
    return [sys.executable, "-m", "zensical", command, "--config-file", "zensical.toml"]


def stage(folder: Path) -> None:
    """Bring the copy in `folder` up to date. Files that are the same stay as they are, so a server
    that watches the folder builds only what has changed.
    """
    put(folder / "zensical.toml", settings().encode())
    there = {path.relative_to(DOCS) for path in sources()}
    for path in sources():
        content = path.read_bytes()
        if path.suffix == ".md":
            content = page(path, content.decode()).encode()
        put(folder / "docs" / path.relative_to(DOCS), content)
    put(folder / "docs" / "site.css", (TOOLS / "docs_site.css").read_bytes())
    for old in (folder / "docs").rglob("*.md"):
        if old.relative_to(folder / "docs") not in there:
            old.unlink()


def put(path: Path, content: bytes) -> None:
    """Write a file, unless it has that content."""
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def sources() -> Iterator[Path]:
    """The pages and pictures of the site."""
    for path in sorted(DOCS.rglob("*")):
        if path.is_file() and path.relative_to(DOCS).as_posix() not in NOT_FOR_THE_SITE:
            yield path


def settings() -> str:
    """Zensical's settings, with the pages of a folder in the place of its name."""
    text = (TOOLS / "zensical.toml").read_text(encoding="utf-8").replace("TOOLS/", f"{TOOLS}/")
    return re.sub(r'"([\w-]+/)+"(?= \})', lambda found: json.dumps(pages_in(found[0])), text)


def pages_in(name: str) -> list[str]:
    """The pages of a folder of docs/, in the order of their names."""
    folder = DOCS / name.strip('"')
    return [path.relative_to(DOCS).as_posix() for path in sorted(folder.glob("*.md"))]


def page(path: Path, text: str) -> str:
    """A page as the site has it: links out of docs/ lead to the repository, or are text alone."""
    parts = CODE.split(text)
    for place in range(0, len(parts), 2):  # the others are code
        parts[place] = LINK.sub(lambda found: link(path, found), parts[place])
    return for_python_markdown("".join(parts))


def for_python_markdown(text: str) -> str:
    """The same lists as GitHub reads: Python-Markdown wants a blank line before one, and four
    spaces before whatever belongs to an entry.
    """
    lines: list[str] = []
    is_code, width = False, 0  # how far the text of the entry is set in, 0: no list
    for line in text.splitlines():
        entry = None if is_code else ENTRY.match(line)
        if entry and not width and lines and lines[-1]:
            lines.append("")
        if entry:
            width = len(entry[0])
        elif line and not line.startswith(" "):
            width = 0
        is_code ^= line.lstrip().startswith("```")
        is_inside = width and not entry and line.startswith(" " * width)
        lines.append(" " * (4 - width) + line if is_inside else line)
    return "\n".join(lines) + "\n"


def link(path: Path, found: re.Match[str]) -> str:
    """A link of a page, as the site has it."""
    target = Path(os.path.normpath(path.parent / found[3]))
    if target.is_relative_to(DOCS) and target.name not in NOT_FOR_THE_SITE and not target.is_dir():
        return found[0]
    return elsewhere(found, target)


def elsewhere(found: re.Match[str], target: Path) -> str:
    """A link to what the site hasn't got."""
    repository = repository_url()
    if repository is None:
        return found[2]
    kind = "tree" if target.is_dir() else "blob"
    there = f"{repository}/{kind}/main/{target.relative_to(ROOT).as_posix()}{found[4] or ''}"
    return f"{found[1]}[{found[2]}]({there})"


def repository_url() -> str | None:
    """Where the repository is, if pyproject.toml says so."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    urls = {name.lower(): url.rstrip("/") for name, url in project.get("urls", {}).items()}
    return urls.get("repository") or urls.get("source")


if __name__ == "__main__":
    raise SystemExit(main())
