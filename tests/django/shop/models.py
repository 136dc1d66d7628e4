"""Rows that tasks are about."""

from django.db import models


class Order(models.Model):
    """An order."""

    state = models.TextField(default="new")

    class Meta:
        """Without migrations: `migrate --run-syncdb` makes it."""

        app_label = "shop"
