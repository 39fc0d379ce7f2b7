"""What several integration tests are given."""

from tests.support.http_app import app, http_place

__all__ = ["app", "http_place"]
