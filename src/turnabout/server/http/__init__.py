"""HTTP: connections with deadlines, access by host and origin, logs, spans, writing of answers."""
