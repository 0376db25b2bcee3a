//! Fields `gslb` of bodies: steering of the name of an intent. They are an extension of Fairway.

use std::{collections::BTreeSet, net::IpAddr, ops::RangeInclusive, time::Duration};

use fairway_model::{
    AnswerMode, ClusterName, DownAnswer, Name, Policy, Tier, Ttl, Weight,
    intent::{Gslb, GslbMember, ProbeHint, ProbeKind, WeightBy},
};
use serde_json::{Value, json};

use super::{
    common::PORT,
    error::BodyError,
    fields::{Body, fold, homed},
    json_wire::Json,
    values::{Custom, Errors, Form, List, Span, Text, Whole, Words, below, invalid, list, text},
};
use fairway_config::{parse_policy, show_duration};

/// Visits the fields. A compound may also have them in `spec` itself.
pub(super) fn fields(body: &mut Body<'_>, gslb: &mut Gslb) {
    body.optional(homed("spec.gslb.ttl", &["spec"], &["ttl"]), &TTL, &mut gslb.ttl);
    body.optional(homed("spec.gslb.mode", &["spec"], &["mode"]), &MODE, &mut gslb.mode);
    body.optional(homed("spec.gslb.policy", &["spec"], &["policy"]), &POLICY, &mut gslb.policy);
    body.optional(homed("spec.gslb.downResponse", &["spec"], &["downresponse", "down"]), &DOWN_ANSWER, &mut gslb.down);
    body.optional(homed("spec.gslb.weightBy", &["spec"], &["weightby"]), &WEIGHT_BY, &mut gslb.weight_by);
    let capacity = Whole(1..=CAPACITY_MAX);
    body.optional(
        homed("spec.gslb.capacityPerPod", &["spec"], &["capacityperpod"]),
        &capacity,
        &mut gslb.capacity_per_pod,
    );
    probe(body, &mut gslb.probe);
    body.field(homed("spec.gslb.members", &["spec"], &["members"]), &List(MEMBERS_MAX, MEMBER), &mut gslb.members);
    let mut clusters = BTreeSet::new();
    if let Some(twice) = gslb.members.iter().find(|member| !clusters.insert(&member.cluster)) {
        body.error_at("spec.gslb.members", format!("the cluster {} is listed twice; keep one", twice.cluster));
    }
}

fn probe(body: &mut Body<'_>, probe: &mut ProbeHint) {
    let in_probe = |path, names| homed(path, &["spec.probe"], names);
    let count = Whole(1..=u8::MAX);
    body.optional(in_probe("spec.gslb.probe.type", &["type"]), &KIND, &mut probe.kind);
    body.optional(in_probe("spec.gslb.probe.path", &["path"]), &PATH, &mut probe.path);
    body.optional(in_probe("spec.gslb.probe.port", &["port"]), &PORT, &mut probe.port);
    body.optional(in_probe("spec.gslb.probe.period", &["period", "interval"]), &Span(PERIODS), &mut probe.period);
    body.optional(in_probe("spec.gslb.probe.timeout", &["timeout"]), &Span(TIMEOUTS), &mut probe.timeout);
    body.optional(in_probe("spec.gslb.probe.rise", &["rise"]), &count, &mut probe.rise);
    body.optional(in_probe("spec.gslb.probe.fall", &["fall"]), &count, &mut probe.fall);
    if let (Some(period), Some(timeout)) = (probe.period, probe.timeout)
        && timeout > period
    {
        let (timeout, period) = (show_duration(timeout), show_duration(period));
        let detail = format!("the timeout {timeout} is over the period {period}; write at most the period");
        body.error_at("spec.gslb.probe.timeout", detail);
    }
}

const TTL: Custom<Ttl> = Custom {
    parse: |json| {
        let duration = Span(Duration::ZERO..=Duration::from_secs(86_400)).parse(json)?;
        if duration.subsec_nanos() != 0 {
            return invalid("a TTL is in whole seconds; write an integer");
        }
        let secs = u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
        Ttl::from_secs(secs).or_else(|error| invalid(error.to_string()))
    },
    write: |ttl| u64::from(ttl.secs()).into(),
    schema: || json!({"type": "integer", "minimum": 0, "maximum": 86_400, "description": "Seconds."}),
};

