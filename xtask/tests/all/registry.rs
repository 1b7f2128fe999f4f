//! Kernels in a registry, the one that Debian packages: pushed, pulled by a cache that has nothing else, interrupted,
//! damaged, refused to strangers.

use crate::{
    patience::wait_for,
    stage::{cache, check, kill_hard, run, said, scenarios, scratch, share_host, xtask},
};
use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// What a kernel in a registry must contain, or else be built from it.
const OWN: [&str; 7] = ["apt", "builds", "modules", "selftests", "snapshots", "sources", "vmlinux"];

const TEXT: &str = "
summary: vmlinux has the code that runs
steps: [ { text: { at: vfs_write }, is: unchanged } ]
";

const MODULE: &str = "
summary: a module is built against the pulled headers
steps: [ { load: deaths }, { unload: deaths } ]
may_leave: [taint]
";

struct Registry {
    server: Child,
    port: u16,
    storage: PathBuf,
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

/// What makes a registry one that is reached by HTTPS with a password: a certificate for 0.0.0.0, an address of this
/// host that is not taken for it, and a user.
const SECURE: &str = r#"
openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=ca -days 2
openssl req -newkey rsa:2048 -nodes -keyout key.pem -out request.pem -subj /CN=registry
echo subjectAltName=IP:0.0.0.0 > names
openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -days 2 -out cert.pem
perl -e 'print "user:", crypt("secret", q($2b$05$abcdefghijklmnopqrstuu)), "\n"' > htpasswd
"#;

impl Registry {
    fn start(directory: &Path) -> Registry {
        Registry::with(directory, "", "")
    }

    fn secure(directory: &Path) -> Registry {
        let made = Command::new("sh").args(["-ec", SECURE]).current_dir(directory).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let directory_text = directory.display();
        let tls =
            format!(", tls: {{ certificate: {directory_text}/cert.pem, key: {directory_text}/key.pem }}");
        let auth = format!("auth: {{ htpasswd: {{ realm: lab, path: {directory_text}/htpasswd }} }}\n");
        Registry::with(directory, &tls, &auth)
    }

    fn with(directory: &Path, tls: &str, auth: &str) -> Registry {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (storage, config) = (directory.join("storage"), directory.join("registry.yml"));
        let text = format!(
            "version: 0.1\nlog: {{ level: error }}\nstorage: {{ filesystem: {{ rootdirectory: {} }} }}\n\
             http: {{ addr: 127.0.0.1:{port}{tls} }}\n{auth}",
            storage.display()
        );
        fs::write(&config, text).unwrap();
        let mut server = Command::new("docker-registry");
        server.arg("serve").arg(config).stdout(Stdio::null()).stderr(Stdio::null());
        let server = server.spawn().unwrap();
        wait_for("registry", || TcpStream::connect(("127.0.0.1", port)).ok());
        Registry { server, port, storage: storage.join("docker/registry/v2") }
    }

    fn repository(&self) -> String {
        format!("oci://127.0.0.1:{}/lab/kernels", self.port)
    }

    fn transfer(&self, verb: &str) -> Command {
        let mut transfer = xtask();
        transfer.args(["lab", "cache", verb, &self.repository(), "--kernel", "6.12"]);
        transfer
    }

