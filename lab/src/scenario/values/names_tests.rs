//! Valid and invalid names in scenarios.

use super::{super::command::CommandLine, *};

fn refused<T: FromText + fmt::Debug>(text: &str, expect: &str) {
    let error = T::from_text(text).unwrap_err();
    assert!(error.contains(expect), "{text:?}: {error}");
}

#[test]
fn event_names_are_the_kernels() {
    for text in ["efd_write", "_x", "A9", &"x".repeat(63)] {
        assert_eq!(EventName::from_text(text).unwrap().as_str(), text);
    }
    refused::<EventName>("", "empty event name");
    refused::<EventName>("9x", "bad character '9'");
    refused::<EventName>("a-b", "bad character '-'");
    refused::<EventName>("a\nb", "bad character '\\n'");
    refused::<EventName>(&"x".repeat(64), "of 64 characters, expected at most 63");
    assert_eq!(GroupName::from_text("my-group").unwrap().as_str(), "my-group");
    assert_eq!(OptionName::from_text("funcgraph-retval").unwrap().as_str(), "funcgraph-retval");
    refused::<OptionName>("../trace", "bad character '.' in option");
    refused::<ArgName>("common_pid", "every probe event already has");
    refused::<ArgName>(&"x".repeat(32), "at most 31");
}

#[test]
fn probe_points_are_symbols_offsets_and_addresses() {
    for text in ["vfs_write", "vfs_write+0x10", "ext4:ext4_open+4", "0xffff800080010000", "foo.isra.0"] {
        assert_eq!(ProbePoint::from_text(text).unwrap().as_str(), text);
    }
    refused::<ProbePoint>("", "is not a probe point");
    refused::<ProbePoint>("vfs_write x=1", "is not a probe point");
    refused::<ProbePoint>("vfs_write\np:x y", "is not a probe point");
    refused::<ProbePoint>("a:b:c", "is not a probe point");
    refused::<ProbePoint>("vfs_write+z", "bad offset");
    refused::<ProbePoint>("9lives", "bad address");
}

#[test]
fn a_rust_function_is_written_as_its_path() {
    let check = |text, module, path, offset| {
        let point = ProbePoint::from_text(text).unwrap();
        assert_eq!(point.rust(), Some(RustPoint { module, path, offset }), "{text}");
    };
    check("kernel::print::call_printk", None, "kernel::print::call_printk", "");
    check("kernel::print::call_printk+0x8", None, "kernel::print::call_printk", "+0x8");
    check("rust_print:<a::B as c::D>::init+4", Some("rust_print"), "<a::B as c::D>::init", "+4");
    check("<dyn a::B + c::D>::e", None, "<dyn a::B + c::D>::e", "");
    assert_eq!(ProbePoint::from_text("ext4:ext4_open+4").unwrap().rust(), None);
    refused::<ProbePoint>("a::b\np:x y", "control character");
    refused::<ProbePoint>("a/b:c::d", "bad character '/' in module name");
}

#[test]
fn files_do_not_climb() {
    assert_eq!(FilePath::from_text("events/kprobes/enable").unwrap().as_str(), "events/kprobes/enable");
    refused::<FilePath>("../etc/passwd", "contains `..`");
    refused::<FilePath>("/a/../b", "contains `..`");
    refused::<FilePath>("a\u{7}", "control character");
    refused::<FilePath>("events/", "is not a file");
}

#[test]
fn commands_split_as_a_shell_does() {
    let check = |text, expect: &[&str]| {
        let found = CommandLine::from_text(text).unwrap();
        assert_eq!([&[found.program().to_owned()], found.arguments()].concat(), expect, "{text}");
    };
    check("eventfd --sleep 0 1 2", &["eventfd", "--sleep", "0", "1", "2"]);
    check("  cat  '/a b' \"c d\"e ''", &["cat", "/a b", "c de", ""]);
    check(r#"cat a\ b "x\"y""#, &["cat", "a b", "x\"y"]);
    refused::<CommandLine>("", "empty command");
    refused::<CommandLine>("cat 'x", "no closing '");
    refused::<CommandLine>("cat \\", "at the end of a command");
    refused::<CommandLine>("/bin/cat", "is not a program's name");
    refused::<CommandLine>("../cat", "is not a program's name");
}

#[test]
fn configuration_symbols_lose_their_prefix() {
    assert_eq!(ConfigSymbol::from_text("CONFIG_KPROBES").unwrap().as_str(), "KPROBES");
    refused::<ConfigSymbol>("KPROBES=y", "is not a configuration symbol");
    let shown = |text| ConfigRequirement::from_text(text).unwrap().to_string();
    assert_eq!(["KPROBES", "!CONFIG_CFI"].map(shown), ["CONFIG_KPROBES", "CONFIG_CFI not set"]);
}
