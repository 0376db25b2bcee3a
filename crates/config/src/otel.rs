//! OpenTelemetry's environment variables for traces. Like all variables they take precedence over the file, key by key.
//!
//! They are often set for all programs of a machine. So an invalid value is a warning and never keeps a name server
//! from starting. Sources: OpenTelemetry's specifications of environment variables and of the OTLP exporter.

use std::{collections::BTreeMap, time::Duration};

use fairway_http::Url;
use fairway_model::{Diagnostic, FileLocation, Secret};
use hyper::header::{HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use super::{
    TraceProtocol, TraceSettings, context::LoadContext, values::TextValue, values_wire::per_million, words::Words,
};

/// Applies the variables over the settings of the file. Invalid values are reported as warnings. Returns false if no
/// traces are exported, whatever the file says.
///
/// `has_endpoint` is true if [`endpoint`] returned one.
pub(super) fn apply(context: &mut LoadContext<'_>, settings: &mut TraceSettings, has_endpoint: bool) -> bool {
    let mut is_on = !context.variable("OTEL_SDK_DISABLED").is_some_and(|word| word.eq_ignore_ascii_case("true"));
    match context.variable("OTEL_TRACES_EXPORTER").as_deref() {
        None | Some("otlp") => {}
        Some("none") => is_on = false,
        Some(other) => {
            warn(context, "OTEL_TRACES_EXPORTER", &format!("{other} is not known"), "set it to otlp or none");
            is_on = false;
        }
    }
    // The protocol applies to the endpoint of the variables: the file's endpoint may have another port, which has one
    // protocol.
    if let Some((name, word)) = of_traces(context, "PROTOCOL").filter(|_| has_endpoint && is_on) {
        match TraceProtocol::of_word(&word) {
            Some(protocol) => settings.protocol = protocol,
            None => {
                let hint = "set it to http/protobuf or grpc; until then there are no traces";
                warn(context, &name, &format!("{word} is not supported"), hint);
                is_on = false;
            }
        }
    }
    if let Some((name, list)) = of_traces(context, "HEADERS") {
        let all = pairs(context, &name, &list);
        settings.headers = all.into_iter().filter_map(|(key, value)| header(context, &name, &key, &value)).collect();
    }
    if let Some((name, text)) = of_traces(context, "TIMEOUT") {
        match text.parse().ok().filter(|millis| (100..=60_000).contains(millis)) {
            Some(millis) => settings.timeout = Duration::from_millis(millis),
            None => warn(context, &name, &format!("{text} is not 100 to 60000"), "give milliseconds"),
        }
    }
    settings.per_million = ratio(context).unwrap_or(settings.per_million);
    let mut resource = context.variable(RESOURCE).map(|list| pairs(context, RESOURCE, &list)).unwrap_or_default();
    // OTEL_SERVICE_NAME takes precedence over the attribute.
    let among = resource.remove("service.name");
    if let Some(service) = context.variable("OTEL_SERVICE_NAME").or(among) {
        settings.service = service;
    }
    settings.resource.extend(resource);
    is_on
}

/// Returns the variable for traces, or else the one for all signals, with its name.
fn of_traces(context: &mut LoadContext<'_>, what: &str) -> Option<(String, String)> {
    let names = [format!("OTEL_EXPORTER_OTLP_TRACES_{what}"), format!("OTEL_EXPORTER_OTLP_{what}")];
    names.into_iter().find_map(|name| context.variable(&name).map(|value| (name, value)))
}

/// Returns the URL for traces; `/v1/traces` is appended to the one for all signals.
pub(super) fn endpoint(context: &mut LoadContext<'_>) -> Option<Url> {
    let (name, text) = of_traces(context, "ENDPOINT")?;
    let text = match name.as_str() {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => format!("{}{}", text.trim_end_matches('/'), TraceSettings::PATH),
        _ => text,
    };
    let url = <Url as TextValue>::parse(&text);
    url.map_err(|why| warn(context, &name, &why.what, &why.hint)).ok()
}

/// Returns the recorded part, in millionths, of the traces that begin here.
fn ratio(context: &mut LoadContext<'_>) -> Option<u32> {
    const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
    const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
    match context.variable(SAMPLER)?.as_str() {
        "parentbased_always_on" => Some(1_000_000),
        "parentbased_always_off" => Some(0),
        "parentbased_traceidratio" => {
            let text = context.variable(ARGUMENT).unwrap_or_else(|| "1".to_owned());
            let ratio = text.parse::<f64>().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
            if ratio.is_none() {
                warn(context, ARGUMENT, &format!("{text} is not between 0 and 1"), "give a part of one, like 0.1");
            }
            ratio.map(per_million)
        }
        other => {
            let hint = "set it to parentbased_traceidratio, parentbased_always_on or parentbased_always_off";
            warn(context, SAMPLER, &format!("{other} is not known"), hint);
            None
        }
    }
}

/// Parses `KEY=VALUE,KEY=VALUE` with percent-encoded values (W3C Baggage).
fn pairs(context: &mut LoadContext<'_>, name: &str, list: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for part in list.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once('=').and_then(|(key, value)| Some((key.trim().to_owned(), decoded(value.trim())?))) {
            Some((key, value)) if !key.is_empty() => _ = all.insert(key, value),
            // The part is not shown: it may be a secret.
            _ => warn(
                context,
                name,
                "one of its parts is not KEY=VALUE",
                "separate parts with commas, and write a comma in a value as %2C",
            ),
        }
    }
    all
}

/// Decodes percent-encoded text. Returns `None` if a `%` lacks its two digits: that is a typing error, which the
/// library would keep.
fn decoded(text: &str) -> Option<String> {
    let is_digit = |digit: Option<&u8>| digit.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    let mut signs = (0..bytes.len()).filter(|at| bytes[*at] == b'%');
    let is_valid = signs.all(|at| is_digit(bytes.get(at + 1)) && is_digit(bytes.get(at + 2)));
    let decoded = percent_decode_str(text).decode_utf8().ok().filter(|_| is_valid)?;
    Some(decoded.into_owned())
}

fn header(context: &mut LoadContext<'_>, name: &str, key: &str, value: &str) -> Option<(HeaderName, Secret)> {
    let parsed = key.parse().ok().filter(|_| HeaderValue::from_str(value).is_ok());
    if parsed.is_none() {
        warn(
            context,
            name,
            &format!("{key:?} is not a header name with a valid value"),
            "write it like Authorization=Basic%20…",
        );
    }
    parsed.map(|key| (key, Secret::new(value.to_owned())))
}

fn warn(context: &mut LoadContext<'_>, name: &str, what: &str, hint: &str) {
    context.report(Diagnostic::warning(FileLocation::file("environment"), format!("{name}: {what}"), hint));
}

const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";
