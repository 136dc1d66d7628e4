"""`token` and `namespace`: who may use a server, and how much."""

from __future__ import annotations

import turnabout
from tests.support.command_line import Runner
from tests.support.each import each
from turnabout.server import verbs as c


def test_a_token_is_printed_once_and_opens_what_it_says(
    run: Runner, opened: turnabout.Turnabout
) -> None:
    made = run(
        "token", "create", "acme", "--label", "web", "--scope", "produce:emails", "--scope",
        "peek", "--expires", "2h",
    )  # fmt: skip
    (text,) = made.out.split()
    assert text not in made.err
    assert "acme: produce:emails, peek:*; it ends in 2h" in made.err
    parsed = c.parse_token(text)
    assert parsed is not None
    found = opened.store.run(c.TokenFind(parsed[0]))
    assert found is not None
    assert found.digest == parsed[1]
    token = found.token
    assert (token.namespace, token.label, token.scopes) == (
        "acme",
        "web",
        (c.Scope("produce", "emails"), c.Scope("peek")),
    )
    assert token.expires_at == token.created_at + 7_200_000
    assert text.rpartition(f"{parsed[0]}_")[2] not in run("token", "list").out


def test_without_options_it_is_for_producing_and_consuming_until_revoked(run: Runner) -> None:
    made = run("token", "create", "--json").document()
    assert made["token"].startswith(f"tbt_{made['id']}_")
    assert (made["namespace"], made["scopes"]) == ("", ["produce:*", "consume:*"])
    assert (made["expires_at"], made["state"]) == (None, "live")


def test_a_token_of_a_namespace_says_what_it_does_not_see(
    run: Runner, opened: turnabout.Turnabout
) -> None:
    assert "does not see" not in run("token", "create", "acme").err
    opened.queue("mails").create()
    assert "does not see the 2 queues without a namespace, such as mails:" in (
        run("token", "create", "acme").err
    )
    assert "does not see" not in run("token", "create").err


def test_tokens_are_listed_and_revoked(run: Runner) -> None:
    assert "token create" in run("migrate", "up").err + run("token", "list").err
    plain = run("token", "create").out.strip()
    acme = run("token", "create", "acme", "--expires", "1ms", "--json").document()
    other = run("token", "create", "other", "--json").document()
    listed = run("token", "list", "--json").document()["items"]
    assert {t["id"] for t in listed} == {plain[4:16], acme["id"], other["id"]}
    assert {t["id"]: t["state"] for t in listed}[acme["id"]] == "expired"
    assert not any("token" in t or "digest" in t for t in listed)
    (of_acme,) = run("token", "list", "acme", "--json").document()["items"]
    (unnamed,) = run("token", "list", "", "--json").document()["items"]
    assert (of_acme["id"], unnamed["id"]) == (acme["id"], plain[4:16])
    assert "revoked" in run("token", "revoke", other["id"]).out
    again = run("token", "revoke", other["token"], "--json").document()  # the token itself will do
    assert (again["id"], again["state"]) == (other["id"], "revoked")
    lines = run("token", "list").out.splitlines()
    assert lines[0].split() == ["ID", "NAMESPACE", "LABEL", "SCOPES", "STATE", "MADE", "ENDS"]
    assert any("(unnamed)" in line and "live" in line for line in lines)
    assert "no token" in run("token", "revoke", "a" * 12, code=2).err


@each(
    ("words", "text"),
    [
        (("token", "create", "a", "--expires", "0"), "ends at once"),
        (("token", "create", "a/b"), "'a/b' is not a valid namespace name"),
        (("token", "create", "acme", "--scope", "everything"), "produce, consume, operate"),
        (("token", "create", "acme", "--scope", "send:a b"), "not a pattern"),
        (("token", "create", "acme", "--label", "x" * 65), "64 bytes"),
        (("token", "create", "acme", "--expires", "soon"), "not a valid duration"),
        (("namespace", "set", "acme", "--max-messages", "0"), "max_messages"),
        (("namespace", "set", "acme", "--max-bytes", "1GB"), "whole number"),
    ],
)
def test_wrong_calls_say_what_is_right(run: Runner, words: tuple[str, ...], text: str) -> None:
    assert text in run(*words, code=2).err


def test_a_server_is_no_place_to_make_tokens(run: Runner) -> None:
    for words in (("token", "create"), ("token", "list"), ("namespace", "list")):
        error = run(*words, "--url", "http://localhost:9", code=2).err
        assert "in its database" in error


def test_quotas_are_set_one_by_one_and_taken_away(run: Runner) -> None:
    run("namespace", "set", "acme", "--max-messages", "1000", "--requests-per-second", "5")
    kept = run("namespace", "set", "acme", "--max-bytes", "70000", "--json").document()
    assert {k: v for k, v in kept.items() if k != "created_at"} == {
        "name": "acme",
        "max_messages": 1000,
        "max_bytes": 70000,
        "requests_per_second": 5,
    }
    told = run("namespace", "set", "acme", "--max-messages", "none").out
    assert told == "acme: at most 70,000 bytes, 5 requests per second.\n"
    assert run("namespace", "set", "acme").out == told
    assert run("namespace", "set").out == "(unnamed): not limited.\n"


def test_namespaces_are_listed_with_what_they_use(run: Runner, opened: turnabout.Turnabout) -> None:
    run("namespace", "set", "acme", "--max-messages", "10")
    run("token", "create", "acme")
    ended = run("token", "create", "acme", "--json").document()
    run("token", "revoke", ended["id"])
    opened.queue("acme/emails").send("four")
    opened.queue("mails").send("six by")
    opened.queue("acme/emails").receive()[0].ack()
    opened.queue("acme/emails").send("four")
    lines = run("namespace", "list", "--bytes").out.splitlines()
    assert [line.split() for line in lines] == [
        ["NAMESPACE", "QUEUES", "TOKENS", "MESSAGES", "BYTES", "REQUESTS/S"],
        ["(unnamed)", "2", "0", "1", "6", "–"],
        ["acme", "2", "1", "1", "of", "10", "4", "–"],
    ]
    _, acme = run("namespace", "list", "--json").document()["items"]
    assert (acme["messages"], acme["bytes"], acme["tokens"]) == (1, None, 1)


def test_a_namespace_is_deleted_when_it_is_empty(run: Runner, opened: turnabout.Turnabout) -> None:
    run("token", "create", "acme")
    opened.queue("acme/emails").create()
    assert "'acme/emails'" in run("namespace", "delete", "acme", code=2).err
    opened.queue("acme/emails").delete()
    opened.queue("acme/emails-dead").delete()
    assert run("namespace", "delete", "acme").out == "Deleted acme.\n"
    assert run("token", "list", "--json").document() == {"items": []}
    assert run("namespace", "delete", "acme", "--json", code=1).document()["deleted"] is False
