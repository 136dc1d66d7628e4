"""A Django project for the tests, in the database that `TURNABOUT_TEST_DJANGO` names."""

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from urllib.parse import parse_qs, urlsplit

if os.environ.get("TURNABOUT_TEST_DRIVER") == "psycopg2":
    # Django takes psycopg 3 where it is: hidden while Django looks, and there for Turnabout.
    sys.modules["psycopg"] = None
    import_module("django.db.backends.postgresql.base")

    del sys.modules["psycopg"]

parts = urlsplit(os.environ["TURNABOUT_TEST_DJANGO"])
if parts.scheme == "sqlite":
    DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": parts.path[1:]}}
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path[1:],
            "USER": parts.username or "",
            "PASSWORD": parts.password or "",
            "HOST": parts.hostname or parse_qs(parts.query).get("host", [""])[0],
            "PORT": parts.port or parse_qs(parts.query).get("port", [""])[0],
        }
    }
SECRET_KEY = "for tests"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "tests.django.urls"
ALLOWED_HOSTS = ["*"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    *([] if find_spec("django.tasks") else ["django_tasks"]),
    "turnabout.django",
    "tests.django.shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
TASKS = {
    "default": {
        "BACKEND": "turnabout.django.TurnaboutBackend",
        "QUEUES": ["default", "emails", "bad"],
        "OPTIONS": {
            "channel": "tests.django.shop.tasks.by_default",
            "settings": {"max_attempts": 2, "backoff_seconds": 0.001},
        },
    }
}
