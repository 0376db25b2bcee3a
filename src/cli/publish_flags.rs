//! `fairway publish flags`: how an external-dns is started that carries records on to a provider which only it speaks.

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::{Context, bail};
use clap::Args;
use fairway_model::Name;
use fairway_providers::flags::{Declared, Form, flags};

use super::{ask, output::Out, server_args::ServerArgs, values, wait};

/// What `publish flags` takes.
#[derive(Debug, Args)]
pub(super) struct FlagsArgs {
    /// What to call the Deployment, or a declared record of where to publish, as PROJECT/NAME: its provider and parameters hold.
    #[arg(value_name = "NAME")]
    name: String,

    /// The provider, as ExternalDNS calls it: aws, azure, google, cloudflare, …; needed unless NAME is PROJECT/NAME.
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,

    /// A parameter of the provider, a flag of ExternalDNS without its dashes; may be given several times.
    #[arg(long = "set", value_name = "FLAG=VALUE", value_parser = parameter)]
    parameters: Vec<(String, String)>,

    /// A zone that it may write to; may be given several times. Default: all that it can.
    #[arg(long = "zone", value_name = "NAME", value_parser = values::name)]
    zones: Vec<Name>,

    /// Who it is in the registry there.
    #[arg(long, value_name = "OWNER", default_value = "fairway")]
    owner: String,

    /// Have it be a webhook that this machine's Fairway publishes to, in place of reading objects.
    #[arg(long, conflicts_with = "kubernetes")]
    webhook: bool,

    /// Print a Deployment for Kubernetes; secrets come from the Secret NAME-credentials.
    #[arg(long)]
    kubernetes: bool,

    /// Its image.
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    image: String,

    /// Which running server to ask for PROJECT/NAME.
    #[command(flatten)]
    server: ServerArgs,
}

/// Prints the flags.
pub(super) fn print(out: Out, args: &FlagsArgs) -> anyhow::Result<ExitCode> {
    let (name, mut declared) = match args.name.split_once('/') {
        Some((project, name)) => {
            let client = ask::asked(&args.server)?;
            let record = wait(async { Ok(client.dns_update_record(project, name).await?) })?;
            (name, of_record(&record).with_context(|| format!("{project}/{name} is no record of where to publish"))?)
        }
        None => (&*args.name, Declared::default()),
    };
    if let Some(provider) = &args.provider {
        declared.provider.clone_from(provider);
    }
    if declared.provider.is_empty() {
        bail!("which provider? give --provider, or the record of where to publish as PROJECT/NAME");
    }
    declared.parameters.extend(args.parameters.iter().cloned());
    declared.zones = args.zones.iter().map(ToString::to_string).collect();
    declared.owner.clone_from(&args.owner);
    declared.form = if args.webhook { Form::Webhook } else { Form::Objects };
    let flags = flags(&declared)?;
    if args.kubernetes {
        out.print(&flags.deployment(name, &args.image))?;
        return Ok(ExitCode::SUCCESS);
    }
    for arg in &flags.args {
        out.line(arg)?;
    }
    for (variable, _) in &flags.secrets {
        eprintln!("fairway: set {variable} where external-dns is started");
    }
    if args.webhook {
        eprintln!("fairway: publish to it from the same machine with webhook: {{ url: \"http://127.0.0.1:8888\" }}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Provider and parameters of a record of where to publish, as the API shows it. Ours are called as ExternalDNS calls them.
fn of_record(record: &serde_json::Value) -> Option<Declared> {
    let provider = match record.pointer("/spec/provider")?.as_str()? {
        "powerdns" => "pdns",
        "etcd" => "coredns",
        other => other,
    };
    let parameters = record.pointer("/spec/parameters").and_then(serde_json::Value::as_object);
    let parameters: BTreeMap<_, _> = parameters
        .into_iter()
        .flatten()
        // What is secret is not shown; that it is there is enough.
        .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect();
    Some(Declared { provider: provider.to_owned(), parameters, ..Declared::default() })
}

fn parameter(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write FLAG=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

const IMAGE: &str = "registry.k8s.io/external-dns/external-dns:v0.21.0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_where_to_publish_is_a_declaration() {
        let record = serde_json::json!({
            "metadata": { "name": "r53" },
            "spec": { "provider": "aws", "parameters": { "aws-zone-type": "public" }, "bind": [] }
        });
        let declared = of_record(&record).unwrap();
        let secret = serde_json::json!({
            "spec": { "provider": "akamai", "parameters": { "akamai-client-token": { "kept": true } } }
        });
        let secrets = flags(&of_record(&secret).unwrap()).unwrap().secrets;
        assert_eq!(secrets[0].0, "EXTERNAL_DNS_AKAMAI_CLIENT_TOKEN");
        assert_eq!((&*declared.provider, &*declared.parameters["aws-zone-type"]), ("aws", "public"));
        let ours = serde_json::json!({ "spec": { "provider": "powerdns" } });
        assert_eq!(of_record(&ours).unwrap().provider, "pdns");
        assert_eq!(of_record(&serde_json::json!({})), None);
    }
}
