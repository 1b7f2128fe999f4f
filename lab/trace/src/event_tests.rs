//! Tests that decode records by formats, field by field.

use super::{Event, Value};
use crate::{
    metadata::{Metadata, RawMetadata},
    print::{KernelManner, Manner},
};
use proptest::prelude::*;
use std::borrow::Cow;

const HEADER_PAGE: &str = "field: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
field: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
field: char data;\toffset:16;\tsize:4080;\tsigned:0;";

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
";

fn metadata(formats: &[(&str, String)]) -> Metadata {
    Metadata::new(RawMetadata {
        header_page: HEADER_PAGE.to_owned(),
        formats: formats.iter().map(|(group, text)| ((*group).to_owned(), text.clone())).collect(),
        kallsyms: "ffff800080010000 T vfs_write\nffff800080020000 T ksys_write\n".to_owned(),
        printk_formats: "0xffff800080 : \"a %s of %d, %03x%%%c %llu %pS %pI4|%*d\\n\"\n".to_owned(),
        saved_cmdlines: "44 eventfd\n".to_owned(),
        ..RawMetadata::default()
    })
    .unwrap()
}

fn format(name: &str, id: u16, fields: &str, print: &str) -> String {
    format!("name: {name}\nID: {id}\nformat:\n{COMMON}\n{fields}\n\nprint fmt: {print}\n")
}

/// Returns a record of event 7 by task 44, with `body` after its common fields.
fn record(id: u16, body: &[u8]) -> Vec<u8> {
    [&id.to_le_bytes()[..], &[0x45, 0x21], &44u32.to_le_bytes(), body].concat()
}

