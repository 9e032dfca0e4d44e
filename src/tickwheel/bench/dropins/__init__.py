"""What changing one import gains: each drop-in beside what it replaces.

    loops       the event loops that are compared
    timers      a loop's timers: schedule and cancel, churn, expiry, memory, lateness; what a turn costs
    timeouts    `asyncio.timeout`, our own, and `wait_for`, over the bare await
    keepalive   the idle timers of connections, refreshed with each message
    servers     an echo server and aiohttp's, with their client in a process of its own (`client`)
    stories     all that is measured: these, and `threading.Timer` and `sched.scheduler` with their drop-ins
    cell        a story, a contender, a size, GC on or off: in a process of its own
    plan        which cells there are, and their rows
    results     what the rows say together, and what became of the promises
"""
