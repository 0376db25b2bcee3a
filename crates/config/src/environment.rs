//! Settings from environment variables. They take precedence over the file, so that one file can be used on many
//! machines.

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf};

use fairway_model::{Diagnostic, FileLocation};

use super::{
    HealthListenerSettings, Settings,
    context::LoadContext,
    convert::check_filter,
    data_dir,
    reason::{Reason, did_you_mean},
    values::TextValue,
    values_wire::HttpAddress,
};

/// Known variables, with a description.
pub const VARIABLES: &[(&str, &str)] = &[
    (CONFIG, "configuration file or folder; instead of --config"),
    (LISTEN_DNS, "addresses for DNS, separated by commas; instead of listen.dns"),
    (LISTEN_HTTP, "address of the HTTP listener, or off; instead of listen.http"),
    (LISTEN_HEALTH, "address of the listener for health probes; instead of listen.health.address"),
    (LOG, "log filter; instead of log.level"),
    (DATA_DIR, "data folder; instead of dataDir"),
    (USER, "user to switch to; instead of user"),
    ("FAIRWAY_TOKEN", "token that commands send to a server with a URL"),
    ("FAIRWAY_URL", "server that commands connect to; instead of --server"),
    ("FAIRWAY_ENVOY", "Envoy binary of `fairway demo --envoy`"),
];

const CONFIG: &str = "FAIRWAY_CONFIG";
const LISTEN_DNS: &str = "FAIRWAY_LISTEN_DNS";
const LISTEN_HTTP: &str = "FAIRWAY_LISTEN_HTTP";
const LISTEN_HEALTH: &str = "FAIRWAY_LISTEN_HEALTH";
const LOG: &str = "FAIRWAY_LOG";
const DATA_DIR: &str = "FAIRWAY_DATA_DIR";
pub(super) const USER: &str = "FAIRWAY_USER";

/// Returns a warning for each name that begins with `FAIRWAY_` and is neither known nor in `others`: the variables that
/// the configuration refers to ([`super::Loaded::variables`]), and those of the command line.
pub fn unknown_variables(names: impl IntoIterator<Item = String>, others: &BTreeSet<String>) -> Vec<Diagnostic> {
    let known = || VARIABLES.iter().map(|(name, _)| *name);
    let unknown = |name: &String| name.starts_with("FAIRWAY_") && !known().any(|k| k == name) && !others.contains(name);
    let mut unknown: Vec<_> = names.into_iter().filter(unknown).collect();
    unknown.sort();
    let diagnostic = |name: String| {
        let all = || format!("known variables: {}", known().collect::<Vec<_>>().join(", "));
        let hint = did_you_mean(&name, known(), all);
        Diagnostic::warning(location(), format!("{name}: unknown variable"), hint)
    };
    unknown.into_iter().map(diagnostic).collect()
}

/// Applies the variables that are used with every source.
pub(super) fn apply(settings: &mut Settings, context: &mut LoadContext<'_>) {
    if let Some(level) = context.variable(LOG) {
        match check_filter(&level) {
            Ok(()) => settings.log.filter = level,
            Err(why) => report(context, LOG, why),
        }
    }
    if let Some(user) = context.variable(USER) {
        settings.user = Some(user);
    }
}

/// Applies the variable of the DNS addresses.
pub(super) fn apply_dns(settings: &mut Settings, context: &mut LoadContext<'_>) {
    let Some(list) = context.variable(LISTEN_DNS) else { return };
    let mut addresses = Vec::new();
    for text in list.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        match SocketAddr::parse(text) {
            Ok(address) => addresses.push(address),
            Err(rejection) => report(context, LISTEN_DNS, rejection),
        }
    }
    if list.split(',').all(|text| text.trim().is_empty()) {
        let what = "the list has no address";
        report(context, LISTEN_DNS, Reason::new(what, "write it like 0.0.0.0:53,[::]:53, or unset it"));
    }
    settings.dns = addresses;
}

/// Applies the variable of the HTTP listener. Returns true if it is set.
pub(super) fn apply_http(settings: &mut Settings, context: &mut LoadContext<'_>) -> bool {
    let Some(text) = context.variable(LISTEN_HTTP) else { return false };
    match HttpAddress::parse(&text) {
        Ok(HttpAddress(address)) => settings.http = address,
        Err(rejection) => report(context, LISTEN_HTTP, rejection),
    }
    true
}

/// Applies the variable of the listener for health probes.
pub(super) fn apply_health(settings: &mut Settings, context: &mut LoadContext<'_>) {
    let Some(text) = context.variable(LISTEN_HEALTH) else { return };
    match SocketAddr::parse(&text) {
        Ok(address) => {
            let (metrics, networks) =
                settings.health_listener.take().map_or_else(Default::default, |l| (l.metrics, l.networks));
            let listener = HealthListenerSettings { address, metrics, networks };
            if let Some(why) = listener.exposed_metrics() {
                report(context, LISTEN_HEALTH, why);
            }
            settings.health_listener = Some(listener);
        }
        Err(rejection) => report(context, LISTEN_HEALTH, rejection),
    }
}

/// Sets the data folder: variable, file, or default.
pub(super) fn apply_data_dir(settings: &mut Settings, context: &mut LoadContext<'_>) {
    settings.data_dir = data_dir_of(settings.data_dir.take(), context);
    if settings.data_dir.is_none() {
        let what = "no data folder: neither XDG_STATE_HOME nor HOME is set";
        context.report(Diagnostic::warning(
            location(),
            what,
            format!("set {DATA_DIR}; until then nothing survives a restart"),
        ));
    }
}

/// Returns the data folder, given that of the file.
pub(super) fn data_dir_of(configured: Option<PathBuf>, context: &mut LoadContext<'_>) -> Option<PathBuf> {
    let folder = context.variable(DATA_DIR).map(PathBuf::from).or(configured);
    folder.or_else(|| data_dir(context.environment))
}

fn report(context: &mut LoadContext<'_>, name: &str, rejection: Reason) {
    context.report(Diagnostic::error(location(), format!("{name}: {}", rejection.what), rejection.hint));
}

fn location() -> FileLocation {
    FileLocation::file("environment")
}
