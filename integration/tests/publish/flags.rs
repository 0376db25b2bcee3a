//! Every flag and provider that we render, and every flag that we run by ourselves, is one of the real external-dns.

use std::{collections::BTreeSet, process::Command};

use fairway_integration::real::program;
use fairway_providers::{flags, spoken};

#[test]
fn the_real_external_dns_has_every_flag_and_provider() {
    let output = Command::new(program("external-dns", "external-dns")).arg("--help").output().expect("it runs");
    let help = [output.stdout, output.stderr].concat();
    let help = String::from_utf8_lossy(&help).into_owned();
    let word = |text: &str| text.split(['=', ' ', '[']).next().unwrap_or_default().to_owned();
    let lines = help.lines().filter_map(|line| line.strip_prefix("  --"));
    let there: BTreeSet<_> = lines.map(|line| word(line.strip_prefix("[no-]").unwrap_or(line))).collect();
    assert!(there.len() > 90, "{help}");
    let missing: Vec<_> = flags::all().chain(spoken::of_external_dns()).filter(|flag| !there.contains(*flag)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let (_, providers) = help.rsplit_once("--provider=provider").expect("it tells providers");
    let (_, providers) = providers.split_once("options:").expect("it tells providers");
    let (providers, _) = providers.split_once(')').expect("the list ends");
    let providers: BTreeSet<_> = providers.split(',').map(str::trim).collect();
    let missing: Vec<_> = flags::names().filter(|name| !providers.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?} of {providers:?}");
}
