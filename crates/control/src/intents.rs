//! What has become of intents: how each stands in the configuration in force, and who answers for it.

use std::collections::BTreeMap;

use fairway_model::{
    Eligibility, Pool, PoolName,
    intent::{DnsUpdateRecord, Intent},
};
use fairway_zones::ServingState;

use super::{
    Configured, Control,
    publishing::{DECLARED_MAX, asked},
    shared::Shared,
    status::word,
};
use fairway_api_types::objects_wire::Condition;
use fairway_intents::{
    Answered, EffectiveWeight, IntentMember, IntentStatus, answered_name, is_of_intent, object_name, weight_source,
};
use fairway_store::objects::{Key, Kind, Object};

impl Control {
    /// What has become of each of these.
    pub async fn intent_statuses(&self, of: &[(Object, Intent)]) -> Vec<IntentStatus> {
        let shared = self.shared();
        let view = shared.serving.load();
        let configured = &view.published.configured;
        let beholder = Beholder { shared, view: &view, configured };
        of.iter().map(|(object, intent)| beholder.status(object, intent)).collect()
    }
}

struct Beholder<'a> {
    shared: &'a Shared,
    view: &'a ServingState,
    configured: &'a Configured,
}

/// How an intent stands to the name that it claims.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// It holds the name.
    Held,
    /// Another intent does, and its members joined there.
    Joined,
    /// The name is answered for something else, or not at all.
    None,
}

impl Beholder<'_> {
    fn status(&self, object: &Object, intent: &Intent) -> IntentStatus {
        let key = &object.key;
        let why = self.configured.left_out.get(key);
        let why = why.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
        let mut status = IntentStatus { observed_generation: object.generation, ..IntentStatus::default() };
        if let Intent::DnsUpdateRecord(record) = intent {
            status.conditions = self.of_update(key, record, why);
            return status;
        }
        if !matches!(key.kind(), Kind::Inbound | Kind::Compound) {
            status.conditions = vec![match why {
                None => said("Accepted", true, "Kept", String::new()),
                Some(why) => said("Accepted", false, "Invalid", why),
            }];
            return status;
        }
        let name = answered_name(intent);
        let holder = name.as_ref().and_then(|name| self.configured.merged.desired.names.get(name));
        let claim = match holder {
            Some(holder) if holder.pool.as_str() == object_name(key) => Claim::Held,
            Some(holder) if is_external(intent) && is_of_intent(&holder.pool) => Claim::Joined,
            _ => Claim::None,
        };
        let pool =
            holder.filter(|_| claim != Claim::None).and_then(|of| self.configured.merged.desired.pools.get(&of.pool));
        status.members = pool.map(|pool| self.members(pool, intent)).unwrap_or_default();
        let is_served = *self.shared.served.borrow() >= object.revision;
        if let (Some(name), Some(pool), true) = (&name, pool, is_served) {
            status.answered = Some(Answered {
                name: name.to_string(),
                pool: pool.name.to_string(),
                ttl: pool.ttl.secs(),
                since: format!("{:.3}", object.changed.max(self.shared.started)),
            });
        }
        let claimants = name.iter().flat_map(|name| self.configured.objects.claimants(name));
        let mut others: Vec<&Key> = claimants.filter(|of| *of != key).collect();
        others.sort();
        let is_up = status.members.iter().any(|member| member.eligible);
        status.conditions = vec![
            accepted(intent, claim, why.as_deref()),
            conflict(claim, why.as_deref(), &others),
            ready(intent, claim, is_served, is_up),
        ];
        status
    }

    /// Whether a record of where to publish can be run, and how its publisher does.
    fn of_update(&self, key: &Key, record: &DnsUpdateRecord, why: Option<String>) -> Vec<Condition> {
        let asked = asked(self.configured, key, record);
        let why = why.or_else(|| asked.as_ref()?.as_ref().err().map(ToString::to_string));
        let accepted = match (&why, &asked) {
            (Some(why), _) => said("Accepted", false, "Invalid", why.clone()),
            (None, Some(_)) => said("Accepted", true, "Valid", String::new()),
            (None, None) => said("Accepted", true, "Kept", String::new()),
        };
        let published = match asked {
            None => {
                let (provider, record) = (&record.provider, key.names().collect::<Vec<_>>().join("/"));
                let what = format!(
                    "only external-dns speaks to {provider}: fairway publish flags {record} tells how it starts"
                );
                said("Published", false, "Rendered", what)
            }
            Some(Ok(to)) if why.is_none() => self.published(&to.name),
            Some(_) => said("Published", false, "NotRun", String::new()),
        };
        vec![accepted, published]
    }

    /// How a publisher stands. One that was just declared begins within a second.
    fn published(&self, name: &str) -> Condition {
        let publishers = self.shared.publishers.load();
        let Some(publisher) = publishers.iter().find(|publisher| publisher.setup().name == name) else {
            let declared = publishers.iter().filter(|publisher| publisher.setup().name.contains('/')).count();
            let is_full = declared >= DECLARED_MAX;
            let what = if is_full { format!("{DECLARED_MAX} records are run, and no more") } else { String::new() };
            return said("Published", false, if is_full { "TooMany" } else { "Starting" }, what);
        };
        let status = publisher.status();
        let (holds, reason) = match status.word() {
            "ok" => (true, "Published"),
            "behind" => (false, "Behind"),
            "failing" => (false, "Failing"),
            _ => (false, "Starting"),
        };
        let refused = status.conditions.values().filter(|standing| standing.condition.words().0 == "refused").count();
        let of_some = (refused > 0).then(|| format!("{refused} record sets cannot be: see fairway publish status"));
        said("Published", holds, reason, status.error.clone().or(of_some).unwrap_or_default())
    }

    fn members(&self, pool: &Pool, intent: &Intent) -> Vec<IntentMember> {
        let tiers = pool.members.iter().fold(BTreeMap::<u8, u32>::new(), |mut tiers, member| {
            *tiers.entry(member.tier.number()).or_default() += u32::from(member.weight.0);
            tiers
        });
        let member = |member: &fairway_model::Member| {
            let (is_eligible, reason) = self.standing(&pool.name, &member.cluster);
            let all = tiers.get(&member.tier.number()).copied().filter(|all| *all > 0);
            let cluster = self.configured.merged.desired.clusters.get(&member.cluster);
            IntentMember {
                cluster: member.cluster.to_string(),
                eligible: is_eligible,
                reason: reason.to_owned(),
                weight: EffectiveWeight {
                    effective: member.weight.0,
                    source: weight_source(intent, &member.cluster, cluster).to_owned(),
                },
                tier: member.tier.number(),
                share: all.map(|all| (f64::from(member.weight.0) / f64::from(all) * 1_000.0).round() / 10.0),
            }
        };
        pool.members.iter().map(member).collect()
    }

    /// Whether clients are sent to a member, and how it stands.
    fn standing(&self, pool: &PoolName, cluster: &fairway_model::ClusterName) -> (bool, &'static str) {
        if self.view.runtime.schedule(&self.view.snapshot, pool, cluster).is_some_and(|it| !it.turn.open) {
            return (false, "closed");
        }
        let addresses =
            self.configured.merged.desired.clusters.get(cluster).map(|of| &of.addresses[..]).unwrap_or_default();
        let targets = addresses
            .iter()
            .flat_map(|address| self.configured.uses.targets(pool, &(cluster.clone(), *address)).collect::<Vec<_>>());
        let best = targets.map(|target| self.view.runtime.health(target).eligibility()).min();
        let best = best.unwrap_or(Eligibility::Pending);
        (matches!(best, Eligibility::Up | Eligibility::Unknown), word(best))
    }
}

