"""WheelCore: levels that hold tasks; what `TimingWheel` and the timer's core have in common."""
from libc.stdint cimport int64_t

from tickwheel._bucket cimport Bucket, node_unlink
from tickwheel._levels cimport Levels
from tickwheel._task cimport ELSEWHERE, TaskOwner, TimerTask, is_linked


cdef class WheelCore(TaskOwner):
    cdef Levels levels
    cdef Bucket due             # PENDING tasks whose tick has come, in the order of their firing
    cdef int64_t pending        # live tasks, on whatever list

    cdef list take_back(self, Bucket* bucket, list tasks)
    cdef list take_back_all(self)


cdef inline int holds(WheelCore core, TimerTask task) noexcept:
    """In the section: 1; 0: the task is on no list; ELSEWHERE."""
    if task.owner is not core:
        return ELSEWHERE
    return is_linked(task)


cdef inline void release(WheelCore core, TimerTask task) noexcept:
    """A live task leaves its list and the count. The list's reference is now the caller's."""
    node_unlink(&task.node)
    core.pending -= 1


cdef int64_t checked_size(object wheel_size) except -1
