//! Descriptions of kernels: valid ones, and the errors of the others.

use super::*;

const SOURCE: &str = "summary: s\nsource:\n  ";

fn parse(source: &str) -> Result<KernelSpec, String> {
    let fragments = if source.contains("fragments:") { "" } else { "\nfragments: [base]" };
    KernelSpec::parse("x", &format!("{SOURCE}{source}{fragments}"))
}

#[test]
fn sources() {
    let check = |text: &str, expect: SourceSpec| assert_eq!(parse(text).unwrap().source, expect);
    check(
        "debian: { suite: sid, package: linux-source-7.2 }",
        SourceSpec::Debian { suite: "sid".into(), package: "linux-source-7.2".into(), version: None },
    );
    check(
        "debian: { suite: trixie, package: linux-source-6.12, version: 6.12.94-1 }",
        SourceSpec::Debian {
            suite: "trixie".into(),
            package: "linux-source-6.12".into(),
            version: Some("6.12.94-1".parse().unwrap()),
        },
    );
    check(
        "debian-image: { suite: trixie, package: linux-image-arm64 }\nfragments: []",
        SourceSpec::DebianImage {
            suite: "trixie".into(),
            package: "linux-image-arm64".into(),
            version: None,
        },
    );
    check("tree: ../linux", SourceSpec::Tree("../linux".into()));
    let sha256 = "ab".repeat(32);
    check(
        &format!("tarball: {{ url: 'file:///l.tar.xz', sha256: {sha256} }}"),
        SourceSpec::Tarball { url: "file:///l.tar.xz".into(), sha256 },
    );
    check(
        "git: { url: 'https://host.test/linux', ref: v7.3 }",
        SourceSpec::Git { url: "https://host.test/linux".into(), reference: "v7.3".into() },
    );
}

#[test]
fn defaults_are_the_lean_machine() {
    let spec = parse("tree: /linux").unwrap();
    assert_eq!(spec.machine, MachineSpec::default());
    assert_eq!((spec.machine.memory.to_string(), spec.cmdline.as_str()), ("512M".into(), ""));
    let spec = parse("tree: /linux\nmachine: { smp: 4, memory: 2G }").unwrap();
    assert_eq!((spec.machine.smp, spec.machine.memory.bytes), (4, 2 << 30));
    assert_eq!(spec.machine.cpu, MachineSpec::default().cpu);
}

#[test]
fn what_is_wrong_is_named() {
    let check = |source: &str, expect: &str| {
        let error = parse(source).unwrap_err();
        assert!(error.contains(expect), "{source}: {error}");
    };
    check("tree: /linux\nfragment: [x]", "unknown field `fragment`");
    check(
        "debian-image: { suite: sid, package: linux-image-arm64 }",
        "is not built, so it takes no `fragments`",
    );
    check("debian-image: { suite: sid, package: '../x' }\nfragments: []", "`../x` is not a package such as");
    check("svn: { url: x }", "unknown variant `svn`");
    check("debian: { suite: sid, packages: x }", "unknown field `packages`");
    check("debian: { suite: sid, package: x, version: '6.12 x' }", "expected one such as `6.12.94-1`");
    check("debian: { suite: sid, package: x, version: -6.12 }", "is not a Debian package version");
    check("tree: /linux\nmachine: { smp: 0 }", "expected 1 to 64");
    check("tree: /linux\nmachine: { memory: 512 }", "expected one such as `512M`");
    check("tree: /linux\nmachine: { memory: 1M }", "not between 64M");
    check("tarball: { url: 'https://x', sha256: beef }", "expected 64 lower-case hexadecimal digits");
    check("tarball: { url: 'x.tar', sha256: beef }", "expected an https, http or file URL");
    check("git: { url: '--upload-pack=x', ref: v1 }", "take for an option");
    let error = KernelSpec::parse("x", "summary: s\nfragments: [../x]\nsource: { tree: /l }").unwrap_err();
    assert!(error.contains("`../x` is not a valid name"), "{error}");
}
