//! What either side of the agent's port may be sent.

#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::{Reply, Request, read_frame};

fuzz_target!(|bytes: &[u8]| {
    let _ = read_frame::<Reply>(&mut &bytes[..]);
    let _ = read_frame::<Request>(&mut &bytes[..]);
});
