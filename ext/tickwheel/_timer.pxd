"""TimerFront: the timer's hot methods."""
from tickwheel._ready cimport RoutedTask
from tickwheel._timercore cimport TimerCore


cdef class TimerFront:
    cdef readonly TimerCore _core

    cdef RoutedTask routed(self, object executor)
