"""A docstring begins with what it is about: a noun, or a verb with an object. A name is a noun."""

import ast
import re

from tests.tidy.test_sizes import GENERATED
from tests.tidy.test_tree import name, sources, text_of

VAGUE = re.compile(
    r"(after|as|because|before|behind|beside|between|by|for|from|how|if|in|into|it|of|since|so"
    r"|somebody|something|that|them|there|these|they|those|through|to|until|what|whatever|when"
    r"|where|which|while|who|whoever|whom|whose|why|with|within|without)\b",
    re.IGNORECASE,
)
"""Words that leave open what follows. (`Whether`, `like` and `at most` don't.)"""


def test_a_docstring_begins_with_a_noun_or_a_verb() -> None:
    vague = [
        f"{name(path)}:{node.lineno}: {text[:40]}"
        for path in sources("src")
        if GENERATED not in text_of(path).partition("\n")[0]
        for node in ast.walk(ast.parse(text_of(path)))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(text := node.value.value, str) and VAGUE.match(text)
    ]
    assert vague == []


def test_a_name_says_what_it_holds() -> None:
    """`told` was an error, a header, a callback. What stays is a field of JSON."""
    vague = [
        f"{name(path)}:{node.lineno}: {word}"
        for path in sources("src")
        for node in ast.walk(ast.parse(text_of(path)))
        for word in (getattr(node, key, None) for key in ("id", "arg", "name"))
        if str(word).strip("_").lower() in ("told", "said", "asked", "given")
    ]
    assert vague == ["src/turnabout/tasks/links.py:26: given"]
