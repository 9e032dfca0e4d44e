"""Runners: the threads that run callbacks of a core, each as often as it is inside.

On the heap: a callback may switch to another greenlet, and what lives on the C stack is then moved away.
Runs of one thread need not end in the reverse order of their beginning, for the same reason.
"""
from libc.stdlib cimport free, realloc


cdef struct Runners:
    unsigned long* threads
    Py_ssize_t count
    Py_ssize_t room


cdef inline bint runners_add(Runners* runners, unsigned long thread) noexcept nogil:
    """False: no memory, nothing changed."""
    cdef Py_ssize_t room = runners.room * 2 + 4
    cdef void* threads
    if runners.count == runners.room:
        threads = realloc(runners.threads, room * sizeof(unsigned long))
        if threads == NULL:
            return False
        runners.threads = <unsigned long*>threads
        runners.room = room
    runners.threads[runners.count] = thread
    runners.count += 1
    return True


cdef inline Py_ssize_t runners_find(const Runners* runners, unsigned long thread) noexcept nogil:
    """The place of the thread's last run; -1: it has none."""
    cdef Py_ssize_t place = runners.count - 1
    while place >= 0 and runners.threads[place] != thread:
        place -= 1
    return place


cdef inline void runners_remove(Runners* runners, unsigned long thread) noexcept nogil:
    """One run of a thread that has one ends."""
    cdef Py_ssize_t place = runners_find(runners, thread)
    runners.count -= 1
    runners.threads[place] = runners.threads[runners.count]


cdef inline void runners_free(Runners* runners) noexcept nogil:
    free(runners.threads)