const POLICY: Custom<Policy> = Custom {
    parse: |json| {
        let words = list(json, 8, |json| text(json, 64))?;
        parse_policy(&words).map_err(|(at, detail)| {
            let pointer = if matches!(json, Json::List(_)) { format!("/{at}") } else { String::new() };
            vec![BodyError::new(pointer, detail)]
        })
    },
    write: |policy| {
        let words = policy.to_string();
        let words: Vec<&str> = words.split(", ").collect();
        if let [word] = words[..] { word.into() } else { words.into() }
    },
    schema: || one_or_more(&json!({"type": "string", "examples": ["weighted"]})),
};

/// Returns the schema of a text, or of a list of texts.
fn one_or_more(text: &Value) -> Value {
    json!({"anyOf": [text, {"type": "array", "items": {"type": "string"}, "maxItems": 8}]})
}

const DOWN_ANSWER: Custom<DownAnswer> = Custom {
    parse: down,
    write: write_down,
    schema: || {
        let kind = json!({"enum": ["all", "empty", "last-good", "refuse", "fallback"]});
        let fallback = one_or_more(&json!({"type": "string"}));
        json!({"type": "object", "properties": {"type": kind, "fallback": fallback}})
    },
};

fn down(json: &Json) -> Result<DownAnswer, Errors> {
    let (word, fallback) = match json {
        Json::Map(entries) => {
            let known = |key: &str| matches!(&*fold(key), "type" | "fallback" | "fallbackip");
            if let Some((key, _)) = entries.iter().find(|(key, _)| !known(key)) {
                return invalid(format!("unknown field {key:?}; known fields: type, fallback"));
            }
            let find = |names: &[&str]| entries.iter().find(|(key, _)| names.contains(&&*fold(key)));
            (find(&["type"]).map(|(_, value)| value), find(&["fallback", "fallbackip"]).map(|(_, value)| value))
        }
        word => (Some(word), None),
    };
    let fallback = fallback.filter(|json| !matches!(json, Json::Null));
    let word = word.map(|json| DOWN.parse(json)).transpose()?;
    match (word, fallback) {
        (None | Some(Down::Fallback), Some(to)) => fallback_to(to).map_err(|errors| below("/fallback", errors)),
        (None | Some(Down::Fallback), None) => invalid("fallback is missing; write addresses, or a name"),
        (Some(_), Some(_)) => invalid("fallback has an effect only with the type fallback; remove one of them"),
        (Some(Down::All), None) => Ok(DownAnswer::All),
        (Some(Down::Empty), None) => Ok(DownAnswer::Empty),
        (Some(Down::LastGood), None) => Ok(DownAnswer::LastGood),
        (Some(Down::Refuse), None) => Ok(DownAnswer::Refuse),
    }
}

fn fallback_to(json: &Json) -> Result<DownAnswer, Errors> {
    let address = |json: &Json| {
        let text = text(json, 255)?;
        text.parse::<IpAddr>().or_else(|_| invalid(format!("{text:?} is not an address; write it like 192.0.2.1")))
    };
    match json {
        Json::Text(text) if text.parse::<IpAddr>().is_err() => match Name::without_control(text) {
            Ok(name) => Ok(DownAnswer::FallbackCname(name)),
            Err(error) => invalid(error.to_string()),
        },
        addresses => match list(addresses, 8, address)? {
            none if none.is_empty() => invalid("the list is empty; write an address, or the type empty"),
            addresses => Ok(DownAnswer::FallbackAddresses(addresses)),
        },
    }
}

fn write_down(down: &DownAnswer) -> Json {
    let plain = |word: &str| Json::map([("type", word.into())]);
    let fallback = |to: Json| Json::map([("type", "fallback".into()), ("fallback", to)]);
    match down {
        DownAnswer::All => plain("all"),
        DownAnswer::Empty => plain("empty"),
        DownAnswer::LastGood => plain("last-good"),
        DownAnswer::Refuse => plain("refuse"),
        DownAnswer::FallbackAddresses(list) => fallback(list.iter().map(IpAddr::to_string).collect::<Vec<_>>().into()),
        DownAnswer::FallbackCname(name) => fallback(name.to_string().into()),
    }
}

