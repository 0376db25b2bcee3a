//! OpenTelemetry's environment variables for traces. Like all variables they take precedence over the file, key by key.
//!
//! They are often set for all programs of a machine. So an invalid value is a warning and never keeps a name server
//! from starting.
//! Sources: OpenTelemetry's specifications of environment variables and of the OTLP exporter.

use std::{collections::BTreeMap, time::Duration};

use fairway_http::Url;
use fairway_model::{Diagnostic, FileLocation, Secret};
use hyper::header::{HeaderName, HeaderValue};

use super::{TraceProtocol, TraceSettings, reader::Reader, values::TextValue};

/// Values of the variables.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// True if no traces are exported, whatever the file says.
    pub(super) is_off: bool,
    /// URL of the collector.
    pub(super) endpoint: Option<Url>,
    protocol: Option<TraceProtocol>,
    headers: Option<Vec<(HeaderName, Secret)>>,
    timeout: Option<Duration>,
    per_million: Option<u32>,
    service: Option<String>,
    resource: BTreeMap<String, String>,
}

impl Said {
    /// Applies the values over those of the file.
    pub(super) fn apply(self, settings: &mut TraceSettings) {
        settings.protocol = self.protocol.unwrap_or(settings.protocol);
        settings.headers = self.headers.unwrap_or_else(|| std::mem::take(&mut settings.headers));
        settings.timeout = self.timeout.unwrap_or(settings.timeout);
        settings.per_million = self.per_million.unwrap_or(settings.per_million);
        settings.service = self.service.unwrap_or_else(|| std::mem::take(&mut settings.service));
        settings.resource.extend(self.resource);
    }
}

/// Reads the variables. Invalid values are reported as warnings.
pub(super) fn said(reader: &mut Reader<'_>) -> Said {
    let mut said = Said { endpoint: endpoint(reader), ..Said::default() };
    if reader.variable("OTEL_SDK_DISABLED").is_some_and(|word| word.eq_ignore_ascii_case("true")) {
        said.is_off = true;
    }
    match reader.variable("OTEL_TRACES_EXPORTER").as_deref() {
        None | Some("otlp") => {}
        Some("none") => said.is_off = true,
        Some(other) => {
            warn(reader, "OTEL_TRACES_EXPORTER", &format!("{other} is not known"), "set it to otlp or none");
            said.is_off = true;
        }
    }
    // The protocol applies to the endpoint of the variables: the file's endpoint may have another port, which has one
    // protocol.
    if let Some((name, word)) = of_traces(reader, "PROTOCOL").filter(|_| said.endpoint.is_some() && !said.is_off) {
        match word.as_str() {
            "http/protobuf" => said.protocol = Some(TraceProtocol::HttpProtobuf),
            "grpc" => said.protocol = Some(TraceProtocol::Grpc),
            other => {
                let hint = "set it to http/protobuf or grpc; until then there are no traces";
                warn(reader, &name, &format!("{other} is not supported"), hint);
                said.is_off = true;
            }
        }
    }
    said.headers = of_traces(reader, "HEADERS").map(|(name, list)| {
        let all = pairs(reader, &name, &list);
        all.into_iter().filter_map(|(key, value)| header(reader, &name, &key, &value)).collect()
    });
    said.timeout = of_traces(reader, "TIMEOUT").and_then(|(name, text)| {
        let millis = text.parse().ok().filter(|millis| (100..=60_000).contains(millis));
        if millis.is_none() {
            warn(reader, &name, &format!("{text} is not 100 to 60000"), "give milliseconds");
        }
        millis.map(Duration::from_millis)
    });
    said.per_million = ratio(reader);
    if let Some(list) = reader.variable(RESOURCE) {
        said.resource.extend(pairs(reader, RESOURCE, &list));
    }
    // OTEL_SERVICE_NAME takes precedence over the attribute.
    let among = said.resource.remove("service.name");
    said.service = reader.variable("OTEL_SERVICE_NAME").or(among);
    said
}

/// Returns the variable for traces, or else the one for all signals, with its name.
fn of_traces(reader: &mut Reader<'_>, what: &str) -> Option<(String, String)> {
    let names = [format!("OTEL_EXPORTER_OTLP_TRACES_{what}"), format!("OTEL_EXPORTER_OTLP_{what}")];
    names.into_iter().find_map(|name| reader.variable(&name).map(|value| (name, value)))
}

/// Returns the URL for traces; `/v1/traces` is appended to the one for all signals.
fn endpoint(reader: &mut Reader<'_>) -> Option<Url> {
    let (name, text) = of_traces(reader, "ENDPOINT")?;
    let text = match name.as_str() {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => format!("{}{}", text.trim_end_matches('/'), TraceSettings::PATH),
        _ => text,
    };
    match <Url as TextValue>::parse(&text) {
        Ok(url) => Some(url),
        Err(refusal) => {
            warn(reader, &name, &refusal.what, &refusal.hint);
            None
        }
    }
}

/// Returns the recorded part, in millionths, of the traces that begin here.
fn ratio(reader: &mut Reader<'_>) -> Option<u32> {
    const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
    const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
    match reader.variable(SAMPLER)?.as_str() {
        "parentbased_always_on" => Some(1_000_000),
        "parentbased_always_off" => Some(0),
        "parentbased_traceidratio" => {
            let text = reader.variable(ARGUMENT).unwrap_or_else(|| "1".to_owned());
            let ratio = text.parse::<f64>().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
            if ratio.is_none() {
                warn(reader, ARGUMENT, &format!("{text} is not between 0 and 1"), "give a part of one, like 0.1");
            }
            ratio.map(per_million)
        }
        other => {
            let hint = "set it to parentbased_traceidratio, parentbased_always_on or parentbased_always_off";
            warn(reader, SAMPLER, &format!("{other} is not known"), hint);
            None
        }
    }
}

/// Converts a fraction to millionths.
pub(super) fn per_million(ratio: f64) -> u32 {
    // From 0 to 1, so the cast fits.
    (ratio * 1e6).round() as u32
}

/// Parses `KEY=VALUE,KEY=VALUE` with percent-encoded values (W3C Baggage).
fn pairs(reader: &mut Reader<'_>, name: &str, list: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for part in list.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once('=').and_then(|(key, value)| Some((key.trim().to_owned(), decoded(value.trim())?))) {
            Some((key, value)) if !key.is_empty() => _ = all.insert(key, value),
            // The part is not shown: it may be a secret.
            _ => warn(
                reader,
                name,
                "one of its parts is not KEY=VALUE",
                "separate parts with commas, and write a comma in a value as %2C",
            ),
        }
    }
    all
}

fn decoded(text: &str) -> Option<String> {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(octet) = rest.next() {
        octets.push(match octet {
            b'%' => {
                let digit = |octet: u8| char::from(octet).to_digit(16);
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                u8::try_from(high * 16 + low).ok()?
            }
            octet => octet,
        });
    }
    String::from_utf8(octets).ok()
}

fn header(reader: &mut Reader<'_>, name: &str, key: &str, value: &str) -> Option<(HeaderName, Secret)> {
    let parsed = key.parse().ok().filter(|_| HeaderValue::from_str(value).is_ok());
    if parsed.is_none() {
        warn(
            reader,
            name,
            &format!("{key:?} is not a header name with a valid value"),
            "write it like Authorization=Basic%20…",
        );
    }
    parsed.map(|key| (key, Secret::new(value.to_owned())))
}

fn warn(reader: &mut Reader<'_>, name: &str, what: &str, hint: &str) {
    reader.fault(Diagnostic::warning(FileLocation::file("environment"), format!("{name}: {what}"), hint));
}

const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";
