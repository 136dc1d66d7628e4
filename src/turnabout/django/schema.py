"""The schema in Django's migrations: the store's own statements, in Django's transaction."""
# pyright: basic
# (Django has no types)

from __future__ import annotations

from typing import Any

from django.db import connections, router
from django.db.migrations.operations.base import Operation

from turnabout._connect import installer
from turnabout.django.api import task_backends
from turnabout.django.backend import TurnaboutBackend
from turnabout.django.places import is_in_memory, url_of


class InstallSchema(Operation):
    """Runs what the database lacks of the schema, if a backend has its queues there.

    It is not undone, as messages would be lost. After an upgrade of Turnabout, `migrate` brings
    later steps (see `follow`), so this is the only operation of its kind.
    """

    reduces_to_sql = True
    reversible = False

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Nothing: Django's models have no part in it."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        """Statement by statement."""
        connection = schema_editor.connection
        if not router.allow_migrate(connection.alias, app_label) or not used(connection.alias):
            return
        url = "sqlite://" if is_in_memory(connection) else url_of(connection)
        install = installer(url)
        there = install.status(url)
        if there.pending:
            since = {"": there.current, **there.slices}
            for statement in install.steps(since):
                schema_editor.execute(statement, params=None)

    def describe(self) -> str:
        """Describe the operation for `migrate --plan`."""
        return "Install Turnabout's schema"


def used(alias: str) -> list[TurnaboutBackend]:
    """The backends whose queues live in that database of Django's."""
    all_: list[Any] = list(task_backends.all())
    return [one for one in all_ if isinstance(one, TurnaboutBackend) and one.database == alias]


def follow(using: str, **_: Any) -> None:
    """Apply later steps of the schema and make new queues in TASKS, after each `migrate`."""
    backends = used(using)
    if backends and not is_in_memory(connections[using]):
        url = backends[0].url
        installer(url).up(url)
        for backend in backends:
            backend.install()
