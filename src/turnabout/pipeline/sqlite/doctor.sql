-- Doctor: what must not be, of pipelines.

-- name: staged
-- Messages that were staged more than a day ago.
select coalesce(sum(messages), 0) from turnabout_stage where staged_at < :now - 86400000;
