"""Namespaces, tokens and totals: the verbs of whoever owns the database, and lists by namespace."""

import pytest

from turnabout import QueueNotFound, UsageError
from turnabout.server import verbs as c
from turnabout.words import verbs as v
from turnabout.words.administration import Totals
from turnabout.words.entities import Failure, Outgoing
from turnabout.words.namespaces import NO_NAMESPACE
from turnabout.words.schedules import Schedule

pytestmark = pytest.mark.needs("administration")


@pytest.fixture
def run(door):
    return door.mq.store.run


@pytest.fixture
def tenant(door):
    """A namespace that no other test has."""
    return f"t{door.name_of_a_queue()}"


def made(run, namespace, *scopes, lifetime_ms=None):
    token_id, _, digest = c.new_token()
    scopes = c.scopes(scopes or ("consume:emails", "peek"))
    return run(c.TokenCreate(token_id, digest, namespace, "label", scopes, lifetime_ms))


def send(run, queue, *texts, **options):
    messages = tuple(Outgoing(text.encode(), "text/plain", **options) for text in texts)
    return run(v.Send(queue, messages))


# --- namespaces and tokens -----------------------------------------------------------------------


@pytest.mark.driving
def test_a_namespace_is_made_changed_listed_and_deleted(run, tenant, clock):
    first = run(c.NamespaceSet(c.Namespace(tenant, max_messages=7)))
    assert first == c.Namespace(tenant, max_messages=7, created_at=clock.now)
    clock.advance(1)
    others = {
        name: n for n, name in enumerate(c.Namespace.__struct_fields__[2:-1], 2)
    }  # each its own
    again = run(c.NamespaceSet(c.Namespace(tenant, **others)))
    assert again == c.Namespace(tenant, None, **others, created_at=first.created_at)
    listed = run(c.NamespaceList())
    assert [n.name for n in listed] == sorted(n.name for n in listed)
    assert [n for n in listed if n.name == tenant] == [again]
    assert run(c.NamespaceDelete(tenant)) is True
    assert run(c.NamespaceDelete(tenant)) is False
    assert tenant not in [n.name for n in run(c.NamespaceList())]


def test_a_token_makes_its_namespace_and_is_found_with_its_quotas(run, tenant, clock):
    token_id, secret, digest = c.new_token()
    scopes = c.scopes(["produce:report-*", "peek"])
    made = run(c.TokenCreate(token_id, digest, tenant, "büro", scopes, 1_000))
    then = clock.now
    assert made == c.Token(token_id, tenant, "büro", scopes, then, then + 1_000)
    run(c.NamespaceSet(c.Namespace(tenant, max_messages=5)))
    clock.advance(2)
    found = run(c.TokenFind(token_id))
    namespace = c.Namespace(tenant, 5, created_at=then)
    assert found == c.FoundToken(made, digest, namespace, then + 2_000)
    assert made.is_live(then + 999)
    assert not made.is_live(found.now)
    assert c.parse_token(c.token_text(token_id, secret)) == (token_id, digest)
    assert run(c.TokenFind("a" * 12)) is None


@pytest.mark.driving
def test_a_token_made_twice_is_one_and_another_of_its_id_is_refused(run, tenant):
    token_id, _, digest = c.new_token()
    create = c.TokenCreate(token_id, digest, tenant, "", c.scopes(["send"]))
    assert run(create) == run(create)
    with pytest.raises(UsageError, match="another token"):
        run(c.TokenCreate(token_id, bytes(32), tenant, "", c.scopes(["send"])))
    assert len(run(c.TokenList(tenant))) == 1


@pytest.mark.driving
def test_tokens_are_listed_newest_first_and_revoked_once(run, tenant, clock):
    old = made(run, tenant)
    clock.advance(1)
    new = made(run, tenant)
    elsewhere = made(run, f"{tenant}x")
    assert run(c.TokenList(tenant)) == (new, old)
    assert {t.id for t in run(c.TokenList())} >= {old.id, new.id, elsewhere.id}
    ended = run(c.TokenRevoke(old.id))
    assert ended.revoked_at == clock.now
    clock.advance(1)
    assert run(c.TokenRevoke(old.id)) == ended
    assert run(c.TokenFind(old.id)).token == ended
    assert run(c.TokenList(tenant)) == (new, ended)
    assert run(c.TokenRevoke("a" * 12)) is None


def test_the_unnamed_namespace_has_quotas_and_tokens_too(run):
    token = made(run, NO_NAMESPACE)
    run(c.NamespaceSet(c.Namespace(NO_NAMESPACE, max_bytes=10)))
    assert run(c.TokenFind(token.id)).namespace.max_bytes == 10
    assert token in run(c.TokenList(""))


