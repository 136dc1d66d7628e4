"""The behaviour tests are tested, too: each of these bugs in PostgreSQL's functions is noticed.

Of each: what is wrong, the tests that must notice, the text as installed, and what is put there.
"""

import pytest

from tests.support.planted import bugs, must_notice, spoiled
from tests.support.seeds import shares

__all__ = ["spoiled"]

BUGS = bugs(
    r"""
# a stale receipt settles another's lease
@ test_defer::test_a_stale_receipt_defers_nothing
@ test_fail::test_a_stale_receipt_fails_nothing
- m.attempt = coalesce(t.attempt, attempts[1]) and m.status
+ m.status
# a stale receipt acks another's lease
@ test_ack::test_a_stale_receipt_changes_nothing_while_somebody_else_has_the_message
- (v_attempt is null or m.attempt = v_attempt)
+ true
# an ack ends a message of another queue
@ test_ack::test_a_message_of_another_queue_is_not_ours
- and m.status + 0 = 2 and m.queue_id + 0 = v_queue_id
+ and m.status + 0 = 2
# a lease that runs out is not charged
@ test_receive::test_a_lease_runs_out_at_its_millisecond_and_is_charged
- crashes = m.crashes + (m.status = 2)::int
+ crashes = m.crashes
# a receive's own lease time is ignored
@ test_receive::test_the_queue_s_lease_holds_unless_one_is_named
- v_until := v_now + coalesce(receive.lease_ms, v_lease_ms)
+ v_until := v_now + v_lease_ms
# an extension makes a lease shorter
@ test_extend::test_a_lease_is_never_made_shorter
- set at = greatest(m.at, v_until)
+ set at = v_until
# a lost lease is not said to be scheduled
@ test_ack::test_who_gave_a_message_back_has_lost_it
- when 0 then 'ready' when 1 then 'scheduled'
+ when 0 then 'ready' when 1 then 'ready'
# priorities are ignored
@ test_receive::test_inside_a_channel_priority_then_order_of_sending
- order by r.priority, r.id
+ order by r.id
# a message is due a millisecond early
@ test_send::test_a_delay_is_kept_to_the_millisecond
- v_now + m.delay, v_now,
+ v_now + m.delay - 1, v_now,
# a paused queue hands out
@ test_receive::test_a_paused_queue_hands_out_nothing_and_takes_everything
- if v_paused then
+ if false then
# a paused channel hands out
@ test_receive::test_a_paused_channel_hands_out_nothing
- case when coalesce(c.paused, false) then 0 else
+ case when false then 0 else
# a slot too many
@ test_concurrency::test_never_more_leases_than_slots
- return v_limit - (
+ return v_limit + 1 - (
# two at a time from a FIFO channel
@ test_concurrency::test_fifo_is_one_at_a_time_in_order
- case when queue.fifo then 1 else coalesce(own_limit
+ case when false then 1 else coalesce(own_limit
# a FIFO head that backs off is overtaken
@ test_concurrency::test_a_retried_head_stays_the_head
- when t.delay > 0 and not queue.fifo then 1
+ when t.delay > 0 then 1
# a token too many
@ test_rate::test_a_burst_at_once_then_evenly_spaced
- 0, burst - (greatest(
+ 0, burst + 1 - (greatest(
# weights are ignored
@ test_turns::test_weights_are_messages_a_turn
- u.weight * quantum as wish
+ quantum as wish
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
- failures + crashes >= queue.max_attempts
+ failures + crashes > queue.max_attempts
# the back-off is twice as long
@ test_fail::test_the_back_off_doubles_up_to_its_longest
- least(charges - 1, 40)
+ least(charges, 40)
# the first error is forgotten
@ test_fail::test_the_last_failed_attempt_is_the_end
- first_error = coalesce(m.first_error, t.error)
+ first_error = t.error
# a retry forgets no charges
@ test_dead_letters::test_a_retry_of_what_is_ready_forgets_its_charges
- set status = 0, at = v_now, failures = 0, crashes = 0
+ set status = 0, at = v_now
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
@ test_ttl::test_tend_ends_what_nobody_receives
- (queue, v_ids, 4, now_ms)
+ (queue, v_ids, 3, now_ms)
# the wish to cancel a leased message is lost
@ test_cancel::test_the_holder_sees_the_wish_at_its_next_extend
- set cancel_requested = true
+ set cancel_requested = m.cancel_requested
# a cancelled message comes back
@ test_cancel::test_it_never_comes_back
- where m.id = t.id and not m.cancel_requested
+ where m.id = t.id
# cancelled messages are not counted
@ test_cancel::test_a_waiting_message_ends_at_once
- v_count * (outcome = 3)::int
+ 0
# history keeps no payload
@ test_history::test_the_payload_is_kept_whatever_the_outcome
- case when queue.history_payload then g.payload end
+ null::bytea
# the last row of a page of history comes twice
@ test_history::test_the_newest_come_first_page_by_page
- or r.id < v_id
+ or r.id <= v_id
# an event tells a due time that has passed
@ test_events::test_after_a_crash_it_is_due_when_that_is_noticed
- then greatest(m.at, now_ms)
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
- (peek.channel is null or m.channel = peek.channel)
+ true
# a purge takes what is leased
@ test_looking::test_purge_cancels_what_waits_and_leaves_what_is_out
- when purge.state is null then r.status < 2
+ when purge.state is null then true
"""
)
A_RUN = 12
"""How many of them a run plants."""


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("bug", shares(BUGS, A_RUN, "what"))
def test_a_bug_in_a_function_is_noticed(bug, spoiled):
    must_notice(bug, spoiled, "conformance")
