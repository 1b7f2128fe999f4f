//! Reads the host's apt sources for the URI of Debian's main archive and its keyring. Supports both
//! formats of `sources.list(5)`: one-line `.list` and deb822 `.sources`.

use anyhow::{Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Sets a mirror, if the host is not Debian or to override the host's mirror.
pub const MIRROR_VARIABLE: &str = "FTRACE_LAB_DEBIAN_MIRROR";

/// Paths of Debian's own keyring, on Debian and on derivatives with the package
/// debian-archive-keyring.
const KEYRINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp"];

/// Suites that only Debian's main archive serves. Third parties also use some of the names, so the
/// keyring and the path of a candidate count as well.
const SUITES: [&str; 14] = [
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
    "sid",
    "stable",
    "oldstable",
    "oldoldstable",
    "testing",
    "unstable",
    "experimental",
    "rc-buggy",
    "buster",
];

/// A Debian archive and the keyring that signs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    /// Its URI, without a suite.
    pub uri: String,
    /// The keyring; `None` for apt's trusted keys.
    pub keyring: Option<PathBuf>,
}

impl Archive {
    /// Returns the URI of the archive that has `suite`: security updates have a separate archive
    /// next to the main one.
    pub fn uri_of(&self, suite: &str) -> String {
        let security = if suite.ends_with("-security") { "-security" } else { "" };
        format!("{}{security}", self.uri)
    }

    /// Returns the archive named by the environment, otherwise that of the host's own packages.
    pub fn of_host() -> Result<Archive> {
        let default_keyring = KEYRINGS.iter().map(PathBuf::from).find(|path| path.is_file());
        if let Some(uri) = std::env::var_os(MIRROR_VARIABLE).filter(|uri| !uri.is_empty()) {
            let uri = uri.to_string_lossy().trim_end_matches('/').to_owned();
            if !uri.contains("://") && !uri.starts_with("file:") || uri.contains(char::is_whitespace) {
                bail!("`{MIRROR_VARIABLE}` is `{uri}`, expected the URI of a Debian archive");
            }
            if default_keyring.is_none() {
                bail!(
                    "no keyring to check `{uri}` with: install the package `debian-archive-keyring`, \
                     which has `{}`",
                    KEYRINGS[0]
                );
            }
            return Ok(Archive { uri, keyring: default_keyring });
        }
        let entries = host_entries(Path::new("/etc/apt"));
        match main_archive(&entries) {
            Some(archive) => Ok(Archive { keyring: archive.keyring.or(default_keyring), ..archive }),
            None => bail!(
                "no Debian archive in the apt sources below `/etc/apt`: set `{MIRROR_VARIABLE}` to the URI \
                 of one"
            ),
        }
    }
}

/// One archive of an apt source, with its suites and components.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    uri: String,
    suites: Vec<String>,
    components: Vec<String>,
    signed_by: Option<PathBuf>,
}

fn host_entries(etc: &Path) -> Vec<Entry> {
    let mut files = vec![etc.join("sources.list")];
    if let Ok(directory) = fs::read_dir(etc.join("sources.list.d")) {
        let mut parts: Vec<PathBuf> = directory.flatten().map(|entry| entry.path()).collect();
        parts.sort();
        files.extend(parts);
    }
    let mut entries = Vec::new();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("list") => entries.extend(one_line_entries(&text)),
            Some("sources") => entries.extend(deb822_entries(&text)),
            _ => {}
        }
    }
    entries
}

/// Returns the entry that is most likely Debian's main archive: one with a Debian suite and the
/// component main, preferably with Debian's keyring and a path that ends in `debian`.
fn main_archive(entries: &[Entry]) -> Option<Archive> {
    let plain = |suite: &str| {
        let name = suite.trim_end_matches("-updates").trim_end_matches("-backports");
        SUITES.contains(&name)
    };
    let certainty = |entry: &Entry| {
        let keyring = match &entry.signed_by {
            Some(path) if path.to_string_lossy().contains("debian-archive-keyring") => 2,
            Some(_) => 0,
            None => 1,
        };
        (keyring, u8::from(entry.uri.trim_end_matches('/').ends_with("/debian")))
    };
    let mut best: Option<&Entry> = None;
    for entry in entries {
        let served = entry.suites.iter().any(|suite| plain(suite));
        if !served || !entry.components.iter().any(|c| c == "main") || entry.uri.starts_with("cdrom:") {
            continue;
        }
        if best.is_none_or(|best| certainty(entry) > certainty(best)) {
            best = Some(entry);
        }
    }
    let entry = best?;
    Some(Archive { uri: entry.uri.trim_end_matches('/').to_owned(), keyring: entry.signed_by.clone() })
}

