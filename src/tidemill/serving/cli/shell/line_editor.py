"""The line editor: by prompt_toolkit with history, highlighting and completion; plain lines where it is missing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.serving.cli.shell.session import NEXT_PROMPT, Reader
from tidemill.serving.cli.shell.statement_end import ends_at_once, is_complete
from tidemill.serving.cli.shell.words import ShellWords, completions

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings

__all__ = ["history_file", "line_reader"]


def line_reader(words: ShellWords) -> Reader:
    """The editor of this terminal."""
    try:
        return _editor(words)
    except ImportError:
        with suppress(ImportError):
            import readline  # noqa: F401  importing it gives lines that can be edited
        return input


def _editor(words: ShellWords) -> Reader:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    session: PromptSession[str] = PromptSession(
        history=_history(),
        lexer=PygmentsLexer(SqlLexer),
        completer=_completer(words),
        complete_while_typing=False,
        multiline=True,
        key_bindings=_keys(),
        prompt_continuation=NEXT_PROMPT,
        enable_history_search=True,
    )
    return lambda prompt: session.prompt(prompt)


def history_file() -> Path:
    """The file of the history: TIDEMILL_HISTORY, or one below the user's folder of state."""
    named = os.environ.get("TIDEMILL_HISTORY")
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(named) if named else Path(state) / "tidemill" / "history"


def _history() -> History:
    """The history of all sessions; of this one alone if its file cannot be written."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    class Discreet(FileHistory):
        """Leaves out statements that may have a password in them."""

        def store_string(self, string: str) -> None:
            if "password" not in string.lower():
                super().store_string(string)

    file = history_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return Discreet(str(file))


def _completer(words: ShellWords) -> Any:
    from prompt_toolkit.completion import Completer, Completion

    class Words(Completer):
        """Completes the word before the cursor."""

        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
            for word, replaced in completions(document.text_before_cursor, words.names, words.keywords):
                yield Completion(word, start_position=-replaced)

    return Words()


def _keys() -> KeyBindings:
    """Enter runs what is complete, and begins another line otherwise."""
    from prompt_toolkit.filters import completion_is_selected
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter", filter=~completion_is_selected)
    def run_or_continue(event: Any) -> None:
        text = event.current_buffer.text
        if is_complete(text) or ends_at_once(text):
            event.current_buffer.validate_and_handle()
        else:
            event.current_buffer.newline(copy_margin=False)

    return keys
