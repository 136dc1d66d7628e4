"""For trying and developing: the demo, a measurement of your database, a PostgreSQL of your own."""
