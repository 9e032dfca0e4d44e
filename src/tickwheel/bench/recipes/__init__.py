"""The recipes, measured: each beside the ways that people build it otherwise.

    trackers    idle clients, the other designs: re-arming, the scan, the ring, the order of the last touch
    touches     what a touch costs, and what a client takes up
    clients     clients at a rate, some of which stop at planned moments: every offline event looked at
    duplicates  a stream of keys that come again, through a window of virtual time
    partitioned work in order within a key, the fixed-partition design
    calls       what a submit costs; a hot key, and how long the others wait
    connections a TCP server that closes connections which fall silent; its clients, in a process of their
                own (`crowd`), for each of which a file is open (`descriptors`)
    sample      what a cell sees
    stories     all that is measured: the stories, each with its contenders
    cell        a story, a contender, GC on or off: in a process of its own
    plan        which cells there are, and their rows
    results     what the rows say together, and what became of the promises
"""
