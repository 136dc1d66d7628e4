"""A page for people on the server's port, which shows queues: our own HTML, CSS and JavaScript."""
