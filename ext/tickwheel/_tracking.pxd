"""Objects that a C structure keeps alive need not be known to the cyclic collector meanwhile.

It could not free them: who holds them does not tell it of the reference. So while they wait it is spared the
walk over them, which with a hundred thousand of them takes tens of milliseconds a time. When they leave the
structure, they must be tracked again. Without the GIL nothing is done: there other threads may look.
"""
from cpython.object cimport PyObject

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define tw_untrack(object) ((void)(object))
    #define tw_track(object) ((void)(object))
    #else
    #define tw_untrack(object) do { if (PyObject_IS_GC(object)) PyObject_GC_UnTrack(object); } while (0)
    #define tw_track(object) do { \
        if (PyObject_IS_GC(object) && !PyObject_GC_IsTracked(object)) PyObject_GC_Track(object); } while (0)
    #endif
    """
    void tw_untrack(PyObject* object) noexcept
    void tw_track(PyObject* object) noexcept
