"""The pure-Python reference, and the specification of both cores.

The compiled core gives the same results method by method. This one is the fallback where no
wheel fits the platform, and the baseline of every benchmark.

Words: a *tick* is the unit of time; a *bucket* one slot's list of tasks; a *wheel* a ring of buckets;
an *overflow wheel* the next coarser level, made on demand. A task has a *deadline*; only a bucket has
an *expiration*. To *cascade* is to put the tasks of an expiring coarse bucket in anew, lower down. The
*bucket heap* holds the non-empty buckets and says how long the *reaper* may sleep.

The rules
---------
R1   Never early. A deadline is rounded up to a tick when it enters a wheel, from the exact `when` (also
     after `reconfigure`); a task fires at or after it and, when the reaper is not starved, less than
     one tick late. A deadline within 1 ns above a tick counts as on it.
R2   Tasks are handed to the executor in ascending order of their ticks; within one tick in the order
     in which they were scheduled, where no cascade came between. A delay <= 0 may overtake.
R3   Each scheduling ends in exactly one of: fired, cancelled, returned by `close()`. Fired means that
     the callback has started; until then `cancel` and `reschedule` win, also while the task is queued.
     `cancel` is True at most once for a scheduling, and then the callback never runs. A periodic task is
     PENDING between its runs, which never overlap; `reschedule` moves the next run and the grid.
R4   A delay <= 0 is due at once: handed to the executor within `schedule`, or, inline, with the next turn.
R5   `reschedule` moves a pending task in place, O(1), keeping its handle.
R6   Time never goes back: a clock that steps back loses and repeats nothing.
R7   User code runs outside every internal lock, and never inside `schedule`, `add`, `reschedule` or
     `cancel`. Destructors and signal handlers may call back at any point.
R8   A callback that raises is logged, then reported to `on_error`, and stops nothing. KeyboardInterrupt
     and SystemExit pass through `advance_clock`, and what was due stays due.
R9   `close()` is idempotent, from any thread and from a callback; it takes back what has not started,
     waits for what runs, and returns the tasks that never started: IDLE again.
R10  A fired or cancelled task holds no reference to its callback or arguments.

The invariants, checked by `_check()`
-------------------------------------
I1   A bucket is in the heap once iff its expiration is set.
I2   expiration <= deadline < expiration + span.
I3   Each level's time is a multiple of its span.
I4   The lists' lengths add up to `len`.
I5   Links are mutual.
I6   A linked task holds exactly one owned reference (compiled core; here its two neighbours refer to it).

A worked cascade
----------------
Tick 1 ms, wheel size 20: a bucket of level 0 spans 1 ms and its turn 20 ms, of level 1 20 and 400 ms, of
level 2 400 and 8,000 ms. At time 0, tasks are added for 2, 8, 19, 350 and 450 ms:

    deadline   level   bucket = deadline // span % 20    its expiration
    2          0       2                                 2
    8          0       8                                 8
    19         0       19                                19
    350        1       350 // 20 = 17                    340
    450        2       450 // 400 = 1                    400

    time   what expires                    what becomes of it
    2      level 0, bucket 2               2 is due
    8      level 0, bucket 8               8 is due
    19     level 0, bucket 19              19 is due
    340    level 1, bucket 17              350 cascades to level 0, bucket 350 % 20 = 10
    350    level 0, bucket 10              350 is due
    400    level 2, bucket 1               450 cascades to level 1, bucket 450 // 20 % 20 = 2
    440    level 1, bucket 2               450 cascades to level 0, bucket 450 % 20 = 10
    450    level 0, bucket 10              450 is due

Eight wake-ups, three cascades. `tests/contract/test_cascade.py` runs this table on both cores.
"""