#[test]
fn values() {
    let check = |field: &str, body: &[u8], expect: Option<Value<'_>>| {
        let metadata = metadata(&[("test", format("event", 7, field, "\"\""))]);
        let record = record(7, body);
        let event = Event::new(0, 0, &record, &metadata);
        assert_eq!(event.fields().next().map(|(_, value)| value), expect, "{field}");
    };
    let text = |text: &'static str| Some(Value::Text(Cow::Borrowed(text)));
    let numbers = |numbers: &[u64]| Some(Value::List(numbers.iter().map(|&n| Value::Unsigned(n)).collect()));
    check("field:s8 a;\toffset:8;\tsize:1;\tsigned:1;", &[0xff], Some(Value::Signed(-1)));
    check("field:u8 a;\toffset:8;\tsize:1;\tsigned:0;", &[0xff], Some(Value::Unsigned(255)));
    check("field:short a;\toffset:8;\tsize:2;\tsigned:1;", &[0, 0x80], Some(Value::Signed(-32768)));
    check("field:int a;\toffset:8;\tsize:4;\tsigned:1;", &[0xfe, 255, 255, 255], Some(Value::Signed(-2)));
    check("field:u64 a;\toffset:8;\tsize:8;\tsigned:0;", &[255; 8], Some(Value::Unsigned(u64::MAX)));
    check("field:s64 a;\toffset:8;\tsize:8;\tsigned:1;", &[255; 8], Some(Value::Signed(-1)));
    check("field:bool a;\toffset:8;\tsize:1;\tsigned:0;", &[1], Some(Value::Unsigned(1)));
    check("field:u32 a:3;\toffset:8;\tsize:4;\tsigned:0;", &[0xfd, 255, 0, 0], Some(Value::Unsigned(5)));
    check(
        "field:void * a;\toffset:8;\tsize:8;\tsigned:0;",
        &[1, 0, 0, 0, 0, 0, 0, 1],
        Some(Value::Unsigned(1 << 56 | 1)),
    );
    // A record that is too short, or a field that reaches beyond it by its declared offset.
    check("field:int a;\toffset:8;\tsize:4;\tsigned:1;", &[1, 2, 3], None);
    check("field:int a;\toffset:4000000;\tsize:4;\tsigned:1;", &[1, 2, 3, 4], None);
    check("field:char a[8];\toffset:8;\tsize:8;\tsigned:0;", b"init\0xyz", text("init"));
    check("field:char a[4];\toffset:8;\tsize:4;\tsigned:0;", b"init", text("init"));
    check("field:char a[4];\toffset:8;\tsize:4;\tsigned:0;", b"a\xffb\0", text("a\u{fffd}b"));
    check("field:u8 a[3];\toffset:8;\tsize:3;\tsigned:0;", &[1, 2, 3], numbers(&[1, 2, 3]));
    check("field:u16 a[];\toffset:8;\tsize:4;\tsigned:0;", &[1, 0, 2, 0], numbers(&[1, 2]));
    check(
        "field:unsigned long a[1];\toffset:8;\tsize:8;\tsigned:0;",
        &[9, 0, 0, 0, 0, 0, 0, 0],
        numbers(&[9]),
    );
    check(
        "field:sometype_t a[2];\toffset:8;\tsize:8;\tsigned:0;",
        &[9, 0, 0, 0, 8, 0, 0, 0],
        numbers(&[9, 8]),
    );
    check("field:char a[];\toffset:8;\tsize:0;\tsigned:0;", b"to the end", text("to the end"));
    check("field:u32 a[];\toffset:8;\tsize:0;\tsigned:0;", &[1, 0, 0, 0, 2, 0, 0, 0, 3], numbers(&[1, 2]));
    check(
        "field:struct in6 a;\toffset:8;\tsize:3;\tsigned:0;",
        &[1, 2, 3],
        Some(Value::Bytes(Cow::Borrowed(&[1, 2, 3]))),
    );
    // Length in the upper half, offset in the lower.
    check("field:__data_loc char[] a;\toffset:8;\tsize:4;\tsigned:1;", b"\x0c\0\x05\0init\0", text("init"));
    check("field:__rel_loc char[] a;\toffset:8;\tsize:4;\tsigned:1;", b"\x01\0\x05\0.init\0", text("init"));
    check(
        "field:__data_loc u16[] a;\toffset:8;\tsize:4;\tsigned:0;",
        &[12, 0, 4, 0, 1, 0, 2, 0],
        numbers(&[1, 2]),
    );
    check(
        "field:__data_loc cpumask_t a;\toffset:8;\tsize:4;\tsigned:0;",
        &[12, 0, 1, 0, 7],
        Some(Value::Bytes(Cow::Borrowed(&[7]))),
    );
    check("field:__data_loc char[] a;\toffset:8;\tsize:4;\tsigned:1;", b"\x0c\0\xff\xffinit\0", None);
    check("field:__rel_loc char[] a;\toffset:8;\tsize:4;\tsigned:1;", b"\xff\xff\xff\xff", None);
    // As in a synthetic event.
    check(
        "field:__data_loc char[] a;\toffset:8;\tsize:8;\tsigned:1;",
        b"\x10\0\x05\0\0\0\0\0init\0",
        text("init"),
    );
    check(
        "field:__data_loc char[][1] a;\toffset:8;\tsize:4;\tsigned:1;",
        b"\x0c\0\x02\0a\0",
        Some(Value::List(vec![Value::Text("a".into())])),
    );
    check(
        "field:__data_loc char[][2] a;\toffset:8;\tsize:8;\tsigned:1;",
        b"\x10\0\x02\0\x12\0\x02\0a\0b\0",
        Some(Value::List(vec![Value::Text("a".into()), Value::Text("b".into())])),
    );
}

#[test]
fn common_fields() {
    let metadata = metadata(&[("sched", format("event", 7, "", "\"\""))]);
    let known = record(7, &[]);
    let event = Event::new(5, 1, &known, &metadata);
    assert_eq!((event.group(), event.name(), event.pid), ("sched", "event", 44));
    assert_eq!((event.comm().as_ref(), event.flags(), event.preempt_count()), ("eventfd", 0x45, 0x21));
    assert_eq!(event.field("common_pid"), Some(Value::Signed(44)));
    assert_eq!(event.field("nothing"), None);
    assert_eq!(event.fields().count(), 0);
    // No format has this number, but the task is known anyway.
    let unknown = record(8, &[]);
    let event = Event::new(5, 1, &unknown, &metadata);
    assert_eq!((event.group(), event.name(), event.pid), ("", "unknown", 44));
    let short = Event::new(5, 1, &[7], &metadata);
    assert_eq!((short.name(), short.pid, short.flags()), ("unknown", -1, 0));
}

