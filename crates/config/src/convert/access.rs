//! Access control: identities, roles, grants, and their consistency.

use std::{collections::BTreeMap, num::NonZeroU32, sync::Arc, time::Duration};

use fairway_http::Url;
use fairway_model::{Diagnostic, FileLocation, closest};

use super::{Converter, monitors::secret};
use crate::{
    Settings,
    bounds_wire::{Int, List, Text},
    context::LoadContext,
    files::SECRET_MAX,
    v1_access::{self as v1, Limits, Role, Token},
    values_access::{AccessName, SecureUrl},
    values_wire::{As, Reference},
};
use fairway_access::{
    Access, Algorithm, BUILT_IN_ROLES, Grant, Issuer, KeySource, LimitSettings, Projects, ServerTls, ServerTlsError,
    Subject, TokenEntry, TokenHash, Verbs, check_keys,
};

/// Converts the section; without it, access is not restricted on this machine.
pub(super) fn access(converter: &mut Converter<'_, '_>, wire: Option<v1::Access>) -> Access {
    let Some(wire) = wire else { return Access::default() };
    let v1::Access { tls, tokens, issuers, roles, grants, limits, hosts } = wire;
    let tls = tls.and_then(|tls| server_tls(converter, "/access/tls", &tls.cert, &tls.key, tls.client_ca.as_ref()));
    let tokens = self::tokens(converter, tokens);
    let issuers = self::issuers(converter, issuers);
    let roles = self::roles(converter, roles);
    let mut access = Access { tls, tokens, issuers, ..Access::default() };
    access.grants = grants
        .into_iter()
        .enumerate()
        .filter_map(|(index, grant)| self::grant(converter, &access, &roles, index, grant))
        .collect();
    access.limits = limits.as_ref().map(limits_of).or_else(|| access.is_enabled().then(LimitSettings::default));
    access.hosts =
        hosts.into_iter().flat_map(|List(names)| names).map(|Text(name)| name.to_ascii_lowercase()).collect();
    if converter.is_complete("access") && !access.grants.is_empty() && !access.is_enabled() {
        let what = "grants have no effect without authentication: every client on this machine has full access";
        converter.error("/access/grants", what, "declare tokens, issuers or tls.clientCa, or remove the grants");
    }
    if converter.is_complete("access") && access.is_enabled() && access.grants.is_empty() {
        converter.warn("/access", "there are no grants, so every request is denied", "add grants");
    }
    access
}

/// Returns an error, without its location, if other machines can reach the listener and it lacks TLS or authentication.
pub(crate) fn listener_error(settings: &Settings, context: &LoadContext<'_>) -> Option<Diagnostic> {
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
    Some(Diagnostic::error(FileLocation::file(""), what, hint))
}

/// Returns the TLS settings of a listener, after checking that they can be used.
pub(super) fn server_tls(
    converter: &mut Converter<'_, '_>,
    pointer: &str,
    cert: &Reference,
    key: &Reference,
    client_ca: Option<&Reference>,
) -> Option<ServerTls> {
    let cert = secret(converter, &format!("{pointer}/cert"), cert);
    let key = secret(converter, &format!("{pointer}/key"), key);
    let client_ca = match client_ca {
        // Without its authority, clients with an invalid certificate would count as clients without one.
        Some(ca) => Some(secret(converter, &format!("{pointer}/clientCa"), ca)?),
        None => None,
    };
    match ServerTls::new(&cert?, &key?, client_ca.as_ref()) {
        Ok(tls) => Some(tls),
        Err(error) => {
            let (at, what) = match error {
                ServerTlsError::Certificate(what) => ("cert", what),
                ServerTlsError::ClientCa(what) => ("clientCa", what),
                ServerTlsError::Key(what) => ("key", what),
            };
            converter.error(format_args!("{pointer}/{at}"), what, "use a certificate and its key, both in PEM");
            None
        }
    }
}

