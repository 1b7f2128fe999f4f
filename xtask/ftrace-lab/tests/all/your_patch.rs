//! Follows docs/your-patch.md like a user, on a git repository of kernels: its make copies the default kernel, which is
//! built, and changes one string in it.

use crate::common::{ROOT, Repository, said};
use checkers::page::{Reader, follow};
use std::{path::Path, process::Output};

/// Makes `~/linux`: v6.11 is good, v6.12 is bad, and HEAD is fixed.
const TREE: &str = "\
    cd ~/linux\n\
    commit() { git add --force . && git -c user.name=A -c user.email=a@b.test commit --quiet -m \"tracing: $1\"; }\n\
    settings() { printf 'LAB = built\\nTEXT = %s\\nBEFORE = :\\n' $1 > settings; }\n\
    git init --quiet --initial-branch=main\n\
    settings HOWTO; commit 'good' && git tag v6.11\n\
    touch a; commit 'another change'\n\
    settings WHATS; commit 'call it something else'\n\
    touch b; commit 'one more change' && git tag v6.12\n\
    settings HOWTO; commit 'call it HOWTO again'\n";

/// The files of a built kernel that the make of the tree copies.
const BUILT: &str = "arch/arm64/boot/Image System.map Module.symvers .config include/config/kernel.release";

/// A user with a home, whose cache has everything but results of these trees.
struct User(Repository);

impl User {
    fn new() -> User {
        let user = User(Repository::of(None));
        user.0.write("../linux/Makefile", include_str!("../../../tests/all/kernel_commits/Makefile"));
        let prepare = format!(
            "real=${{FTRACE_LAB_CACHE:-${{XDG_CACHE_HOME:-$HOME/.cache}}/ftrace-lab}}\n\
             built=$(dirname \"$(ftrace-lab build 6.12 | sed -n 's/^vmlinux *//p')\")\n\
             mkdir ../cache\n\
             for entry in $real/* $real/.ftrace-lab-cache; do\n\
               case ${{entry##*/}} in bisect|builds|snapshots|times.json) ;; *) ln -s $entry ../cache/ ;; esac\n\
             done\n\
             for file in {BUILT}; do\n\
               mkdir -p ../linux/built/$(dirname $file); cp $built/$file ../linux/built/$file\n\
             done\n"
        );
        let prepared = user.0.sh(&prepare);
        assert!(prepared.status.success(), "{}", said(&prepared));
        let made = user.sh(TREE);
        assert!(made.status.success(), "{}", said(&made));
        user
    }
}

impl Reader for User {
    fn place(&self) -> &Path {
        self.0.place()
    }

    fn sh(&self, commands: &str) -> Output {
        let home = "export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}\n\
                    export HOME=$(dirname \"$PWD\")\n\
                    export FTRACE_LAB_CACHE=$HOME/cache\n";
        self.0.sh(&format!("{home}{commands}"))
    }

    fn write(&self, path: &str, body: &str) {
        self.0.write(path, body);
    }
}

#[test]
fn a_patch_is_tested_as_the_page_says() {
    let user = User::new();
    let before = said(&user.sh("cd ~/linux && git status --porcelain=v2 --branch && git for-each-ref"));
    let (ran, compared) = follow(&Path::new(ROOT).join("docs/your-patch.md"), &user);
    assert!(ran >= 7 && compared >= 5, "{ran} commands ran, {compared} outputs were compared");
    let after = said(&user.sh("cd ~/linux && git status --porcelain=v2 --branch && git for-each-ref"));
    assert_eq!(before, after);
}
