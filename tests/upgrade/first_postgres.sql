-- A database as the first version left it: its ledger, a function of each kind that has changed
-- since, and data made by it at the instant 1800000000000 (printed by pg_dump --column-inserts).
-- The tables are those of the step 0001, which is run before this.
create table turnabout.version (
    number int primary key,
    name text not null,
    functions text not null,
    applied_at timestamptz not null default clock_timestamp()
);
create function turnabout.send(
    queue text, payloads bytea[], content_type text default 'application/octet-stream'
) returns table (ids bigint[], full_channel text, max_size int, size bigint)
language plpgsql as $$ begin return; end $$;
create function turnabout.ack(queue text, ids bigint[], attempts int[]) returns void
language sql as $$ $$;
create function turnabout.of_the_first_version(queue turnabout.queue) returns setof turnabout.delivery
language plpgsql as $$ begin return; end $$;

INSERT INTO turnabout.channel (queue_id, name, max_concurrency, rate_count, rate_period_ms, rate_burst, rate_interval_us, max_size, weight, paused, own, awake, wake_at, rate_tat_us) VALUES (1, 'shop-1', 1, NULL, NULL, NULL, NULL, NULL, NULL, false, true, false, NULL, 0);
INSERT INTO turnabout.channel (queue_id, name, max_concurrency, rate_count, rate_period_ms, rate_burst, rate_interval_us, max_size, weight, paused, own, awake, wake_at, rate_tat_us) VALUES (3, 'a', NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, false, false, NULL, 0);
INSERT INTO turnabout.history (id, sent_at, leased_at, finished_at, queue_id, attempt, failures, crashes, outcome, channel, error) VALUES (1, 1800000000000, 1800000000000, 1800000000000, 1, 1, 0, 0, 1, 'shop-0', NULL);
INSERT INTO turnabout.history (id, sent_at, leased_at, finished_at, queue_id, attempt, failures, crashes, outcome, channel, error) VALUES (5, 1800000000000, 1800000000000, 1800000000000, 1, 1, 1, 0, 2, 'shop-1', 'boom');
INSERT INTO turnabout.message (id, at, sent_at, leased_at, queue_id, attempt, failures, crashes, priority, status, limited, channel, content_type, headers, payload, state, first_error, last_error, origin) OVERRIDING SYSTEM VALUE VALUES (2, 1800000000000, 1800000000000, NULL, 1, 0, 0, 0, 1, 0, true, 'shop-1', 'application/json', '{"trace": "1"}', '\x7b226e223a317d', NULL, NULL, NULL, NULL);
INSERT INTO turnabout.message (id, at, sent_at, leased_at, queue_id, attempt, failures, crashes, priority, status, limited, channel, content_type, headers, payload, state, first_error, last_error, origin) OVERRIDING SYSTEM VALUE VALUES (7, 1800000060000, 1800000000000, NULL, 1, 0, 0, 0, 0, 1, false, '', 'text/plain; charset=utf-8', NULL, '\x6c61746572', NULL, NULL, NULL, NULL);
INSERT INTO turnabout.message (id, at, sent_at, leased_at, queue_id, attempt, failures, crashes, priority, status, limited, channel, content_type, headers, payload, state, first_error, last_error, origin) OVERRIDING SYSTEM VALUE VALUES (6, 1800000030000, 1800000000000, 1800000000000, 1, 1, 0, 0, 1, 2, false, 'shop-2', 'application/json', '{"trace": "5"}', '\x7b226e223a357d', NULL, NULL, NULL, NULL);
INSERT INTO turnabout.message (id, at, sent_at, leased_at, queue_id, attempt, failures, crashes, priority, status, limited, channel, content_type, headers, payload, state, first_error, last_error, origin) OVERRIDING SYSTEM VALUE VALUES (5, 1800000000000, 1800000000000, NULL, 2, 1, 0, 0, 0, 0, false, 'shop-1', 'application/json', NULL, '\x7b226e223a347d', NULL, NULL, NULL, '{"queue" : "orders", "reason" : "refused", "failures" : 1, "crashes" : 0, "died_at" : 1800000000000, "first_error" : "boom", "last_error" : "boom"}');
INSERT INTO turnabout.message (id, at, sent_at, leased_at, queue_id, attempt, failures, crashes, priority, status, limited, channel, content_type, headers, payload, state, first_error, last_error, origin) OVERRIDING SYSTEM VALUE VALUES (3, 1800000001000, 1800000000000, 1800000000000, 1, 1, 1, 0, 0, 1, false, 'shop-2', 'application/json', NULL, '\x7b226e223a327d', NULL, 'once', 'once', NULL);
INSERT INTO turnabout.message (id, at, sent_at, leased_at, queue_id, attempt, failures, crashes, priority, status, limited, channel, content_type, headers, payload, state, first_error, last_error, origin) OVERRIDING SYSTEM VALUE VALUES (4, 1800000005000, 1800000000000, 1800000000000, 1, 1, 0, 0, 1, 1, false, 'shop-0', 'application/json', '{"trace": "3"}', '\x7b226e223a337d', '\x68616c66', NULL, NULL, NULL);
INSERT INTO turnabout.message (id, at, sent_at, leased_at, queue_id, attempt, failures, crashes, priority, status, limited, channel, content_type, headers, payload, state, first_error, last_error, origin) OVERRIDING SYSTEM VALUE VALUES (9, 1800000000000, 1800000000000, NULL, 3, 0, 0, 0, 0, 0, true, 'a', 'text/plain; charset=utf-8', NULL, '\x31', NULL, NULL, NULL, NULL);
INSERT INTO turnabout.message (id, at, sent_at, leased_at, queue_id, attempt, failures, crashes, priority, status, limited, channel, content_type, headers, payload, state, first_error, last_error, origin) OVERRIDING SYSTEM VALUE VALUES (10, 1800000000000, 1800000000000, NULL, 3, 0, 0, 0, 0, 0, true, 'a', 'text/plain; charset=utf-8', NULL, '\x32', NULL, NULL, NULL, NULL);
INSERT INTO turnabout.message (id, at, sent_at, leased_at, queue_id, attempt, failures, crashes, priority, status, limited, channel, content_type, headers, payload, state, first_error, last_error, origin) OVERRIDING SYSTEM VALUE VALUES (8, 1800000030000, 1800000000000, 1800000000000, 3, 1, 0, 0, 0, 2, true, 'a', 'text/plain; charset=utf-8', NULL, '\x30', NULL, NULL, NULL, NULL);
INSERT INTO turnabout.queue (id, name, lease_ms, max_attempts, backoff_ms, backoff_max_ms, backoff_jitter_percent, delay_ms, fifo, paused, dead_letter, history_ms, max_concurrency, rate_count, rate_period_ms, rate_burst, rate_interval_us, max_size, weight, created_at, timers_since) OVERRIDING SYSTEM VALUE VALUES (1, 'orders', 30000, 2, 1000, 3600000, 0, 0, false, false, 'orders-dead', 604800000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1800000000000, 0);
INSERT INTO turnabout.queue (id, name, lease_ms, max_attempts, backoff_ms, backoff_max_ms, backoff_jitter_percent, delay_ms, fifo, paused, dead_letter, history_ms, max_concurrency, rate_count, rate_period_ms, rate_burst, rate_interval_us, max_size, weight, created_at, timers_since) OVERRIDING SYSTEM VALUE VALUES (2, 'orders-dead', 30000, NULL, 1000, 3600000, 10, 0, false, false, NULL, 604800000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1800000000000, 0);
INSERT INTO turnabout.queue (id, name, lease_ms, max_attempts, backoff_ms, backoff_max_ms, backoff_jitter_percent, delay_ms, fifo, paused, dead_letter, history_ms, max_concurrency, rate_count, rate_period_ms, rate_burst, rate_interval_us, max_size, weight, created_at, timers_since) OVERRIDING SYSTEM VALUE VALUES (3, 'fifo', 30000, 5, 1000, 3600000, 10, 0, true, false, 'fifo-dead', 604800000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1800000000000, 0);
INSERT INTO turnabout.queue (id, name, lease_ms, max_attempts, backoff_ms, backoff_max_ms, backoff_jitter_percent, delay_ms, fifo, paused, dead_letter, history_ms, max_concurrency, rate_count, rate_period_ms, rate_burst, rate_interval_us, max_size, weight, created_at, timers_since) OVERRIDING SYSTEM VALUE VALUES (4, 'fifo-dead', 30000, NULL, 1000, 3600000, 10, 0, false, false, NULL, 604800000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1800000000000, 0);
INSERT INTO turnabout.tally (queue_id, sent, done, dead, cancelled) VALUES (1, 1, 0, 0, 0);
INSERT INTO turnabout.tally (queue_id, sent, done, dead, cancelled) VALUES (1, 1, 0, 0, 0);
INSERT INTO turnabout.tally (queue_id, sent, done, dead, cancelled) VALUES (1, 1, 0, 0, 0);
INSERT INTO turnabout.tally (queue_id, sent, done, dead, cancelled) VALUES (1, 1, 0, 0, 0);
INSERT INTO turnabout.tally (queue_id, sent, done, dead, cancelled) VALUES (1, 1, 0, 0, 0);
INSERT INTO turnabout.tally (queue_id, sent, done, dead, cancelled) VALUES (1, 1, 0, 0, 0);
INSERT INTO turnabout.tally (queue_id, sent, done, dead, cancelled) VALUES (1, 1, 0, 0, 0);
INSERT INTO turnabout.tally (queue_id, sent, done, dead, cancelled) VALUES (1, 0, 1, 0, 0);
INSERT INTO turnabout.tally (queue_id, sent, done, dead, cancelled) VALUES (1, 0, 0, 1, 0);
INSERT INTO turnabout.tally (queue_id, sent, done, dead, cancelled) VALUES (2, 1, 0, 0, 0);
INSERT INTO turnabout.tally (queue_id, sent, done, dead, cancelled) VALUES (3, 1, 0, 0, 0);
INSERT INTO turnabout.tally (queue_id, sent, done, dead, cancelled) VALUES (3, 1, 0, 0, 0);
INSERT INTO turnabout.tally (queue_id, sent, done, dead, cancelled) VALUES (3, 1, 0, 0, 0);
INSERT INTO turnabout.version (number, name, functions, applied_at) VALUES (1, '0001_tables', 'f8082f8036c312cd', '2026-11-21 21:19:05.014144+00');
INSERT INTO turnabout.wake (id, queue_id, channel, policy) OVERRIDING SYSTEM VALUE VALUES (4, 1, 'shop-1', NULL);
SELECT pg_catalog.setval('turnabout.message_id_seq', 10, true);
SELECT pg_catalog.setval('turnabout.queue_id_seq', 4, true);
SELECT pg_catalog.setval('turnabout.wake_id_seq', 7, true);
