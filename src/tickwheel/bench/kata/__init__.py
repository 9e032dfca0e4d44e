"""The stream kata: the article's designs and ours, on the same stream, under the eyes of a witness.

    stream      what is delivered and when, made beforehand from a seed
    pacing      who pushes it in real time
    designs     the work, and the article's ways to do it on many threads; ours is made of `recipes.pipeline`
    witness     around the work: order, duplicates, losses
    run         one design on the stream, in a process of its own, and what was seen
    results     what the designs' figures say together
    outcome     what comes out, as a table: compared, and checked beside the deliveries
    in_process  the stream through `recipes.pipeline` in virtual time
    on_spark    the same through `tickwheel.spark`

A consumer has 10 ms of work for an event and 1,000 of them a second. The events of one client have an
order, and some events are delivered twice.
"""
