"""The behaviour tests are tested, too: each of these bugs in PostgreSQL's functions is noticed.

Of each: what is wrong, the tests that must notice, the text as installed, and what is put there.
"""

import pytest

from tests.support.planted import bugs, must_notice, spoiled

__all__ = ["spoiled"]

BUGS = bugs(
    r"""
# a stale receipt settles another's lease
@ test_leases::test_a_receipt_of_what_was_given_back_is_stale_while_the_rest_is_out
- m.attempt = coalesce(t.attempt, attempts[1]) - 1 and t.lease
+ t.lease
# a stale receipt acks another's lease
@ test_leases::test_a_receipt_of_what_was_given_back_is_stale_while_the_rest_is_out
- m.attempt = end_done.attempt - 1
+ true
# the number of a lease is enough
@ test_leases::test_a_lease_is_of_no_other_message
- return coalesce(held_attempts[array_position(held, ids[1])] = attempt, false);
+ return true;
# the number of a lease is enough among several
@ test_leases::test_a_lease_is_of_no_other_message
- ) h on h.id = t.id and h.attempt = coalesce(t.attempt, attempts[1])
+ ) h on true
# an earlier attempt's lease is one of the later
@ test_leases::test_a_lease_is_of_no_other_message
- return coalesce(held_attempts[array_position(held, ids[1])] = attempt, false);
+ return array_position(held, ids[1]) > 0;
# a lease that runs out is not charged
@ test_receive::test_a_lease_runs_out_at_its_millisecond_and_is_charged
- crashes = m.crashes + 1
+ crashes = m.crashes
# a receive's own lease time is ignored
@ test_receive::test_the_queue_s_lease_holds_unless_one_is_named
- coalesce(receive.lease_ms, q.lease_ms)
+ q.lease_ms
# an extension makes a lease shorter
@ test_extend::test_a_lease_is_never_made_shorter
- when exact then until_ms else greatest(until_ms,
+ when true then until_ms else greatest(until_ms,
# an exact extension does not shorten
@ test_extend::test_one_of_a_batch_ends_sooner_and_the_others_run_on
- where l.id = any (v_locked) and l.id <> all (v_whole) and l.until > until_ms;
+ where false;
# the rest of a batch ends with the one that was shortened
@ test_extend::test_one_of_a_batch_ends_sooner_and_the_others_run_on
- rest_until = coalesce(l.rest_until, l.until)
+ rest_until = l.rest_until
# a lost lease is not said to be scheduled
@ test_ack::test_who_gave_a_message_back_has_lost_it
- (select 'scheduled', s.at
+ (select 'ready', s.at
# priorities are ignored
@ test_receive::test_inside_a_channel_priority_then_order_of_sending
- order by e.priority, e.id
+ order by e.id
# a message is due a millisecond early
@ test_send::test_a_delay_is_kept_to_the_millisecond
- m.now + m.delay end,
+ m.now + m.delay - 1 end,
# a paused queue hands out
@ test_receive::test_a_paused_queue_hands_out_nothing_and_takes_everything
- if queue.paused then
+ if false then
# a paused channel hands out
@ test_receive::test_a_paused_channel_hands_out_nothing
- case when coalesce(c.paused or c.paused_until > now_ms, false) or exists (
+ case when exists (
# a pause ends never by itself
@ test_policy::test_a_channel_is_paused_for_a_time_by_the_database_s_clock
- v_until := v_row.paused_until;
+ v_until := null;
# a pause leaves a policy behind
@ test_policy::test_a_channel_is_paused_for_a_time_by_the_database_s_clock
- if v_row.paused_until <= now_ms then
+ if v_row.paused_until < now_ms - 60000 then
# a slot too many
@ test_concurrency::test_never_more_leases_than_slots
- return v_limit - v_leased
+ return v_limit - v_leased + 1
# two at a time from a FIFO channel
@ test_concurrency::test_fifo_is_one_at_a_time_in_order
- case when v_leased > v_own then 0 else
+ case when v_leased > v_own + 1 then 0 else
# a batch of runs is not filled
@ test_concurrency::test_runs_go_on_where_others_have_less_than_their_share
- v_left > 0 and queue.fifo and
+ v_left < 0 and queue.fifo and
# a run of a FIFO channel has a hole
@ test_concurrency::test_a_run_of_a_fifo_channel_ends_before_what_is_not_due
- or l.locked = l.nr
+ or l.nr > 0
# a FIFO head that backs off is overtaken
@ test_concurrency::test_a_retried_head_stays_the_head
- and (x.expires_at is null or x.expires_at > now_ms)
+ and (x.at is null or x.at <= now_ms)
# what the end of a batch has cut off is forgotten
@ test_turns::test_shares_are_by_weight_whatever_the_batches
@ test_turns::test_each_busy_channel_has_its_share
- if served > 0 then
+ if false then
# any look forgives debt
@ test_rate::test_a_look_by_an_old_clock_forgives_no_debt
- if v_depth <> v_row.rate_depth_us then
+ if true then
# a token too many
@ test_rate::test_a_burst_at_once_then_evenly_spaced
- 0, burst - (greatest(
+ 0, burst + 1 - (greatest(
# weights are ignored
@ test_turns::test_weights_are_messages_a_turn
- u.weight * v_times + least(
+ v_times + least(
# what is over of a FIFO queue's shares is nobody's
@ test_concurrency::test_a_batch_of_runs_is_filled_and_who_has_more_of_it_changes
- then left_over % sum(w.weight)
+ then 0
# who has it is always the same
@ test_concurrency::test_a_batch_of_runs_is_filled_and_who_has_more_of_it_changes
- (array_agg(t.name order by v_more > t.earlier desc, t.nr desc))[1]
+ (array_agg(t.name order by t.nr desc))[1]
# a channel holds one message too few
@ test_send::test_a_full_channel_refuses
- s.size + s.messages > s.max_size
+ s.size + s.messages >= s.max_size
# a queue holds one message too many
@ test_bounds::test_a_send_up_to_the_bound_is_taken_and_one_over_it_refused_whole
- size + cardinality(send.payloads) > v_max_messages
+ size + cardinality(send.payloads) > v_max_messages + 1
# a window lasts a millisecond too long
@ test_dedup::test_a_window_ends_at_its_millisecond_swept_or_not
- v_holds := now_ms < v_until
+ v_holds := now_ms <= v_until
# a key counts although its message was started
@ test_dedup::test_what_a_second_send_meets
- then v_attempt = 0 else
+ then v_attempt >= 0 else
# a window does not slide
@ test_dedup::test_a_sliding_window_is_as_long_as_the_last_attempt_says
- if v_one.mode = 'sliding' then
+ if false then
# new content keeps the old priority
@ test_dedup::test_latest_puts_the_new_content_in_the_old_place
- priority = replace_message.priority,
+ priority = m.priority,
# a schedule fires although another time is due
@ test_schedules_verbs::test_a_schedule_that_was_replaced_or_removed_is_not_due
@ test_schedules_verbs::test_each_due_time_is_fired_once
- r.next_at = schedule_fire.due_at and not r.paused
+ not r.paused
# a schedule does not look whether its last message is unfinished
@ test_schedules_verbs::test_overlap_asks_whether_the_last_message_is_unfinished
- not (s.overlap = 'skip' and exists (
+ not (false and exists (
# a failure is not charged
@ test_fail::test_a_failed_message_comes_back_at_its_millisecond_and_is_charged
- set failures = m.failures + 1,
+ set failures = m.failures,
# an attempt too many
@ test_fail::test_the_last_failed_attempt_is_the_end
- charged >= queue.max_attempts
+ charged > queue.max_attempts
# the back-off is twice as long
@ test_fail::test_the_back_off_doubles_up_to_its_longest
- least(charges - 1, 40)
+ least(charges, 40)
# the first error is forgotten
@ test_fail::test_the_last_failed_attempt_is_the_end
- m.errors, m.attempt + 1, v_now
+ null, m.attempt + 1, v_now
# a retry forgets no charges
@ test_dead_letters::test_a_retry_of_what_is_ready_forgets_its_charges
- set at = null, failures = 0, crashes = 0
+ set at = null
# the dead expire
@ test_ttl::test_the_dead_and_the_redriven_do_not_expire
- expires_at = null,
+ expires_at = m.expires_at,
# a redrive is not counted
@ test_redrive::test_the_loop_guard_is_what_the_redrive_says
- coalesce((m.origin::jsonb ->> 'redrives')::int, 0) + 1
+ coalesce((m.origin::jsonb ->> 'redrives')::int, 0)
# a redrive is faster than it may be
@ test_redrive::test_a_rate_is_kept_while_the_clock_moves
- (cardinality(v_move) * 1000 + r.per_second - 1) / r.per_second
+ (cardinality(v_move) * 500 + r.per_second - 1) / r.per_second
# what has expired is said to be cancelled
@ test_ttl::test_maintain_ends_what_nobody_receives
- (queue, v_ids, 4, now_ms)
+ (queue, v_ids, 3, now_ms)
# the wish to cancel a leased message is lost
@ test_cancel::test_the_holder_sees_the_wish_at_its_next_extend
- set cancel_requested = true
+ set cancel_requested = m.cancel_requested
# a cancelled message comes back
@ test_cancel::test_it_never_comes_back
- b.cancel_requested)
+ false)
# cancelled messages are not counted
@ test_cancel::test_a_waiting_message_ends_at_once
- case when outcome = 3 then v_count end
+ null::int
# history keeps no payload
@ test_history::test_the_payload_is_kept_whatever_the_outcome
- case when queue.history_payload then e.payload end
+ null::bytea
# the last row of a page of history comes twice
@ test_history::test_the_newest_come_first_page_by_page
- or r.id < v_id
+ or r.id <= v_id
# an event tells a due time that has passed
@ test_events::test_after_a_crash_it_is_due_when_that_is_noticed
- then greatest(coalesce(m.at, 0), now_ms)
+ then m.at
# an ending whose history is gone is not unknown
@ test_results::test_an_ending_without_history_is_unknown
- when t.id <= v_last then 'unknown'
+ when false then 'unknown'
# a changed policy loses what was not named
@ test_policy::test_changing_keeps_what_is_not_named
- if not policy_set.replace then
+ if false then
# a changed setting does not hold
@ test_queues::test_settings_change_and_the_others_stay
@ test_queues::test_changed_settings_hold_for_what_comes_next
- delay_ms = s.delay_ms
+ delay_ms = q.delay_ms
# a peek shows other channels
@ test_looking::test_peek_by_state_and_channel
- peek.state, peek.channel, peek.after_id
+ peek.state, null, peek.after_id
# a purge takes what is leased
@ test_looking::test_purge_cancels_what_waits_and_leaves_what_is_out
- if purge.state is distinct from 'leased' then
+ if purge.state <> 'leased' then
# a lease that runs out does not raise the attempt
@ test_receive::test_a_lease_runs_out_at_its_millisecond_and_is_charged
- set attempt = m.attempt + 1, crashes
+ set attempt = m.attempt, crashes
# a release does not raise the attempt
@ test_defer::test_a_released_message_is_back_at_once_and_uncharged
- m.attempt + (requeue.leased_at is not null)::int
+ m.attempt
# a failure does not raise the attempt
@ test_fail::test_a_failed_message_comes_back_at_its_millisecond_and_is_charged
-             attempt = m.attempt + 1,
+             attempt = m.attempt,
# a quick ack does not look for its lease
@ test_leases::test_a_receipt_of_a_lease_that_never_was_is_lost
- l.attempts, ack.ids, ack.attempts[1]);
+ l.attempts, ack.ids, ack.attempts[1]); v_leased_at := coalesce(v_leased_at, 1);
# a receipt's lease is not looked for
@ test_leases::test_a_receipt_of_a_lease_that_never_was_is_lost
- and t.lease is not null
+
# a lease is over when one of its messages is settled
@ test_leases::test_what_is_settled_one_by_one_frees_the_slots_one_by_one
@ test_leases::test_what_is_settled_of_a_batch_is_not_of_its_lease_any_more
- where e.id = leases[1] and cardinality(e.ids) = receipts
+ where e.id = leases[1]
# what was settled runs out with the rest of its lease
@ test_leases::test_what_is_settled_of_a_batch_is_not_of_its_lease_any_more
- join turnabout.message m on m.id = t.id and m.attempt = t.attempt - 1
+ join turnabout.message m on m.id = t.id
# the sweep of leases ignores extensions
@ test_leases::test_one_of_a_batch_is_extended_and_the_others_run_out
- l.rest_until, l.until) <= now_ms
+ l.rest_until, l.until) <= now_ms + 999999
# an earlier lease ends a later one's extension
@ test_leases::test_an_earlier_lease_s_end_takes_nothing_from_a_later_one
- on x.id = t.id and x.lease = g.id
+ on x.id = t.id
# an extension of one holds for its whole batch
@ test_leases::test_one_of_a_batch_is_extended_and_the_others_run_out
- on l.id = c.lease and cardinality(l.ids) = c.count
+ on l.id = c.lease
# a cancel leaves the entry in the line
@ test_cancel::test_a_waiting_message_ends_at_once
- take_out_messages(v_queue.id, cancel.ids)
+ lock_waiting(v_queue.id, cancel.ids)
# new content gets no new entry
@ test_dedup::test_latest_puts_the_new_content_in_the_old_place
- give_places(queue, array[replace_message.id], now_ms)
+ give_places(queue, '{}', now_ms)
# new content leaves the old entry
@ test_dedup::test_latest_brings_a_ready_message_to_a_later_time
- take_out_messages(queue.id, array[replace_message.id])
+ lock_waiting(queue.id, array[replace_message.id])
# the end of a lease does not wake its channel
@ test_concurrency::test_whatever_ends_a_lease_frees_its_slot_and_no_other
-     where queue.limited or exists (
+     where false and exists (
# leases from before a limit have no slot
@ test_concurrency::test_leases_from_before_the_limit_count
- select m.id, t.attempt, m.channel::text
+ select m.id, t.attempt + 1, m.channel::text
# a lease that runs out brings back what was cancelled
@ test_cancel::test_a_lease_that_runs_out_does_not_bring_it_back
- o.cancel_requested)
+ false)
# a delivery too many
@ test_deliveries::test_the_last_delivery_that_is_given_back_is_dead
- deliveries >= queue.max_deliveries
+ deliveries > queue.max_deliveries
# deliveries of before a retry count
@ test_deliveries::test_what_it_was_delivered_elsewhere_or_before_a_retry_does_not_count
- delivered_before = m.attempt
+ delivered_before = null
# a queue's own leases are not counted
@ test_queue_limits::test_never_more_leases_than_the_queue_has_slots
- own.leased := own.leased + v_count;
+ own.leased := own.leased;
# an end gives no slot back to its queue
@ test_queue_limits::test_whatever_ends_a_lease_frees_its_slot_and_no_other
- where queue.queue_limited
+ where false
# leases from before a queue's limit do not count
@ test_queue_limits::test_a_limit_on_a_queue_in_use_counts_what_is_leased
- select queue.id where queue.queue_limited;
+ select queue.id where false;
# nothing is paid into a queue's bucket
@ test_queue_limits::test_the_rate_of_a_queue_is_never_exceeded
- + v_count * queue.queue_rate_interval_us
+ + 0
# what is due later overtakes in a FIFO channel
@ test_concurrency::test_a_delayed_message_holds_its_channel
- where p.at is null or p.at <= now_ms or queue.fifo
+ where p.at is null or p.at <= now_ms
"""
)
INSIDE = bugs(
    r"""
# a weight locks others out
@ test_interleavings::test_weights_hold_beside_an_open_receive
- has_limits(queue, c) then
+ has_limits(queue, c) or true then
# a bucket's clock is that of the call's beginning
@ test_interleavings::test_a_bucket_s_clock_is_read_while_the_channel_is_held
- at_ms := coalesce(at_ms,
+ at_ms := coalesce(at_ms, now_ms,
# the slot of a settled message stays
@ test_places::test_nothing_is_left_of_what_was_settled
- where s.queue_id = queue.id and s.channel = t.channel and s.id = t.id
+ where false
# the lease of settled messages stays
@ test_places::test_nothing_is_left_of_what_was_settled
- and cardinality(l.ids) = cardinality(ack.ids)
+ and false
# a rebuild skips what is scheduled
@ test_places::test_after_a_crash_each_message_has_its_place_again
- where h.at > v_now and not h.fifo
+ where false
# a rebuild hands out what is due later
@ test_places::test_after_a_crash_each_message_has_its_place_again
- case when h.at > v_now then h.at end
+ null::bigint
# a crash is not noticed
@ test_places::test_after_a_crash_each_message_has_its_place_again
- if not exists (select from turnabout.whole) then
+ if false then
# a lease that was just made counts against no new limit
@ test_changes::test_leases_that_are_just_made_count_against_a_new_limit
- if not exists (select from turnabout.recent_change c where c.queue = queue.name) then
+ if true then
# a new policy is over for others at once
@ test_changes::test_leases_that_are_just_made_count_against_a_new_limit
- where c.began is null or w.who = any (c.began) or w.who like '-1/%'
+ where false
# an older snapshot does not say so
@ test_changes::test_leases_that_are_just_made_count_against_a_new_limit
- current_setting('transaction_isolation') <> 'read committed'
+ false
# a deleted queue is sent to from an older snapshot
@ test_changes::test_what_is_just_sent_to_a_deleted_queue
- perform from turnabout.queue q where q.name = send.queue for key share;
+ null;
# what was just sent to a deleted queue stays there
@ test_changes::test_what_is_just_sent_to_a_deleted_queue
- where e.queue_id = sweep_deleted.queue_id
+ where false
# a head mark hides what is sent next
@ test_snapshot::test_a_queue_that_is_drained_as_it_fills
- v_taken.id - 32
+ v_taken.id + 32
# nobody asks again for what lies below a head mark
@ test_snapshot::test_a_late_commit_to_a_drained_queue_is_heard
- when false then soon_ms else 1000 end
+ when false then soon_ms end
# a head mark is taken for an empty line
@ test_snapshot::test_a_late_commit_to_a_drained_queue_is_heard
- when count(*) = 1 then true end
+ else true end
# maintenance leaves slots that nobody has freed
@ test_places::test_a_slot_that_nobody_freed_is_found_and_its_channel_looks_again
- select from turnabout.message m where m.id = o.id and m.attempt = o.attempt - 1
+ select 1
# maintenance leaves leases that were settled one by one
@ test_places::test_leases_that_were_settled_one_by_one_are_swept
- select from unnest(o.ids, o.attempts) t (id, attempt)
+ select from unnest(o.ids, o.attempts) t (id, attempt) left
"""
)


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.what)
def test_a_bug_in_a_function_is_noticed(bug, spoiled):
    must_notice(bug, spoiled, "conformance")


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("bug", INSIDE, ids=lambda bug: bug.what)
def test_a_bug_that_shows_inside_only_is_noticed(bug, spoiled):
    must_notice(bug, spoiled, "postgres")
