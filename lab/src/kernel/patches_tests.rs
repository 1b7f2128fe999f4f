//! Patches on a tree that looks like a kernel's, in a tarball.

use super::*;
use std::{os::unix::fs::MetadataExt, path::PathBuf};

const FORK: &str = "int one;\nint two;\nint three;\n";
const GOOD: &str = "Says why.\n\n--- a/kernel/fork.c\n+++ b/kernel/fork.c\n@@ -1,3 +1,3 @@\n int one;\n-int two;\n\
                    +int second;\n int three;\n";

struct Checkout {
    directory: tempfile::TempDir,
    lab: Lab,
    source: SourceSpec,
}

impl Checkout {
    fn new() -> Checkout {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for made in ["linux/kernel", "kernels/patches"] {
            fs::create_dir_all(root.join(made)).unwrap();
        }
        fs::write(root.join("linux/Makefile"), "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\n").unwrap();
        fs::write(root.join("linux/kernel/fork.c"), FORK).unwrap();
        let pack = "tar -cf linux.tar linux && sha256sum linux.tar | cut -c -64";
        let sha256 = Tool::new("sh").args(["-ec", pack]).directory(root).run().unwrap().trim().to_owned();
        let url = format!("file://{}", root.join("linux.tar").display());
        let lab = Lab::alone(root).unwrap();
        Checkout { lab, source: SourceSpec::Tarball { url, sha256 }, directory }
    }

    fn write(&self, name: &str, patch: &str) {
        fs::write(self.directory.path().join(format!("kernels/patches/{name}.patch")), patch).unwrap();
    }

