//! Access control: identities, roles, grants, and their consistency.

use std::{collections::BTreeMap, num::NonZeroU32, sync::Arc, time::Duration};

use fairway_http::Url;

use super::{
    Converter,
    monitors::{secret, secret_if_given},
};
use crate::{
    Settings,
    bounds_wire::{As, Int, Plain},
    context::LoadContext,
    files::SECRET_MAX,
    reason::{Reason, did_you_mean},
    v1_access::{self as v1, Limits, Role, Token},
    values_access::{AccessName, SecureUrl},
};
use fairway_access::{
    Access, Algorithm, BUILT_IN_ROLES, Grant, Issuer, KeySource, LimitSettings, Projects, ServerTls, ServerTlsError,
    Subject, TokenEntry, TokenHash, Verbs, check_keys,
};

/// Converts the section; without it, access is not restricted on this machine.
pub(super) fn access(converter: &mut Converter<'_, '_>, wire: Option<v1::Access>) -> Access {
    let Some(wire) = wire else { return Access::default() };
    // The names are converted after the webhook, whose owners they refer to.
    let v1::Access { tls, tokens, issuers, roles, grants, names: _, limits, hosts } = wire;
    let tls = tls.and_then(|tls| server_tls(converter, "/access/tls", &tls));
    let tokens = self::tokens(converter, tokens);
    let issuers = self::issuers(converter, issuers);
    let roles = self::roles(converter, roles);
    let mut access = Access { tls, tokens, issuers, ..Access::default() };
    access.grants = grants
        .into_iter()
        .enumerate()
        .filter_map(|(index, grant)| self::grant(converter, &access, &roles, index, grant))
        .collect();
    access.limits = limits.map(limits_of).or_else(|| access.is_enabled().then(LimitSettings::default));
    access.hosts = hosts.plain().unwrap_or_default().plain();
    access.hosts.iter_mut().for_each(|name| name.make_ascii_lowercase());
    if converter.is_complete("access") && !access.grants.is_empty() && !access.is_enabled() {
        let what = "grants have no effect without authentication: every client on this machine has full access";
        converter.error("/access/grants", what, "declare tokens, issuers or tls.clientCa, or remove the grants");
    }
    if converter.is_complete("access") && access.is_enabled() && access.grants.is_empty() {
        converter.warn("/access", "there are no grants, so every request is denied", "add grants");
    }
    access
}

/// Returns an error if other machines can reach the listener and it lacks TLS or authentication.
pub(crate) fn listener_error(settings: &Settings, context: &LoadContext<'_>) -> Option<Reason> {
    let address = settings.http.filter(|address| !address.ip().to_canonical().is_loopback())?;
    if context.has_errors {
        // The missing keys may be the ones with an error.
        return None;
    }
    let missing = match (&settings.access.tls, settings.access.is_enabled()) {
        (Some(_), true) => return None,
        (None, true) => "access.tls",
        (Some(_), false) => "access.tokens, access.issuers or access.tls.clientCa",
        (None, false) => "access.tls, and access.tokens, access.issuers or access.tls.clientCa",
    };
    let what =
        format!("listen.http: {address} can be reached from other machines, which requires TLS and authentication");
    let hint = format!("add {missing} (docs/access.md), or listen on 127.0.0.1:{}", address.port());
    Some(Reason::new(what, hint))
}

/// Returns the TLS settings of a listener, after checking that they can be used.
pub(super) fn server_tls(converter: &mut Converter<'_, '_>, pointer: &str, wire: &v1::ServerTls) -> Option<ServerTls> {
    let cert = secret(converter, format_args!("{pointer}/cert"), &wire.cert);
    let key = secret(converter, format_args!("{pointer}/key"), &wire.key);
    // Without its authority, clients with an invalid certificate would count as clients without one.
    let client_ca = secret_if_given(converter, format_args!("{pointer}/clientCa"), wire.client_ca.as_ref())?;
    let report = |error| {
        let (at, what) = match error {
            ServerTlsError::Certificate(what) => ("cert", what),
            ServerTlsError::ClientCa(what) => ("clientCa", what),
            ServerTlsError::Key(what) => ("key", what),
        };
        converter.error(format_args!("{pointer}/{at}"), what, "use a certificate and its key, both in PEM");
    };
    let tls = ServerTls::new(&cert?, &key?, client_ca.as_ref()).map_err(report).ok()?;
    if tls.is_authority() {
        let what =
            "this is the certificate of an authority (CA:TRUE), which `fairway --server` and other clients refuse";
        let hint = "have the authority sign a certificate with CA:FALSE for the server (docs/access.md)";
        converter.warn(format_args!("{pointer}/cert"), what, hint);
    }
    Some(tls)
}

