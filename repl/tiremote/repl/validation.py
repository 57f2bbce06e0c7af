"""A mistake in what was typed is marked where it is, and not sent."""

from __future__ import annotations

from prompt_toolkit.application import get_app
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.validation import ValidationError, Validator

from tiremote.repl.cells import COMMAND, Cell
from tiremote.repl.worker_cells import body_of

#: Characters above which a text is not looked at before it is sent.
MOST = 500_000


class SyntaxValidator(Validator):
    """Python's own parser decides."""

    def validate(self, document: Document) -> None:
        """prompt_toolkit's own signature."""
        text = document.text
        if (COMMAND.match(text.lstrip()) and "\n" not in text.strip()) or not text.strip() or len(text) > MOST:
            return
        try:
            body_of(Cell(text)).statements()
        except SyntaxError as error:
            row = min(max((error.lineno or 1) - 1, 0), document.line_count - 1)
            column = min(max((error.offset or 1) - 1, 0), len(document.lines[row]))
            position = document.translate_row_col_to_index(row, column)
            raise ValidationError(position, f"{type(error).__name__}: {error.msg} (line {row + 1})") from None


class MarkMistake(Processor):
    """Underlines the word at which the validator stopped."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """prompt_toolkit's own signature."""
        error = get_app().current_buffer.validation_error
        fragments = transformation_input.fragments
        if error is None:
            return Transformation(fragments)
        row, column = transformation_input.document.translate_index_to_position(error.cursor_position)
        if row != transformation_input.lineno:
            return Transformation(fragments)
        text = fragment_list_to_text(fragments)
        start = transformation_input.source_to_display(column)
        if start >= len(text):
            # At the end of the line there is nothing to underline but what is missing.
            return Transformation([*fragments, ("class:mistake", " ")])
        end = start + 1
        while end < len(text) and text[start].isalnum() and text[end].isalnum():
            end += 1
        exploded = [(style, character) for style, characters, *_ in fragments for character in characters]
        for position in range(start, end):
            style, character = exploded[position]
            exploded[position] = (f"{style} class:mistake", character)
        return Transformation(list(exploded))
