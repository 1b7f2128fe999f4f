//! An allocator with a limit.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    process::abort,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// The maximum number of bytes that reading one input may hold at a time. Metadata is truncated at
/// 256 MiB, and is held as text and, in part, in parsed form.
const HELD_MAX: usize = 768 << 20;

/// The system allocator, except that it aborts the process if an input takes too much memory.
struct Capped;

static HELD: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Capped = Capped;

fn take(size: usize) {
    if HELD.fetch_add(size, Relaxed).saturating_add(size) > HELD_MAX {
        eprintln!("an input takes more than {HELD_MAX} bytes of memory; the last allocation has {size}");
        abort();
    }
}

// SAFETY: every operation is that of the system allocator; this only counts bytes as well.
unsafe impl GlobalAlloc for Capped {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        take(size);
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}
