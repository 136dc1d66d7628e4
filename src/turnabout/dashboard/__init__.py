"""Pages for people on the server's port: who is served, what failed, and what to do about it."""
