"""The benchmark of Kafka's purgatory proposal, on the purgatory and on the designs that it replaces.

    load        what a run does, made before its clock starts: arrivals, latencies, keys
    run         one run: a thread that enqueues, a thread that completes, and what was seen
    witness     who looks on: memory, queue, threads, collections; what ends a run before its time
    request     one request at a time on one thread, in nanoseconds
    cell        a run or such a loop in a process of its own
    plan        which cells there are, and their rows
    results     what the rows say together, and what became of the promises

Requests arrive at a target rate and take a log-normal time to be completed, by another thread; what
is not complete in 200 ms times out. The completing thread's queue is a `Timer(executor="inline")`,
the same for every design; the design `harness` has no purgatory at all: what it costs, the others contain.
"""
