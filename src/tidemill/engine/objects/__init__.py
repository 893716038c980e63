"""Objects of classes, kept in tables: created, changed and deleted in epochs, with all that refers kept right."""
