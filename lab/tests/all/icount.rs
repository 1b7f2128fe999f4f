//! A race during boot, on one CPU that counts time in instructions: with each `icount`, every boot is the same.

use crate::outcome::result;
use lab::results::Status;

/// `probes/boot` describes the race.
fn boots(icount: u8) -> bool {
    let result = result(&format!(
        "icount: {icount}\ncmdline: 'kprobe_event=p:boot_exec,kernel_execve'\n\
         steps: [ {{ read: events/kprobes/boot_exec/enable, text: {{ equal: '1' }} }} ]"
    ));
    match result.status {
        Status::Passed => true,
        Status::Failed if result.reason.contains("ENOENT") => false,
        _ => panic!("{}", result.reason),
    }
}

#[test]
fn a_race_always_or_never_happens() {
    let outcomes = || (0..8).map(boots).collect::<Vec<_>>();
    let first = outcomes();
    assert!(first.contains(&true) && first.contains(&false), "{first:?}");
    assert_eq!(outcomes(), first);
}
