"""What every test can ask for. PostgreSQL is in `support/postgres.py`, the doors in `doors.py`,
Spark in `spark.py`.
"""

pytest_plugins = [
    "tests.support.postgres",
    "tests.support.doors",
    "tests.support.spark",
    "tests.support.nursery",
]
