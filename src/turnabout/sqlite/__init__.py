"""The store in an SQLite file: one writer per process, waiting verbs committed together.

    store, async_store   the two colours of the port
    _engine              an opened file: its connections, in one process
    _writer              group commit: one leader runs what waits, in one transaction
    _notifier            waiters for changes, by this process and by others
    procedures/          what each verb does: control flow; every statement is in sql/
    migrations/          the tables, step by step

Standard library only. Knows the words and the port; nothing of faces or of PostgreSQL.
"""
