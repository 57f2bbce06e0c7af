"""What `make bench` runs: every figure beside its floor or a peer, in turns within one run.

``samples``, ``figures``     numbers without any process: medians, spreads, ratios, whether a reach was hit
``turns``, ``processes``     how samples are taken, and processes that take some of their own
``echo``, ``chunks``, ``pinned``  floors
``served``, ``programs``     what every contender runs: plain Taichi programs, and what a peer's server offers of them
``workers``                  tiremote's side
``peers``                    one module for each other way to call that kernel
``groups``                   one module for each group of figures
``results``, ``page``, ``picture``  what is kept of a run, and docs/performance.md from it
"""
