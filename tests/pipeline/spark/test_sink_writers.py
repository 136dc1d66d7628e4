"""The sink's writers, called as Spark calls them, in this process: no Java. On both stores."""

import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import turnabout
from turnabout import Policy
from turnabout.pipeline import verbs as p
from turnabout.pipeline.spark import sink, staging
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.spark.sink import BatchWriter, StreamWriter
from turnabout.pipeline.spark.staging import Sink, SinkFull
from turnabout.server.verbs import Scope, TokenCreate, new_token, token_text
from turnabout.words.errors import Forbidden, Unavailable, Uncertain, UsageError


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(columns)


def numbers(first: int, end: int) -> pa.RecordBatch:
    return batch(value=pa.array([b"%d" % n for n in range(first, end)]))


@pytest.fixture
def made(place: str) -> Iterator[Sink]:
    sink = Sink(Access(place), "emails", pauses=(0.0,))
    yield sink
    sink.access.close()


@pytest.fixture(autouse=True)
def query(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The id of the query, as Spark's tasks know it."""
    ids: list[str | None] = ["11111111-2222-3333-4444-555555555555"]
    monkeypatch.setattr(sink, "_query", lambda: ids[0])
    return ids


def payloads(mq: turnabout.Turnabout, queue: str = "emails") -> list[str]:
    return [m.text() for m in mq.queue(queue).peek(1000)] if queue in names(mq) else []


def names(mq: turnabout.Turnabout) -> list[str]:
    return [entry.name for entry in mq.queues()]


@pytest.mark.driving
def test_a_stream_batch_is_sent_once(mq, made):
    writer: Any = pickle.loads(pickle.dumps(StreamWriter(made, None)))
    tasks = [writer.write(iter([numbers(0, 3), numbers(3, 5)])), writer.write(iter([]))]
    tasks.append(writer.write(iter([numbers(5, 6)])))
    assert [task.attempt.messages for task in tasks] == [5, 0, 1]
    assert payloads(mq) == []

    writer.commit([*tasks, None], 0)
    assert payloads(mq) == ["0", "1", "2", "3", "4", "5"]

    # Again, as after a driver that died before the commit log: other attempts, the same batch.
    again = [writer.write(iter([numbers(0, 6)]))]
    writer.commit(again, 0)
    assert len(payloads(mq)) == 6
    writer.commit([writer.write(iter([numbers(6, 7)]))], 1)
    assert payloads(mq)[6:] == ["6"]


def test_each_checkpoint_is_a_sink_of_its_own(mq, made, query):
    for sink_id in (None, "mails"):
        for query[0] in ("aaaaaaaa-1", "bbbbbbbb-1"):
            writer = StreamWriter(made, sink_id)
            writer.commit([writer.write(iter([numbers(0, 1)]))], 0)
    assert len(payloads(mq)) == 4


def test_without_a_query_id_a_name_is_asked_for(mq, made, query):
    query[0] = None
    with pytest.raises(UsageError, match=r'option\("sinkId"'):
        StreamWriter(made, None).write(iter([numbers(0, 1)]))
    writer = StreamWriter(made, "mails")
    for _ in range(2):
        writer.commit([writer.write(iter([numbers(0, 1)]))], 0)
    assert payloads(mq) == ["0"]


def test_a_run_is_one_batch(mq, made):
    for run in ("run.a", "run.a", "run.b"):
        writer = BatchWriter(made, run)
        writer.commit([writer.write(iter([numbers(0, 2)]))])
    assert payloads(mq) == ["0", "1", "0", "1"]


def test_what_is_aborted_is_never_sent(mq, made):
    writer = StreamWriter(made, None)
    lost, kept = (writer.write(iter([numbers(0, 2)])) for _ in range(2))
    writer.abort([lost, None], 0)
    with pytest.raises(Unavailable, match="of 4 staged messages there are 2"):
        writer.commit([lost, kept], 0)
    writer.commit([kept], 0)
    assert payloads(mq) == ["0", "1"]


@pytest.mark.driving
def test_two_queues_headers_delays_and_keys(mq, made):
    rows = batch(
        value=pa.array(["a", "b", "c", "c again"]),
        queue=pa.array([None, "reports", "reports", "reports"]),
        channel=pa.array(["x", None, "y", "y"]),
        headers=pa.array([[("k", "v")], None, [], []], pa.map_(pa.string(), pa.string())),
        delay_seconds=pa.array([None, 60.0, None, None]),
        dedup_key=pa.array([None, None, "once", "once"]),
        priority=pa.array([1, None, 2, 3], pa.int32()),
    )
    writer = BatchWriter(made, "run.a")
    writer.commit([writer.write(iter([rows]))])
    (mail,) = mq.queue("emails").peek(10)
    assert (mail.text(), mail.channel, mail.headers, mail.priority) == ("a", "x", {"k": "v"}, 1)
    assert mail.content_type == "text/plain; charset=utf-8"
    reports = {m.text(): m for m in mq.queue("reports").peek(10)}
    assert set(reports) == {"b", "c"}
    assert reports["b"].state == "scheduled"
    assert mq.queue("reports").stats().sent == 2


def test_a_row_that_is_no_message_fails_the_task(mq, made):
    writer = StreamWriter(made, None)
    bad = batch(value=pa.array([b"x", None]))
    with pytest.raises(
        UsageError, match="5 of partition 0 is not a valid message: the value is null"
    ):
        writer.write(iter([numbers(0, 3), bad]))


def test_what_a_failed_task_staged_is_removed(mq, made):
    good = batch(value=pa.array([b"x"] * staging.CHUNK_MESSAGES))
    bad = batch(value=pa.array([None], pa.binary()))
    with pytest.raises(UsageError, match=r"row 5,001 of partition 0"):
        StreamWriter(made, None).write(iter([good, bad]))
    stage, unstage = _SEEN
    assert unstage == p.Unstage((stage.attempt,))
    assert made.access.run(unstage) == 0


def test_a_run_that_was_sent_is_not_staged_again(mq, made):
    BatchWriter(made, "run.a").commit([BatchWriter(made, "run.a").write(iter([numbers(0, 3)]))])
    again = BatchWriter(made, "run.a", may_be_sent=True)
    _SEEN.clear()
    told = again.write(iter([numbers(0, 3)]))
    assert not any(isinstance(verb, p.Stage) for verb in _SEEN)
    again.commit([told])
    with pytest.raises(UsageError, match="with 3 messages, and has 4 now"):
        again.commit([again.write(iter([numbers(0, 4)]))])
    new = BatchWriter(made, "run.b", may_be_sent=True)
    new.commit([new.write(iter([numbers(3, 4)]))])
    assert payloads(mq) == ["0", "1", "2", "3"]


def test_rows_of_many_queues_are_staged_by_queue(mq, made, monkeypatch):
    monkeypatch.setattr(staging, "CHUNK_MESSAGES", 4)
    monkeypatch.setattr(staging, "CHUNK_BYTES", 400)
    names = [f"q{n % 3}" for n in range(30)]
    rows = [
        batch(value=pa.array([str(n) for n in some]), queue=pa.array([names[n] for n in some]))
        for some in (range(10), range(10, 20), range(20, 30))
    ]
    writer = BatchWriter(made, "run.many")
    told = writer.write(iter(rows))
    stages = [verb for verb in _SEEN if isinstance(verb, p.Stage)]
    assert max(sum(len(part.payloads) for part in verb.parts) for verb in stages) <= 8
    assert len(stages) == 6
    writer.commit([told])
    for name in ("q0", "q1", "q2"):
        wanted = [str(n) for n in range(30) if names[n] == name]
        assert [m.text() for m in mq.queue(name).peek(30)] == wanted


_SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """All verbs that a sink runs."""
    _SEEN.clear()
    run = Access.run

    def noting(self: Access, verb: Any) -> Any:
        _SEEN.append(verb)
        return run(self, verb)

    monkeypatch.setattr(Access, "run", noting)
    return _SEEN


def test_chunks(mq, made, monkeypatch):
    monkeypatch.setattr(staging, "CHUNK_MESSAGES", 4)
    monkeypatch.setattr(staging, "CHUNK_BYTES", 8)
    writer = StreamWriter(made, None)
    rows = batch(value=pa.array([*[b"1"] * 9, b"22222222", b"3", b"4"]))
    task = writer.write(iter([rows]))
    chunks = [
        len(part.payloads) for verb in _SEEN if isinstance(verb, p.Stage) for part in verb.parts
    ]
    assert chunks == [4, 4, 2, 2]
    writer.commit([task], 0)
    assert payloads(mq) == [*"1" * 9, "22222222", "3", "4"]


def test_invalid_rows_go_to_dead_letter_queues(mq, made):
    mq.queue("reports").create(dead_letter="graveyard")
    made.on_invalid = "deadletter"
    rows = batch(
        value=pa.array([b"good", b"a", b"b", b"c"]),
        queue=pa.array([None, None, "reports", "no name!"]),
        priority=pa.array([0, 99_999, 99_999, 0]),
    )
    writer = StreamWriter(made, None)
    writer.commit([writer.write(iter([rows]))], 0)
    assert payloads(mq) == ["good"]
    dead = {m.text(): m.headers for m in mq.queue("emails-dead").peek(10)}
    assert dead["a"]["invalid-queue"] == "emails"
    assert "priority is" in dead["a"]["invalid-reason"]
    assert dead["c"]["invalid-queue"] == "no name!"
    assert payloads(mq, "graveyard") == ["b"]


def test_an_invalid_row_that_no_queue_is_known_for(mq, place):
    made = Sink(Access(place), None, "deadletter")
    rows = batch(value=pa.array([b"a"]), queue=pa.array(["no name!"]))
    with pytest.raises(UsageError, match="nobody knows whose dead-letter queue"):
        StreamWriter(made, None).write(iter([rows]))


@pytest.mark.driving
def test_a_full_channel_fails_the_batch_whole(mq, made):
    emails = mq.queue("emails")
    emails.create(policy=Policy(max_size=3))
    writer = StreamWriter(made, None)
    task = writer.write(iter([numbers(0, 4)]))
    text = "nothing of batch 7 was sent: channel '' of queue emails holds 0 messages of at most 3"
    with pytest.raises(SinkFull, match=text):
        writer.commit([task], 7)
    assert payloads(mq) == []
    emails.update(policy=Policy(max_size=4))
    writer.commit([task], 7)  # it was not published, and is staged still
    assert len(payloads(mq)) == 4


@pytest.mark.driving
@pytest.mark.parametrize("happened", [False, True])
def test_a_publishing_whose_answer_is_lost_is_tried_again(mq, made, monkeypatch, *, happened):
    writer = StreamWriter(made, None)
    task = writer.write(iter([numbers(0, 2)]))
    run, failures = Access.run, [Uncertain("lost") if happened else Unavailable("away")]

    def failing(self: Access, verb: Any) -> Any:
        if isinstance(verb, p.Publish) and failures:
            if happened:
                run(self, verb)
            raise failures.pop()
        return run(self, verb)

    monkeypatch.setattr(Access, "run", failing)
    writer.commit([task], 0)
    assert payloads(mq) == ["0", "1"]


def test_a_token_confines_to_its_namespace_and_scopes(mq, place):
    token_id, secret, digest = new_token()
    scopes = (Scope("send", "emails"), Scope("send", "reports"))
    mq.store.run(TokenCreate(token_id, digest, "acme", "", scopes))
    made = Sink(Access(place, token=token_text(token_id, secret)), "emails", pauses=())
    writer = BatchWriter(made, "run.a")
    rows = batch(value=pa.array(["a", "b"]), queue=pa.array([None, "reports"]))
    for _ in range(2):
        writer.commit([writer.write(iter([rows]))])
    assert (payloads(mq, "acme/emails"), payloads(mq, "acme/reports")) == (["a"], ["b"])

    # Another tenant's run of that name is another run.
    other = BatchWriter(Sink(Access(place, namespace="other"), "emails"), "run.a")
    other.commit([other.write(iter([rows]))])
    assert payloads(mq, "other/emails") == ["a"]

    for queue, error in (("secrets", Forbidden), ("other/emails", UsageError)):
        rows = batch(value=pa.array(["a"]), queue=pa.array([queue]))
        with pytest.raises(error):
            writer.write(iter([rows]))
