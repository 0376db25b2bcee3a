//! Renders the status of intents: acceptance, conflicts, readiness, and the members of their pools.

use std::collections::BTreeMap;

use fairway_api_types::intent_status_wire::{Answered, EffectiveWeight, IntentMember, IntentStatus};
use fairway_api_types::objects_wire::Condition;
use fairway_control::{
    Control, CurrentState, Shared,
    publishing::{DECLARED_MAX, publisher_of},
};
use fairway_intents::{answered_name, object_name, weight_source};
use fairway_model::{
    Eligibility, Member, Pool, PoolName,
    intent::{DnsUpdateRecord, Intent, IntentSpec},
};
use fairway_providers::publish::SyncState;
use fairway_store::objects::{Key, Kind, Object};

use super::{eligibility_word, member_eligibility, percent};

/// Returns the status of each intent, in their order.
pub(crate) fn intent_statuses(control: &Control, intents: &[(Object, Intent)]) -> Vec<IntentStatus> {
    let shared = control.shared();
    let renderer = Renderer { shared, current: &shared.serving.load() };
    intents.iter().map(|(object, intent)| renderer.status(object, intent)).collect()
}

struct Renderer<'a> {
    shared: &'a Shared,
    current: &'a CurrentState,
}

/// The relation of an intent to the name that it claims.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// The intent holds the name.
    Held,
    /// Another intent holds the name, and the members of this one were added to its pool.
    Joined,
    /// The name is answered for something else, or not at all.
    None,
}

impl Renderer<'_> {
    fn status(&self, object: &Object, intent: &Intent) -> IntentStatus {
        let (key, configured) = (&object.key, &self.current.published.configured);
        let errors = configured.not_served.get(key);
        let error = errors.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
        let mut status = IntentStatus { observed_generation: object.generation, ..IntentStatus::default() };
        if let IntentSpec::DnsUpdateRecord(record) = &intent.spec {
            status.conditions = self.of_update(key, record, error);
            return status;
        }
        if !matches!(key.kind(), Kind::Inbound | Kind::Compound) {
            status.conditions = vec![match error {
                None => Condition::new("Accepted", true, "Stored", String::new()),
                Some(error) => Condition::new("Accepted", false, "Invalid", error),
            }];
            return status;
        }
        let desired = &configured.merged.desired;
        let name = answered_name(intent);
        let holder = name.as_ref().and_then(|name| desired.names.get(name));
        let claimants: Vec<&Key> = name.iter().flat_map(|name| configured.objects.claimants(name)).collect();
        let is_of_intent = |pool: &PoolName| claimants.iter().any(|key| object_name(key) == pool.as_str());
        let claim = match holder {
            Some(holder) if holder.pool.as_str() == object_name(key) => Claim::Held,
            Some(holder) if is_external(intent) && is_of_intent(&holder.pool) => Claim::Joined,
            _ => Claim::None,
        };
        let pool = holder.filter(|_| claim != Claim::None).and_then(|holder| desired.pools.get(&holder.pool));
        status.members = pool.map(|pool| self.members(pool, intent)).unwrap_or_default();
        let is_served = *self.shared.declarations.served.borrow() >= object.revision;
        if let (Some(name), Some(pool), true) = (&name, pool, is_served) {
            status.answered = Some(Answered {
                name: name.to_string(),
                pool: pool.name.to_string(),
                ttl: pool.ttl.secs(),
                since: format!("{:.3}", object.changed.max(self.shared.lifecycle.started)),
            });
        }
        let mut others: Vec<&Key> = claimants.into_iter().filter(|other| *other != key).collect();
        others.sort();
        let is_up = status.members.iter().any(|member| member.eligible);
        status.conditions = vec![
            accepted(intent, claim, error.as_deref()),
            conflict(claim, error.as_deref(), &others),
            ready(intent, claim, is_served, is_up),
        ];
        status
    }

    /// Returns the conditions of a DNS update record: its acceptance, and the state of its publisher.
    fn of_update(&self, key: &Key, record: &DnsUpdateRecord, error: Option<String>) -> Vec<Condition> {
        let publisher = publisher_of(&self.current.published.configured, key, record);
        let error = error.or_else(|| publisher.as_ref()?.as_ref().err().map(ToString::to_string));
        let accepted = match (&error, &publisher) {
            (Some(error), _) => Condition::new("Accepted", false, "Invalid", error.clone()),
            (None, Some(_)) => Condition::new("Accepted", true, "Valid", String::new()),
            (None, None) => Condition::new("Accepted", true, "Stored", String::new()),
        };
        let published = match publisher {
            None => {
                let (provider, record) = (&record.provider, key.names().collect::<Vec<_>>().join("/"));
                let what = format!(
                    "only external-dns supports {provider}: fairway publish flags {record} prints its command line"
                );
                Condition::new("Published", false, "Rendered", what)
            }
            Some(Ok(to)) if error.is_none() => self.published(&to.name),
            Some(_) => Condition::new("Published", false, "NotRun", String::new()),
        };
        vec![accepted, published]
    }

    /// Returns the condition of a publisher. A new one starts within a second.
    fn published(&self, name: &str) -> Condition {
        let publishers = self.shared.publishers.load();
        let Some(publisher) = publishers.all().find(|publisher| publisher.setup().name == name) else {
            return if publishers.declared.len() >= DECLARED_MAX {
                let what = format!("the limit of {DECLARED_MAX} records that publish is reached");
                Condition::new("Published", false, "TooMany", what)
            } else {
                Condition::new("Published", false, "Starting", String::new())
            };
        };
        let status = publisher.status();
        let (holds, reason) = match status.state() {
            SyncState::Ok => (true, "Published"),
            SyncState::Behind => (false, "Behind"),
            SyncState::Failing => (false, "Failing"),
            SyncState::Starting => (false, "Starting"),
        };
        let refused = status.conditions.values().filter(|set| set.condition.is_refused()).count();
        let of_some = (refused > 0).then(|| format!("{refused} record sets were refused: see fairway publish status"));
        Condition::new("Published", holds, reason, status.error.clone().or(of_some).unwrap_or_default())
    }

    fn members(&self, pool: &Pool, intent: &Intent) -> Vec<IntentMember> {
        let tiers = pool.members.iter().fold(BTreeMap::<u8, u32>::new(), |mut tiers, member| {
            *tiers.entry(member.tier.number()).or_default() += u32::from(member.weight.0);
            tiers
        });
        let member = |member: &Member| {
            let configured = &self.current.published.configured;
            let eligibility = member_eligibility(&self.current.serving, configured, &pool.name, &member.cluster);
            let all = tiers.get(&member.tier.number()).copied().filter(|all| *all > 0);
            let cluster = configured.merged.desired.clusters.get(&member.cluster);
            IntentMember {
                cluster: member.cluster.to_string(),
                eligible: matches!(eligibility, Some(Eligibility::Up | Eligibility::Unknown)),
                reason: eligibility_word(eligibility).to_owned(),
                weight: EffectiveWeight {
                    effective: member.weight.0,
                    source: weight_source(intent, &member.cluster, cluster).to_owned(),
                },
                tier: member.tier.number(),
                share: all.map(|all| percent(f64::from(member.weight.0) / f64::from(all))),
            }
        };
        pool.members.iter().map(member).collect()
    }
}