fn tokens(converter: &mut Converter<'_, '_>, wires: Vec<Token>) -> Vec<TokenEntry> {
    let mut hashes: BTreeMap<TokenHash, usize> = BTreeMap::new();
    let mut entries = Vec::with_capacity(wires.len());
    for (index, Token { name: As(AccessName(name)), sha256: As(hash), expires }) in wires.into_iter().enumerate() {
        declare_name(converter, "tokens", index, &name);
        if let Some(first) = hashes.insert(hash.clone(), index) {
            let what = format!("access.tokens[{first}] has the same hash");
            let hint = "create another token: fairway token create";
            converter.error(format_args!("/access/tokens/{index}/sha256"), what, hint);
        }
        entries.push(TokenEntry { name, hash, expires: expires.plain() });
    }
    entries
}

/// Records a name of a section; a repeated one is an error.
fn declare_name(converter: &mut Converter<'_, '_>, section: &'static str, index: usize, name: &str) {
    if let Some(first) = converter.access_names.insert((section, name.to_owned()), index) {
        let what = format!("{name} is already declared in access.{section}[{first}]");
        converter.error(format_args!("/access/{section}/{index}/name"), what, "rename or remove one of them");
    }
}

fn issuers(converter: &mut Converter<'_, '_>, wires: Vec<v1::Issuer>) -> Vec<Arc<Issuer>> {
    let mut found: Vec<Arc<Issuer>> = Vec::new();
    for (index, wire) in wires.into_iter().enumerate() {
        let at = format!("/access/issuers/{index}");
        declare_name(converter, "issuers", index, &wire.name.0.0);
        if found.iter().any(|other| other.issuer == wire.issuer.0) {
            let what = format!("{} is also the issuer of another element", wire.issuer.0);
            converter.error(format_args!("{at}/issuer"), what, "merge them: audiences is a list");
        }
        let Some(keys) = keys(converter, &at, &wire) else { continue };
        let secs = Duration::from_secs;
        let (leeway, refresh) = (format_args!("{at}/leeway"), format_args!("{at}/refresh"));
        found.push(Arc::new(Issuer {
            name: wire.name.0.0,
            issuer: wire.issuer.0,
            audiences: wire.audiences.0.plain(),
            keys,
            algorithms: wire.algorithms.map_or_else(|| Algorithm::USUAL.to_vec(), |As(algorithms)| algorithms.plain()),
            subject: wire.subject_claim.plain().unwrap_or_else(|| "sub".to_owned()),
            groups: wire.groups_claim.plain().unwrap_or_else(|| "groups".to_owned()),
            leeway: converter.bounded(leeway, wire.leeway, Duration::ZERO..=secs(600), secs(30)),
            refresh: converter.bounded(refresh, wire.refresh, secs(10)..=secs(86_400), secs(600)),
            ca: wire.ca.and_then(|ca| secret(converter, format_args!("{at}/ca"), &ca)),
        }));
    }
    found
}

fn keys(converter: &mut Converter<'_, '_>, at: &str, wire: &v1::Issuer) -> Option<KeySource> {
    match (&wire.keys_url, &wire.keys_file) {
        (Some(_), Some(_)) => {
            let what = "keysFile and keysUrl exclude each other";
            converter.error(format_args!("{at}/keysFile"), what, "remove one of them");
            None
        }
        (Some(As(SecureUrl(url))), None) => Some(KeySource::Url(url.clone())),
        (None, Some(As(file))) => {
            let pointer = format!("{at}/keysFile");
            let path = converter.path(&pointer, file);
            let read = converter.files().read(&path, SECRET_MAX).and_then(|bytes| {
                let invalid = |why| Reason::new(format!("cannot be used: {why}"), "use a JSON Web Key Set (RFC 7517)");
                check_keys(&bytes).map_err(invalid)?;
                Ok(KeySource::Given(String::from_utf8_lossy(&bytes).into()))
            });
            read.map_err(|why| converter.reject(pointer, why.about(&path))).ok()
        }
        (None, None) => match Url::parse_secure(&wire.issuer.0) {
            Ok(url) => Some(KeySource::Discovered(url)),
            Err(_) => {
                let what = "keys cannot be discovered, because the issuer is not an https URL without query";
                converter.error(format_args!("{at}/issuer"), what, "add keysUrl or keysFile");
                None
            }
        },
    }
}

