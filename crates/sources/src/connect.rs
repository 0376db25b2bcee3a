//! Connects to the API of a cluster.
//!
//! The certificate of the API server is always verified. A kubeconfig that comes from a Secret may neither name files nor run commands, since
//! its author need not be an operator of this server.

use std::{io::ErrorKind, time::Duration};

use fairway_model::{KubernetesApi, SecretKey};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, Config,
    client::AuthError,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError, NamedAuthInfo, NamedCluster},
};

/// The reason why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// The kubeconfig cannot be used.
    #[error("kubeconfig {0}: {1}")]
    Kubeconfig(String, String),
    /// There are no credentials of a Pod.
    #[error("inCluster: {0}")]
    InCluster(String),
    /// The Secret cannot be read.
    #[error("secret {0}: {1}")]
    Secret(String, String),
    /// The client cannot be made.
    #[error("{0}")]
    Client(String),
    /// The process may not execute the program that has the credentials.
    #[error(
        "exec: cannot run {0:?}: Permission denied; if it is executable, list its folder and those of its libraries in \
         landlock: {{ execute: [/usr] }} and restart"
    )]
    Denied(String),
}

/// Returns why the kubeconfig file of an API cannot be used on this machine. Nothing is sent, and no program of it is run.
pub async fn kubeconfig_error(api: &KubernetesApi) -> Option<String> {
    api.kubeconfig.as_ref()?;
    of_file(api).await.err().map(|error| error.to_string())
}

async fn of_file(api: &KubernetesApi) -> Result<Config, ConnectError> {
    let (name, read) = match &api.kubeconfig {
        Some(path) => (path.display().to_string(), Kubeconfig::read_from(path)),
        None => ("of the environment".to_owned(), Kubeconfig::read()),
    };
    let kubeconfig = read.map_err(|error| ConnectError::Kubeconfig(name.clone(), unread(&error)))?;
    config(kubeconfig, api.context.as_ref(), &name).await
}

/// Returns a client of the API of a cluster. Nothing is sent to it yet.
pub(crate) async fn connect(api: &KubernetesApi) -> Result<Client, ConnectError> {
    let config = match api.in_cluster {
        true => Config::incluster().map_err(|error| ConnectError::InCluster(error.to_string()))?,
        false => of_file(api).await?,
    };
    let client = client(config)?;
    match &api.secret {
        None => Ok(client),
        Some(secret) => of_secret(client, secret).await,
    }
}

/// Returns a client with the kubeconfig of a Secret.
async fn of_secret(client: Client, SecretKey { namespace, name, key }: &SecretKey) -> Result<Client, ConnectError> {
    let shown = format!("{namespace}/{name}");
    let error = |what: String| ConnectError::Secret(shown.clone(), what);
    let secrets = Api::<Secret>::namespaced(client, namespace);
    let read = tokio::time::timeout(SECRET_MAX, secrets.get(name)).await;
    let secret = read.map_err(|_| error("no answer".to_owned()))?.map_err(|found| error(found.to_string()))?;
    let value = secret.data.unwrap_or_default().remove(key).ok_or_else(|| error(format!("it has no key {key}")))?;
    let text = String::from_utf8(value.0).map_err(|_| error(format!("{key} is no text")))?;
    // The text of the error could have a part of the Secret.
    let kubeconfig = Kubeconfig::from_yaml(&text).map_err(|_| error(format!("{key} is no kubeconfig")))?;
    if let Some(what) = foreign_rights(&kubeconfig) {
        return Err(error(format!("{key} {what}; a kubeconfig in a Secret has its credentials inline")));
    }
    self::client(config(kubeconfig, None, &shown).await?)
}

async fn config(kubeconfig: Kubeconfig, context: Option<&String>, name: &str) -> Result<Config, ConnectError> {
    let error = |what: String| ConnectError::Kubeconfig(name.to_owned(), what);
    let unverified = kubeconfig
        .clusters
        .iter()
        .find(|of| of.cluster.as_ref().is_some_and(|cluster| cluster.insecure_skip_tls_verify == Some(true)));
    if let Some(NamedCluster { name: cluster, .. }) = unverified {
        let what = "insecure-skip-tls-verify is not supported; give certificate-authority-data instead";
        return Err(error(format!("cluster {cluster}: {what}")));
    }
    let options = KubeConfigOptions { context: context.cloned(), ..KubeConfigOptions::default() };
    let read = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    read.map_err(|found| error(unread(&found)))
}

fn client(mut config: Config) -> Result<Client, ConnectError> {
    config.connect_timeout = Some(CONNECT_MAX);
    config.write_timeout = Some(CONNECT_MAX);
    if config.cluster_url.scheme_str() != Some("https") {
        return Err(ConnectError::Client(format!("{} is not an https URL", config.cluster_url)));
    }
    let program = config.auth_info.exec.as_ref().and_then(|exec| exec.command.clone());
    Client::try_from(config).map_err(|error| match (&error, program) {
        // The process is restricted to its files, and by default to no program.
        (kube::Error::Auth(AuthError::AuthExecStart(why)), Some(program))
            if why.kind() == ErrorKind::PermissionDenied =>
        {
            ConnectError::Denied(program)
        }
        _ => ConnectError::Client(error.to_string()),
    })
}

