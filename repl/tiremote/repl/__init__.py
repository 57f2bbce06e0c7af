"""The prompt and the ``tiremote`` command, over `tiremote.client`. Nothing here is a public interface but ``main``.

``command`` reads the command line and imports the rest only when it is needed. A text goes ``prompt`` or ``script`` ->
``shell`` -> ``cells`` (cells, commands, statements) -> ``commands`` or ``evaluate``. For each statement ``classify``
says whether it is the worker's, and ``drivers`` whether a plain function is; ``pending`` makes units of those that are,
``carried`` finds what they use of the laptop, ``dependants`` what has to be made anew because of them, and ``names`` is
what the user can say afterwards, with ``laptop_taichi`` in the place of Taichi, whose public names ``taichi_names``
lists. ``render``, ``annotations`` and ``status_text`` write what people read. Only ``prompt`` knows a terminal;
everything below ``shell`` is tested by feeding it text.
"""
