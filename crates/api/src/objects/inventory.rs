//! Objects that are served without being declared over the API: those of configuration files, and those that intents, clients of the
//! webhook and objects of Kubernetes clusters lead to.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::{Map, Value, json};

use super::kinds::{key, section_of};
use crate::{objects::response::target_not_allowed, state::Operates};
use fairway_api_types::objects_wire::{Condition, Metadata, ObjectBody, ObjectSource, ObjectStatus, SourceKind};
use fairway_config::show_duration;
use fairway_control::{Published, configured::Configured};
use fairway_model::{
    AnswerMode, Cluster, ClusterName, ContributedName, DesiredState, Member, MonitorName, Name, Pool, PoolName,
    RecordSet, SteeredName, Ttl,
};
use fairway_store::objects::Kind;
use fairway_zonefile::rdata_text;

/// The served objects of one kind.
pub(super) struct Inventory<'a> {
    pub(super) kind: Kind,
    pub(super) published: &'a Published,
    /// The caller's right to read what monitors send.
    pub(super) operates: Operates,
}

/// An object of the desired state.
#[derive(Clone, Copy)]
enum Served<'a> {
    Cluster(&'a Cluster),
    Monitor,
    Name(&'a SteeredName),
    Pool(&'a Pool),
    Records(&'a Name),
}

impl<'a> Inventory<'a> {
    /// Returns the first objects by name, without those of the API, that `is_wanted` accepts. Monitors of intents and contributions are
    /// left out: they are described where they are used.
    pub(super) fn first(&self, limit: usize, is_wanted: impl Fn(&str) -> bool) -> BTreeMap<String, ObjectBody> {
        let mut first = BTreeMap::new();
        let mut add = |name: String, served: Served<'a>| {
            let is_first = first.len() < limit || first.last_key_value().is_some_and(|(last, _)| name < *last);
            let is_listed =
                || !self.is_of_api(&name) && (self.is_of_files(&name) || !matches!(served, Served::Monitor));
            if is_first && is_wanted(&name) && is_listed() {
                first.insert(name, served);
                if first.len() > limit {
                    first.pop_last();
                }
            }
        };
        let DesiredState { clusters, monitors, names, pools, records, .. } = &*self.configured().merged.desired;
        match self.kind {
            Kind::Cluster => clusters.iter().for_each(|(name, of)| add(name.to_string(), Served::Cluster(of))),
            Kind::Monitor => monitors.keys().for_each(|name| add(name.to_string(), Served::Monitor)),
            Kind::Name => names.iter().for_each(|(name, of)| add(name.to_plain(), Served::Name(of))),
            Kind::Pool => pools.iter().for_each(|(name, of)| add(name.to_string(), Served::Pool(of))),
            _ => {
                let mut last = None;
                let first_of_name = records.keys().filter(|(name, _)| last.replace(name) != Some(name));
                first_of_name.for_each(|(name, _)| add(name.to_plain(), Served::Records(name)));
            }
        }
        self.bodies(first)
    }

    /// Returns the object with a name, as people write it.
    pub(super) fn get(&self, name: &str) -> Option<ObjectBody> {
        if self.is_of_api(name) {
            return None;
        }
        let DesiredState { clusters, monitors, names, pools, records, .. } = &*self.configured().merged.desired;
        let found = match self.kind {
            Kind::Cluster => Served::Cluster(clusters.get(&ClusterName::new(name).ok()?)?),
            Kind::Monitor => monitors.get(&MonitorName::new(name).ok()?).map(|_| Served::Monitor)?,
            Kind::Name => Served::Name(names.get(&name.parse().ok()?)?),
            Kind::Pool => Served::Pool(pools.get(&PoolName::new(name).ok()?)?),
            _ => {
                let name: Name = name.parse().ok()?;
                let (first, _) = records.starting_at(&|(of, _)| *of < name).next()?.0;
                Served::Records((*first == name).then_some(first)?)
            }
        };
        let name = match found {
            Served::Name(SteeredName { name, .. }) | Served::Records(name) => name.to_plain(),
            Served::Monitor if !self.is_of_files(name) => return None,
            _ => name.to_owned(),
        };
        self.bodies([(name, found)].into()).into_values().next()
    }

    fn configured(&self) -> &'a Configured {
        &self.published.configured
    }

    /// Returns true if the API declares it in the configuration that is served. Deleted, it is still served for a moment.
    fn is_of_api(&self, name: &str) -> bool {
        key(self.kind, name).is_some_and(|key| self.configured().objects.get(&key).is_some())
    }

    fn is_of_files(&self, name: &str) -> bool {
        self.configured().files.objects.get(section_of(self.kind), name).is_some()
    }

    fn bodies(&self, of: BTreeMap<String, Served<'_>>) -> BTreeMap<String, ObjectBody> {
        let owners = self.owners(&of);
        let body = |(name, served): (String, Served<'_>)| {
            let file = self.configured().files.objects.get(section_of(self.kind), &name);
            let (spec, source) = match file {
                Some(object) => {
                    let from = vec![format!("{}:{}", object.location.file, object.location.line)];
                    (self.without_secrets(object.spec()), ObjectSource { kind: SourceKind::File, from })
                }
                None => (self.spec(&name, served), self.source(served, owners.get(&name))),
            };
            let metadata = Some(Metadata { source, ..Metadata::default() });
            (name, ObjectBody { spec, metadata, status: Some(self.status(served)) })
        };
        of.into_iter().map(body).collect()
    }

    fn source(&self, served: Served<'_>, owners: Option<&BTreeSet<Arc<str>>>) -> ObjectSource {
        let pool = match served {
            Served::Name(steered) => Some(&steered.pool),
            Served::Pool(pool) => Some(&pool.name),
            _ => None,
        };
        if let Some(intent) = pool.and_then(|pool| self.configured().objects.intent_called(pool.as_str())) {
            return ObjectSource { kind: SourceKind::Intent, from: vec![intent.to_string()] };
        }
        let from: Vec<String> = owners.into_iter().flatten().map(ToString::to_string).collect();
        let is_read = !from.is_empty() && from.iter().all(|owner| owner.starts_with("kubernetes:"));
        ObjectSource { kind: if is_read { SourceKind::Kubernetes } else { SourceKind::Webhook }, from }
    }

    /// Returns the owners of the contributions that these objects come from.
    fn owners(&self, of: &BTreeMap<String, Served<'_>>) -> BTreeMap<String, BTreeSet<Arc<str>>> {
        let contributed: BTreeMap<&str, Served<'_>> = of
            .iter()
            .filter(|(name, _)| !self.is_of_files(name))
            .map(|(name, served)| (name.as_str(), *served))
            .collect();
        let merged = &self.configured().merged.contributed.merged_names;
        let origins = |of_name: &'a ContributedName| of_name.origins.iter().map(|origin| Arc::clone(&origin.owner));
        let mut found: BTreeMap<String, BTreeSet<Arc<str>>> = BTreeMap::new();
        match self.kind {
            _ if contributed.is_empty() => {}
            Kind::Name => {
                for (text, served) in contributed {
                    let Served::Name(SteeredName { name, .. }) = served else { continue };
                    found.insert(text.to_owned(), merged.of_name(name).into_iter().flat_map(origins).collect());
                }
            }
            Kind::Pool => {
                for (_, of_name) in merged.names() {
                    let pool = of_name.pool.as_ref().filter(|pool| contributed.contains_key(pool.as_str()));
                    found.extend(pool.map(|pool| (pool.to_string(), origins(of_name).collect())));
                }
            }
            Kind::Cluster => {
                for (_, of_name) in merged.names() {
                    let pool = of_name.pool.as_ref().and_then(|pool| merged.desired().pools.get(pool));
                    for (member, owner) in pool.into_iter().flat_map(|pool| &pool.members).zip(origins(of_name)) {
                        if contributed.contains_key(member.cluster.as_str()) {
                            found.entry(member.cluster.to_string()).or_default().insert(owner);
                        }
                    }
                }
            }
            _ => {
                let texts = contributed.into_keys().map(str::to_owned).collect();
                let owners = self.configured().owners_of(&texts).into_iter();
                found.extend(owners.map(|(name, owners)| (name.to_string(), owners)));
            }
        }
        found
    }

    fn status(&self, served: Served<'_>) -> ObjectStatus {
        let mut conditions = vec![
            Condition::new("Accepted", true, "Valid", String::new()),
            Condition::new("Conflict", false, "NoConflict", String::new()),
            Condition::new("Served", true, "Served", String::new()),
        ];
        let denied = match served {
            Served::Cluster(cluster) => self.published.denied.of_cluster(&cluster.name),
            Served::Pool(Pool { name, .. }) | Served::Name(SteeredName { pool: name, .. }) => {
                self.published.denied.of_pool(name)
            }
            _ => None,
        };
        conditions.extend(denied.map(target_not_allowed));
        ObjectStatus { observed_generation: 0, conditions }
    }

    /// Returns the fields of an object that nobody wrote, in the format of the configuration: those that say what it is, without settings
    /// that few have.
    fn spec(&self, name: &str, served: Served<'_>) -> Map<String, Value> {
        let spec = match served {
            Served::Cluster(Cluster { addresses, hosts, .. }) => {
                let hosts = hosts.iter().map(|host| host.name.to_string());
                let all: Vec<String> = addresses.iter().map(ToString::to_string).chain(hosts).collect();
                json!({"name": name, "addresses": all})
            }
            Served::Monitor => json!({"name": name}),
            Served::Name(SteeredName { pool, ttl: None, .. }) => json!({"name": name, "pool": pool.as_str()}),
            Served::Name(SteeredName { pool, ttl: Some(ttl), .. }) => {
                json!({"name": name, "pool": pool.as_str(), "ttl": seconds(*ttl)})
            }
            Served::Pool(pool) => {
                let policy = pool.policy.to_string();
                let member = |member: &Member| json!({"cluster": member.cluster.as_str(), "weight": member.weight.0, "tier": member.tier.number()});
                json!({
                    "name": name,
                    "policy": policy.split(", ").collect::<Vec<_>>(),
                    "mode": if pool.mode == AnswerMode::Cname { "cname" } else { "address" },
                    "ttl": seconds(pool.ttl),
                    "members": pool.members.iter().map(member).collect::<Vec<_>>(),
                })
            }
            Served::Records(owner) => {
                let records = &self.configured().merged.desired.records;
                let sets = records.starting_at(&|(of, _)| of < owner).take_while(|((of, _), _)| of == owner);
                let set = |((_, rtype), set): (&(Name, _), &RecordSet)| {
                    let data: Vec<String> = set.rdatas.iter().map(|rdata| rdata_text(*rtype, rdata)).collect();
                    json!({"type": rtype.to_string(), "ttl": seconds(set.ttl), "data": data})
                };
                json!({"name": name, "sets": sets.map(set).collect::<Vec<_>>()})
            }
        };
        match spec {
            Value::Object(spec) => spec,
            _ => Map::new(),
        }
    }

    /// Removes the values of headers that a monitor of the files sends, which may be secrets, unless the caller has the verb `operate`.
    fn without_secrets(&self, mut spec: Map<String, Value>) -> Map<String, Value> {
        let headers = spec.get_mut("headers").filter(|_| self.kind == Kind::Monitor && !self.operates.0);
        for value in headers.and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
            *value = Value::from("(requires the verb operate)");
        }
        spec
    }
}

/// Returns a TTL in the format of the configuration.
fn seconds(ttl: Ttl) -> String {
    show_duration(Duration::from_secs(ttl.secs().into()))
}
