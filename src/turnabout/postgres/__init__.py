"""The PostgreSQL store: one PL/pgSQL function per verb (`functions/`), called in one round trip."""
