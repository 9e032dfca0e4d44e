"""Slabs: memory for millions of small objects of one size.

A slab is 2 MB at an address that is a multiple of 2 MB, so that an object's slab is found by a mask.
From the second one on, Linux is asked for a huge page: with pages of 4 KB, the faults of fresh memory are a
third of what scheduling a timer costs. An empty slab goes back to the system, but for one.

The caller holds the GIL.
"""
from libc.stdint cimport int64_t, uintptr_t

cdef extern from *:
    """
    #define TW_SLAB ((size_t)2 << 20)
    #if defined(_WIN32)
    #include <malloc.h>
    static void *tw_map(int huge) { (void)huge; return _aligned_malloc(TW_SLAB, TW_SLAB); }
    static void tw_unmap(void *slab) { _aligned_free(slab); }
    #else
    #include <sys/mman.h>
    #ifndef MAP_ANONYMOUS
    #define MAP_ANONYMOUS MAP_ANON
    #endif
    static void *tw_map(int huge) {
        char *start, *slab;
        start = (char *)mmap(NULL, 2 * TW_SLAB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (start == (char *)MAP_FAILED) return NULL;
        slab = (char *)(((size_t)start + TW_SLAB - 1) & ~(TW_SLAB - 1));
        if (slab > start) munmap(start, slab - start);
        munmap(slab + TW_SLAB, TW_SLAB - (slab - start));
    #ifdef MADV_HUGEPAGE
        if (huge) (void)madvise(slab, TW_SLAB, MADV_HUGEPAGE);
    #endif
        return slab;
    }
    static void tw_unmap(void *slab) { munmap(slab, TW_SLAB); }
    #endif
    """
    const size_t TW_SLAB
    void* tw_map(bint huge) noexcept nogil
    void tw_unmap(void* slab) noexcept nogil


cdef struct Slab:
    Slab* prev                  # of the slabs with room
    Slab* next
    void** freed                # the object freed last; each holds the address of the one before
    char* fresh                 # from here on nothing has been used yet
    char* end
    int64_t used                # objects


cdef struct Slabs:
    Slab* roomy                 # those with room, in the order in which they are filled
    Slab* spare                 # an empty one that is kept: who comes and goes at its edge maps nothing
    int64_t count
    size_t size                 # bytes an object


cdef inline Slab* slab_add(Slabs* slabs) noexcept nogil:
    """A new slab, the first of those with room. NULL: no memory."""
    cdef Slab* slab = <Slab*>tw_map(slabs.count > 0)
    if slab == NULL:
        return NULL
    slab.freed = NULL
    slab.fresh = <char*>slab + 64
    slab.end = slab.fresh + (TW_SLAB - 64) // slabs.size * slabs.size
    slab.used = 0
    slabs.count += 1
    slab_link(slabs, slab)
    return slab


cdef inline void slab_link(Slabs* slabs, Slab* slab) noexcept nogil:
    slab.prev = NULL
    slab.next = slabs.roomy
    if slab.next != NULL:
        slab.next.prev = slab
    slabs.roomy = slab


cdef inline void slab_unlink(Slabs* slabs, Slab* slab) noexcept nogil:
    if slab.prev != NULL:
        slab.prev.next = slab.next
    else:
        slabs.roomy = slab.next
    if slab.next != NULL:
        slab.next.prev = slab.prev


cdef inline bint slab_is_full(const Slab* slab) noexcept nogil:
    return slab.freed == NULL and slab.fresh == slab.end


cdef inline void* slabs_take(Slabs* slabs) noexcept nogil:
    """Memory for one object, not cleared. NULL: there is none. O(1)."""
    cdef Slab* slab = slabs.roomy
    cdef void** object
    if slab == NULL:
        slab = slab_add(slabs)
        if slab == NULL:
            return NULL
    object = slab.freed
    if object != NULL:
        slab.freed = <void**>object[0]
    else:
        object = <void**>slab.fresh
        slab.fresh += slabs.size
    slab.used += 1
    if slab == slabs.spare:
        slabs.spare = NULL
    if slab_is_full(slab):
        slab_unlink(slabs, slab)
    return object


cdef inline void slabs_give(Slabs* slabs, void* memory) noexcept nogil:
    """Take an object's memory back. O(1)."""
    cdef Slab* slab = <Slab*>(<uintptr_t>memory & ~<uintptr_t>(TW_SLAB - 1))
    cdef void** object = <void**>memory
    if slab_is_full(slab):
        slab_link(slabs, slab)
    object[0] = slab.freed
    slab.freed = object
    slab.used -= 1
    if slab.used == 0:
        if slabs.spare == NULL:
            slabs.spare = slab
        else:
            slab_unlink(slabs, slab)
            slabs.count -= 1
            tw_unmap(slab)
