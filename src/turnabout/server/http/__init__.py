"""HTTP itself: connections with deadlines, who may call at all, logs, spans, how answers leave."""
