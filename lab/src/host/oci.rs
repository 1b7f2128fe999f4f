//! Registries of OCI artifacts: something with a description, under a tag.
//!
//! A tag is set when everything below it is there, so a push that dies leaves none. What is pulled has the digest that
//! its manifest says. Credentials are those that docker and podman keep; a registry on this host is asked by HTTP.

use super::interrupt;
use crate::host::outage::{NETWORK, Outage};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use docker_credential::{DockerCredential, get_credential, get_podman_credential};
use oci_client::{
    Client, Reference,
    client::{ClientConfig, ClientProtocol, Config, ImageLayer},
    errors::{OciDistributionError, OciErrorCode},
    manifest::{OciDescriptor, OciImageManifest},
    secrets::RegistryAuth,
};
use std::{
    fmt,
    future::Future,
    io,
    pin::{Pin, pin},
    str::FromStr,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{io::AsyncWrite, runtime, time::timeout};

/// How a repository is written.
const SCHEME: &str = "oci://";

/// The most bytes of a description.
const DESCRIPTION_MAX: usize = 1 << 20;

/// How often an interrupt is looked for.
const LOOK: Duration = Duration::from_millis(200);

/// A repository, `oci://REGISTRY/NAME`, or one artifact in it, `oci://REGISTRY/NAME@sha256:DIGEST`.
#[derive(Clone, Debug)]
pub struct Repository {
    reference: Reference,
}

/// What is stored under a tag.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// Its kind, a media type.
    pub kind: &'static str,
    /// Its description, in JSON.
    pub description: Vec<u8>,
    /// Its content.
    pub content: Vec<u8>,
}

/// An artifact that was found, without its content.
#[derive(Clone, Debug)]
pub struct Found {
    /// The digest of its manifest.
    pub digest: String,
    /// Its description, in JSON.
    pub description: String,
    layer: OciDescriptor,
}

impl FromStr for Repository {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Repository> {
        let wrong = || format!("`{text}` is not a repository, expected {SCHEME}REGISTRY/NAME");
        let name = text.strip_prefix(SCHEME).with_context(wrong)?;
        // Without a registry, docker's is meant, which nobody wants here.
        let registry = name.split_once('/').map(|(registry, _)| registry).unwrap_or_default();
        ensure!(registry.contains(['.', ':']) || registry == "localhost", wrong());
        let reference: Reference = name.parse().with_context(wrong)?;
        ensure!(
            !name.rsplit('/').next().unwrap_or_default().split('@').next().unwrap_or_default().contains(':'),
            "`{text}` has a tag; the lab's keys are the tags"
        );
        Ok(Repository { reference })
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{SCHEME}{}/{}", self.reference.registry(), self.reference.repository())?;
        self.reference.digest().map_or(Ok(()), |digest| write!(out, "@{digest}"))
    }
}

impl Repository {
    /// Stores an artifact under `tags`, and returns its digest.
    pub fn push(&self, tags: &[String], artifact: Artifact) -> Result<String> {
        ensure!(self.reference.digest().is_none(), "cannot push to a digest: `{self}`");
        let Artifact { kind, description, content } = artifact;
        let config = Config::new(description, "application/vnd.ftrace-lab.description.v1+json".into(), None);
        let layer = ImageLayer::new(content, kind.to_owned(), None);
        let layers = [layer];
        let mut manifest = OciImageManifest::build(&layers, &config, None);
        manifest.artifact_type = Some(kind.to_owned());
        let client = self.client();
        let pushing = async {
            let [first, others @ ..] = tags else { bail!("no tags") };
            let reference = self.tagged(first);
            client.push(&reference, &layers, config, &self.auth(), Some(manifest.clone())).await?;
            for tag in others {
                client.push_manifest(&self.tagged(tag), &manifest.clone().into()).await?;
            }
            Ok(client.fetch_manifest_digest(&reference, &self.auth()).await?)
        };
        finished(pushing).map_err(|error| {
            let next = self.login(&error).map_or_else(String::new, |login| format!(": {login}"));
            error.context(format!("cannot push to `{self}`{next}"))
        })
    }

