"""What a row is: types, tables and their keys, and what can go wrong."""
