"""Turnabout's schema, and the admin's model, which has no table."""

from django.db import migrations, models

from turnabout.django.schema import InstallSchema


class InitialMigration(migrations.Migration):
    """See above."""

    initial = True
    dependencies = ()
    operations = (
        InstallSchema(),
        migrations.CreateModel(
            name="QueueMessage",
            fields=[("id", models.CharField(primary_key=True, max_length=100, serialize=False))],
            options={
                "managed": False,
                "verbose_name": "message",
                "default_permissions": ("view", "change"),
            },
        ),
    )


Migration = InitialMigration
"""The name that Django looks for."""
