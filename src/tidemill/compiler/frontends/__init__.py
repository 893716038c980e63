"""One language each, to algebra."""
