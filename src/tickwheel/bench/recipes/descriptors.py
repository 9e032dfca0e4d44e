"""How many connections this process may hold."""
from __future__ import annotations

SPARE = 100     # files that are open anyway


def allow_connections(n: int) -> None:
    """Raise the limit of open files so far that `n` connections fit. OSError: the system allows fewer."""
    try:
        import resource
    except ImportError:     # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = n + SPARE
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise OSError(f"{n} connections need {needed} open files, this system allows {hard} (ulimit -Hn)")
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
