"""SQLite as a source: a file that others write to, with an outbox that triggers fill."""
