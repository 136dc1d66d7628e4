"""Tokens as text, scopes as they are kept, and names with a namespace."""

import hashlib

import pytest

from tests.support.each import each
from turnabout import UsageError
from turnabout.server import verbs as c
from turnabout.words import limits
from turnabout.words import verbs as v
from turnabout.words.namespaces import namespace_name, namespace_of


def test_a_new_token_is_read_back_whatever_its_secret():
    """A secret may hold any number of underscores; what stands before the first is the id."""
    seen = set()
    for _ in range(300):
        token_id, secret, digest = c.new_token()
        assert len(secret) == 43, "256 bits"
        assert digest == hashlib.sha256(secret.encode()).digest()
        assert c.parse_token(c.token_text(token_id, secret)) == (token_id, digest)
        seen.add(token_id)
    assert len(seen) == 300


@each(
    "text",
    ["", "tbt_", "tbt_abcdefghijkl", "tbt_abcdefghijkl_", "abcdefghijkl_x", "tbt_ABCDEFGHIJKL_x",
     "tbt_abcdefghijk_x", "tbt_abcdefghijklm_x", "tbt_abcdefghijk1_x", "tbt__abcdefghijkl_x",
     "PST_abcdefghijkl_x", " tbt_abcdefghijkl_x"],
)  # fmt: skip
def test_what_cannot_be_a_token(text):
    assert c.parse_token(text) is None


def test_a_secret_of_any_text_has_a_digest():
    assert c.parse_token("tbt_abcdefghijkl_\ud800é") is not None


def test_scopes_are_kept_as_text_and_unknown_ones_allow_nothing():
    given = c.scopes(["produce:a-*", "peek", "operate:b"])
    assert c.kept_scopes(c.scopes_text(given)) == given
    assert c.kept_scopes('["fly:*", "peek:*", "consume:a b"]') == (c.Scope("peek"),)
    assert c.kept_scopes("[]") == ()


@each(
    ("scope", "verb", "queue", "allowed"),
    [
        ("produce:a-*", v.Send, "a-b", True),
        ("produce:a-*", v.Send, "b", False),
        ("produce:a-*", v.Receive, "a-b", False),
        ("produce:a-*", v.Send, None, False),
        ("consume", v.Stats, None, True),
        ("peek:a", v.Peek, "a", True),
        ("peek:a", v.Stats, "a", False),
        ("operate:A", v.Purge, "a", False),
    ],
)
def test_what_a_scope_allows(scope, verb, queue, allowed):
    assert c.Scope.parse(scope).allows(verb, queue) is allowed


NAME = "n" * limits.NAME_CHARS_MAX


@each(
    ("name", "namespace"),
    [
        ("emails", ""),
        ("acme/emails", "acme"),
        (f"{NAME}/{NAME}-dead", NAME),
        (f"{NAME}-dead/{NAME}", f"{NAME}-dead"),
        ("0/0", "0"),
    ],
)
def test_a_stored_name_may_have_a_namespace(name, namespace):
    assert limits.queue_name(name) == name
    assert namespace_of(name) == namespace


@each(
    "name", ["/", "a/", "/a", "a/b/c", "a//b", "a/-b", "-a/b", "a/b ", f"{NAME}n/a", f"a/{NAME}n"]
)
def test_what_is_no_stored_name(name):
    with pytest.raises(UsageError):
        limits.queue_name(name)
    with pytest.raises(UsageError):
        namespace_name(name)
