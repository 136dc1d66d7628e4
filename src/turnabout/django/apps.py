"""The app: `INSTALLED_APPS += ["turnabout.django"]`."""
# pyright: basic
# (Django has no types)

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class TurnaboutAppConfig(AppConfig):
    """Its label is `turnabout`, as `django` would be too much to ask for."""

    name = "turnabout.django"
    label = "turnabout"
    verbose_name = "Turnabout"

    def ready(self) -> None:
        """Have `migrate` prepare the database."""
        from turnabout.django.schema import follow

        post_migrate.connect(follow, sender=self, dispatch_uid="turnabout")
