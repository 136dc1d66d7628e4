-- The view turnabout_inbox: an insert into it is a send, by any program that speaks SQLite. It
-- shows nothing. What is refused is what the library refuses: the limits are in words/limits.py.

-- What the trigger has worked out of the row at hand; empty between two sends.
create table turnabout_sending (
  now integer not null,
  queue_id integer not null,
  fifo integer not null,
  every_channel integer not null,  -- whether all channels of the queue are limited
  channel text not null,
  content_type text not null,
  due_at integer not null,         -- 0: at once
  expires_at integer,
  max_size integer,
  max_messages integer,
  events text not null,
  mode text,                       -- of dedup; null: no key
  scope text,
  until_ms integer,
  met integer,                     -- the message that the key's entry points at, if unfinished
  step text not null default 'insert' check (step in ('insert', 'replace', 'nothing'))
) strict;

create view turnabout_inbox (
  queue, payload, channel, priority, delay_seconds, headers, content_type, ttl_seconds,
  dedup_key, dedup_mode, dedup_window_seconds, dedup_scope, due_at,
  created_at  -- as in SMQ's inserts: a message has the time of its send
) as
select null, null, null, null, null, null, null, null, null, null, null, null, null, null
where 0;

create trigger turnabout_inbox_insert instead of insert on turnabout_inbox
begin
  -- 1. What no send may be.
  select raise(abort,
    'turnabout: a queue''s name is a letter or digit, then letters, digits, ''_'', ''.'', ''-''')
  where typeof(new.queue) <> 'text' or instr(new.queue, char(0))
    or new.queue not glob '[A-Za-z0-9]*' or new.queue glob '*[^A-Za-z0-9_./-]*'
    or new.queue glob '*/*/*' or new.queue glob '*/*' and new.queue not glob '*/[A-Za-z0-9]*';

  select raise(abort,
    'turnabout: a queue''s name has at most 64 characters')
  from (
    select substr(new.queue, 1, max(instr(new.queue, '/'), 1) - 1) as part
    union all
    select substr(new.queue, instr(new.queue, '/') + 1)
  )
  where length(part) - 5 * (part glob '*-dead') > 64;

  select raise(abort,
    'turnabout: a payload is text or a blob')
  where typeof(new.payload) not in ('text', 'blob');

  select raise(abort,
    'turnabout: over 1048576 bytes of payload: store it elsewhere and send its address')
  where length(cast(new.payload as blob)) > 1048576;

  select raise(abort,
    'turnabout: a channel''s name is a text of at most 255 bytes, without NUL')
  where typeof(new.channel) not in ('text', 'null') or instr(new.channel, char(0))
    or length(cast(new.channel as blob)) > 255;

  select raise(abort,
    'turnabout: priority is a whole number, -32768 to 32767')
  where typeof(new.priority) not in ('integer', 'null')
    or new.priority not between -32768 and 32767;

  select raise(abort,
    'turnabout: delay_seconds is a number, 0 to 31622400')
  where typeof(new.delay_seconds) not in ('integer', 'real', 'null')
    or new.delay_seconds not between 0 and 31622400;

  select raise(abort,
    'turnabout: due_at is whole milliseconds since 1970, instead of delay_seconds')
  where typeof(new.due_at) not in ('integer', 'null') or new.due_at < 0
    or new.due_at is not null and new.delay_seconds is not null;

  select raise(abort,
    'turnabout: ttl_seconds is a number, 0.001 to 31622400')
  where typeof(new.ttl_seconds) not in ('integer', 'real', 'null')
    or new.ttl_seconds not between 0.001 and 31622400;

  select raise(abort,
    'turnabout: a content type is a text of 1 to 255 printable characters')
  where typeof(new.content_type) not in ('text', 'null')
    or length(new.content_type) not between 1 and 255 or instr(new.content_type, char(0))
    or new.content_type glob '*[' || char(1) || '-' || char(31) || char(127) || ']*';

  select raise(abort,
    'turnabout: headers are a JSON object of texts, with names that are not empty')
  where typeof(new.headers) not in ('text', 'null')
    or case
      when new.headers is null then 0
      when not json_valid(new.headers) then 1
      when json_type(new.headers) <> 'object' then 1
      when instr(new.headers, '\u0000') then 1  -- NUL
      else exists (
        select 1 from json_each(new.headers) as header
        where header.type <> 'text' or header.key = ''
      )
    end;

  select raise(abort,
    'turnabout: a message has at most 64 headers of 16384 bytes together')
  where new.headers is not null
    and (
      select count(*) > 64
        or sum(length(cast(header.key as blob)) + length(cast(header.value as blob))) > 16384
      from json_each(new.headers) as header
    );

  select raise(abort,
    'turnabout: a dedup key is a text of 1 to 255 bytes, without NUL')
  where typeof(new.dedup_key) not in ('text', 'null') or instr(new.dedup_key, char(0))
    or length(cast(new.dedup_key as blob)) not between 1 and 255;

  select raise(abort,
    'turnabout: dedup_mode, dedup_window_seconds and dedup_scope need a dedup_key')
  where new.dedup_key is null
    and coalesce(new.dedup_mode, new.dedup_window_seconds, new.dedup_scope) is not null;

  select raise(abort,
    'turnabout: dedup_mode: window, sliding, until_started, until_finished, latest, rerun')
  where new.dedup_mode not in
    ('window', 'sliding', 'until_started', 'until_finished', 'latest', 'rerun');

  select raise(abort,
    'turnabout: dedup_window_seconds is a number, 0.001 to 31622400')
  where typeof(new.dedup_window_seconds) not in ('integer', 'real', 'null')
    or new.dedup_window_seconds not between 0.001 and 31622400;

  select raise(abort,
    'turnabout: dedup_scope is one of queue, channel')
  where new.dedup_scope not in ('queue', 'channel');

  -- 2. A missing queue is made with default settings, and so is its dead-letter queue, which keeps
  --    its messages.
  insert into turnabout_queue (
    name, created_at, version, lease_ms, max_attempts, backoff_ms, backoff_max_ms,
    backoff_jitter_percent, delay_ms, fifo, paused, history_ms
  )
  select made.value, cast((julianday('now') - 2440587.5) * 86400000 + 0.5 as integer), random(),
    30000,
    iif(made.value glob '*-dead', null, 5), 1000, 3600000, 10, 0, 0, 0, 604800000
  from json_each(json_array(new.queue, new.queue || '-dead')) as made
  where not exists (select 1 from turnabout_queue where name = new.queue)
    and not (made.key and new.queue glob '*-dead')
    and not exists (select 1 from turnabout_queue where name = made.value);

  update turnabout_queue
  set dead_letter_id = (select id from turnabout_queue where name = new.queue || '-dead'),
    version = random()
  where name = new.queue and sent = 0 and dead_letter is null and dead_letter_id is null
    and new.queue not glob '*-dead';

  -- 3. What is to be done. (Milliseconds are rounded up, so that nothing comes early.)
  insert into turnabout_sending (
    now, queue_id, fifo, every_channel, channel, content_type, due_at, expires_at, max_size,
    max_messages, events, mode, scope, until_ms
  )
  select time.now, queue.id, queue.fifo,
    queue.fifo or coalesce(
      queue.max_concurrency, queue.rate_count, queue.max_size, queue.weight
    ) is not null,
    coalesce(new.channel, ''),
    coalesce(new.content_type, case
      when typeof(new.payload) = 'blob' then 'application/octet-stream'
      when not json_valid(new.payload) then 'text/plain; charset=utf-8'
      when json_type(new.payload) in ('object', 'array') then 'application/json'
      else 'text/plain; charset=utf-8'
    end),
    case
      when new.due_at is not null then iif(new.due_at > time.now, new.due_at, 0)
      when coalesce(new.delay_seconds * 1000, queue.delay_ms) > 0 then time.now + coalesce(
        cast(round(new.delay_seconds * 1000, 6) as integer)
          + (round(new.delay_seconds * 1000, 6) > cast(new.delay_seconds * 1000 as integer)),
        queue.delay_ms)
      else 0
    end,
    time.now + coalesce(
      cast(round(new.ttl_seconds * 1000, 6) as integer)
        + (round(new.ttl_seconds * 1000, 6) > cast(new.ttl_seconds * 1000 as integer)),
      queue.ttl_ms),
    queue.max_size, queue.max_messages, queue.events,
    iif(new.dedup_key is null, null, coalesce(new.dedup_mode, queue.dedup_mode)),
    iif(
      coalesce(new.dedup_scope, queue.dedup_scope) = 'queue', '',
      '/' || coalesce(new.channel, '')),
    time.now + coalesce(
      cast(round(new.dedup_window_seconds * 1000, 6) as integer)
        + (round(new.dedup_window_seconds * 1000, 6)
          > cast(new.dedup_window_seconds * 1000 as integer)),
      queue.dedup_window_ms)
  from turnabout_queue as queue
  cross join (
    select max(cast((julianday('now') - 2440587.5) * 86400000 + 0.5 as integer), latest_ms) as now
    from turnabout_clock
  ) as time
  where queue.name = new.queue;

  select raise(abort,
    'turnabout: due_at is at most 366 days ahead of the file''s clock')
  from turnabout_sending
  where new.due_at > now + 31622400000;

  update turnabout_sending set
    until_ms = iif(mode in ('window', 'sliding'), until_ms, null),
    met = (
      select message.id
      from turnabout_dedup as dedup
      join turnabout_message as message
        on message.id = dedup.message_id and message.queue_id = dedup.queue_id
      where dedup.queue_id = turnabout_sending.queue_id and dedup.scope = turnabout_sending.scope
        and dedup.key = new.dedup_key
        and (message.status = 2 or message.expires_at is null
          or message.expires_at > turnabout_sending.now)
    )
  where mode is not null;

  update turnabout_sending set step = 'nothing'
  where mode in ('window', 'sliding') and exists (
      select 1 from turnabout_dedup as dedup
      where dedup.queue_id = turnabout_sending.queue_id and dedup.scope = turnabout_sending.scope
        and dedup.key = new.dedup_key and dedup.until_ms > turnabout_sending.now
    )
    or mode = 'until_finished' and met is not null
    or mode = 'until_started' and (select attempt from turnabout_message where id = met) = 0
    or mode = 'rerun' and (select status from turnabout_message where id = met) < 2;

  update turnabout_sending set step = 'replace'
  where mode = 'latest' and (select status from turnabout_message where id = met) < 2;

  -- 4. A channel that becomes limited gets its row, and what it holds already is counted, once.
  update turnabout_message set limited = 1
  where limited = 0 and status = 2 and at > 0 and exists (
    select 1 from turnabout_sending as s
    where s.step = 'insert' and s.every_channel and s.queue_id = turnabout_message.queue_id
      and s.channel = turnabout_message.channel
      and not exists (
        select 1 from turnabout_channel where queue_id = s.queue_id and name = s.channel
      )
  );

  insert into turnabout_channel (queue_id, name, wake_at, size, leased)
  select s.queue_id, s.channel, 0, count(message.id), coalesce(sum(message.status = 2), 0)
  from turnabout_sending as s
  left join turnabout_message as message
    on message.queue_id = s.queue_id and message.channel = s.channel
  where s.step = 'insert' and s.every_channel
    and not exists (
      select 1 from turnabout_channel where queue_id = s.queue_id and name = s.channel
    )
  group by s.queue_id, s.channel;

  -- 5. Room for it.
  select raise(abort,
    'turnabout: the channel is full: nothing was sent; try later, or raise max_size')
  from turnabout_sending as s
  join turnabout_channel as channel on channel.queue_id = s.queue_id and channel.name = s.channel
  where s.step = 'insert' and channel.size >= coalesce(channel.max_size, s.max_size);

  select raise(abort,
    'turnabout: the queue is full: nothing was sent; try later, or raise max_messages')
  from turnabout_sending as s
  join turnabout_queue as queue on queue.id = s.queue_id
  where s.step = 'insert'
    and queue.sent - queue.done - queue.dead - queue.cancelled >= s.max_messages;

  -- 6. The message, new or with new content. (In a FIFO queue a delayed one keeps its place.)
  insert into turnabout_message (
    queue_id, status, limited, at, channel, priority, sent_at, headers, content_type, payload,
    expires_at
  )
  select s.queue_id, s.due_at > 0 and not s.fifo,
    exists (select 1 from turnabout_channel where queue_id = s.queue_id and name = s.channel),
    s.due_at, s.channel, coalesce(new.priority, 0), s.now,
    nullif(json(new.headers), '{}'),
    s.content_type, cast(new.payload as blob), s.expires_at
  from turnabout_sending as s
  where s.step = 'insert';

  insert into turnabout_dedup (queue_id, scope, key, message_id, until_ms)
  select s.queue_id, s.scope, new.dedup_key, last_insert_rowid(), s.until_ms
  from turnabout_sending as s
  where s.step = 'insert' and s.mode is not null
  on conflict (queue_id, scope, key) do update
  set message_id = excluded.message_id, until_ms = excluded.until_ms;

  update turnabout_message
  set (payload, content_type, headers, priority, status, at, expires_at) = (
    select cast(new.payload as blob), s.content_type,
      nullif(json(new.headers), '{}'), coalesce(new.priority, 0),
      s.due_at > 0 and not s.fifo,
      iif(turnabout_message.at = 9000000000000000, turnabout_message.at, s.due_at), s.expires_at
    from turnabout_sending as s
  )
  where id = (select met from turnabout_sending where step = 'replace');

  update turnabout_dedup set until_ms = (select until_ms from turnabout_sending)
  where key = new.dedup_key
    and (queue_id, scope) = (
      select queue_id, scope from turnabout_sending where step = 'nothing' and mode = 'sliding'
    );

  -- 7. The counts; the channel wakes up.
  update turnabout_queue set sent = sent + 1
  where id = (select queue_id from turnabout_sending where step = 'insert');

  update turnabout_channel
  set size = size + (select step = 'insert' from turnabout_sending), wake_at = 0
  where (queue_id, name) = (
    select queue_id, channel from turnabout_sending where step = 'insert'
    union all
    select message.queue_id, message.channel
    from turnabout_sending join turnabout_message as message on message.id = met
    where step = 'replace'
  );

  insert into turnabout_event (queue_id, at, message_id, due_at, attempt, kind, channel)
  select s.queue_id, s.now, message.id,
    iif(message.at < 9000000000000000, max(message.at, s.now), null), message.attempt,
    iif(s.step = 'insert', 'created', 'deferred'), message.channel
  from turnabout_sending as s
  join turnabout_message as message on message.id = iif(
    s.step = 'insert',
    (select max(id) from turnabout_message where queue_id = s.queue_id),
    s.met)
  where s.events = 'all' and s.step <> 'nothing';

  delete from turnabout_sending;
end;
