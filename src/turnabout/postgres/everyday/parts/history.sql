-- Keep messages that have ended.
insert into turnabout.history (
    id, sent_at, leased_at, finished_at, queue_id, attempt, failures, crashes, outcome, channel,
    error, note, result, result_type, payload, content_type, headers
)
select e.id, e.sent_at, {leased_at}, {at}, e.queue_id, {attempt}, e.failures, e.crashes, {outcome},
    e.channel, e.last_error, e.note, {content}
from {ended}
