-- What history has of a message.
, m.id, m.sent_at, m.failures, m.crashes, m.channel, m.last_error, m.note