    fn in_repository(&self, name: &str) -> Vec<PathBuf> {
        entries(&self.storage.join("repositories/lab/kernels").join(name))
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Makes a command one of a machine that reaches nothing but this host.
fn isolated<'a>(command: &'a mut Command, cache: &Path) -> &'a mut Command {
    command.env("FTRACE_LAB_CACHE", cache).env("FTRACE_LAB_DEBIAN_MIRROR", "file:///no/such/mirror")
}

#[test]
fn a_kernel_is_pulled_by_a_machine_that_cannot_build_it() {
    let _host = share_host();
    let directory = scratch();
    let registry = Registry::start(directory.path());
    let empty = cache(directory.path(), &OWN, true);
    let absent = format!("`{}` does not have the kernel `6.12`", registry.repository());
    check(isolated(&mut registry.transfer("pull"), &empty), 3, &[&absent]);

    let output = check(&mut registry.transfer("push"), 0, &["6.12: ", "@sha256:"]);
    let pushed = said(&output);
    let megabytes =
        pushed.lines().find_map(|line| line.strip_prefix("6.12: ")?.split(' ').next()?.parse().ok());
    assert!(megabytes.is_some_and(|megabytes: u64| (20..=120).contains(&megabytes)), "{pushed}");

    let own = scenarios(directory.path(), [("text", TEXT), ("module", MODULE)]);
    let results = directory.path().join("results");
    let mut run = run(&results, &own);
    run.args(["probes/eventfd-write", "selftests/breakpoints"]);
    run.env("FTRACE_LAB_REGISTRY", registry.repository());
    let output =
        check(isolated(&mut run, &empty), 0, &["passed       text on 6.12", "passed       module on 6.12"]);
    assert!(!said(&output).contains("building the kernel"), "{}", said(&output));
    let builds = entries(&empty.join("builds"));
    let [build] = &builds[..] else { panic!("{builds:?}") };
    assert!(build.join("pulled.json").exists() && !build.join("make.log").exists());
    assert!(entries(&empty.join("sources")).iter().all(|entry| entry.is_file()), "no source was fetched");

    // Later, not even the registry is needed.
    drop(registry);
    let mut again = xtask();
    check(isolated(again.args(["lab", "build", "6.12"]), &empty), 0, &["image"]);
}

#[test]
fn a_killed_push_leaves_no_tag_and_a_damaged_layer_is_refused_by_name() {
    let _host = share_host();
    let directory = scratch();
    let registry = Registry::start(directory.path());
    let mut push = registry.transfer("push").spawn().unwrap();
    wait_for("upload", || (!registry.in_repository("_uploads").is_empty()).then_some(()));
    kill_hard(&mut push);
    assert!(registry.in_repository("_manifests/tags").is_empty());
    let empty = cache(directory.path(), &OWN, true);
    check(isolated(&mut registry.transfer("pull"), &empty), 3, &["does not have the kernel `6.12`"]);

    check(&mut registry.transfer("push"), 0, &["@sha256:"]);
    let tags = registry.in_repository("_manifests/tags");
    assert_eq!(tags.len(), 3, "{tags:?}");
    let blobs = entries(&registry.storage.join("blobs/sha256"));
    let blobs = blobs.iter().flat_map(|prefix| entries(prefix)).map(|blob| blob.join("data"));
    let layer = blobs.max_by_key(|blob| fs::metadata(blob).unwrap().len()).unwrap();
    let mut bytes = fs::read(&layer).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&layer, bytes).unwrap();
    let name = layer.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let refused = format!("cannot pull `sha256:{name}` from `{}`: it is damaged", registry.repository());
    check(isolated(&mut registry.transfer("pull"), &empty), 3, &[&refused]);
    assert!(entries(&empty.join("builds")).is_empty());
}

#[test]
fn a_registry_has_a_certificate_and_knows_those_who_logged_in_with_docker() {
    let _host = share_host();
    let directory = scratch();
    let registry = Registry::secure(directory.path());
    let empty = cache(directory.path(), &OWN, true);
    let host = format!("0.0.0.0:{}", registry.port);
    let pull = || {
        let mut pull = xtask();
        pull.args(["lab", "cache", "pull", &format!("oci://{host}/lab/kernels"), "--kernel", "6.12"]);
        pull.env("DOCKER_CONFIG", directory.path());
        pull
    };
    let trusting = || {
        let mut pull = pull();
        pull.env("SSL_CERT_FILE", directory.path().join("ca.pem"));
        pull
    };
    check(isolated(&mut pull(), &empty), 3, &["invalid peer certificate"]);
    let login = format!("log in with `docker login {host}`");
    check(isolated(&mut trusting(), &empty), 3, &[&login]);
    let log_in = |word: &str| {
        // BASE64 of `user:` and the word.
        let config = format!("{{\"auths\":{{\"{host}\":{{\"auth\":\"{word}\"}}}}}}");
        fs::write(directory.path().join("config.json"), config).unwrap();
    };
    log_in("dXNlcjp3cm9uZw==");
    check(isolated(&mut trusting(), &empty), 3, &[&login]);
    log_in("dXNlcjpzZWNyZXQ=");
    check(isolated(&mut trusting(), &empty), 3, &["does not have the kernel `6.12`"]);
}
