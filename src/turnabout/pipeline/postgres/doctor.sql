-- Doctor: what must not be, of pipelines.

-- name: staged
-- Messages that were staged a day ago and never published.
select coalesce(sum(s.messages), 0) from turnabout.stage s where s.staged_at < %(now)s - 86400000;
