"""From SQL to algebra to a program."""
