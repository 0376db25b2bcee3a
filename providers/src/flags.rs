//! The flags of an external-dns that carries records on to a provider which only it speaks, Amazon, Azure, Google, …: Fairway writes
//! DNSEndpoint objects and that external-dns reads them (`--source=crd`), or it is a webhook (`--webhook-server`) that Fairway speaks to.
//!
//! Flags are those of ExternalDNS 0.21. What is secret is never a flag, since command lines can be read by everybody on a machine: it comes
//! as an environment variable, which external-dns takes in place of any flag (`EXTERNAL_DNS_` and its name in capitals).

use std::collections::BTreeMap;

/// A provider as it is declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// The provider, as ExternalDNS calls it: `aws`, `azure`, `google`, ….
    pub provider: String,
    /// Flags of the provider, without their dashes, and their values; of flags that may be repeated, values with commas between.
    pub parameters: BTreeMap<String, String>,
    /// Zones that it may write to; empty: all that it can.
    pub zones: Vec<String>,
    /// Who it is in the registry there.
    pub owner: String,
    /// How records come to it.
    pub form: Form,
}

/// How records come to an external-dns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// It reads objects, and does everything else itself.
    #[default]
    Objects,
    /// Fairway plans, keeps the registry, and tells it what to change; from the same machine, since it listens on loopback alone.
    Webhook,
}

/// How it is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// The arguments.
    pub args: Vec<String>,
    /// Environment variables that hold what is secret, and under what name each is kept.
    pub secrets: Vec<(String, String)>,
}

/// Why a declaration makes no flags.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// ExternalDNS has no such provider.
    #[error("external-dns knows no provider {0:?}; it knows {names}", names = names().collect::<Vec<_>>().join(", "))]
    Provider(String),
    /// The provider has no such flag.
    #[error("{flag:?} is no parameter of the provider {provider}; it has {}", known(provider))]
    Parameter {
        /// The provider.
        provider: &'static str,
        /// What was given.
        flag: String,
    },
    /// A flag that is on or off has another value.
    #[error("{flag}: {value:?} is neither true nor false")]
    Switch {
        /// The flag.
        flag: &'static str,
        /// Its value.
        value: String,
    },
    /// A webhook does nothing of the kind.
    #[error(
        "{0} says what an external-dns does by itself, and as a webhook it does what it is told; say it in Fairway's configuration"
    )]
    Told(&'static str),
    /// A control character, which no flag and no manifest can hold.
    #[error("{0}: a control character is in its value")]
    Value(&'static str),
}

/// How a flag is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// With a value.
    Value,
    /// Once for each value.
    Many,
    /// `--flag` or `--no-flag`.
    Switch,
    /// Not at all: as an environment variable.
    Secret,
}

use Kind::{Many, Secret, Switch, Value};

/// A provider of ExternalDNS.
struct Known {
    name: &'static str,
    /// What its flags begin with.
    prefix: &'static str,
    flags: &'static [(&'static str, Kind)],
    /// Secrets that it reads from variables of its own.
    variables: &'static [&'static str],
}

/// The flags of a provider.
pub fn flags(declared: &Declared) -> Result<Flags, FlagError> {
    let known = PROVIDERS
        .iter()
        .find(|known| known.name == declared.provider)
        .ok_or_else(|| FlagError::Provider(declared.provider.clone()))?;
    let mut flags = Flags::default();
    flags.args.push(format!("--provider={}", known.name));
    let zones = declared.zones.iter().map(|zone| format!("--domain-filter={}", zone.trim_end_matches('.')));
    match declared.form {
        Form::Objects => {
            flags.args.extend(OF_OBJECTS.map(str::to_owned));
            flags.args.extend(TYPES.iter().map(|rtype| format!("--managed-record-types={rtype}")));
            flags.args.extend(zones);
            let owner = format!("--txt-owner-id={}", declared.owner);
            flags.args.extend(["--registry=txt".to_owned(), owner, "--policy=sync".to_owned()]);
        }
        Form::Webhook => {
            flags.args.extend(OF_WEBHOOK.map(str::to_owned));
            flags.args.extend(zones);
        }
    }
    for (given, value) in &declared.parameters {
        let (flag, kind) = known.flag(given)?;
        if declared.form == Form::Webhook && BY_ITSELF.contains(&flag) {
            return Err(FlagError::Told(flag));
        }
        if value.chars().any(char::is_control) {
            return Err(FlagError::Value(flag));
        }
        flags.add(flag, kind, value)?;
    }
    let variables = known
        .variables
        .iter()
        .map(|variable| ((*variable).to_owned(), variable.to_ascii_lowercase().replace('_', "-")));
    flags.secrets.extend(variables);
    flags.secrets.sort();
    flags.secrets.dedup();
    Ok(flags)
}

