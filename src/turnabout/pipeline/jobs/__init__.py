"""Jobs on the log and the lake: functions for a notebook, a scheduler, `turnabout pipeline run`.

Each takes a session, works in a second one made from it, and returns what it did.
"""
