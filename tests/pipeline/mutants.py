"""Stores with a planted bug in a pipeline's verbs: the net of lives must catch them all."""

from typing import Any

from tests.pipeline.steps import Pipe, connection, of_file, select
from turnabout import Receipt
from turnabout.pipeline import verbs as p
from turnabout.words import verbs as v
from turnabout.words.value import replace


class Mutant(Pipe):
    """A pipe around a pipe; subclasses override the verb that they spoil."""

    def __init__(self, pipe: Pipe) -> None:
        self.__dict__.update(pipe.__dict__)
        self.good = pipe
        self.write: Any = connection(pipe.door.url)

    def run(self, verb: Any) -> Any:
        spoiled = getattr(self, verb.name, None)
        return self.good.run(verb) if spoiled is None else spoiled(verb)

    def sql(self, statement: str, *values: Any) -> None:
        statement = statement.replace("?", "%s") if self.is_postgres else of_file(statement)
        self.write.execute(statement, values)

    def state(self, name: str) -> p.Subscription | None:
        return next((s for s in self.good.run(p.SubscriptionList()) if s.name == name), None)

    def close(self) -> None:
        self.write.close()


class AcksBeyondAfter(Mutant):
    """What is leased counts as done when the next is asked for."""

    def epoch_lease(self, verb: p.EpochLease) -> Any:
        state = self.state(verb.subscription)
        newest = verb.after if state is None else max(state.epoch, verb.after)
        return self.good.run(replace(verb, after=newest))


class RepeatLeasesMore(Mutant):
    """A batch that is repeated reads other messages: the first of the recorded ones is left out."""

    def epoch_lease(self, verb: p.EpochLease) -> Any:
        answer = self.good.run(verb)
        if isinstance(answer, p.Leased) and answer.epoch > verb.after:
            spoiled = "update epoch_part set attempts[1] = attempts[1] + 1 where epoch = ?"
            self.sql(f"{spoiled} and subscription = ?", answer.epoch, verb.subscription)
        return answer


class GenerationIgnored(Mutant):
    """A reader that was superseded goes on."""

    def epoch_lease(self, verb: p.EpochLease) -> Any:
        state = self.state(verb.subscription)
        held = verb.generation if state is None else max(1, state.generation)
        return self.good.run(replace(verb, generation=held))


class GenerationUsedAgain(Mutant):
    """A subscription that was forgotten begins anew."""

    def subscription_open(self, verb: p.SubscriptionOpen) -> Any:
        if self.state(verb.subscription) is None:
            self.sql("alter sequence generation restart")
        return self.good.run(verb)


class LostLeaseAcked(Mutant):
    """What somebody else has by now is acknowledged with the epoch."""

    def epoch_lease(self, verb: p.EpochLease) -> Any:
        recorded = (
            "select p.queue, m.id, m.attempt from epoch_part p join message m on m.id = any (p.ids)"
            " where p.subscription = ? and p.epoch <= ?"
        )
        rows = select(self.write, recorded, verb.subscription, verb.after)
        answer = self.good.run(verb)
        for row in rows if isinstance(answer, p.Leased) else ():
            self.good.run(v.Ack(row["queue"], (Receipt(row["id"], row["attempt"] + 1),)))
        return answer


class LostNotCounted(Mutant):
    def epoch_lease(self, verb: p.EpochLease) -> Any:
        answer = self.good.run(verb)
        return replace(answer, lost=0) if isinstance(answer, p.Leased) else answer


class HeartbeatWithoutEffect(Mutant):
    def epoch_extend(self, verb: p.EpochExtend) -> Any:
        return self.good.run(replace(verb, lease_ms=1))  # never shorter


class LimitIgnored(Mutant):
    """Epochs are as large as ever while one is isolated."""

    def epoch_lease(self, verb: p.EpochLease) -> Any:
        self.sql("update subscription set max_messages = null")
        return self.good.run(verb)


class InnocentsCharged(Mutant):
    """What goes back from a batch that failed pays for it."""

    def epoch_plan(self, verb: p.EpochPlan) -> Any:
        answer = self.good.run(verb)
        if getattr(answer, "returned", 0):
            which = "id in (select id from ready)"
            self.sql(f"update message set failures = failures + 1 where {which}")
        return answer


class OutageIsPoison(Mutant):
    """What fails alone is dead at once, as if others had got through."""

    def epoch_plan(self, verb: p.EpochPlan) -> Any:
        self.sql(
            "update subscription set passed = passed + 5,"
            " suspects = (select jsonb_object_agg(id, 0) from message) where name = ?",
            verb.subscription,
        )
        return self.good.run(verb)


