use super::*;

fn declared(provider: &str, parameters: &[(&str, &str)]) -> Declared {
    let parameters = parameters.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Declared {
        provider: provider.to_owned(),
        parameters,
        zones: vec!["example.com.".to_owned()],
        owner: "us".to_owned(),
        form: Form::Objects,
    }
}

/// What each list begins with.
fn begin(provider: &str) -> Vec<String> {
    let mut args = vec![format!("--provider={provider}")];
    args.extend(
        [
            "--source=crd",
            "--crd-source-apiversion=externaldns.k8s.io/v1alpha1",
            "--crd-source-kind=DNSEndpoint",
            "--managed-record-types=A",
            "--managed-record-types=AAAA",
            "--managed-record-types=CNAME",
            "--managed-record-types=NS",
            "--managed-record-types=TXT",
            "--managed-record-types=SRV",
            "--domain-filter=example.com",
            "--registry=txt",
            "--txt-owner-id=us",
            "--policy=sync",
        ]
        .map(str::to_owned),
    );
    args
}

/// A provider, its parameters, the arguments and the variables that they make.
type Case = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str], &'static [&'static str]);

#[test]
fn golden_lists_of_providers() {
    let cases: &[Case] = &[
        (
            "aws",
            &[
                ("aws-zone-type", "public"),
                ("aws-zone-tags", "team=edge, stage=prod"),
                ("aws-assume-role", "arn:aws:iam::123456789012:role/dns"),
                ("aws-batch-change-size", "500"),
                ("aws-batch-change-interval", "10s"),
                ("aws-evaluate-target-health", "false"),
                ("aws-api-retries", "5"),
                ("aws-prefer-cname", "true"),
            ],
            &[
                "--aws-api-retries=5",
                "--aws-assume-role=arn:aws:iam::123456789012:role/dns",
                "--aws-batch-change-interval=10s",
                "--aws-batch-change-size=500",
                "--no-aws-evaluate-target-health",
                "--aws-prefer-cname",
                "--aws-zone-tags=team=edge",
                "--aws-zone-tags=stage=prod",
                "--aws-zone-type=public",
            ],
            &["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"],
        ),
        (
            "azure",
            &[("--azure-config-file", "/etc/azure.json"), ("resource-group", "dns")],
            &["--azure-config-file=/etc/azure.json", "--azure-resource-group=dns"],
            &[],
        ),
        (
            "google",
            &[("google-project", "edge"), ("zone-visibility", "public")],
            &["--google-project=edge", "--google-zone-visibility=public"],
            &[],
        ),
        ("cloudflare", &[("cloudflare-proxied", "false")], &["--no-cloudflare-proxied"], &["CF_API_TOKEN"]),
        (
            "akamai",
            &[("akamai-client-token", "t0ken"), ("akamai-serviceconsumerdomain", "d.luna.akamaiapis.net")],
            &["--akamai-serviceconsumerdomain=d.luna.akamaiapis.net"],
            &["EXTERNAL_DNS_AKAMAI_CLIENT_TOKEN"],
        ),
    ];
    for (provider, parameters, own, variables) in cases {
        let flags = flags(&declared(provider, parameters)).unwrap();
        let mut args = begin(provider);
        args.extend(own.iter().map(|arg| (*arg).to_owned()));
        assert_eq!(flags.args, args, "{provider}");
        assert_eq!(flags.secrets.iter().map(|(variable, _)| &**variable).collect::<Vec<_>>(), *variables);
    }
}

#[test]
fn a_webhook_does_what_it_is_told() {
    let webhook = |parameters: &[(&str, &str)]| {
        flags(&Declared { form: Form::Webhook, ..declared("aws", parameters) }).map(|flags| flags.args)
    };
    let wanted = [
        "--provider=aws",
        "--webhook-server",
        "--source=fake",
        "--domain-filter=example.com",
        "--aws-zone-type=public",
    ];
    assert_eq!(webhook(&[("zone-type", "public")]).unwrap(), wanted);
    for by_itself in BY_ITSELF {
        assert!(COMMON.iter().any(|(flag, _)| flag == by_itself), "{by_itself}");
        assert_eq!(webhook(&[(*by_itself, "x")]), Err(FlagError::Told(by_itself)));
    }
}

#[test]
fn secrets_are_never_arguments() {
    for known in PROVIDERS {
        let parameters: Vec<_> = known.flags.iter().chain(COMMON).filter(|(_, kind)| *kind == Secret).collect();
        let parameters: Vec<_> = parameters.into_iter().map(|(flag, _)| (*flag, "hush")).collect();
        let flags = flags(&declared(known.name, &parameters)).unwrap();
        assert!(!flags.args.iter().any(|arg| arg.contains("hush")));
        assert!(!flags.deployment("dns", "external-dns").contains("hush"));
        assert_eq!(flags.secrets.len(), parameters.len() + known.variables.len());
    }
}

#[test]
fn what_is_secret_is_known_by_its_flag_or_by_what_it_is_called() {
    for secret in ["pdns-api-key", "--Akamai-Client-Token", "client-secret", "aws-secret-access-key", "some-password"] {
        assert!(is_secret(secret), "{secret}");
    }
    for plain in ["cloudflare-region-key", "rfc2136-tsig-keyname", "aws-zone-type", "region-key", "keyring"] {
        assert!(!is_secret(plain), "{plain}");
    }
}

#[test]
fn what_no_provider_has_is_refused_with_what_there_is() {
    let told =
        |provider: &str, flag: &str, value: &str| flags(&declared(provider, &[(flag, value)])).unwrap_err().to_string();
    assert!(told("amazon", "a", "b").contains("it knows akamai, alibabacloud, aws,"));
    assert!(told("aws", "azure-resource-group", "x").contains("it has aws-zone-type"));
    assert!(told("aws", "aws-prefer-cname", "maybe").contains("neither true nor false"));
    assert!(told("aws", "aws-zone-type", "a\nb").contains("control character"));
}

#[test]
fn a_deployment_quotes_what_it_is_given() {
    let flags = flags(&declared("cloudflare", &[("cloudflare-record-comment", "it's: \"ours\" # yes")])).unwrap();
    let text = flags.deployment("dns", "registry.k8s.io/external-dns/external-dns:v0.21.0");
    assert!(text.contains(r#"            - "--cloudflare-record-comment=it's: \"ours\" # yes""#), "{text}");
    assert!(text.contains("name: \"CF_API_TOKEN\""));
    assert!(
        text.contains("secretKeyRef: { name: \"dns-credentials\", key: \"cf-api-token\", optional: true }"),
        "{text}"
    );
}