/// Parses lines of the form `deb [signed-by=KEYRING] URI SUITE COMPONENT…`.
fn one_line_entries(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let Some(rest) = line.strip_prefix("deb").filter(|rest| rest.starts_with([' ', '\t', '['])) else {
            continue;
        };
        let rest = rest.trim_start();
        let (options, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((options, rest)) => (options, rest),
            None => ("", rest),
        };
        let mut words = rest.split_whitespace().map(str::to_owned);
        let (Some(uri), Some(suite)) = (words.next(), words.next()) else { continue };
        let signed_by = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
        entries.push(Entry {
            uri,
            suites: vec![suite],
            components: words.collect(),
            signed_by: signed_by.and_then(keyring_path),
        });
    }
    entries
}

/// Parses stanzas of `Field: value` lines; lines that start with a blank continue a field.
fn deb822_entries(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for stanza in lines.split(|line| line.trim().is_empty()) {
        let field = |name: &str| field(stanza, name);
        if field("Enabled").is_some_and(|value| matches!(value.trim(), "no" | "false" | "off" | "0")) {
            continue;
        }
        let words = |name| -> Vec<String> {
            field(name).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
        };
        if !words("Types").iter().any(|kind| kind == "deb") {
            continue;
        }
        let signed_by = field("Signed-By").as_deref().map(str::trim).and_then(keyring_path);
        for uri in words("URIs") {
            entries.push(Entry {
                uri,
                suites: words("Suites"),
                components: words("Components"),
                signed_by: signed_by.clone(),
            });
        }
    }
    entries
}

fn field(stanza: &[&str], name: &str) -> Option<String> {
    let starts = |line: &&str| {
        line.split_once(':').is_some_and(|(key, _)| key.eq_ignore_ascii_case(name) && !key.starts_with(' '))
    };
    let at = stanza.iter().position(starts)?;
    let mut value = stanza[at].split_once(':').map(|(_, value)| value.to_owned())?;
    for line in &stanza[at + 1..] {
        if !line.starts_with([' ', '\t']) {
            break;
        }
        value.push('\n');
        value.push_str(line);
    }
    Some(value)
}

/// Returns the keyring of a `Signed-By`; for an embedded key or a fingerprint, apt's own keys are
/// used.
fn keyring_path(value: &str) -> Option<PathBuf> {
    value.starts_with('/').then(|| PathBuf::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(entries: Vec<Entry>, expect: Option<(&str, Option<&str>)>) {
        let found = main_archive(&entries);
        let found =
            found.as_ref().map(|found| (found.uri.as_str(), found.keyring.as_ref().and_then(|k| k.to_str())));
        assert_eq!(found, expect, "{entries:#?}");
    }

    #[test]
    fn one_line_sources() {
        check(
            one_line_entries("# a comment\ndeb http://mirror.test/debian bookworm main contrib # why\n"),
            Some(("http://mirror.test/debian", None)),
        );
        check(
            one_line_entries(
                "deb-src http://mirror.test/debian bookworm main\n\
                 deb http://mirror.test/debian-security bookworm-security main\n\
                 deb [arch=amd64 signed-by=/k.gpg] http://other.test/debian/ trixie-backports main",
            ),
            Some(("http://other.test/debian", Some("/k.gpg"))),
        );
    }

    #[test]
    fn deb822_sources() {
        let debian = "Types: deb deb-src\n# a comment inside\nURIs: http://mirror.test/debian\n\
                      Suites: bookworm bookworm-updates\nComponents: main\n\
                      Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n";
        let expect =
            Some(("http://mirror.test/debian", Some("/usr/share/keyrings/debian-archive-keyring.gpg")));
        check(deb822_entries(debian), expect);
        let security = "Types: deb\nURIs: http://mirror.test/debian-security\n\
                        Suites: bookworm-security\nComponents: main\n";
        check(deb822_entries(&format!("{security}\n{debian}")), expect);
        check(deb822_entries(&format!("{debian}Enabled: no\n")), None);
    }

    #[test]
    fn a_third_party_with_debians_suite_names_is_not_debian() {
        check(
            one_line_entries(
                "deb [signed-by=/usr/share/keyrings/vendor.gpg] https://vendor.test/apt bookworm main\n\
                 deb http://mirror.test/debian bookworm main",
            ),
            Some(("http://mirror.test/debian", None)),
        );
        let keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
        check(
            one_line_entries(&format!(
                "deb [signed-by=/vendor.gpg] https://vendor.test/debian bookworm main\n\
                 deb [signed-by={keyring}] http://mirror.test/pub bookworm main"
            )),
            Some(("http://mirror.test/pub", Some(keyring))),
        );
        check(one_line_entries("deb https://vendor.test/linux/debian bookworm stable"), None);
        check(one_line_entries("deb http://archive.test/ubuntu noble main"), None);
    }

    #[test]
    fn an_embedded_key_is_left_to_apt() {
        let text = "Types: deb\nURIs: http://mirror.test/debian\nSuites: sid\nComponents: main\nSigned-By:\n \
                    -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n";
        check(deb822_entries(text), Some(("http://mirror.test/debian", None)));
    }
}