#[test]
fn the_kernel_prints_some_values_in_its_own_manner() {
    let fields = "\tfield:u32 n;\toffset:8;\tsize:4;\tsigned:0;";
    let check = |print: &str, report: Option<&str>, kernel: Option<&str>| {
        let metadata = metadata(&[("a", format("e", 7, fields, print))]);
        let record = record(7, &[0; 4]);
        let event = Event::new(0, 0, &record, &metadata);
        for (manner, expect) in [(Manner::Report, report), (Manner::Kernel(KernelManner::default()), kernel)]
        {
            let mut text = String::new();
            let printed =
                event.format().printer().and_then(|printer| printer.print(&event, manner, &mut text));
            assert_eq!(printed.map(|()| text.as_str()), expect, "{print} {manner:?}");
        }
    };
    check(r#""%#x", REC->n"#, Some("0"), Some("0x0"));
    check(r#""%c", REC->n + 200"#, Some("È"), Some("\u{FFFD}"));
    check(r#""%s", __print_flags(REC->n, "|", { 0, "none" }, { 1, "A" })"#, Some("none"), Some(""));
    check(r#""%s", __print_flags(REC->n + 2, "|", { 0, "x" }, { 1, "A" })"#, Some("0x2"), Some("x|0x2"));
    check(r#""%s", __print_symbolic(REC->n, { NAME, "x" }, { 1, "A" })"#, Some("0x0"), None);
    check(r#""%s", __print_symbolic(REC->n + 1, { NAME, "x" }, { 1, "A" })"#, Some("A"), Some("A"));
    check(r#""%d %lu", sizeof(int), sizeof(unsigned long)"#, None, None);
    check(r#""%d", sizeof(int)"#, Some("4"), Some("4"));
}

#[test]
fn bytes_that_are_declared_as_a_string() {
    let fields = "\tfield:__data_loc char[] val;\toffset:8;\tsize:4;\tsigned:0;";
    let check = |print: &str, expect: Option<Value<'_>>, shown: &str| {
        let metadata = metadata(&[("syscalls", format("sys_enter_write", 7, fields, print))]);
        let record = record(7, b"\x0c\0\x03\0a\0b");
        let event = Event::new(0, 0, &record, &metadata);
        assert_eq!(event.field("val"), expect, "{print}");
        let mut text = String::new();
        event
            .format()
            .printer()
            .and_then(|printer| printer.print(&event, Manner::Report, &mut text))
            .expect(print);
        assert_eq!(text, shown);
    };
    let bytes = Value::List([97, 0, 98].map(Value::Unsigned).to_vec());
    check("\"(%s)\", __print_dynamic_array(val, 1)", Some(bytes), "({0x61,0x0,0x62})");
    check("\"(%s)\", __get_str(val)", Some(Value::Text("a".into())), "(a)");
}

#[test]
fn stacks_are_as_long_as_they_say() {
    let fields = "\tfield:int size;\toffset:8;\tsize:4;\tsigned:1;
\tfield:unsigned long caller[8];\toffset:16;\tsize:64;\tsigned:0;";
    let metadata = metadata(&[("ftrace", format("kernel_stack", 4, fields, "\"\""))]);
    let check = |size: u32, frames: u64, expect: usize| {
        let mut body = size.to_le_bytes().to_vec();
        body.extend([0; 4]);
        body.extend((0..frames).flat_map(u64::to_le_bytes));
        let record = record(4, &body);
        let event = Event::new(0, 0, &record, &metadata);
        let Some(Value::List(frames)) = event.field("caller") else { panic!("no stack") };
        assert_eq!(frames.len(), expect, "{size}");
    };
    check(3, 3, 3);
    check(11, 11, 11);
    check(11, 12, 11);
    // A size larger than the record yields the frames that are there.
    check(u32::MAX, 5, 5);
    check(9, 5, 5);
}

#[test]
fn packed_messages() {
    let fields = "\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;
\tfield:const char * fmt;\toffset:16;\tsize:8;\tsigned:0;
\tfield:u32 buf[];\toffset:24;\tsize:0;\tsigned:0;";
    let metadata = metadata(&[("ftrace", format("bprint", 6, fields, "\"\""))]);
    let mut body = 0xffff_8000_8001_0008u64.to_le_bytes().to_vec();
    body.extend(0xff_ff80_0080u64.to_le_bytes());
    // A string, then numbers aligned to at most four bytes, a character, and text in place of a
    // pointer that had to be dereferenced at once.
    body.extend(b"hit\0");
    body.extend((-3i32).to_le_bytes());
    body.extend(0x1fu32.to_le_bytes());
    body.extend(b"c\0\0\0");
    body.extend(u64::MAX.to_le_bytes());
    body.extend(0xffff_8000_8001_0010u64.to_le_bytes());
    body.extend(b"10.0.2.2\0\0\0\0");
    body.extend(5u32.to_le_bytes());
    body.extend(7u32.to_le_bytes());
    let whole = record(6, &body);
    let message = |record: &[u8]| {
        Event::new(0, 0, record, &metadata)
            .field("message")
            .and_then(|value| value.as_text().map(str::to_owned))
    };
    let expect = "a hit of -3, 01f%c 18446744073709551615 vfs_write+0x10 10.0.2.2|    7";
    assert_eq!(message(&whole).as_deref(), Some(expect));
    assert_eq!(message(&whole[..whole.len() - 4]), None);
}

#[test]
fn refused_formats() {
    let check = |text: &str, part: &str| {
        let texts = RawMetadata {
            header_page: HEADER_PAGE.to_owned(),
            formats: vec![("test".to_owned(), text.to_owned())],
            ..RawMetadata::default()
        };
        let error = format!("{:#}", Metadata::new(texts).expect_err(part));
        assert!(error.contains(part), "`{error}` does not say `{part}`");
    };
    check("", "lacks its `name:`");
    check("name: a\nID: 70000\n", "the event number `70000`");
    check("name: a\nID: 7\n\tfield:int a;\toffset:99999999;\tsize:4;\tsigned:0;\n", "`a` lies outside");
    check(&format!("name: a\nID: 7\n{}", COMMON.repeat(300)), "more than 1024 fields");
}

proptest! {
    /// With any format and any record, decoding every field and printing the event terminates.
    #[test]
    fn any_record_by_any_format(
        fields in prop::collection::vec(
            (
                prop::sample::select(vec![
                    "char", "int", "u8", "unsigned long", "__data_loc char[]", "__rel_loc u32[]",
                    "__data_loc char[][3]", "void *", "struct x",
                ]),
                prop::sample::select(vec!["", "[4]", "[]", "[N]", ":5"]),
                0usize..70_000,
                0usize..20,
            ),
            0..8,
        ),
        print in "\"(%[-0-9.]{0,3}(l|ll|h){0,1}(d|u|x|s|c|pS|pM|ph)|%%| x){0,6}\"(, (REC->f[0-7]|__get_str\\(f[0-7]\\)|\\(u8\\)REC->f1|REC->f0 >> REC->f1|__print_flags\\(REC->f2, \"\\|\", \\{1, \"A\"\\}\\))){0,6}",
        body in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let lines: String = (0..)
            .zip(&fields)
            .map(|(n, (kind, array, offset, size))| {
                format!("\tfield:{kind} f{n}{array};\toffset:{};\tsize:{size};\tsigned:1;\n", 8 + offset % 120)
            })
            .collect();
        let metadata = metadata(&[("test", format("event", 7, &lines, &print))]);
        let record = record(7, &body);
        let event = Event::new(0, 0, &record, &metadata);
        prop_assert!(event.fields().count() <= fields.len());
        let mut text = String::new();
        if let Some(printer) = event.format().printer() {
            let _ = printer.print(&event, Manner::Report, &mut text);
        }
        prop_assert!(text.len() < 1 << 20);
    }
}
