"""Jobs on the log and the lake: functions for a notebook, a scheduler, `turnabout pipeline run`.

Each takes a session, works in one of its own beside it, and answers with what it did.
"""
