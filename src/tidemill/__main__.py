"""``python -m tidemill`` is the command line."""

import signal

if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until the command line listens, Ctrl-C ends the process without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tidemill.serving.cli.entry import main

    main()
