-- What was sent, if the queue's history keeps it.
case when queue.history_payload then e.payload end,
    case when queue.history_payload then turnabout.type_of(e.content_type) end,
    case when queue.history_payload then e.headers end
