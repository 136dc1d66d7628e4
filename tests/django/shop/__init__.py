"""An app with rows and tasks."""
