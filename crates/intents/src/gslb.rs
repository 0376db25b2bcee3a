//! Fields `gslb` of bodies: steering of the name of an intent. They are an extension of Fairway.

use std::{net::IpAddr, ops::RangeInclusive, time::Duration};

use fairway_model::{
    AnswerMode, ClusterName, DownAnswer, Name, Policy, Tier, Ttl, Weight,
    intent::{Gslb, GslbMember, ProbeHint, ProbeKind},
};

use super::{
    error::BodyError,
    fields::{Body, Field, fold},
    json_wire::Json,
    values::{Errors, below, invalid, list, text, whole},
};
use fairway_config::{parse_policy, show_duration};

/// The fields. A compound may also have them in `spec` itself.
pub(super) const FIELDS: &[Field] = &[
    Field::homed("spec.gslb.ttl", &["spec"], &["ttl"]),
    Field::homed("spec.gslb.mode", &["spec"], &["mode"]),
    Field::homed("spec.gslb.policy", &["spec"], &["policy"]),
    Field::homed("spec.gslb.downResponse", &["spec"], &["downresponse", "down"]),
    Field::homed("spec.gslb.probe.type", &["spec.probe"], &["type"]),
    Field::homed("spec.gslb.probe.path", &["spec.probe"], &["path"]),
    Field::homed("spec.gslb.probe.port", &["spec.probe"], &["port"]),
    Field::homed("spec.gslb.probe.period", &["spec.probe"], &["period", "interval"]),
    Field::homed("spec.gslb.probe.timeout", &["spec.probe"], &["timeout"]),
    Field::homed("spec.gslb.probe.rise", &["spec.probe"], &["rise"]),
    Field::homed("spec.gslb.probe.fall", &["spec.probe"], &["fall"]),
    Field::homed("spec.gslb.members", &["spec"], &["members"]),
];

/// Parses them.
pub(super) fn read(body: &mut Body<'_>) -> Gslb {
    let gslb = Gslb {
        ttl: body.read("spec.gslb.ttl", ttl),
        mode: body.word("spec.gslb.mode", MODES),
        policy: body.read("spec.gslb.policy", policy),
        down: body.read("spec.gslb.downResponse", down),
        probe: ProbeHint {
            kind: body.word("spec.gslb.probe.type", KINDS),
            path: body.read("spec.gslb.probe.path", path),
            port: body.whole("spec.gslb.probe.port", PORTS),
            period: body.duration("spec.gslb.probe.period", PERIODS),
            timeout: body.duration("spec.gslb.probe.timeout", PERIODS),
            rise: body.whole("spec.gslb.probe.rise", 1..=255),
            fall: body.whole("spec.gslb.probe.fall", 1..=255),
        },
        members: body.list("spec.gslb.members", MEMBERS_MAX, member),
    };
    if let (Some(period), Some(timeout)) = (gslb.probe.period, gslb.probe.timeout)
        && timeout > period
    {
        let (timeout, period) = (show_duration(timeout), show_duration(period));
        let detail = format!("the timeout {timeout} is over the period {period}; write at most the period");
        body.error_at("spec.gslb.probe.timeout", detail);
    }
    let mut clusters = std::collections::BTreeSet::new();
    if let Some(twice) = gslb.members.iter().find(|member| !clusters.insert(&member.cluster)) {
        body.error_at("spec.gslb.members", format!("the cluster {} is listed twice; keep one", twice.cluster));
    }
    gslb
}

/// Returns the canonical form.
pub(super) fn write(gslb: &Gslb) -> Vec<(String, Json)> {
    let probe = &gslb.probe;
    let show = |duration: Option<Duration>| Json::from(duration.map(show_duration));
    let probe = Json::map([
        ("type", word_of(KINDS, probe.kind)),
        ("path", probe.path.clone().into()),
        ("port", probe.port.map(u64::from).into()),
        ("period", show(probe.period)),
        ("timeout", show(probe.timeout)),
        ("rise", probe.rise.map(u64::from).into()),
        ("fall", probe.fall.map(u64::from).into()),
    ]);
    let members = gslb.members.iter().map(|member| {
        Json::map([
            ("cluster", member.cluster.as_str().into()),
            ("weight", u64::from(member.weight.0).into()),
            ("tier", u64::from(member.tier.number()).into()),
        ])
    });
    let Json::Map(entries) = Json::map([
        ("ttl", gslb.ttl.map(|ttl| u64::from(ttl.secs())).into()),
        ("mode", word_of(MODES, gslb.mode)),
        ("policy", gslb.policy.as_ref().map(write_policy).into()),
        ("downResponse", gslb.down.as_ref().map(write_down).into()),
        ("probe", probe),
        ("members", Json::List(members.collect())),
    ]) else {
        return Vec::new();
    };
    entries
}

