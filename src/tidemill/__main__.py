"""``python -m tidemill`` is the command line."""

from tidemill.serving.cli.entry import main

if __name__ == "__main__":
    main()
