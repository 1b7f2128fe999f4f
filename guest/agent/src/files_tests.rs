//! The file requests, on the host's own filesystem.

use super::*;
use protocol::Reply;
use std::os::unix::fs::symlink;

fn scratch() -> (tempfile::TempDir, impl Fn(&str) -> String) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().to_str().unwrap().to_owned();
    (directory, move |name: &str| format!("{root}/{name}"))
}

/// Returns the system call that failed, and its errno.
fn errno<T: std::fmt::Debug>(result: Result<T, Refusal>) -> (String, i32) {
    match Reply::from(result.unwrap_err()) {
        Reply::Errno { what, errno } => (what, errno),
        other => panic!("{other:?}"),
    }
}

#[test]
fn relative_paths_are_below_tracefs() {
    assert_eq!(resolve("events/enable"), "/sys/kernel/tracing/events/enable");
    assert_eq!(resolve("/proc/kcore"), "/proc/kcore");
}

#[test]
fn a_file_is_truncated_or_appended_to_but_never_made() {
    let (_directory, path) = scratch();
    let file = path("file");
    let missing = errno(write_file(&file, b"x", WriteMode::Truncate));
    assert_eq!(missing, (format!("open {file}"), libc::ENOENT));
    fs::write(&file, "old content").unwrap();
    write_file(&file, b"new", WriteMode::Truncate).unwrap();
    write_file(&file, b"er", WriteMode::Append).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"newer");
    write_file(&file, b"", WriteMode::Truncate).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"");
}

#[test]
fn what_write_refuses_is_told() {
    assert_eq!(
        errno(write_file("/dev/full", b"x", WriteMode::Append)),
        ("write /dev/full".into(), libc::ENOSPC)
    );
    assert_eq!(errno(write_file("/a\0b", b"x", WriteMode::Append)).1, libc::EINVAL);
}

#[test]
fn reading_is_bounded_and_never_waits() {
    let (_directory, path) = scratch();
    let file = path("file");
    fs::write(&file, vec![7; 200_000]).unwrap();
    assert_eq!(read_file(&file, 100_000).unwrap(), vec![7; 100_000]);
    assert_eq!(read_file(&file, u32::MAX).unwrap().len(), 200_000);
    assert_eq!(read_file(&file, 0).unwrap(), b"");
    assert_eq!(read_file("/dev/zero", u32::MAX).unwrap().len(), DATA_MAX);
    assert_eq!(errno(read_file("/", 1)), ("read /".into(), libc::EISDIR));
    // A pipe with a writer and nothing in it.
    let pipe = path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, pipe.as_str(), Mode::RUSR | Mode::WUSR).unwrap();
    let _writer = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    assert_eq!(read_file(&pipe, 10).unwrap(), b"");
}

#[test]
fn a_largest_reply_fits_a_frame() {
    let data = read_file("/dev/zero", u32::MAX).unwrap();
    protocol::encode(&Reply::Data(data)).unwrap();
    let (_directory, path) = scratch();
    for number in 0..6000 {
        fs::write(path(&format!("{number:0>200}")), "").unwrap();
    }
    assert_eq!(errno(list(&path(""))).1, libc::EOVERFLOW);
    for number in 5000..6000 {
        fs::remove_file(path(&format!("{number:0>200}"))).unwrap();
    }
    protocol::encode(&Reply::Names(list(&path("")).unwrap())).unwrap();
}

#[test]
fn names_are_sorted_and_directories_marked() {
    let (_directory, path) = scratch();
    make_directory(&path("b/c")).unwrap();
    make_directory(&path("b/c")).unwrap();
    fs::write(path("c"), "").unwrap();
    symlink(path("b"), path("a")).unwrap();
    symlink(path("none"), path("d")).unwrap();
    assert_eq!(list(&path("")).unwrap(), ["a/", "b/", "c", "d"]);
    assert_eq!(errno(list(&path("c"))).1, libc::ENOTDIR);
}

#[test]
fn files_links_and_empty_directories_are_removed() {
    let (_directory, path) = scratch();
    make_directory(&path("full/empty")).unwrap();
    symlink(path("full"), path("link")).unwrap();
    remove(&path("link")).unwrap();
    assert_eq!(errno(remove(&path("full"))), (format!("rmdir {}", path("full")), libc::ENOTEMPTY));
    remove(&path("full/empty")).unwrap();
    remove(&path("full")).unwrap();
    assert_eq!(errno(remove(&path("full"))).1, libc::ENOENT);
}

#[test]
fn a_file_is_pushed_in_chunks_with_its_mode() {
    let (_directory, path) = scratch();
    let file = path("deep/down/file");
    push(&file, 0o755, 0, b"one ").unwrap();
    push(&file, 0o755, 4, b"two").unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"one two");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o755);
    for offset in [3, 8] {
        assert_eq!(errno(push(&file, 0o755, offset, b"x")).1, libc::EINVAL, "{offset}");
    }
    push(&file, 0o4666, 0, b"other").unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"other");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o4666);
    assert_eq!(errno(push(&path("none"), 0o644, 7, b"x")).1, libc::ENOENT);
}
