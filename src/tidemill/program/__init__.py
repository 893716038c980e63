"""What keeps a view fresh: maps, triggers and statements, for any runtime to run."""
