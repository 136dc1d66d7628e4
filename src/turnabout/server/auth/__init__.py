"""Tokens, their rights, and quotas: authentication, authorization and limits."""
