//! `fairway publish flags`: the arguments of an external-dns process for a provider that only external-dns supports.
//!
//! external-dns reads DNSEndpoint objects that Fairway writes (`--source=crd`), or it is a webhook provider that Fairway calls
//! (`--webhook-server`). The parameters are its own flags: each becomes `--key=value`, and external-dns itself rejects unknown ones.
//! A secret never becomes an argument, because every user of a machine can read command lines. external-dns takes each flag from an
//! environment variable as well.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use clap::Args;
use fairway_intents::is_secret_name;
use fairway_model::Name;
use serde_json::Value;

use super::{
    client::{ServerArgs, client},
    output::Out,
    values,
};

/// Arguments of `publish flags`.
#[derive(Debug, Args)]
pub(super) struct FlagsArgs {
    /// Name of the Deployment; or a DNS update record as PROJECT/NAME, whose provider and parameters are used.
    name: String,

    /// Provider as external-dns calls it: aws, azure, google, cloudflare, …; required unless NAME is PROJECT/NAME.
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,

    /// Flag of external-dns without its dashes; `true` and `false` switch a flag on and off. May be repeated, also with the same flag.
    #[arg(long = "set", value_name = "FLAG=VALUE", value_parser = parameter)]
    parameters: Vec<(String, String)>,

    /// Zone that external-dns may write to; may be repeated. Default: all that it finds.
    #[arg(long = "zone", value_name = "NAME", value_parser = values::name)]
    zones: Vec<Name>,

    /// Owner id in the registry of external-dns.
    #[arg(long, value_name = "OWNER", default_value = "fairway")]
    owner: String,

    /// Run external-dns as a webhook provider that Fairway on the same machine publishes to, instead of reading objects.
    #[arg(long, conflicts_with = "kubernetes")]
    webhook: bool,

    /// Print a Deployment for Kubernetes; its environment variables come from the Secret NAME-credentials.
    #[arg(long)]
    kubernetes: bool,

    /// Image of the Deployment.
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    image: String,

    /// The server that holds PROJECT/NAME.
    #[command(flatten)]
    server: ServerArgs,
}

/// Prints the arguments, or a Deployment with them.
pub(super) async fn print(out: Out, args: FlagsArgs) -> anyhow::Result<()> {
    let mut provider = args.provider;
    let mut parameters = Vec::new();
    let mut name = &*args.name;
    if let Some((project, record)) = name.split_once('/') {
        name = record;
        let body = client(&args.server)?.dns_update_record(project, record).await?;
        let (of_record, flags) = of_record(&body).with_context(|| format!("{project}/{record} has no provider"))?;
        provider = provider.or(Some(of_record));
        // A flag on the command line replaces that of the record.
        parameters.extend(flags.into_iter().filter(|(flag, _)| !args.parameters.iter().any(|(set, _)| set == flag)));
    }
    let Some(provider) = provider else {
        bail!("no provider: give --provider, or a DNS update record as PROJECT/NAME");
    };
    parameters.extend(args.parameters.iter().cloned());
    parameters.sort_by(|(one, _), (other, _)| one.cmp(other));
    let (arguments, variables) = flags(&parameters)?;
    let mut all = vec![format!("--provider={provider}")];
    all.extend(if args.webhook { WEBHOOK } else { OBJECTS }.iter().map(|&argument| argument.to_owned()));
    all.extend(args.zones.iter().map(|zone| format!("--domain-filter={}", zone.to_string().trim_end_matches('.'))));
    if !args.webhook {
        all.push(format!("--txt-owner-id={}", args.owner));
    }
    // external-dns rejects most flags that are given twice.
    all.retain(|argument| !parameters.iter().any(|(flag, _)| argument[2..].split('=').next() == Some(flag)));
    all.extend(arguments);
    for variable in variables {
        let location =
            if args.kubernetes { format!("in the Secret {name}-credentials") } else { "for external-dns".into() };
        eprintln!("fairway: set {variable} {location}");
    }
    if args.kubernetes {
        return Ok(out.print(&deployment(name, &args.image, &all))?);
    }
    for argument in &all {
        out.line(argument)?;
    }
    if args.webhook {
        eprintln!("fairway: publish to it from the same machine with webhook: {{ url: \"http://127.0.0.1:8888\" }}");
    }
    Ok(())
}

/// Returns the arguments of parameters, and the environment variables of those that are secret.
fn flags(parameters: &[(String, String)]) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let mut arguments = Vec::new();
    let mut variables = Vec::new();
    for (flag, value) in parameters {
        if flag.is_empty()
            || !flag.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        {
            bail!("{flag:?} is not a flag: use lower-case letters, digits and dashes");
        }
        if value.chars().any(char::is_control) {
            bail!("{flag}: the value has a control character");
        }
        match value.as_str() {
            _ if is_secret_name(flag) => {
                variables.push(format!("EXTERNAL_DNS_{}", flag.to_ascii_uppercase().replace('-', "_")));
            }
            "" | "true" => arguments.push(format!("--{flag}")),
            "false" => arguments.push(format!("--no-{flag}")),
            list if REPEATED.contains(&&**flag) => {
                let values = list.split(',').map(str::trim).filter(|value| !value.is_empty());
                arguments.extend(values.map(|value| format!("--{flag}={value}")));
            }
            value => arguments.push(format!("--{flag}={value}")),
        }
    }
    Ok((arguments, variables))
}

/// Returns provider and parameters of a DNS update record as the API shows it, under the names of external-dns.
fn of_record(record: &Value) -> Option<(String, BTreeMap<String, String>)> {
    let provider = match record.pointer("/spec/provider")?.as_str()? {
        "powerdns" => "pdns",
        "etcd" => "coredns",
        other => other,
    };
    let parameters = record.pointer("/spec/parameters").and_then(Value::as_object);
    // The value of a secret is not shown, and not needed: its name gives the variable.
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let parameters = parameters.into_iter().flatten().map(|(flag, value)| (flag.clone(), text(value))).collect();
    Some((provider.to_owned(), parameters))
}

