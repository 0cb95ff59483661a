"""A survey that many people answer at once: one log on disk, any number of workers, one learner; never a record.

    store      where the log is kept: SQLite by default, PostgreSQL by its URL; what happened, in the order of commits
    desk       a worker's side: hands out queries, takes answers, gives receipts after the commit
    learner    follows the log, moves the posterior, keeps the pool of queries filled; snapshots; replay
    export     the answers as one release file
    board      words, keys, invitations and what may be shown; signing, limits
    bulletin   the public picture, in steps; crowd: when many come at once
    web        the worker's endpoints and pages; serving: the processes

This room stands on top: it uses the surveys' engine (`online`), queries and releases, never the holder's wing, so it
cannot see a private value, and nothing but the command line imports it.
"""