class StillSuspected(Mutant):
    """What was acknowledged since counts for nothing: each one that fails alone twice is dead."""

    def epoch_plan(self, verb: p.EpochPlan) -> Any:
        self.sql("update subscription set passed = passed + 5 where name = ?", verb.subscription)
        return self.good.run(verb)


class WaitForgotten(Mutant):
    def epoch_lease(self, verb: p.EpochLease) -> Any:
        self.sql("update subscription set resume_at = 0 where name = ?", verb.subscription)
        return self.good.run(verb)


class PoisonComesBack(Mutant):
    """What fails alone is given back instead of ending."""

    def epoch_plan(self, verb: p.EpochPlan) -> Any:
        if verb.max_plans >= 1_000:
            return self.good.run(verb)
        return self.good.run(replace(verb, max_plans=verb.max_plans + 1))


class ReleaseLeavesLeases(Mutant):
    def subscription_release(self, verb: p.SubscriptionRelease) -> Any:
        state = self.state(verb.subscription)
        if state is None:
            return self.good.run(verb)
        self.good.run(p.SubscriptionOpen(verb.subscription, "nobody"))
        return state.messages


class PublishedTwice(Mutant):
    """A batch that is repeated is sent again."""

    def __init__(self, pipe: Pipe) -> None:
        super().__init__(pipe)
        self.kept: dict[str, list[p.StagedMessages]] = {}

    def stage(self, verb: p.Stage) -> Any:
        self.kept.setdefault(verb.attempt, []).extend(verb.parts)
        return self.good.run(verb)

    def publish(self, verb: p.Publish) -> Any:
        answer = self.good.run(verb)
        if isinstance(answer, p.AlreadyPublished):
            for staged in (s for attempt in verb.attempts for s in self.kept.get(attempt, [])):
                self.good.run(v.Send(staged.queue, tuple(staged.messages())))
        return answer


class IncompleteIsSent(Mutant):
    def publish(self, verb: p.Publish) -> Any:
        answer = self.good.run(verb)
        if isinstance(answer, p.StageIncomplete):
            return self.good.run(replace(verb, messages=answer.found))
        return answer


class OrderLost(Mutant):
    """What was staged is sent, the last one first."""

    def stage(self, verb: p.Stage) -> Any:
        return self.good.run(replace(verb, parts=verb.parts[::-1]))


class StagedIsNotRemoved(Mutant):
    """An attempt that was published, or removed, is still there."""

    def unstage(self, verb: p.Unstage) -> Any:
        kept = select(self.write, "select id, attempt from stage")
        self.sql("update stage set attempt = 'kept'")
        answer = self.good.run(verb)
        for row in kept:
            self.sql("update stage set attempt = ? where id = ?", row["attempt"], row["id"])
        return answer or sum(row["attempt"] in verb.attempts for row in kept)


class FloorForgotten(Mutant):
    """Who has not read what is gone is not told."""

    def log_next(self, verb: p.LogNext) -> Any:
        return self.good.run(replace(verb, ignore_loss=True))


class LastRowCutOff(Mutant):
    def log_cut(self, verb: p.LogCut) -> Any:
        cut = self.good.run(verb)
        return cut[:-1] if len(cut) > 1 else cut


class PurgeGoesTooFar(Mutant):
    """What was not archived goes as well."""

    def log_purge(self, verb: p.LogPurge) -> Any:
        return self.good.run(replace(verb, until=self.good.end()))


class PurgeOfTheYoung(Mutant):
    def log_purge(self, verb: p.LogPurge) -> Any:
        return self.good.run(replace(verb, finished_before=10**15))


class PassesOpenTransactions(Mutant):
    """The trap of every outbox: what is committed is read, whatever may still come before it."""

    def log_next(self, verb: p.LogNext) -> Any:
        answer = self.good.run(verb)
        if not isinstance(answer, p.LogRange) or answer.more:
            return answer
        rows = select(self.write, "select xid, id from history order by xid desc, id desc limit 1")
        end = f"{rows[0]['xid']}.{rows[0]['id']}" if rows else answer.until
        span = replace(answer, until=end)
        found = len(self.rows(span))
        if verb.limit is not None and found > verb.limit:
            return answer
        return replace(span, messages=found)


ON_SQLITE = (
    *(PublishedTwice, IncompleteIsSent, OrderLost, StagedIsNotRemoved),
    *(FloorForgotten, LastRowCutOff, PurgeGoesTooFar, PurgeOfTheYoung),
)
"""Lives are quicker there, but without leases by the batch and second writers."""
ON_POSTGRES = tuple(bug for bug in Mutant.__subclasses__() if bug not in ON_SQLITE)
