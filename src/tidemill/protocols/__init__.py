"""How views over autonomous sources are kept: one file for each algorithm. Pure: messages in, messages out."""
