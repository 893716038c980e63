"""PostgreSQL as a source: changes by logical decoding or from an outbox, answers from the same snapshot."""