const PATH: Custom<String> = Custom {
    parse: |json| {
        let path = text(json, 1_024)?;
        let plain = path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic());
        if plain { Ok(path) } else { invalid(format!("{path:?} is not a path; write it like /healthz/ready")) }
    },
    write: |path| path.as_str().into(),
    schema: || json!({"type": "string", "pattern": "^/[!-~]{0,1023}$"}),
};

const MEMBER: Custom<GslbMember> = Custom {
    parse: member,
    write: |member| {
        Json::map([
            ("cluster", member.cluster.as_str().into()),
            ("weight", u64::from(member.weight.0).into()),
            ("tier", u64::from(member.tier.number()).into()),
        ])
    },
    schema: || {
        let number = |min: u8, max: u16| json!({"type": "integer", "minimum": min, "maximum": max, "default": 1});
        let properties = json!({"cluster": Text(128).schema(), "weight": number(0, 65_535), "tier": number(1, 255)});
        json!({"type": "object", "required": ["cluster"], "properties": properties})
    },
};

fn member(json: &Json) -> Result<GslbMember, Errors> {
    let Json::Map(entries) = json else {
        return invalid(format!(
            "{} is not a member; write {{\"cluster\": \"eu1\", \"weight\": 1, \"tier\": 1}}",
            json.what()
        ));
    };
    let (mut cluster, mut weight, mut tier) = (None, Weight::default(), Tier::default());
    let mut errors = Vec::new();
    for (key, value) in entries {
        let read = match &*fold(key) {
            _ if matches!(value, Json::Null) => Ok(()),
            "cluster" | "edge" => cluster_name(value).map(|name| cluster = Some(name)),
            "weight" => Whole(0..=u16::MAX).parse(value).map(|number| weight = Weight(number)),
            "tier" => Whole(1..=u8::MAX).parse(value).map(|number| tier = Tier::new(number).unwrap_or_default()),
            _ => {
                errors.push(BodyError::new(
                    super::error::step(key),
                    "unknown field; a member has cluster, weight and tier",
                ));
                Ok(())
            }
        };
        errors.extend(read.err().into_iter().flat_map(|found| below(&super::error::step(key), found)));
    }
    match cluster {
        _ if !errors.is_empty() => Err(errors),
        Some(cluster) => Ok(GslbMember { cluster, weight, tier }),
        None => invalid("cluster is missing; write the name of a cluster"),
    }
}

fn cluster_name(json: &Json) -> Result<ClusterName, Errors> {
    ClusterName::new(&text(json, 128)?).or_else(|error| invalid(error.to_string()))
}

#[derive(Clone, Copy, PartialEq)]
enum Down {
    All,
    Empty,
    Fallback,
    LastGood,
    Refuse,
}

const DOWN: Words<Down> = Words(&[
    ("all", Down::All),
    ("allRecords", Down::All),
    ("fallback", Down::Fallback),
    ("fallbackIp", Down::Fallback),
    ("empty", Down::Empty),
    ("refuse", Down::Refuse),
    ("none", Down::Refuse),
    ("last-good", Down::LastGood),
]);
const KIND: Words<ProbeKind> = Words(&[
    ("tcp", ProbeKind::Tcp),
    ("http", ProbeKind::Http),
    ("https", ProbeKind::Https),
    ("grpc", ProbeKind::Grpc),
]);
const MODE: Words<AnswerMode> = Words(&[("address", AnswerMode::Address), ("cname", AnswerMode::Cname)]);
const WEIGHT_BY: Words<WeightBy> = Words(&[("pods", WeightBy::Pods)]);
/// Maximum capacity of an endpoint, that of a pool: the largest integer that every JSON parser reads exactly (RFC 8259 section 6).
const CAPACITY_MAX: u64 = 9_007_199_254_740_991;
/// Range of periods: at least a second, since editors of a project choose the targets, too. Operators declare faster monitors.
pub(super) const PERIODS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
/// Range of timeouts, that of a monitor.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(86_400);
/// Maximum number of members, that of a pool.
const MEMBERS_MAX: usize = 255;
