"""Roles of PostgreSQL that may produce, or consume, and nothing else: by library and by hand."""

import re

import psycopg
import pytest
from psycopg import sql

import turnabout
from tests.postgres.asking import ask
from tests.sql.roles import name_of
from tests.upgrade import catalog
from turnabout import Acked, Forbidden, UsageError
from turnabout.postgres import install
from turnabout.postgres.calls import CALLS
from turnabout.postgres.notices import STATEMENTS
from turnabout.postgres.permissions import MAY_SEND, functions_of_kinds
from turnabout.postgres.revision import schema
from turnabout.words.administration import ADMINISTRATION
from turnabout.words.verbs import VOCABULARY

pytestmark = pytest.mark.slow  # a database for each


def tables(url: str) -> list[str]:
    """Tables and views of ours, the ledger's two apart."""
    return [
        name
        for (name,) in ask(
            url,
            "select c.oid::regclass::text from pg_class c"
            " where c.relnamespace = 'turnabout'::regnamespace and c.relkind in ('r', 'p')"
            " and c.relname not in ('version', 'revision')",
        )
    ]


def callable_by(url: str, owner: str) -> set[str]:
    """The functions of both sets that the role may call, without what types ask of it."""
    return {
        name
        for (name,) in ask(
            owner,
            "select p.pronamespace::regnamespace || '.' || p.proname from pg_proc p"
            " where p.pronamespace::regnamespace::text in ('turnabout', %s)"
            " and has_function_privilege(%s, p.oid, 'execute')",
            schema(),
            name_of(url),
        )
    } - {f"turnabout.{MAY_SEND}"}


def test_a_producer_sends_and_does_nothing_else(owner, role):
    producer = role("produce")
    with turnabout.connect(producer) as mq:
        queue = mq.queue("work")
        assert queue.send("by the library", dedup_key="k").ids == (1,)
        assert queue.send("again", dedup_key="k").ids == (1,)
        for forbidden in (
            lambda: queue.receive(),
            lambda: queue.peek(),
            lambda: queue.stats(),
            lambda: queue.purge(),
            lambda: mq.queues(),
            lambda: queue.ack([turnabout.Receipt(1, 1)]),
        ):
            with pytest.raises(Forbidden, match=r"permission denied for function.*migrate allow"):
                forbidden()
        with psycopg.connect(producer) as own:
            queue.within(own).send("in a transaction")
    ask(producer, "select turnabout.send('work', 'by hand')")
    inbox = "insert into turnabout_inbox (queue, payload, created_at)"  # the last one as SMQ does
    ask(producer, f"{inbox} values ('work', 'by the view', now())".encode())
    assert ask(producer, "select * from turnabout_inbox") == []
    with turnabout.connect(owner) as mq:
        payloads = [m.text() for m in mq.queue("work").receive(10)]
    assert payloads == ["by the library", "in a transaction", "by hand", "by the view"]
    waiting = {name for text in STATEMENTS for name in re.findall(r"\.(\w+)\(", text.decode())}
    assert callable_by(producer, owner) == {
        f"{place}.{name}" for place in ("turnabout", schema()) for name in {"send", *waiting}
    }


