"""The program in this process: readable Python over dictionaries."""