    /// Finds the artifact under a tag, or the one whose digest the repository names; `None` if there is none.
    pub fn find(&self, tag: &str) -> Result<Option<Found>> {
        let reference =
            if self.reference.digest().is_some() { self.reference.clone() } else { self.tagged(tag) };
        let client = self.client();
        let looking = async { Ok(client.pull_manifest_and_config(&reference, &self.auth()).await) };
        let (manifest, digest, description) = match finished(looking)? {
            Ok(found) => found,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => {
                let error = anyhow!(error);
                let next = self.login(&error).unwrap_or_else(|| NETWORK.to_owned());
                return Err(error.context(Outage(format!("cannot look into `{self}`: {next}"))));
            }
        };
        ensure!(description.len() <= DESCRIPTION_MAX, "the description of `{reference}` is too long");
        let [layer] = &manifest.layers[..] else {
            bail!("`{reference}` has {} layers, expected one", manifest.layers.len())
        };
        Ok(Some(Found { digest, description, layer: layer.clone() }))
    }

    /// Returns the content of an artifact, of at most `max_bytes`.
    pub fn content(&self, found: &Found, max_bytes: usize) -> Result<Vec<u8>> {
        let client = self.client();
        let mut content = Capped { bytes: Vec::new(), max: max_bytes };
        let pulling = async {
            client.auth(&self.reference, &self.auth(), oci_client::RegistryOperation::Pull).await?;
            Ok(client.pull_blob(&self.reference, &found.layer, &mut content).await?)
        };
        finished(pulling).with_context(|| {
            format!("cannot pull `{}` from `{self}`: it is damaged, or incomplete", found.layer.digest)
        })?;
        Ok(content.bytes)
    }

    /// Returns what to do if the registry does not know who asks.
    fn login(&self, error: &anyhow::Error) -> Option<String> {
        let refused = matches!(
            error.downcast_ref()?,
            OciDistributionError::UnauthorizedError { .. } | OciDistributionError::AuthenticationFailure(_)
        );
        let host = self.reference.registry();
        refused.then(|| format!("log in with `docker login {host}` or `podman login {host}`, then try again"))
    }

    fn tagged(&self, tag: &str) -> Reference {
        let (registry, name) = (self.reference.registry(), self.reference.repository());
        Reference::with_tag(registry.to_owned(), name.to_owned(), tag.to_owned())
    }

    fn client(&self) -> Client {
        let host = self.reference.registry();
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let is_here = matches!(name, "localhost" | "[::1]") || name.starts_with("127.");
        let protocol = if is_here { ClientProtocol::Http } else { ClientProtocol::Https };
        // It fails if it is the default already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Client::new(ClientConfig { protocol, ..ClientConfig::default() })
    }

    fn auth(&self) -> RegistryAuth {
        let host = self.reference.registry();
        match get_credential(host).or_else(|_| get_podman_credential(host)) {
            Ok(DockerCredential::UsernamePassword(user, password)) => RegistryAuth::Basic(user, password),
            Ok(DockerCredential::IdentityToken(token)) => RegistryAuth::Bearer(token),
            Err(_) => RegistryAuth::Anonymous,
        }
    }
}

fn is_absent(error: &OciDistributionError) -> bool {
    match error {
        OciDistributionError::ImageManifestNotFoundError(_) => true,
        OciDistributionError::RegistryError { envelope, .. } => envelope.errors.iter().all(|error| {
            matches!(
                error.code,
                OciErrorCode::ManifestUnknown | OciErrorCode::NameUnknown | OciErrorCode::NotFound
            )
        }),
        _ => false,
    }
}

/// Returns the output of `future`, unless the lab is interrupted before.
fn finished<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut future = pin!(future);
        loop {
            match timeout(LOOK, &mut future).await {
                Ok(output) => return output,
                Err(_) => interrupt::check()?,
            }
        }
    })
}

/// Collects bytes up to a limit.
struct Capped {
    bytes: Vec<u8>,
    max: usize,
}

impl AsyncWrite for Capped {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if self.bytes.len() + data.len() > self.max {
            return Poll::Ready(Err(io::Error::other(format!("larger than {} MiB", self.max >> 20))));
        }
        self.bytes.extend_from_slice(data);
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_named_with_its_registry() {
        let check = |text: &str, expect: Option<&str>| {
            let parsed = text.parse::<Repository>().ok().map(|repository| repository.to_string());
            assert_eq!(parsed.as_deref(), expect, "{text}");
        };
        check("oci://127.0.0.1:5000/kernels", Some("oci://127.0.0.1:5000/kernels"));
        check("oci://registry.example/team/kernels", Some("oci://registry.example/team/kernels"));
        let pinned = format!("oci://registry.example/kernels@sha256:{}", "0".repeat(64));
        check(&pinned, Some(&pinned));
        for wrong in [
            "",
            "kernels",
            "https://registry.example/kernels",
            "oci://kernels",
            "oci://team/kernels",
            "oci://registry.example/kernels:6.12",
        ] {
            check(wrong, None);
        }
    }
}
