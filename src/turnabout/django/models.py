"""The model that stands for messages in the admin. It has no table: messages are read by verbs."""

from __future__ import annotations

from django.db import models


class QueueMessage(models.Model):
    """A message, for the admin's permissions: `view` lists, `change` retries and cancels."""

    id = models.CharField(primary_key=True, max_length=100)

    class Meta:
        """No table, and nothing to add or delete."""

        managed = False
        verbose_name = "message"
        default_permissions = ("view", "change")