@pytest.mark.parametrize("kind", ["produce", "consume", "operate"])
def test_no_kind_touches_a_table(owner, role, kind):
    somebody = role(kind)
    rights = "select, insert, update, delete, truncate, references, trigger"
    for table in tables(owner):
        allowed = ask(somebody, "select has_table_privilege(%s, %s)", table, rights)
        assert allowed == [(False,)], table
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ask(somebody, f"select from {table}".encode())
    for statement in (
        "insert into turnabout.version values ('', 9, 'x', 'y', 1)",
        "select turnabout.allow(current_user, 'operate')",
        "create table turnabout.mine (id int)",
        "select turnabout.find_queue('work')",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ask(somebody, statement.encode())


def test_rights_on_tables_may_be_taken_away_while_a_role_is_at_work(owner, role):
    """By hand one can be given such as everyday statements need; its permission stays enough."""
    worker, everything = role("operate"), ("tables", "sequences", "functions")
    name, schemas = name_of(worker), f"turnabout, {schema()}"
    for kind in everything:
        ask(owner, f"grant all on all {kind} in schema {schemas} to {name}".encode())
    with turnabout.connect(worker) as mq:
        queue = mq.queue("work")
        queue.create(history_seconds=0)
        for direct in (True, False):
            assert queue.send("x").ids
            assert queue.receive()[0].ack() == Acked()
            (connection,) = mq.store._pool._idle
            assert connection.is_direct == direct
            ask(owner, f"revoke all on all tables in schema turnabout from {name}".encode())


def test_a_consumer_works_and_does_not_send(owner, role):
    consumer = role("consume")
    with turnabout.connect(owner) as mq:
        mq.queue("work").create(max_attempts=1)
        for n in range(6):
            mq.queue("work").send(f"{n}")
    with turnabout.connect(consumer) as mq:
        queue = mq.queue("work")
        first, second, third, fourth, *_ = queue.receive(6)
        assert first.ack(result={"ok": True}) == Acked()
        assert isinstance(second.fail("no"), turnabout.Dead)
        assert isinstance(third.defer(delay_seconds=1), turnabout.Deferred)
        assert isinstance(fourth.extend(), turnabout.Extended)
        assert isinstance(fourth.release(), turnabout.Released)
        assert isinstance(queue.create(), turnabout.AlreadyExists)
        for forbidden in (lambda: queue.send("x"), queue.purge, queue.delete):
            with pytest.raises(Forbidden, match=r"permission denied for function.*migrate allow"):
                forbidden()
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        ask(consumer, "insert into turnabout_inbox (queue, payload) values ('work', 'x')")


def test_an_operator_may_call_every_verb_and_both_kinds_add_up(owner, role):
    operator, both = role("operate"), role("produce", "consume")
    names = functions_of_kinds()
    wanted = {
        f"{place}.{name}"
        for place in ("turnabout", schema())
        for name in names["operate"]
        if name != MAY_SEND
    }
    assert callable_by(operator, owner) == wanted
    assert set(CALLS) == {*VOCABULARY, *ADMINISTRATION}
    wanted = {
        f"{place}.{name}"
        for place in ("turnabout", schema())
        for name in {*names["produce"], *names["consume"]} - {MAY_SEND}
    }
    assert callable_by(both, owner) == wanted
    with turnabout.connect(operator) as mq:
        queue = mq.queue("work")
        assert isinstance(queue.create(), turnabout.Created)
        assert isinstance(queue.create(), turnabout.AlreadyExists)
        queue.update(max_attempts=3)
        queue.channel("a").change_policy(max_concurrency=1)
        queue.send("x", channel="a")
        assert queue.purge().messages == 1
        assert [entry.name for entry in mq.queues()] == ["work", "work-dead"]
        queue.delete()


@pytest.mark.parametrize("kind", ["produce", "consume", "operate"])
def test_the_views_for_pipelines_are_for_operators(owner, role, kind):
    somebody = role(kind)
    with turnabout.connect(owner) as mq:
        queue = mq.queue("work")
        queue.create(history_seconds=60)
        queue.send("x")
        queue.receive(1)[0].ack()
    names = ("log_rows", "queue_names", "log_files", "epoch_rows", "dead_rows")
    views = [f"turnabout.{name}" for name in names]
    if kind != "operate":
        for view in views:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                ask(somebody, f"select from {view}".encode())
        return
    counts = {view: ask(somebody, f"select count(*) from {view}".encode())[0][0] for view in views}
    files = counts.pop("turnabout.log_files")
    assert files >= 2, "days, and the rest"
    assert list(counts.values()) == [1, 2, 0, 0]
    for view in views:
        rights = "insert, update, delete, truncate, references, trigger"
        assert ask(somebody, "select has_table_privilege(%s, %s)", view, rights) == [(False,)]
    install.disallow(owner, name_of(somebody), "operate")
    for view in views:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ask(somebody, f"select from {view}".encode())


def test_without_a_permission_nothing_can_be_called(owner, role):
    nobody = role()
    with turnabout.connect(nobody) as mq, pytest.raises(Forbidden, match="permission denied"):
        mq.queue("work").send("x")
    assert callable_by(nobody, owner) == set()


def test_a_producer_may_be_held_to_queues_and_to_a_size(owner, role):
    """By every way to send: the library, both functions, and the view."""
    producer = role()
    name = name_of(producer)
    install.allow(owner, name, "produce", queues=("orders*", "acme/in_*"), max_payload_bytes=2**21)
    refused = psycopg.errors.CheckViolation
    with turnabout.connect(producer, max_payload_bytes=2**22) as mq:
        assert mq.queue("orders-eu").send(b"x" * 2**21).ids == (1,)
        for queue, size in (("mail", 1), ("in_a", 1), ("orders", 2**21 + 1)):
            with pytest.raises(UsageError, match=r"may send to that|was granted"):
                mq.queue(queue).send(b"x" * size)
    ask(producer, "select turnabout.send('acme/in_a', 'x')")
    ask(producer, "insert into turnabout_inbox (queue, payload) values ('orders', 'x')")
    for queue in ("mail", "my-orders", "acme/inXa", "ORDERS"):
        for statement in (
            "select turnabout.send(%s, 'x')",
            "select turnabout.send(%s, array['x'::bytea])",
            "insert into turnabout_inbox (queue, payload) values (%s, 'x')",
        ):
            with pytest.raises(refused, match="may_send_to_that_queue"):
                ask(producer, statement.encode(), queue)
    install.up(owner)
    install.allow(owner, name, "produce")  # said again without: to all queues
    ask(producer, "select turnabout.send('mail', 'x')")
    with pytest.raises(refused, match="was_granted"):
        ask(producer, "select turnabout.send('mail', array[%s::bytea])", b"x" * (2**20 + 1))
    for given in ({"queues": ("a b",)}, {"queues": ("",)}, {"max_payload_bytes": 0}):
        with pytest.raises(UsageError):
            install.allow(owner, name, "produce", **given)
    with pytest.raises(UsageError, match="are for produce"):
        install.allow(owner, name, "consume", queues=("a",))


def test_a_consumer_decides_nothing_about_schedules(owner, role):
    """Who fires one says when it is due next, and who lists them reads what others will send."""
    consumer = role("consume")
    with turnabout.connect(owner) as mq:
        mq.schedules.set("s", "work", "secret", at=1)
    for statement in (
        "select turnabout.schedule_fire('s', 1, 9000000000000000)",
        "select turnabout.schedule_list(null, true, null, null)",
    ):
        with pytest.raises(psycopg.Error, match=r"permission denied|does not exist"):
            ask(consumer, statement.encode())
    assert not {name for name in callable_by(consumer, owner) if "schedule" in name}
    with turnabout.connect(consumer) as mq:
        mq.queue("work").receive()  # which looks for none, and does not complain


def test_a_permission_ends_when_it_is_taken_back(owner, role):
    worker = role("produce", "consume")
    install.disallow(owner, name_of(worker), "consume")
    install.disallow(owner, name_of(worker), "consume")
    with turnabout.connect(worker) as mq:
        mq.queue("work").send("x")
        with pytest.raises(Forbidden):
            mq.queue("work").receive()
    install.disallow(owner, name_of(worker), "produce")
    with turnabout.connect(worker) as mq, pytest.raises(Forbidden):
        mq.queue("work").send("x")
    assert ask(owner, "select * from turnabout.permission") == []
    name = sql.Identifier(name_of(worker))
    ask(owner, sql.SQL("drop role {}").format(name))  # nothing holds it any more
    ask(owner, sql.SQL("create role {} login").format(name))


def test_permissions_hold_after_functions_are_installed_anew(owner, role):
    producer, consumer, gone = role("produce"), role("consume"), role("operate")
    name = sql.Identifier(name_of(gone))
    before = catalog.of_postgres(owner)
    ask(owner, "update turnabout.revision set digest = 'old'")
    assert install.up(owner)
    assert catalog.of_postgres(owner) == before

    # A role that is dropped takes its permissions along: one made later by that name has none.
    for what in ("drop owned by {}", "drop role {}"):
        ask(owner, sql.SQL(what).format(name))
    ask(owner, sql.SQL("create role {} login").format(name))
    ask(owner, "update turnabout.revision set digest = 'old'")
    install.up(owner)
    assert callable_by(gone, owner) == set()
    assert ask(owner, "select role_name from turnabout.permission order by kind desc") == [
        (name_of(producer),),
        (name_of(consumer),),
    ]


def test_all_roles_may_be_allowed_at_once(owner, role):
    somebody = role()
    install.allow(owner, "public", "produce")
    with turnabout.connect(somebody) as mq:
        mq.queue("work").send("x")
        with pytest.raises(Forbidden):
            mq.queue("work").receive()
    install.disallow(owner, "public", "produce")
    assert callable_by(somebody, owner) == set()


def test_what_cannot_be_allowed_is_said(owner, role):
    producer = role("produce")
    for given, text in (
        (("nobody of that name", "produce"), "there is no role"),
        ((name_of(producer), "everything"), "one of produce, consume, operate"),
        ((ask(owner, "select current_user::text")[0][0], "produce"), "owns the schema"),
    ):
        with pytest.raises(UsageError, match=text):
            install.allow(owner, *given)
    with pytest.raises(Forbidden):
        install.allow(producer, name_of(producer), "operate")


def test_the_functions_of_the_owner_look_for_nothing_in_other_schemas(owner, role):
    """A role cannot make a function act on things of its own: the search path is fixed."""
    (row,) = ask(
        owner,
        "select count(*) filter (where not p.prosecdef),"
        " count(*) filter (where not 'search_path=pg_catalog, pg_temp' = any (p.proconfig))"
        " from pg_proc p where p.pronamespace::regnamespace::text in ('turnabout', %s)"
        " and p.proname = any (%s) and p.proname <> 'clock_ms'",
        schema(),
        functions_of_kinds()["operate"],
    )
    assert row == (0, 0)
