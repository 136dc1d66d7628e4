"""The PostgreSQL store: one PL/pgSQL function per verb (`sql/`), called in one round trip."""