/// Returns a Deployment of external-dns as YAML.
fn deployment(name: &str, image: &str, arguments: &[String]) -> String {
    // A JSON string is a YAML string.
    let quoted = |text: &str| Value::from(text).to_string();
    let arguments: String = arguments.iter().map(|argument| format!("            - {}\n", quoted(argument))).collect();
    let credentials = quoted(&format!("{name}-credentials"));
    let name = quoted(name);
    let image = quoted(image);
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\nspec:\n  strategy: {{ type: Recreate }}\n  \
         selector: {{ matchLabels: {{ app: {name} }} }}\n  template:\n    metadata: {{ labels: {{ app: {name} }} }}\n    spec:\n      \
         serviceAccountName: {name}\n      containers:\n        - name: external-dns\n          image: {image}\n          \
         args:\n{arguments}          envFrom:\n            - secretRef: {{ name: {credentials}, optional: true }}\n"
    )
}

fn parameter(text: &str) -> Result<(String, String), String> {
    let (flag, value) = text.split_once('=').ok_or("write FLAG=VALUE")?;
    Ok((flag.trim_start_matches('-').to_owned(), value.to_owned()))
}

/// Image of the version that the integration tests run.
const IMAGE: &str = "registry.k8s.io/external-dns/external-dns:v0.21.0";
/// Arguments of an external-dns process that reads DNSEndpoint objects. The types are those that Fairway publishes and external-dns can
/// write.
const OBJECTS: &[&str] = &[
    "--source=crd",
    "--crd-source-apiversion=externaldns.k8s.io/v1alpha1",
    "--crd-source-kind=DNSEndpoint",
    "--managed-record-types=A",
    "--managed-record-types=AAAA",
    "--managed-record-types=CNAME",
    "--managed-record-types=NS",
    "--managed-record-types=TXT",
    "--managed-record-types=SRV",
    "--registry=txt",
    "--policy=sync",
];
/// Arguments of a webhook provider. external-dns requires a source and does not read it then.
const WEBHOOK: &[&str] = &["--webhook-server", "--source=fake"];
/// Flags that external-dns repeats; a parameter has their values separated by commas. Values of other flags may contain commas.
const REPEATED: &[&str] = &[
    "aws-profile",
    "aws-sd-create-tag",
    "aws-zone-tags",
    "domain-filter",
    "exclude-domains",
    "managed-record-types",
    "rfc2136-host",
    "rfc2136-zone",
    "zone-id-filter",
    "zone-name-filter",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn given(parameters: &[(&str, &str)]) -> anyhow::Result<(Vec<String>, Vec<String>)> {
        let parameters: Vec<_> = parameters.iter().map(|(flag, value)| ((*flag).into(), (*value).into())).collect();
        flags(&parameters)
    }

    #[test]
    fn parameter_becomes_an_argument_by_the_form_of_its_value() {
        let (arguments, variables) = given(&[
            ("aws-evaluate-target-health", "false"),
            ("aws-prefer-cname", "true"),
            ("aws-zone-tags", "team=edge, stage=prod"),
            ("label-filter", "a=b,c=d"),
            ("new-flag", "x"),
        ])
        .unwrap();
        let expected = [
            "--no-aws-evaluate-target-health",
            "--aws-prefer-cname",
            "--aws-zone-tags=team=edge",
            "--aws-zone-tags=stage=prod",
            "--label-filter=a=b,c=d",
            "--new-flag=x",
        ];
        assert_eq!(arguments, expected);
        assert!(variables.is_empty(), "expected no variables: {variables:?}");
    }

    #[test]
    fn secret_becomes_a_variable() {
        let (arguments, variables) = given(&[("akamai-client-token", "hush"), ("pdns-api-key", "")]).unwrap();
        assert!(arguments.is_empty(), "expected no arguments: {arguments:?}");
        assert_eq!(variables, ["EXTERNAL_DNS_AKAMAI_CLIENT_TOKEN", "EXTERNAL_DNS_PDNS_API_KEY"]);
    }

    #[test]
    fn malformed_flag_or_value_is_rejected() {
        for (flag, value) in [("", "x"), ("a b", "x"), ("aws=zone", "x"), ("aws-zone-type", "a\nb")] {
            assert!(given(&[(flag, value)]).is_err(), "{flag}={value:?} must be rejected");
        }
    }

    #[test]
    fn record_gives_provider_and_parameters() {
        let record = serde_json::json!({
            "metadata": { "name": "r53" },
            "spec": {
                "provider": "aws",
                "parameters": { "aws-zone-type": "public", "some-token": { "kept": true } },
                "bind": []
            }
        });
        let (provider, parameters) = of_record(&record).unwrap();
        assert_eq!((&*provider, &*parameters["aws-zone-type"], &*parameters["some-token"]), ("aws", "public", ""));
        let powerdns = serde_json::json!({ "spec": { "provider": "powerdns" } });
        assert_eq!(of_record(&powerdns).unwrap().0, "pdns");
        assert_eq!(of_record(&serde_json::json!({})), None);
    }

    #[test]
    fn deployment_quotes_arguments() {
        let text = deployment("dns", IMAGE, &["--cloudflare-record-comment=it's: \"ours\" # yes".to_owned()]);
        assert!(text.contains(r#"            - "--cloudflare-record-comment=it's: \"ours\" # yes""#), "{text}");
        assert!(text.contains("secretRef: { name: \"dns-credentials\", optional: true }"), "{text}");
    }
}