/// Returns the canonical word of a value.
pub(super) fn word_of<T: Copy + PartialEq>(words: &[(&str, T)], value: Option<T>) -> Json {
    value.and_then(|value| words.iter().find(|(_, of)| *of == value)).map(|(word, _)| *word).into()
}

fn ttl(json: &Json) -> Result<Ttl, Errors> {
    let range = Duration::ZERO..=Duration::from_secs(86_400);
    let duration = super::values::duration(json, &range)?;
    if duration.subsec_nanos() != 0 {
        return invalid("a TTL is in whole seconds; write an integer");
    }
    let secs = u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
    Ttl::from_secs(secs).or_else(|error| invalid(error.to_string()))
}

fn policy(json: &Json) -> Result<Policy, Errors> {
    let words = list(json, 8, |json| text(json, 64))?;
    parse_policy(&words).map_err(|(at, detail)| {
        let pointer = if matches!(json, Json::List(_)) { format!("/{at}") } else { String::new() };
        vec![BodyError::new(pointer, detail)]
    })
}

fn write_policy(policy: &Policy) -> Json {
    let words = policy.to_string();
    let words: Vec<&str> = words.split(", ").collect();
    if let [word] = words[..] { word.into() } else { words.into() }
}

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
    let word = word.map(|json| super::values::word(json, DOWNS)).transpose()?;
    match (word, fallback) {
        (None | Some(Down::Fallback), Some(to)) => fallback_to(to).map_err(|errors| below("/fallback", errors)),
        (None | Some(Down::Fallback), None) => invalid("fallback is missing; write addresses, or a name"),
        (Some(_), Some(_)) => invalid("fallback has an effect only with the type fallback; remove one of both"),
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
        Json::Text(text) if text.parse::<IpAddr>().is_err() => match text.parse::<Name>() {
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

fn path(json: &Json) -> Result<String, Errors> {
    let path = text(json, 1_024)?;
    let plain = path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic());
    if plain { Ok(path) } else { invalid(format!("{path:?} is not a path; write it like /healthz/ready")) }
}

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
            "weight" => whole(value, &(0..=65_535)).map(|n| weight = Weight(u16::try_from(n).unwrap_or(u16::MAX))),
            "tier" => whole(value, &(1..=255)).map(|n| tier = tier_of(n)),
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

fn tier_of(number: u64) -> Tier {
    u8::try_from(number).ok().and_then(|number| Tier::new(number).ok()).unwrap_or_default()
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

const DOWNS: &[(&str, Down)] = &[
    ("all", Down::All),
    ("allRecords", Down::All),
    ("fallback", Down::Fallback),
    ("fallbackIp", Down::Fallback),
    ("empty", Down::Empty),
    ("refuse", Down::Refuse),
    ("none", Down::Refuse),
    ("last-good", Down::LastGood),
];
const KINDS: &[(&str, ProbeKind)] =
    &[("tcp", ProbeKind::Tcp), ("http", ProbeKind::Http), ("https", ProbeKind::Https), ("grpc", ProbeKind::Grpc)];
const MODES: &[(&str, AnswerMode)] = &[("address", AnswerMode::Address), ("cname", AnswerMode::Cname)];
/// Range of ports.
pub(super) const PORTS: RangeInclusive<u64> = 1..=65_535;
/// Range of periods and timeouts, that of a monitor.
const PERIODS: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(86_400);
/// Maximum number of members, that of a pool.
const MEMBERS_MAX: usize = 255;
