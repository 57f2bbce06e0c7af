"""The line that is edited: keys, colours, completion, tool-tips, what is pasted, and the editor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.enums import DEFAULT_BUFFER, EditingMode
from prompt_toolkit.filters import Condition, has_completions, has_focus, is_done, is_searching
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, Float, FloatContainer, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.processors import ConditionalProcessor, HighlightMatchingBracketProcessor
from prompt_toolkit.lexers import DynamicLexer, PygmentsLexer, SimpleLexer
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import Style
from prompt_toolkit.validation import ValidationError
from pygments.lexers.python import PythonLexer

from tiremote.repl.cells import is_complete
from tiremote.repl.pastes import LARGE, NoText, Pastes
from tiremote.repl.validation import MarkMistake, SyntaxValidator

_INDENT = "    "

#: Bytes that are read from the terminal at a time.
_READ = 1 << 16

#: Colours that are read on a dark ground and on a light one.
_STYLE = Style.from_dict(
    {
        "mistake": "underline fg:ansired",
        "bottom-toolbar": "reverse",
        "tip": "reverse",
        "validation-toolbar": "bold fg:ansired bg:default",
        "matching-bracket.cursor": "bold underline",
        "matching-bracket.other": "bold underline",
        "auto-suggestion": "fg:ansibrightblack",
    }
)
_PLAIN_STYLE = Style.from_dict({"mistake": "underline", "bottom-toolbar": "reverse", "tip": "reverse"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Aids:
    """What the line is helped by. ``tip`` gives what is told of the call before the cursor, from the text there."""

    completer: Completer | None = None
    toolbar: Callable[[], str] | None = None
    tip: Callable[[str], str] | None = None
    vi: bool = False
    pastes: Pastes = field(default_factory=Pastes)


_NONE = Aids()


def make_prompt(
    history: History,
    *,
    colour: bool = True,
    input: Input | None = None,  # noqa: A002 - prompt_toolkit's name
    output: Output | None = None,
    aids: Aids = _NONE,
) -> PromptSession[str]:
    """Multi-line, highlighted, indented as it is typed; Enter runs what is complete and right."""
    python = PygmentsLexer(PythonLexer)
    plain = SimpleLexer()
    made: PromptSession[str] = PromptSession(
        FormattedText([("bold" if colour else "", ">>> ")]),
        multiline=True,
        prompt_continuation=lambda width, number, wrapped: " " * width if wrapped else "... ".rjust(width),  # noqa: ARG005
        # A text of megabytes would be lexed again at each key.
        lexer=DynamicLexer(lambda: python if len(made.default_buffer.text) < LARGE else plain) if colour else None,
        history=history,
        key_bindings=_bindings(aids.pastes),
        color_depth=None if colour else ColorDepth.DEPTH_1_BIT,
        style=_STYLE if colour else _PLAIN_STYLE,
        editing_mode=EditingMode.VI if aids.vi else EditingMode.EMACS,
        completer=aids.completer,
        complete_while_typing=False,
        auto_suggest=AutoSuggestFromHistory() if colour else None,
        validator=SyntaxValidator(),
        validate_while_typing=False,
        enable_open_in_editor=True,
        tempfile_suffix=".py",
        search_ignore_case=True,
        bottom_toolbar=(lambda: aids.toolbar()) if aids.toolbar is not None else None,  # type: ignore[misc]
        # What is told there is what the monitor heard last; nothing is drawn that did not change.
        refresh_interval=0.5 if aids.toolbar is not None else 0,
        input_processors=[
            ConditionalProcessor(HighlightMatchingBracketProcessor(chars="[](){}"), Condition(lambda: colour)),
            MarkMistake(),
        ],
        input=input,
        output=output,
    )
    if aids.tip is not None:
        _add_tip(made, aids.tip)
    reader = getattr(made.app.input, "stdin_reader", None)
    if reader is not None:
        # By 1,024 bytes a large paste would be searched for its end thousands of times.
        reader.read = partial(reader.read, count=_READ)
    return made


def _add_tip(prompt: PromptSession[str], tip: Callable[[str], str]) -> None:
    def text() -> str:
        return tip(prompt.default_buffer.document.text_before_cursor)

    shown = Condition(lambda: bool(text())) & has_focus(DEFAULT_BUFFER) & ~is_done & ~has_completions & ~is_searching
    window = Window(FormattedTextControl(text), dont_extend_width=True, dont_extend_height=True, style="class:tip")
    where = next(each for each in prompt.layout.walk() if isinstance(each, FloatContainer))
    where.floats.append(Float(ConditionalContainer(window, shown), xcursor=True, ycursor=True))


def next_indent(text: str) -> str:
    """The indentation of the line that follows ``text``."""
    last = text.rsplit("\n", 1)[-1]
    indent = last[: len(last) - len(last.lstrip())]
    code = last.split("#")[0].rstrip()
    if code.endswith(":"):
        return indent + _INDENT
    words = code.split()
    if words and words[0] in ("return", "pass", "break", "continue", "raise"):
        return indent.removesuffix(_INDENT)
    return indent


@dataclass(slots=True)
class _AutoIndent:
    """The indentation that was given to a line on which nothing is typed yet."""

    text: str = ""
    position: int = -1
    width: int = 0

    def give(self, buffer: Buffer) -> None:
        """A new line with the indentation that follows."""
        indent = next_indent(buffer.document.text_before_cursor)
        buffer.insert_text("\n" + indent)
        self.text, self.position, self.width = buffer.text, buffer.cursor_position, len(indent)

    def take_back(self, buffer: Buffer) -> None:
        """Where nothing was typed since: what comes has its own."""
        if (buffer.text, buffer.cursor_position) == (self.text, self.position):
            buffer.delete_before_cursor(self.width)
        self.position = -1


def _bindings(pastes: Pastes) -> KeyBindings:
    bindings = KeyBindings()
    given = _AutoIndent()
    editing = has_focus(DEFAULT_BUFFER) & ~is_searching

    @bindings.add("enter", filter=editing)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
            return
        document = buffer.document
        # A single line runs wherever the cursor is, as after a mistake in its middle.
        at_end = not document.text_after_cursor.strip() or "\n" not in document.text
        if at_end and is_complete(document.text):
            buffer.validate_and_handle()
        else:
            given.give(buffer)

    @bindings.add("escape", "enter", filter=editing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @bindings.add(" ", filter=editing)
    def _(event: KeyPressEvent) -> None:
        given.take_back(event.current_buffer)
        event.current_buffer.insert_text(" " * event.arg)

    @bindings.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        try:
            text = pastes.taken(event.data)
        except NoText as error:
            buffer.validation_error = ValidationError(buffer.cursor_position, str(error))
            return
        if text[:1] in (" ", "\t") or "\n" in text.rstrip("\n"):
            given.take_back(buffer)
        buffer.insert_text(text)

    @bindings.add("tab", filter=editing)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if not buffer.document.current_line_before_cursor.strip():
            buffer.insert_text(_INDENT)
        elif buffer.complete_state is not None:
            buffer.complete_next()
        else:
            buffer.start_completion(insert_common_part=True)

    @bindings.add("backspace", filter=editing)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        before = buffer.document.current_line_before_cursor
        whole = bool(before) and not before.strip(" ") and len(before) % len(_INDENT) == 0
        buffer.delete_before_cursor(len(_INDENT) if whole else 1)

    @bindings.add("f4", filter=editing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.open_in_editor()

    return bindings
