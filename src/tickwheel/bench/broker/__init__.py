"""The broker, measured: produces and long polls at a rate, with what waits in its purgatories meanwhile.

    frames      the load's requests as bytes that kio has encoded, and where in answers is what
    clients     a connection each: those that produce, those that poll; what all of them saw
    load        the clients' process: requests at planned times, whatever becomes of those before
    served      a broker, and what is seen of it while it has its load
    sample      what a run is, and what it saw
    cell        a rate: a broker and its load, each in a process of its own
    plan        which cells there are, and their rows
    results     what became of the promises; what one must know to read the figures
"""
