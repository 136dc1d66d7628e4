"""The words of Turnabout: verbs, outcomes, entities, policies, limits, errors.

Everything here is a pure value and loads the standard library only. No word knows of a
database, a connection or a colour (sync or async); every other room speaks in these words.
"""
