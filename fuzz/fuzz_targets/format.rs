//! The text of a `format` file.

#![no_main]

use lab::trace::EventFormat;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for group in ["ftrace", "sched"] {
        let Ok(format) = EventFormat::parse(group, text, 8) else { continue };
        for field in format.fields() {
            for table in format.symbolic(&field.name).into_iter().chain(format.flags(&field.name)) {
                let _ = (table.text(0), table.text(u64::MAX), table.value("A"));
            }
        }
    }
});