fn tokens(converter: &mut Converter<'_, '_>, wires: Vec<Token>) -> Vec<TokenEntry> {
    let mut names = BTreeMap::new();
    let mut hashes: BTreeMap<TokenHash, usize> = BTreeMap::new();
    let mut entries = Vec::with_capacity(wires.len());
    for (index, Token { name: As(AccessName(name)), sha256: As(hash), expires }) in wires.into_iter().enumerate() {
        declare_name(converter, &mut names, "tokens", index, &name);
        if let Some(first) = hashes.insert(hash.clone(), index) {
            let what = format!("access.tokens[{first}] has the same hash");
            converter.error(
                format_args!("/access/tokens/{index}/sha256"),
                what,
                "create another token: fairway token create",
            );
        }
        entries.push(TokenEntry { name, hash, expires: expires.map(|As(at)| at) });
    }
    entries
}

/// Records a name of a section; a repeated one is an error.
fn declare_name(
    converter: &mut Converter<'_, '_>,
    names: &mut BTreeMap<String, usize>,
    section: &str,
    index: usize,
    name: &str,
) {
    if let Some(first) = names.insert(name.to_owned(), index) {
        let what = format!("{name} is already declared in access.{section}[{first}]");
        converter.error(format_args!("/access/{section}/{index}/name"), what, "rename or remove one of them");
    }
}

fn issuers(converter: &mut Converter<'_, '_>, wires: Vec<v1::Issuer>) -> Vec<Arc<Issuer>> {
    let mut names = BTreeMap::new();
    let mut found: Vec<Arc<Issuer>> = Vec::new();
    for (index, wire) in wires.into_iter().enumerate() {
        let at = format!("/access/issuers/{index}");
        let As(AccessName(name)) = wire.name.clone();
        declare_name(converter, &mut names, "issuers", index, &name);
        if found.iter().any(|other| other.issuer == wire.issuer.0) {
            let what = format!("{} is also the issuer of another element", wire.issuer.0);
            converter.error(format_args!("{at}/issuer"), what, "merge them: audiences is a list");
        }
        let Some(keys) = keys(converter, &at, &wire) else { continue };
        let text =
            |given: Option<Text<1, 128>>, default: &str| given.map_or_else(|| default.to_owned(), |Text(text)| text);
        let bounds = Duration::ZERO..=Duration::from_secs(600);
        let leeway = converter.bounded(&format!("{at}/leeway"), wire.leeway.as_ref(), &bounds, Duration::from_secs(30));
        let bounds = Duration::from_secs(10)..=Duration::from_secs(86_400);
        let refresh =
            converter.bounded(&format!("{at}/refresh"), wire.refresh.as_ref(), &bounds, Duration::from_secs(600));
        found.push(Arc::new(Issuer {
            name,
            issuer: wire.issuer.0,
            audiences: wire.audiences.0.into_iter().map(|Text(audience)| audience).collect(),
            keys,
            algorithms: wire
                .algorithms
                .map_or_else(|| Algorithm::USUAL.to_vec(), |List(all)| all.into_iter().map(|As(one)| one).collect()),
            subject: text(wire.subject_claim, "sub"),
            groups: text(wire.groups_claim, "groups"),
            leeway,
            refresh,
            ca: wire.ca.and_then(|ca| secret(converter, &format!("{at}/ca"), &ca)),
        }));
    }
    found
}