fn roles(converter: &mut Converter<'_, '_>, wires: Vec<Role>) -> BTreeMap<String, Verbs> {
    let mut roles: BTreeMap<String, Verbs> =
        BUILT_IN_ROLES.iter().map(|(name, verbs)| ((*name).to_owned(), *verbs)).collect();
    for (index, Role { name: As(AccessName(name)), verbs: As(verbs) }) in wires.into_iter().enumerate() {
        if BUILT_IN_ROLES.iter().any(|(known, _)| *known == name) {
            let what = format!("{name} is a built-in role");
            converter.error(format_args!("/access/roles/{index}/name"), what, "rename it");
            continue;
        }
        declare_name(converter, "roles", index, &name);
        roles.insert(name, verbs.plain().into_iter().collect());
    }
    roles
}

fn grant(
    converter: &mut Converter<'_, '_>,
    access: &Access,
    roles: &BTreeMap<String, Verbs>,
    index: usize,
    wire: v1::Grant,
) -> Option<Grant> {
    let v1::Grant { role: As(AccessName(role)), to, projects } = wire;
    let to = to.0.plain();
    let verbs = roles.get(&role).copied();
    if verbs.is_none() && converter.is_complete("access") {
        let known: Vec<&str> = roles.keys().map(String::as_str).collect();
        let hint = did_you_mean(&role, known.iter().copied(), || format!("known roles: {}", known.join(", ")));
        converter.error(format_args!("/access/grants/{index}/role"), format!("role {role} is not declared"), hint);
    }
    for (number, subject) in to.iter().enumerate() {
        if let Some(why) = unfit(access, subject, verbs.unwrap_or_default())
            && converter.is_complete("access")
        {
            converter.reject(format_args!("/access/grants/{index}/to/{number}"), why);
        }
    }
    let projects = projects.map_or(Projects::All, |As(names)| Projects::Named(names.plain().into_iter().collect()));
    Some(Grant { to: to.into_iter().collect(), verbs: verbs?, projects })
}

/// Returns why a grant to a subject has no effect or is too wide, and a hint.
fn unfit(access: &Access, subject: &Subject, verbs: Verbs) -> Option<Reason> {
    let undeclared = |what, is_declared: bool, section| {
        (!is_declared)
            .then(|| Reason::new(format!("{what} is not declared"), format!("declare it in access.{section}")))
    };
    match subject {
        Subject::Anyone => {
            let excess = verbs.without(Verbs::READ_ONLY);
            let what = format!("clients without authentication would get {excess}");
            let hint = "grant anyone a role with observe and read only, like viewer";
            (!excess.is_empty()).then(|| Reason::new(what, hint))
        }
        Subject::Certificate(_) => {
            let are_requested = access.tls.as_ref().is_some_and(ServerTls::asks_clients);
            (!are_requested).then(|| Reason::new("client certificates are not requested", "add access.tls.clientCa"))
        }
        Subject::Group(issuer, _) | Subject::Jwt(issuer, _) => {
            let is_declared = access.issuers.iter().any(|known| known.name == *issuer);
            undeclared(format!("issuer {issuer}"), is_declared, "issuers")
        }
        Subject::Token(name) => {
            let is_declared = access.tokens.iter().any(|known| known.name == *name);
            undeclared(format!("token {name}"), is_declared, "tokens")
        }
    }
}

fn limits_of(wire: Limits) -> LimitSettings {
    let default = LimitSettings::default();
    let count =
        |given: Option<Int<u32, 1, 1_000_000>>, default| given.plain().and_then(NonZeroU32::new).unwrap_or(default);
    LimitSettings {
        per_second: count(wire.per_second, default.per_second),
        burst: count(wire.burst, default.burst),
        failures_per_minute: count(wire.failures_per_minute, default.failures_per_minute),
        connections: wire.connections.plain().unwrap_or(default.connections),
    }
}