fn accepted(intent: &Intent, claim: Claim, error: Option<&str>) -> Condition {
    match (claim, error) {
        (Claim::Held, _) => Condition::new("Accepted", true, "Valid", String::new()),
        (Claim::Joined, _) => Condition::new("Accepted", true, "JoinedAnother", String::new()),
        (Claim::None, _) if !is_external(intent) => Condition::new("Accepted", true, "NotExternal", String::new()),
        (Claim::None, Some(error)) => Condition::new("Accepted", false, "Invalid", error.to_owned()),
        (Claim::None, None) => Condition::new("Accepted", true, "Pending", String::new()),
    }
}

fn conflict(claim: Claim, error: Option<&str>, others: &[&Key]) -> Condition {
    match (claim, others) {
        (Claim::Joined, _) => Condition::new("Conflict", true, "Shadowed", error.unwrap_or_default().to_owned()),
        (Claim::Held, [_, ..]) => {
            let mut names = others.iter().take(NAMED_MAX).map(|key| key.as_str()).collect::<Vec<_>>().join(", ");
            if others.len() > NAMED_MAX {
                names = format!("{names} and {} more", others.len() - NAMED_MAX);
            }
            let what = format!(
                "{names} claim the name too: this intent is the oldest, so its fields are used, and the members of the others are added"
            );
            Condition::new("Conflict", true, "Holds", what)
        }
        _ => Condition::new("Conflict", false, "NoConflict", String::new()),
    }
}

fn ready(intent: &Intent, claim: Claim, is_served: bool, is_up: bool) -> Condition {
    let (holds, reason) = match claim {
        Claim::None if !is_external(intent) => (false, "NotExternal"),
        _ if !is_served => (false, "Pending"),
        Claim::None => (false, "Rejected"),
        _ if !is_up => (false, "NoMemberUp"),
        _ => (true, "Served"),
    };
    Condition::new("Ready", holds, reason, String::new())
}

fn is_external(intent: &Intent) -> bool {
    match &intent.spec {
        IntentSpec::Inbound(inbound) => inbound.external_support,
        _ => true,
    }
}

/// Other intents that one message lists.
const NAMED_MAX: usize = 8;
