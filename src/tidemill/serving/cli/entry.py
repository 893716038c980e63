"""Where the command ``tidemill`` begins: Ctrl-C is answered from here on, also while the rest is loaded."""

from __future__ import annotations

from tidemill.serving.cli.terminal.interrupts import INTERRUPTS

__all__ = ["main"]


def main() -> None:
    """Run the command line in a process of its own."""
    try:
        INTERRUPTS.listen()
        from tidemill.serving.cli.app import main as run

        run()
    except KeyboardInterrupt:
        INTERRUPTS.end()
    finally:
        INTERRUPTS.finish()
