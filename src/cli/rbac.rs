//! `fairway rbac`: prints the rights that a configuration needs in a Kubernetes cluster.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, ValueHint};
use fairway_config::{Destination, ObjectPlace, PublishTo, load};
use fairway_model::{Cluster, ClusterName};
use fairway_providers::dnsendpoint::Objects;
use fairway_sources::ServiceAccount;

use super::{configured, output::Out, values, variable};
use crate::daemon::StartError;

/// Print the rights that the server needs in a Kubernetes cluster, as manifests.
///
/// They are exactly those that the configuration uses: a ClusterRole for reading, with `events: true` also for creating Events, and a Role for
/// each publisher of DNSEndpoint objects. Each is bound to a ServiceAccount. Nothing is called.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway rbac --config /etc/fairway/fairway.yaml eu1 | kubectl --context eu1 apply -f -
  fairway rbac --config /etc/fairway/fairway.yaml eu1 --secret | kubectl --context hub apply -f -")]
pub(super) struct RbacArgs {
    /// A cluster of the configuration with `kubernetes`.
    #[arg(value_name = "CLUSTER", value_parser = values::cluster)]
    cluster: ClusterName,

    /// Configuration file, or a folder whose *.yaml files are read together. Environment: FAIRWAY_CONFIG.
    #[arg(long, short, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    config: Option<PathBuf>,

    /// ServiceAccount that gets the rights.
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "fairway/fairway")]
    service_account: ServiceAccount,

    /// Print the right to read the Secret of `secretRef`, for the cluster that has it.
    #[arg(long)]
    secret: bool,
}

/// Prints the manifests.
pub(super) fn rbac(out: Out, args: &RbacArgs) -> anyhow::Result<()> {
    let RbacArgs { cluster: name, service_account, .. } = args;
    let loaded = load(&configured(args.config.as_ref(), "give the configuration with --config")?, &variable);
    let loaded = loaded.map_err(StartError::Config)?;
    let api = match loaded.desired.clusters.get(name) {
        Some(Cluster { kubernetes: Some(api), .. }) => api,
        Some(_) => bail!("cluster {name} has no Kubernetes API; add kubernetes to it"),
        None => bail!("cluster {name} is not declared; add it to clusters, with kubernetes"),
    };
    let manifests = match (&api.secret, args.secret) {
        (Some(secret), true) => service_account.right_of_secret(secret),
        (None, true) => bail!("cluster {name} has no secretRef; omit --secret"),
        (secret, false) => {
            let publishers: Vec<Objects> = loaded.settings.publish.iter().filter_map(|to| objects(to, name)).collect();
            let comment = secret.as_ref().map_or("", |_| SECRET_COMMENT);
            format!("{comment}{}", service_account.rights(api, &publishers))
        }
    };
    Ok(out.print(&manifests)?)
}

/// Returns the objects that a publisher writes to a cluster, if it does.
fn objects(PublishTo { name, destination, .. }: &PublishTo, cluster: &ClusterName) -> Option<Objects> {
    match destination {
        Destination::DnsEndpoints { place: ObjectPlace::Cluster(of, _), namespace, weights } if of == cluster => {
            Some(Objects { name: name.clone(), namespace: namespace.clone(), weights: *weights })
        }
        _ => None,
    }
}

/// Comment for clusters whose kubeconfig is in a Secret.
const SECRET_COMMENT: &str =
    "# The kubeconfig is in a Secret of another cluster: apply the output with --secret there.\n";
