//! What the fuzz targets share: their bodies, and an allocator that does not give without end.

pub mod bodies;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    process::abort,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// The most bytes that reading one input may hold at a time. Metadata is cut off at 256 MiB, and is
/// held as text and, in part, as what was read from it.
const HELD_MAX: usize = 768 << 20;

/// The system's allocator, which ends the process where an input takes too much.
struct Capped;

static HELD: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Capped = Capped;

/// Runs the body of a target on one input.
pub fn within(body: fn(&[u8]), bytes: &[u8]) {
    body(bytes);
}

fn take(size: usize) {
    if HELD.fetch_add(size, Relaxed).saturating_add(size) > HELD_MAX {
        eprintln!("an input takes more than {HELD_MAX} bytes of memory: {size} in one piece");
        abort();
    }
}

// SAFETY: everything is done by the system's allocator; only numbers are counted beside it.
unsafe impl GlobalAlloc for Capped {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        take(size);
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}