    fn load(&self, names: &[&str]) -> Result<Vec<Patch>> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        Patch::load_all(self.directory.path(), &names)
    }

    fn obtain(&self, names: &[&str]) -> Result<Source> {
        let patches = self.load(names)?;
        obtain(&self.lab, &self.source, &patches)
    }

    /// Returns the error of a single patch with this text.
    fn error(&self, patch: &str) -> String {
        self.write("bad", patch);
        format!("{:#}", self.obtain(&["bad"]).unwrap_err())
    }

    fn sources(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.directory.path().join("cache/sources")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

fn fork(source: &Source) -> String {
    fs::read_to_string(source.directory.join("kernel/fork.c")).unwrap()
}

#[test]
fn a_patch_changes_a_copy_and_not_the_source() {
    let checkout = Checkout::new();
    checkout.write("second", GOOD);
    checkout.write("third", &GOOD.replace("two", "second").replace("+int second", "+int 2nd"));
    let original = checkout.obtain(&[]).unwrap();
    let patched = checkout.obtain(&["second", "third"]).unwrap();
    assert_eq!((fork(&original).as_str(), original.label.as_str()), (FORK, "6.12.1"));
    assert_eq!(fork(&patched), FORK.replace("two", "2nd"));
    assert_eq!((patched.label.as_str(), &patched.headers), ("6.12.1+second+third", &None));
    // Files that no patch changes are shared.
    let inode = |source: &Source| source.directory.join("Makefile").metadata().unwrap().ino();
    assert_eq!(inode(&original), inode(&patched));
    let left: Vec<_> = fs::read_dir(patched.directory.parent().unwrap()).unwrap().flatten().collect();
    assert_eq!(left.len(), 2, "the tree and its manifest: {left:?}");
}

#[test]
fn the_key_follows_what_the_patches_say_and_their_order() {
    let checkout = Checkout::new();
    checkout.write("second", GOOD);
    checkout.write("same", GOOD);
    checkout.write("other", &GOOD.replace("second", "other"));
    let identify = |names: &[&str]| {
        let patches = checkout.load(names).unwrap();
        identify(&checkout.lab, &checkout.source, &patches).unwrap()
    };
    assert_eq!(identify(&["second"]).key, checkout.obtain(&["second"]).unwrap().key);
    assert_eq!(identify(&[]).key, checkout.obtain(&[]).unwrap().key);
    assert_eq!(identify(&["second"]).key, identify(&["same"]).key);
    let keys = [&["second"][..], &["other"], &["second", "other"], &["other", "second"], &[]];
    let keys: std::collections::BTreeSet<String> = keys.iter().map(|names| identify(names).key).collect();
    assert_eq!(keys.len(), 5);
}

#[test]
fn what_does_not_apply_is_named_with_file_and_place_and_leaves_nothing() {
    let checkout = Checkout::new();
    let before = checkout.obtain(&[]).unwrap();
    let error = checkout.error(&GOOD.replace("int two", "int too"));
    for expect in ["`kernels/patches/bad.patch` does not apply", "patch failed: kernel/fork.c:1", "int too;"]
    {
        assert!(error.contains(expect), "{expect}: {error}");
    }
    let missing = checkout.error(&GOOD.replace("fork.c", "exit.c"));
    assert!(missing.contains("kernel/exit.c: No such file"), "{missing}");
    let nothing = checkout.error("no patch at all\n");
    assert!(nothing.contains("does not apply"), "{nothing}");
    assert_eq!(checkout.sources(), [before.directory.parent().unwrap()]);
}

#[test]
fn no_patch_leads_out_of_the_tree() {
    let checkout = Checkout::new();
    let outside = checkout.directory.path().join("outside");
    fs::write(&outside, FORK).unwrap();
    let absolute = outside.display().to_string();
    for path in ["../../../../outside", "kernel/../../../../../outside", &absolute] {
        let name = |side: &str| format!("{side}/{path}");
        let patch = GOOD.replace("a/kernel/fork.c", &name("a")).replace("b/kernel/fork.c", &name("b"));
        let error = checkout.error(&patch);
        assert!(error.contains("does not apply"), "{path}: {error}");
        assert_eq!(fs::read_to_string(&outside).unwrap(), FORK, "{path}");
    }
    // Nor through a symlink that the patch creates.
    let link = "--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+../../../..\n\\ No newline at end of file\n";
    let link = format!("diff --git a/link b/link\nnew file mode 120000\n{link}");
    let through = GOOD.replace("kernel/fork.c", "link/outside");
    let error = checkout.error(&format!("{link}{}", &through[through.find("---").unwrap()..]));
    assert!(error.contains("does not apply"), "{error}");
    assert_eq!(fs::read_to_string(&outside).unwrap(), FORK);
}

#[test]
fn what_cannot_be_patched_says_why() {
    let checkout = Checkout::new();
    let error = format!("{:#}", checkout.load(&["none"]).unwrap_err());
    assert!(error.contains("failed to open file") && error.contains("none.patch"), "{error}");
    checkout.write("large", &"x".repeat(PATCH_LIMIT_BYTES as usize + 1));
    let error = format!("{:#}", checkout.load(&["large"]).unwrap_err());
    assert!(error.contains("larger than 1048576 bytes"), "{error}");
    checkout.write("second", GOOD);
    let patches = checkout.load(&["second"]).unwrap();
    let tree = SourceSpec::Tree("linux".into());
    let error = format!("{:#}", obtain(&checkout.lab, &tree, &patches).unwrap_err());
    assert!(error.contains("`linux` is built in place"), "{error}");
}

#[test]
fn a_description_may_have_some_patches_of_plain_names() {
    let check = |source: &str, patches: &str, expect: Option<&str>| {
        let text = format!("summary: s\nfragments: [base]\nsource: {source}\npatches: {patches}");
        let found = check(&crate::yaml::from_str(&text).unwrap());
        match (found, expect) {
            (Ok(()), None) => {}
            (Err(error), Some(expect)) => assert!(error.contains(expect), "{text}: {error}"),
            (found, _) => panic!("{text}: {found:?}"),
        }
    };
    let debian = "{ debian: { suite: sid, package: x } }";
    check(debian, "[x]", None);
    check(debian, "[../x]", Some("`../x` is not a valid name"));
    check(debian, &format!("[{}]", ["x"; 65].join(", ")), Some("65 patches, expected at most 64"));
    check("{ tree: /linux }", "[x]", Some("source.tree is built in place; apply them there"));
    check("{ tree: /linux }", "[]", None);
    let image = "{ debian-image: { suite: sid, package: linux-image-arm64 } }";
    check(image, "[x]", Some("takes no `patches`"));
}