/// The providers, as ExternalDNS calls them.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().map(|known| known.name)
}

/// Whether what a parameter says is secret; of one that no provider has, by what it is called.
pub fn is_secret(parameter: &str) -> bool {
    let name = parameter.trim_start_matches('-').to_ascii_lowercase();
    let kinds: Vec<_> = PROVIDERS.iter().filter_map(|known| known.flag(&name).ok()).map(|(_, kind)| kind).collect();
    kinds.contains(&Secret) || (kinds.is_empty() && SECRET_ENDS.iter().any(|end| name.ends_with(end)))
}

/// All flags that may be rendered, without dashes.
pub fn all() -> impl Iterator<Item = &'static str> {
    let fixed =
        ["provider", "source", "crd-source-apiversion", "crd-source-kind", "managed-record-types", "domain-filter"];
    let fixed = fixed.into_iter().chain(["registry", "txt-owner-id", "policy", "webhook-server"]);
    let own = PROVIDERS.iter().flat_map(|known| known.flags).chain(COMMON);
    fixed.chain(own.map(|(flag, _)| *flag))
}

impl Known {
    /// A flag by its name, with dashes or the provider's prefix or without.
    fn flag(&self, given: &str) -> Result<(&'static str, Kind), FlagError> {
        let name = given.trim_start_matches('-').to_ascii_lowercase();
        let whole = format!("{}{name}", self.prefix);
        let mut own = self.flags.iter().chain(COMMON);
        let found = own.clone().find(|(flag, _)| *flag == name).or_else(|| own.find(|(flag, _)| *flag == whole));
        found.copied().ok_or_else(|| FlagError::Parameter { provider: self.name, flag: given.to_owned() })
    }
}

impl Flags {
    fn add(&mut self, flag: &'static str, kind: Kind, value: &str) -> Result<(), FlagError> {
        match kind {
            Value => self.args.push(format!("--{flag}={value}")),
            Many => {
                let values = value.split(',').map(str::trim).filter(|value| !value.is_empty());
                self.args.extend(values.map(|value| format!("--{flag}={value}")));
            }
            Switch => self.args.push(match value.to_ascii_lowercase().as_str() {
                "true" | "" => format!("--{flag}"),
                "false" => format!("--no-{flag}"),
                _ => return Err(FlagError::Switch { flag, value: value.to_owned() }),
            }),
            Secret => {
                let variable = format!("EXTERNAL_DNS_{}", flag.to_ascii_uppercase().replace('-', "_"));
                self.secrets.push((variable, flag.to_owned()));
            }
        }
        Ok(())
    }

    /// A Deployment of external-dns with these flags, as YAML; its secrets come from the Secret `NAME-credentials`.
    pub fn deployment(&self, name: &str, image: &str) -> String {
        // JSON strings are YAML strings.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let args = self.args.iter().map(|arg| format!("            - {}\n", quoted(arg))).collect::<String>();
        let secret = |(variable, key): &(String, String)| {
            let (credentials, key) = (quoted(&format!("{name}-credentials")), quoted(key));
            format!(
                "            - name: {}\n              valueFrom: {{ secretKeyRef: {{ name: {credentials}, key: {key}, optional: true }} }}\n",
                quoted(variable)
            )
        };
        let env = self.secrets.iter().map(secret).collect::<String>();
        let env = if env.is_empty() { env } else { format!("          env:\n{env}") };
        let (name, image) = (quoted(name), quoted(image));
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\nspec:\n  strategy: {{ type: Recreate }}\n  \
             selector: {{ matchLabels: {{ app: {name} }} }}\n  template:\n    metadata: {{ labels: {{ app: {name} }} }}\n    spec:\n      \
             serviceAccountName: {name}\n      containers:\n        - name: external-dns\n          image: {image}\n          \
             args:\n{args}{env}"
        )
    }
}

fn known(provider: &str) -> String {
    let own = PROVIDERS.iter().filter(|known| known.name == provider).flat_map(|known| known.flags).chain(COMMON);
    own.map(|(flag, _)| *flag).collect::<Vec<_>>().join(", ")
}