fn keys(converter: &mut Converter<'_, '_>, at: &str, wire: &v1::Issuer) -> Option<KeySource> {
    match (&wire.keys_url, &wire.keys_file) {
        (Some(_), Some(_)) => {
            converter.error(
                format_args!("{at}/keysFile"),
                "keysFile and keysUrl exclude each other",
                "remove one of them",
            );
            None
        }
        (Some(As(SecureUrl(url))), None) => Some(KeySource::Url(url.clone())),
        (None, Some(Text(file))) => {
            let pointer = format!("{at}/keysFile");
            let path = converter.path(&pointer, file);
            let read = converter.files().read(&path, SECRET_MAX).map_err(|why| (why.what, why.hint));
            let read = read.and_then(|bytes| {
                check_keys(&bytes)
                    .map_err(|why| (format!("cannot be used: {why}"), "use a JSON Web Key Set (RFC 7517)"))?;
                Ok(String::from_utf8_lossy(&bytes).into())
            });
            match read {
                Ok(text) => Some(KeySource::Given(text)),
                Err((what, hint)) => {
                    converter.error(pointer, format!("{} {what}", path.display()), hint);
                    None
                }
            }
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
    let mut names = BTreeMap::new();
    for (index, Role { name: As(AccessName(name)), verbs: List(verbs) }) in wires.into_iter().enumerate() {
        if BUILT_IN_ROLES.iter().any(|(known, _)| *known == name) {
            converter.error(
                format_args!("/access/roles/{index}/name"),
                format!("{name} is a built-in role"),
                "rename it",
            );
            continue;
        }
        declare_name(converter, &mut names, "roles", index, &name);
        roles.insert(name, verbs.into_iter().map(|As(verb)| verb).collect());
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
    let v1::Grant { role: As(AccessName(role)), to: List(to), projects } = wire;
    let verbs = roles.get(&role).copied();
    if verbs.is_none() && converter.is_complete("access") {
        let hint = match closest(&role, roles.keys().map(String::as_str)) {
            Some(word) => format!("did you mean {word}?"),
            None => format!("known roles: {}", roles.keys().map(String::as_str).collect::<Vec<_>>().join(", ")),
        };
        converter.error(format_args!("/access/grants/{index}/role"), format!("role {role} is not declared"), hint);
    }
    for (number, As(subject)) in to.iter().enumerate() {
        if let Some((what, hint)) =
            unfit(access, subject, verbs.unwrap_or_default()).filter(|_| converter.is_complete("access"))
        {
            converter.error(format_args!("/access/grants/{index}/to/{number}"), what, hint);
        }
    }
    let projects = projects
        .map_or(Projects::All, |List(names)| Projects::Named(names.into_iter().map(|Text(name)| name).collect()));
    Some(Grant { to: to.into_iter().map(|As(subject)| subject).collect(), verbs: verbs?, projects })
}

/// Returns why a grant to a subject has no effect or is too wide, and a hint.
fn unfit(access: &Access, subject: &Subject, verbs: Verbs) -> Option<(String, String)> {
    match subject {
        Subject::Anyone if !verbs.without(Verbs::READ_ONLY).is_empty() => {
            let what = format!("clients without authentication would get {}", verbs.without(Verbs::READ_ONLY));
            Some((what, "grant anyone a role with observe and read only, like viewer".to_owned()))
        }
        Subject::Anyone => None,
        Subject::Certificate(_) if access.tls.as_ref().is_none_or(|tls| !tls.asks_clients()) => {
            Some(("client certificates are not requested".to_owned(), "add access.tls.clientCa".to_owned()))
        }
        Subject::Certificate(_) => None,
        Subject::Group(issuer, _) | Subject::Jwt(issuer, _) => {
            let is_known = access.issuers.iter().any(|known| known.name == *issuer);
            (!is_known).then(|| (format!("issuer {issuer} is not declared"), "declare it in access.issuers".to_owned()))
        }
        Subject::Token(name) => {
            let is_known = access.tokens.iter().any(|known| known.name == *name);
            (!is_known).then(|| (format!("token {name} is not declared"), "declare it in access.tokens".to_owned()))
        }
    }
}

fn limits_of(wire: &Limits) -> LimitSettings {
    let default = LimitSettings::default();
    let count = |given: Option<Int<u32, 1, 1_000_000>>, default| {
        given.and_then(|Int(count)| NonZeroU32::new(count)).unwrap_or(default)
    };
    LimitSettings {
        per_second: count(wire.per_second, default.per_second),
        burst: count(wire.burst, default.burst),
        failures_per_minute: count(wire.failures_per_minute, default.failures_per_minute),
        connections: wire.connections.map_or(default.connections, |Int(count)| count as usize),
    }
}
