"""The command line and the demo: thin, over the engine."""
