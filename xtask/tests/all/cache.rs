//! The cache that several labs share: pruning waits for none of them, and eviction leaves what they use.

use crate::{
    patience::wait_for,
    slow_tree::SlowTree,
    stage::{cache, check, said, scratch, share_host, xtask},
};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

/// Returns a command that prunes `cache` to what the default kernel needs.
fn prune(cache: &Path) -> Command {
    let mut prune = xtask();
    prune.args(["lab", "cache", "--keep", "6.12"]).env("FTRACE_LAB_CACHE", cache);
    prune
}

/// Adds a build of 4 MB that was last used an hour ago.
fn add_build(cache: &Path, name: &str) {
    let build = cache.join("builds").join(name);
    fs::create_dir_all(&build).unwrap();
    fs::write(build.join("vmlinux"), vec![1; 4_000_000]).unwrap();
    let used = SystemTime::now() - Duration::from_secs(3600);
    fs::File::open(&build).unwrap().set_modified(used).unwrap();
}

#[test]
fn a_cache_in_use_is_not_pruned_until_its_user_has_exited_or_was_killed() {
    let _host = share_host();
    let directory = scratch();
    let tree = SlowTree::new(directory.path());
    let cache = cache(directory.path(), &["builds"], true);
    add_build(&cache, "6.1-old");
    let mut lab = tree.build(&cache).spawn().unwrap();
    let make = tree.wait_for_make(&mut lab);
    let user = format!(
        "cannot prune `{}`: another process uses it (PID {}); try again",
        fs::canonicalize(&cache).unwrap().display(),
        lab.id()
    );
    check(&mut prune(&cache), 3, &[&user]);
    assert!(cache.join("builds/6.1-old/vmlinux").exists());
    // Another user is welcome.
    check(xtask().args(["lab", "cache"]).env("FTRACE_LAB_CACHE", &cache), 0, &["builds/6.1-old"]);
    // make did not inherit the lock.
    let files = fs::read_dir(format!("/proc/{make}/fd")).unwrap().flatten();
    let files: Vec<_> = files.filter_map(|file| fs::read_link(file.path()).ok()).collect();
    assert!(
        !files.is_empty() && !files.iter().any(|file| file.starts_with(&cache) && file.is_dir()),
        "{files:?}"
    );
    lab.kill().unwrap();
    lab.wait().unwrap();
    wait_for("end of make", || (!Path::new(&format!("/proc/{make}")).exists()).then_some(()));
    check(&mut prune(&cache), 0, &["removed from", "builds/6.1-old"]);
    assert!(!cache.join("builds/6.1-old").exists());
}

#[test]
fn a_new_build_evicts_what_was_not_used_for_the_longest_time() {
    let _host = share_host();
    let directory = scratch();
    let tree = SlowTree::new(directory.path());
    let cache = cache(directory.path(), &["builds"], true);
    let linked = fs::read_dir(cache.join("sources")).unwrap().count();
    add_build(&cache, "6.1-old");
    add_build(&cache, "6.1-used");
    let mut user = Command::new("flock");
    user.args(["--shared", "--no-fork"]).arg(cache.join("builds/6.1-used"));
    let mut user = user.args(["sh", "-c", "read -r line"]).stdin(Stdio::piped()).spawn().unwrap();
    let locked = || {
        let mut locked = Command::new("flock");
        locked.args(["--nonblock"]).arg(cache.join("builds/6.1-used")).arg("true");
        (!locked.status().unwrap().success()).then_some(())
    };
    wait_for("lock", locked);
    tree.finish();
    let build = || {
        let mut build = tree.build(&cache);
        build.env("FTRACE_LAB_CACHE_MAX", "1M");
        build
    };
    let output = check(&mut build(), 0, &["removed `builds/6.1-old` from the cache (4 MB)", "6.12.1"]);
    user.kill().unwrap();
    user.wait().unwrap();
    let vmlinux =
        said(&output).lines().find_map(|line| Some(line.strip_prefix("vmlinux")?.trim().to_owned()));
    assert!(Path::new(&vmlinux.unwrap()).exists());
    assert!(!cache.join("builds/6.1-old").exists() && cache.join("builds/6.1-used/vmlinux").exists());
    // Nothing is new, so nothing is evicted.
    let output = check(&mut build(), 0, &["6.12.1"]);
    assert!(!said(&output).contains("removed"), "{}", said(&output));
    // The sources belong to another cache.
    assert_eq!(fs::read_dir(cache.join("sources")).unwrap().count(), linked);
}

#[test]
fn the_limit_is_shown_and_a_wrong_one_is_refused() {
    let directory = scratch();
    let show = |limit: &str, code: i32, expect: &str| {
        let mut show = xtask();
        show.args(["lab", "cache"]).env("FTRACE_LAB_CACHE", directory.path().join("empty"));
        check(show.env("FTRACE_LAB_CACHE_MAX", limit), code, &[expect]);
    };
    show("40G", 0, "0 MB  builds and sources, of at most 40000 MB (FTRACE_LAB_CACHE_MAX)");
    show("none", 0, "builds and sources, without a limit (FTRACE_LAB_CACHE_MAX)");
    show("0", 0, "without a limit");
    show("40", 3, "FTRACE_LAB_CACHE_MAX is `40`, expected a size such as `500M`, `40G` or `1T`, or `none`");
}
