"""What a worker keeps on disk (``--state``), so that its sessions are there again when it is started again.

``rows`` says what is kept; the front decides when (`front.saver`) and what to make of it (`front.resume`), without a
disk. Here are the directory, the two SQLite databases in it, and what keeps their work off the front's thread.
"""