fn accepted(intent: &Intent, claim: Claim, why: Option<&str>) -> Condition {
    match (claim, why) {
        (Claim::Held, _) => said("Accepted", true, "Valid", String::new()),
        (Claim::Joined, _) => said("Accepted", true, "JoinedAnother", String::new()),
        (Claim::None, _) if !is_external(intent) => said("Accepted", true, "NotExternal", String::new()),
        (Claim::None, Some(why)) => said("Accepted", false, "Invalid", why.to_owned()),
        (Claim::None, None) => said("Accepted", true, "Pending", String::new()),
    }
}

fn conflict(claim: Claim, why: Option<&str>, others: &[&Key]) -> Condition {
    match (claim, others) {
        (Claim::Joined, _) => said("Conflict", true, "Shadowed", why.unwrap_or_default().to_owned()),
        (Claim::Held, [_, ..]) => {
            let (shown, more) =
                (others.iter().take(NAMED_MAX).map(|key| key.as_str()), others.len().saturating_sub(NAMED_MAX));
            let mut names = shown.collect::<Vec<_>>().join(", ");
            if more > 0 {
                names = format!("{names} and {more} more");
            }
            let what =
                format!("{names} claim the name too: this one is the oldest, its fields hold, and the members join it");
            said("Conflict", true, "Holds", what)
        }
        _ => said("Conflict", false, "None", String::new()),
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
    said("Ready", holds, reason, String::new())
}

fn said(kind: &str, holds: bool, reason: &str, message: String) -> Condition {
    let status = if holds { "True" } else { "False" };
    Condition { kind: kind.to_owned(), status: status.to_owned(), reason: reason.to_owned(), message }
}

fn is_external(intent: &Intent) -> bool {
    match intent {
        Intent::Inbound(inbound) => inbound.external_support,
        _ => true,
    }
}

/// Others of one name that are named.
const NAMED_MAX: usize = 8;