/// How objects are read.
const OF_OBJECTS: [&str; 3] =
    ["--source=crd", "--crd-source-apiversion=externaldns.k8s.io/v1alpha1", "--crd-source-kind=DNSEndpoint"];
/// A webhook wants a source, too, and does not look at it.
const OF_WEBHOOK: [&str; 2] = ["--webhook-server", "--source=fake"];
/// Flags of what an external-dns does by itself, with objects.
const BY_ITSELF: &[&str] = &[
    "interval",
    "label-filter",
    "min-ttl",
    "namespace",
    "txt-encrypt-aes-key",
    "txt-encrypt-enabled",
    "txt-prefix",
    "txt-suffix",
    "txt-wildcard-replacement",
];
/// What names of secrets end with.
const SECRET_ENDS: &[&str] = &["credentials", "key", "passphrase", "password", "secret", "token"];
/// Types that Fairway publishes and external-dns can carry.
const TYPES: &[&str] = &["A", "AAAA", "CNAME", "NS", "TXT", "SRV"];
/// Flags of no provider.
const COMMON: &[(&str, Kind)] = &[
    ("batch-change-size", Value),
    ("batch-change-interval", Value),
    ("exclude-domains", Many),
    ("interval", Value),
    ("label-filter", Value),
    ("log-level", Value),
    ("min-ttl", Value),
    ("namespace", Value),
    ("provider-cache-time", Value),
    ("txt-encrypt-aes-key", Secret),
    ("txt-encrypt-enabled", Switch),
    ("txt-prefix", Value),
    ("txt-suffix", Value),
    ("txt-wildcard-replacement", Value),
    ("zone-id-filter", Many),
    ("zone-name-filter", Many),
];
const AZURE: &[(&str, Kind)] = &[
    ("azure-config-file", Value),
    ("azure-resource-group", Value),
    ("azure-subscription-id", Value),
    ("azure-user-assigned-identity-client-id", Value),
    ("azure-zones-cache-duration", Value),
    ("azure-maxretries-count", Value),
];
const AWS: &[(&str, Kind)] = &[
    ("aws-zone-type", Value),
    ("aws-zone-tags", Many),
    ("aws-profile", Many),
    ("aws-assume-role", Value),
    ("aws-assume-role-external-id", Value),
    ("aws-batch-change-size", Value),
    ("aws-batch-change-size-bytes", Value),
    ("aws-batch-change-size-values", Value),
    ("aws-batch-change-interval", Value),
    ("aws-evaluate-target-health", Switch),
    ("aws-api-retries", Value),
    ("aws-prefer-cname", Switch),
    ("aws-zones-cache-duration", Value),
    ("aws-zone-match-parent", Switch),
    ("aws-sd-service-cleanup", Switch),
    ("aws-sd-create-tag", Many),
];
const AWS_KEYS: &[&str] = &["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
const CLOUDFLARE: &[(&str, Kind)] = &[
    ("cloudflare-proxied", Switch),
    ("cloudflare-custom-hostnames", Switch),
    ("cloudflare-custom-hostnames-min-tls-version", Value),
    ("cloudflare-custom-hostnames-certificate-authority", Value),
    ("cloudflare-dns-records-per-page", Value),
    ("cloudflare-regional-services", Switch),
    ("cloudflare-region-key", Value),
    ("cloudflare-record-comment", Value),
];
const GOOGLE: &[(&str, Kind)] = &[
    ("google-project", Value),
    ("google-batch-change-size", Value),
    ("google-batch-change-interval", Value),
    ("google-zone-visibility", Value),
];
const AKAMAI: &[(&str, Kind)] = &[
    ("akamai-serviceconsumerdomain", Value),
    ("akamai-client-token", Secret),
    ("akamai-client-secret", Secret),
    ("akamai-access-token", Secret),
    ("akamai-edgerc-path", Value),
    ("akamai-edgerc-section", Value),
];
const OCI: &[(&str, Kind)] = &[
    ("oci-config-file", Value),
    ("oci-compartment-ocid", Value),
    ("oci-zone-scope", Value),
    ("oci-auth-instance-principal", Switch),
    ("oci-zones-cache-duration", Value),
];
const OVH: &[(&str, Kind)] =
    &[("ovh-endpoint", Value), ("ovh-api-rate-limit", Value), ("ovh-enable-cname-relative", Switch)];
const PDNS: &[(&str, Kind)] = &[
    ("pdns-server", Value),
    ("pdns-server-id", Value),
    ("pdns-api-key", Secret),
    ("pdns-skip-tls-verify", Switch),
    ("tls-ca", Value),
    ("tls-client-cert", Value),
    ("tls-client-cert-key", Value),
];
const GODADDY: &[(&str, Kind)] = &[
    ("godaddy-api-key", Secret),
    ("godaddy-api-secret", Secret),
    ("godaddy-api-ttl", Value),
    ("godaddy-api-ote", Switch),
];
const EXOSCALE: &[(&str, Kind)] = &[
    ("exoscale-apienv", Value),
    ("exoscale-apizone", Value),
    ("exoscale-apikey", Secret),
    ("exoscale-apisecret", Secret),
];
const RFC2136: &[(&str, Kind)] = &[
    ("rfc2136-host", Many),
    ("rfc2136-port", Value),
    ("rfc2136-zone", Many),
    ("rfc2136-insecure", Switch),
    ("rfc2136-tsig-keyname", Value),
    ("rfc2136-tsig-secret", Secret),
    ("rfc2136-tsig-secret-alg", Value),
    ("rfc2136-tsig-axfr", Switch),
    ("rfc2136-min-ttl", Value),
    ("rfc2136-batch-change-size", Value),
    ("rfc2136-use-tls", Switch),
    ("rfc2136-load-balancing-strategy", Value),
];
const PIHOLE: &[(&str, Kind)] = &[
    ("pihole-server", Value),
    ("pihole-password", Secret),
    ("pihole-tls-skip-verify", Switch),
    ("pihole-api-version", Value),
];

const fn known_as(
    name: &'static str,
    prefix: &'static str,
    flags: &'static [(&'static str, Kind)],
    variables: &'static [&'static str],
) -> Known {
    Known { name, prefix, flags, variables }
}

