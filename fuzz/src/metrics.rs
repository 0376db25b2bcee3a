//! Metrics of gateways: a text has the same result however it is divided into pieces, and the result is within bounds.

use fairway_health::load::{
    AMOUNT_MAX, Exposition, GatewayCollector, GatewayMetrics, GatewayWarning, LINE_MAX, SERIES_MAX,
};
use fairway_model::ExposedServices;

use crate::{Target, mutate, rng::Rng};

/// The reader under test, of a text in pieces of so many bytes: the real one, or one with a planted bug.
pub type Read = fn(&[u8], usize) -> Result<GatewayMetrics, String>;

/// The target of metrics.
#[derive(Debug)]
pub struct Metrics(Read);

impl Default for Metrics {
    fn default() -> Self {
        Self(real)
    }
}

impl Metrics {
    /// Returns the target with another reader.
    pub const fn with(read: Read) -> Self {
        Self(read)
    }
}

/// Reads with the real reader.
pub fn real(text: &[u8], piece: usize) -> Result<GatewayMetrics, String> {
    let services: ExposedServices = [("shop/web".into(), 1)].into_iter().collect();
    let mut collector = GatewayCollector::new(None, 95).with_services(services);
    let mut exposition = Exposition::new(TEXT_MAX);
    for piece in text.chunks(piece) {
        exposition.feed(piece, &mut |sample| collector.add_sample(sample)).map_err(|error| error.to_string())?;
    }
    exposition.finish().map_err(|error| error.to_string())?;
    collector.finish().map_err(|error| error.to_string())
}

/// Below the longest input of a mutation, so that this bound is reached, too.
const TEXT_MAX: usize = 15 * 1024;

/// Words of the format, and names of metrics that are used.
const WORDS: &[&str] = &[
    "envoy_http_",
    "downstream_rq_active",
    "envoy_server_total_connections",
    "envoy_server_live",
    "envoy_server_uptime",
    "envoy_server_days_until_first_cert_expiring",
    "envoy_overload_",
    "_pressure",
    "_active",
    "envoy_cluster_outlier_detection_ejections_active",
    "envoy_cluster_membership_healthy",
    "envoy_cluster_upstream_rq_active",
    "{cluster_name=\"outbound|80||web.shop.svc.cluster.local\"}",
    "{envoy_cluster_name=\"shop_web_80\"}",
    "envoy_server_state",
    "istio_requests_total",
    "{reporter=\"source\"}",
    "envoy_http_conn_manager_prefix=\"stats\"",
    "{}",
    "{",
    "}",
    "\"",
    "\\\"",
    "\\",
    "=",
    ",",
    " ",
    "\t",
    "\r\n",
    "#",
    "0",
    "1",
    "-1",
    "NaN",
    "+Inf",
    "1e308",
    "9007199254740992",
    "1700000000000",
];

impl Target for Metrics {
    fn run(&mut self, input: &[u8]) -> Result<Vec<u64>, String> {
        // A piece of a size that the text itself says, so that a run is a function of its input.
        let piece = 1 + usize::from(input.first().copied().unwrap_or(0) % 61);
        let whole = (self.0)(input, LINE_MAX);
        if (self.0)(input, piece) != whole {
            return Err(format!("the text is read otherwise in pieces of {piece} octets"));
        }
        match whole {
            Err(what) if what.is_empty() => Err("refused without a word".to_owned()),
            Err(what) => Ok(vec![crate::kind(&what)]),
            Ok(shown) => check(&shown),
        }
    }

    fn mutate(&self, rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
        mutate::text(rng, input, other, WORDS)
    }
}

fn check(shown: &GatewayMetrics) -> Result<Vec<u64>, String> {
    let sums = [shown.in_flight, shown.connections, shown.requests, shown.declared];
    let most = AMOUNT_MAX * SERIES_MAX as f64;
    if let Some(sum) = sums.iter().flatten().find(|sum| !(0.0..=most).contains(*sum)) {
        return Err(format!("{sum} is read as an amount"));
    }
    let is_out = shown.warnings.iter().any(GatewayWarning::exhausts);
    if !shown.has_signal() && shown.services.is_none() && !is_out {
        return Err("nothing is read, and nothing is said of it".to_owned());
    }
    let counts = shown.services.iter().flatten().flat_map(|(_, of)| [of.active, of.healthy, of.total]);
    if let Some(count) = counts.flatten().find(|count| *count as f64 > AMOUNT_MAX) {
        return Err(format!("{count} is read as a number of endpoints or requests"));
    }
    let had = sums.iter().fold(0, |bits, sum| bits << 1 | u64::from(sum.is_some()));
    let warned = shown.warnings.iter().map(|warning| crate::kind(warning.kind()));
    Ok(std::iter::once(crate::mix(had)).chain(warned).collect())
}