@pytest.mark.driving
def test_a_namespace_with_queues_or_schedules_is_not_deleted(run, tenant):
    token = made(run, tenant)
    queue = f"{tenant}/emails"
    run(v.QueueCreate(queue, v.QueueSettings()))
    with pytest.raises(UsageError, match="queue"):
        run(c.NamespaceDelete(tenant))
    redrive = run(v.RedriveStart(f"{queue}-dead"))
    run(v.QueueDelete(queue))
    run(v.QueueDelete(f"{queue}-dead"))
    schedule = Schedule(f"{tenant}/daily", queue, Outgoing(b""), every_ms=1_000)
    run(v.ScheduleSet(schedule, next_at=1))
    run(v.QueueDelete(queue))  # which was made with it
    run(v.QueueDelete(f"{queue}-dead"))
    with pytest.raises(UsageError, match="schedule"):
        run(c.NamespaceDelete(tenant))
    assert run(c.TokenFind(token.id)) is not None
    run(v.ScheduleDelete(schedule.name))
    assert run(c.NamespaceDelete(tenant)) is True
    assert run(c.TokenFind(token.id)) is None
    assert run(v.RedriveList(namespace=tenant)) == (), "who gets the name next sees nothing of it"
    with pytest.raises(UsageError, match="no redrive"):
        run(v.RedriveCancel(redrive.id))


# --- lists by namespace --------------------------------------------------------------------------


@pytest.fixture
def both(run, tenant):
    """A queue in the namespace, one in a namespace that begins alike, one without: all by name."""
    names = (f"{tenant}/emails", f"{tenant}-b/emails", f"{tenant}emails")
    for name in names:
        send(run, name, "x")
    return names


def names_of(found):
    return [one.name if isinstance(one, v.QueueEntry) else one.queue for one in found]


@pytest.mark.parametrize("listing", [v.QueueList, v.Stats, Totals])
@pytest.mark.driving
def test_lists_show_a_namespace_the_unnamed_one_or_all(run, tenant, both, listing):
    inside, beside, plain = both
    assert names_of(run(listing(namespace=tenant))) == [inside, f"{inside}-dead"]
    assert names_of(run(listing(namespace=f"{tenant}-b"))) == [beside, f"{beside}-dead"]
    unnamed = names_of(run(listing(namespace="")))
    assert plain in unnamed
    assert not any("/" in name for name in unnamed)
    every = names_of(run(listing()))
    assert {*both} <= {*every}
    assert every == sorted(every)
    assert run(listing(namespace=f"{tenant}-c")) == ()


def test_stats_of_a_queue_elsewhere_are_not_found(run, tenant, both):
    assert names_of(run(v.Stats(both[0], tenant))) == [both[0]]
    for namespace in ("", f"{tenant}-b"):
        with pytest.raises(QueueNotFound):
            run(v.Stats(both[0], namespace))


def test_redrives_of_a_namespace_are_nobody_else_s(run, tenant, both):
    inside, beside, plain = (run(v.RedriveStart(f"{name}-dead")) for name in both)
    assert [r.id for r in run(v.RedriveList(namespace=tenant))] == [inside.id]
    assert plain.id in [r.id for r in run(v.RedriveList(namespace=""))]
    assert run(v.RedriveList(f"{both[0]}-dead", namespace=f"{tenant}-b")) == ()
    second = run(v.RedriveStart(f"{both[0]}-dead"))
    found = run(v.RedriveList(limit=1, namespace=tenant))
    assert [r.id for r in found] == [second.id], "the newest first"
    for verb in (v.RedriveStep, v.RedriveCancel):
        for namespace in ("", f"{tenant}-b"):
            with pytest.raises(UsageError) as refused:
                run(verb(inside.id, namespace))
            with pytest.raises(UsageError) as unknown:
                run(verb(999_999_999, namespace))
            assert str(refused.value) == str(unknown.value).replace("999999999", str(inside.id))
    # Beside other tests' messages a step may not come to the end.
    assert any(run(v.RedriveStep(inside.id, tenant)).state == "done" for _ in range(100))
    assert run(v.RedriveCancel(beside.id, f"{tenant}-b")).state == "cancelled"


