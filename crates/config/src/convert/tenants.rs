//! Names that are granted to tenants, and warnings about grants that grant nothing.

use fairway_model::Name;

use super::Converter;
use crate::{
    WebhookSettings,
    bounds_wire::{As, Plain},
    v1_access::NameGrant as Wire,
    values_access::GrantedType,
};
use fairway_access::{Access, NameGrant, NameGrants, Projects, RecordTypes, Tenant, Verb};

/// Converts `access.names`. They are enforced as soon as callers can be distinguished, or names are granted.
pub(super) fn names(
    converter: &mut Converter<'_, '_>,
    wires: Vec<Wire>,
    access: &Access,
    webhook: Option<&WebhookSettings>,
    zones: &[Name],
) -> NameGrants {
    let has_owners = webhook.is_some_and(|webhook| !webhook.owners.is_empty());
    let is_enforced = access.is_enabled() || has_owners || !wires.is_empty();
    let grants: Vec<_> = wires.into_iter().map(grant).collect();
    let names = NameGrants { is_enforced, grants };
    // What is missing may have been omitted because of an error in it.
    if is_enforced && ["access", "webhook", "zones"].iter().all(|section| converter.is_complete(section)) {
        check_tenants(converter, &names, webhook);
        check_domains(converter, &names);
        warn_of_names(converter, &names, zones);
        warn_of_tenants(converter, &names, access, webhook, zones);
    }
    names
}

fn grant(wire: Wire) -> NameGrant {
    let Wire { to, domains, types } = wire;
    let types = types.map(|As(types)| types.plain()).map_or_else(RecordTypes::default, |types| RecordTypes {
        has_challenges: types.contains(&GrantedType::Challenge),
        listed: Some(
            types
                .into_iter()
                .filter_map(|granted| match granted {
                    GrantedType::Challenge => None,
                    GrantedType::Type(rtype) => Some(rtype),
                })
                .collect(),
        ),
    });
    NameGrant { to: to.0.plain().into_iter().collect(), domains: domains.0.plain(), types }
}

/// Reports grants to owners that no credential proves.
fn check_tenants(converter: &mut Converter<'_, '_>, names: &NameGrants, webhook: Option<&WebhookSettings>) {
    for (index, grant) in names.grants.iter().enumerate() {
        for tenant in &grant.to {
            let Tenant::Owner(name) = tenant else { continue };
            let is_declared = match name.as_str() {
                Tenant::ROOT | "*" => webhook.is_some(),
                name => webhook.is_some_and(|webhook| webhook.owners.contains_key(name)),
            };
            if !is_declared {
                let what = format!("{tenant} is not declared, so everybody could claim its names");
                let hint = "declare it with its token or certificate in webhook.owners";
                converter.error(format_args!("/access/names/{index}/to"), what, hint);
            }
        }
    }
}

/// Reports wildcards: a grant covers the names below its domain, which a wildcard does not have.
fn check_domains(converter: &mut Converter<'_, '_>, names: &NameGrants) {
    for (index, grant) in names.grants.iter().enumerate() {
        for (number, domain) in grant.domains.iter().enumerate() {
            let Some(parent) = domain.parent().filter(|_| domain.is_wildcard()) else { continue };
            let parent = parent.to_string();
            let what = format!("{domain} is a wildcard");
            let hint = format!("write {}: a domain includes all names below it", parent.trim_end_matches('.'));
            converter.error(format_args!("/access/names/{index}/domains/{number}"), what, hint);
        }
    }
}

/// Warns of granted domains outside all zones.
fn warn_of_names(converter: &mut Converter<'_, '_>, names: &NameGrants, zones: &[Name]) {
    for (index, grant) in names.grants.iter().enumerate() {
        for (number, domain) in grant.domains.iter().enumerate() {
            if !zones.iter().any(|zone| domain.is_within(zone) || zone.is_within(domain)) {
                let what = format!("{domain} is in no declared zone, so it grants nothing");
                let hint = "declare its zone, or remove the domain";
                converter.warn(format_args!("/access/names/{index}/domains/{number}"), what, hint);
            }
        }
    }
}

/// Warns of tenants that may write but claim no name.
fn warn_of_tenants(
    converter: &mut Converter<'_, '_>,
    names: &NameGrants,
    access: &Access,
    webhook: Option<&WebhookSettings>,
    zones: &[Name],
) {
    let zones: Vec<String> = zones.iter().map(|zone| zone.to_string().trim_end_matches('.').to_owned()).collect();
    let line = |tenant: &str| format!("add to access.names: {{ to: [\"{tenant}\"], domains: [{}] }}", zones.join(", "));
    let has_names = |tenant: &Tenant| names.domains_of(tenant).is_some_and(|domains| !domains.is_empty());
    let is_to_projects = |grant: &NameGrant| grant.to.iter().any(|to| matches!(to, Tenant::Project(_)));
    let has_projects = names.grants.iter().any(is_to_projects);
    for (index, grant) in access.grants.iter().enumerate() {
        if !grant.verbs.iter().any(|verb| verb == Verb::Write) {
            continue;
        }
        match &grant.projects {
            Projects::All if !has_projects => {
                let what = "no project may claim a name, so the grant serves no intent";
                converter.warn(format_args!("/access/grants/{index}"), what, line("project:*"));
            }
            Projects::All => {}
            Projects::Named(projects) => {
                for project in projects.iter().map(|name| Tenant::Project(name.clone())) {
                    if !has_names(&project) {
                        let what = format!("{project} may claim no name, so the grant serves none of its intents");
                        converter.warn(format_args!("/access/grants/{index}"), what, line(&project.to_string()));
                    }
                }
            }
        }
    }
    let Some(webhook) = webhook else { return };
    for owner in webhook.owners.keys().map(|name| Tenant::Owner(name.clone())) {
        if !has_names(&owner) {
            let what = format!("{owner} may claim no name, so its credentials grant nothing");
            converter.warn("/webhook/owners", what, line(&owner.to_string()));
        }
    }
    let root = Tenant::Owner(Tenant::ROOT.to_owned());
    if webhook.owners.is_empty() && !has_names(&root) {
        let what = "access is restricted, and no webhook client may claim a name";
        converter.warn("/webhook", what, line(&root.to_string()));
    }
}
