"""Tools for trying and developing: a PostgreSQL of your own, in a folder."""