def test_schedules_of_a_namespace(run, tenant, both, clock):
    for name in both:
        schedule = Schedule(f"{name}-daily", name, Outgoing(b""), every_ms=1_000)
        run(v.ScheduleSet(schedule, next_at=clock.now))

    def found(**about):
        return [e.schedule.name for e in run(v.ScheduleList(**about))]

    inside, beside, plain = (f"{name}-daily" for name in both)
    for due in (False, True):
        assert found(namespace=tenant, due=due) == [inside]
        assert found(namespace=tenant, queue=both[1], due=due) == []
        assert found(namespace=tenant, schedule=beside, due=due) == []
        assert found(namespace=tenant, queue=both[0], schedule=inside, due=due) == [inside]
        unnamed = found(namespace="", due=due)
        assert plain in unnamed
        assert not any("/" in name for name in unnamed)
        assert {inside, beside, plain} <= {*found(due=due)}
    run(v.ScheduleFire(inside, clock.now, clock.now + 1_000))
    (_, fired) = run(v.Receive(both[0], 10)).deliveries
    assert dict(fired.headers)["schedule"] == inside.partition("/")[2], "as its namespace calls it"
    for name in (inside, beside, plain):
        run(v.ScheduleDelete(name))


# --- queues of a namespace -----------------------------------------------------------------------


def died(run, queue):
    """Its first message goes where its dead messages go."""
    (delivery,) = run(v.Receive(queue, 1)).deliveries
    run(v.Fail(queue, (Failure(delivery.receipt, "no", retry=False),)))
    return delivery.id


def test_the_dead_of_a_namespace_stay_in_it(run, tenant):
    queue = f"{tenant}/emails"
    send(run, queue, "x")
    assert run(v.QueueGet(queue)).dead_letter == f"{queue}-dead"
    id_ = died(run, queue)
    assert [p.id for p in run(v.Peek(f"{queue}-dead"))] == [id_]
    run(v.RedriveStep(run(v.RedriveStart(f"{queue}-dead")).id, tenant))
    assert [p.id for p in run(v.Peek(queue))] == [id_]


def test_a_redrive_leads_to_another_namespace_only_by_name(run, tenant):
    """The owner of the database may tie two together; what is in one of them may not."""
    queue, grave = f"{tenant}/emails", f"{tenant}-b/grave"
    run(v.QueueCreate(queue, v.QueueSettings(dead_letter=grave)))
    send(run, queue, "x")
    id_ = died(run, queue)
    assert (dry := run(v.RedriveStart(grave, dry_run=True))).skipped == 1, dry
    stayed = run(v.RedriveStep(run(v.RedriveStart(grave)).id))
    assert (stayed.moved, stayed.skipped) == (0, 1)
    assert run(v.RedriveStep(run(v.RedriveStart(grave, queue)).id)).moved == 1
    assert [p.id for p in run(v.Peek(queue))] == [id_]


# --- totals --------------------------------------------------------------------------------------


def totals(run, tenant, **about):
    return {one.queue.partition("/")[2]: one for one in run(Totals(tenant, **about))}


def test_totals_count_as_stats_do(run, tenant, clock):
    queue = f"{tenant}/work"
    ids = send(run, queue, "one", "two", "three", "four", "five!").ids
    send(run, queue, "soon", ttl_ms=500)
    clock.advance(1)
    first, second, *_ = run(v.Receive(queue, 3)).deliveries
    run(v.Ack(queue, (first.receipt,)))
    run(v.Fail(queue, (Failure(second.receipt, "no", retry=False),)))
    run(v.Cancel(queue, (ids[3],)))
    run(v.Maintain(queue))
    for stats in run(v.Stats(namespace=tenant)):
        found = totals(run, tenant, bytes=True)[stats.queue.partition("/")[2]]
        for name in ("sent", "done", "dead", "cancelled", "expired", "oldest_ready_ms"):
            assert getattr(found, name) == getattr(stats, name), (stats.queue, name)
        assert found.unfinished == stats.scheduled + stats.ready + stats.leased
    assert totals(run, tenant, bytes=True)["work"].bytes == len("three" + "five!")
    assert totals(run, tenant, bytes=True)["work-dead"].bytes == len("two")
    assert totals(run, tenant)["work"].bytes is None


def test_totals_know_how_long_something_has_waited(run, tenant, clock):
    """Of each kind: without limits, with them, delayed and due."""
    plain, line, late = (f"{tenant}/{name}" for name in ("plain", "line", "late"))
    run(v.QueueCreate(line, v.QueueSettings(fifo=True)))
    send(run, plain, "a", "b")
    send(run, line, "a", "b", channel="c")
    send(run, late, "a", delay_ms=5_000)
    assert [totals(run, tenant)[n].oldest_ready_ms for n in ("plain", "line", "late")] == [
        0,
        0,
        None,
    ]
    clock.advance(5)
    assert {n: t.oldest_ready_ms for n, t in totals(run, tenant).items() if "dead" not in n} == {
        "plain": 5_000,
        "line": 5_000,
        "late": 5_000,
    }
    for queue in (plain, late):
        run(v.Receive(queue, 10))
    found = totals(run, tenant)
    assert (found["plain"].oldest_ready_ms, found["late"].oldest_ready_ms) == (None, None)
    assert found["plain"].unfinished == 2