/// Returns what in a kubeconfig would use rights of this server: files and commands.
fn foreign_rights(kubeconfig: &Kubeconfig) -> Option<&'static str> {
    let of_user = |NamedAuthInfo { auth_info, .. }: &NamedAuthInfo| {
        let info = auth_info.as_ref()?;
        let is_file = info.token_file.is_some() || info.client_certificate.is_some() || info.client_key.is_some();
        match () {
            () if info.exec.is_some() => Some("runs a command (exec)"),
            () if info.auth_provider.is_some() => Some("has an auth-provider"),
            () if is_file => Some("names a file (tokenFile, client-certificate or client-key)"),
            () => None,
        }
    };
    let of_cluster = |NamedCluster { cluster, .. }: &NamedCluster| {
        let cluster = cluster.as_ref()?;
        match () {
            () if cluster.certificate_authority.is_some() => Some("names a file (certificate-authority)"),
            () if cluster.proxy_url.is_some() => Some("has a proxy-url"),
            () => None,
        }
    };
    kubeconfig.auth_infos.iter().find_map(of_user).or_else(|| kubeconfig.clusters.iter().find_map(of_cluster))
}

/// Returns the error of a kubeconfig. The process may be restricted to its files, which looks like missing rights of its user.
fn unread(error: &KubeconfigError) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    let is_denied = causes
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == ErrorKind::PermissionDenied);
    let hint = "; if the user may read it, list it or its folder in landlock: { read: […] } and restart";
    shown(error) + if is_denied { hint } else { "" }
}

/// Returns an error with its causes, on one line and short.
pub(crate) fn shown(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut parts: Vec<String> = causes.map(ToString::to_string).collect();
    // Most errors repeat their cause.
    parts.dedup_by(|next, last| last.contains(next.as_str()));
    let text = parts.join(": ").replace(['\n', '\r'], " ");
    text.chars().take(SHOWN_MAX).collect()
}

/// Maximum number of characters of an error.
const SHOWN_MAX: usize = 300;
/// Longest time for opening a connection.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Longest time for reading a Secret.
const SECRET_MAX: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(cluster: &str, user: &str) -> Kubeconfig {
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: \"https://192.0.2.1\", {cluster}}}}}]\nusers: [{{name: u, \
             user: {{{user}}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        );
        Kubeconfig::from_yaml(&text).unwrap()
    }

    #[test]
    fn kubeconfig_of_a_secret_uses_no_files_and_no_commands() {
        assert_eq!(foreign_rights(&kubeconfig("certificate-authority-data: eA==", "token: t")), None);
        let table = [
            ("certificate-authority: /etc/shadow", "token: t"),
            ("proxy-url: \"http://192.0.2.2\"", "token: t"),
            ("", "tokenFile: /etc/shadow"),
            ("", "client-certificate: /a, client-key-data: eA=="),
            ("", "client-certificate-data: eA==, client-key: /a"),
            ("", "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}"),
            ("", "auth-provider: {name: gcp}"),
        ];
        for (cluster, user) in table {
            assert!(foreign_rights(&kubeconfig(cluster, user)).is_some(), "{cluster} {user}");
        }
    }

    #[tokio::test]
    async fn certificate_of_the_api_server_is_always_verified() {
        let unverified = kubeconfig("insecure-skip-tls-verify: true", "token: t");
        let error = config(unverified, None, "k").await.unwrap_err().to_string();
        assert!(error.contains("cluster c: insecure-skip-tls-verify is not supported"), "{error}");
        let missing = "nowhere".to_owned();
        let error = config(kubeconfig("", "token: t"), Some(&missing), "k").await.unwrap_err().to_string();
        assert!(error.contains("nowhere"), "{error}");
    }

    #[tokio::test]
    async fn program_that_may_not_be_executed_is_an_error_with_a_hint() {
        // A file without the right to be executed is denied like one that Landlock denies.
        let exec = |command: &str| format!("exec: {{apiVersion: client.authentication.k8s.io/v1, command: {command}}}");
        let error = |command: &str| {
            let of = kubeconfig("certificate-authority-data: eA==", &exec(command));
            async move { client(config(of, None, "k").await.unwrap()).map(|_| ()).unwrap_err().to_string() }
        };
        let denied = error("/etc/passwd").await;
        assert!(denied.contains("\"/etc/passwd\"") && denied.contains("landlock: { execute: ["), "{denied}");
        let missing = error("/no/such/program").await;
        assert!(!missing.contains("landlock"), "{missing}");
    }
}