const PROVIDERS: &[Known] = &[
    known_as("akamai", "akamai-", AKAMAI, &[]),
    known_as(
        "alibabacloud",
        "alibaba-cloud-",
        &[("alibaba-cloud-config-file", Value), ("alibaba-cloud-zone-type", Value)],
        &[],
    ),
    known_as("aws", "aws-", AWS, AWS_KEYS),
    known_as("aws-sd", "aws-", AWS, AWS_KEYS),
    known_as("azure", "azure-", AZURE, &[]),
    known_as("azure-dns", "azure-", AZURE, &[]),
    known_as("azure-private-dns", "azure-", AZURE, &[]),
    known_as("civo", "civo-", &[], &["CIVO_TOKEN"]),
    known_as("cloudflare", "cloudflare-", CLOUDFLARE, &["CF_API_TOKEN"]),
    known_as("coredns", "coredns-", &[("coredns-prefix", Value), ("coredns-strictly-owned", Switch)], &[]),
    known_as("dnsimple", "dnsimple-", &[], &["DNSIMPLE_OAUTH"]),
    known_as("exoscale", "exoscale-", EXOSCALE, &[]),
    known_as("gandi", "gandi-", &[], &["GANDI_PAT"]),
    known_as("godaddy", "godaddy-", GODADDY, &[]),
    known_as("google", "google-", GOOGLE, &[]),
    known_as("linode", "linode-", &[], &["LINODE_TOKEN"]),
    known_as(
        "ns1",
        "ns1-",
        &[("ns1-endpoint", Value), ("ns1-ignoressl", Switch), ("ns1-min-ttl", Value)],
        &["NS1_APIKEY"],
    ),
    known_as("oci", "oci-", OCI, &[]),
    known_as("ovh", "ovh-", OVH, &["OVH_APPLICATION_KEY", "OVH_APPLICATION_SECRET", "OVH_CONSUMER_KEY"]),
    known_as("pdns", "pdns-", PDNS, &[]),
    known_as("pihole", "pihole-", PIHOLE, &[]),
    known_as("rfc2136", "rfc2136-", RFC2136, &[]),
    known_as("scaleway", "scw-", &[], &["SCW_ACCESS_KEY", "SCW_SECRET_KEY"]),
    known_as("transip", "transip-", &[("transip-account", Value), ("transip-keyfile", Value)], &[]),
];

#[cfg(test)]
#[path = "flags_tests.rs"]
mod tests;
