"""Fixtures for tests of programs that use Turnabout; pytest finds them by itself.

    def test_the_letter_is_sent(turnabout, turnabout_clock, drain):
        turnabout.queue("emails").send({"to": "ada@example.org"}, delay_seconds=60)
        turnabout_clock.advance(60)
        assert drain(worker).handled == 1

`plugin.py` has them all. Nothing is faked: the store is SQLite, or a PostgreSQL of the test run's.
"""
