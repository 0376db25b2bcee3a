//! Renders the status of intents: acceptance, conflicts, readiness, and the members of their pools.

use std::collections::BTreeMap;

use fairway_api_types::intent_status_wire::{Answered, EffectiveWeight, IntentMember, IntentStatus};
use fairway_api_types::objects_wire::Condition;
use fairway_control::{
    Control, CurrentState, Shared,
    configured::Configured,
    publishing::{DECLARED_MAX, publisher_of},
};
use fairway_intents::{answered_name, not_rendered, object_name, weight_source};
use fairway_model::{
    Eligibility, Member, Name, Pool, PoolName, SteeredName,
    intent::{DnsUpdateRecord, Intent, IntentSpec},
};
use fairway_providers::publish::SyncState;
use fairway_store::objects::{Key, Kind, Object};

use super::{eligibility_word, member_eligibility, percent, probe_state};
use crate::objects::response::target_not_allowed;

/// Returns the status of each intent, in their order.
pub(crate) fn intent_statuses(control: &Control, intents: &[(Object, Intent)]) -> Vec<IntentStatus> {
    let shared = control.shared();
    let renderer = Renderer { shared, current: &shared.serving.load() };
    intents.iter().map(|(object, intent)| renderer.with_denied(renderer.status(object, intent))).collect()
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
    /// Adds the condition of a target that this server may not connect to.
    fn with_denied(&self, mut status: IntentStatus) -> IntentStatus {
        let pool = status.answered.as_ref().and_then(|answered| PoolName::new(&answered.pool).ok());
        let denied = pool.and_then(|pool| self.current.published.denied.of_pool(&pool));
        status.conditions.extend(denied.map(target_not_allowed));
        status
    }

    fn status(&self, object: &Object, intent: &Intent) -> IntentStatus {
        let (key, configured) = (&object.key, &self.current.published.configured);
        let grants = &configured.settings.access.names;
        let errors = configured.not_served.get(key);
        let error = errors.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
        let mut status = IntentStatus { observed_generation: object.generation, ..IntentStatus::default() };
        if let IntentSpec::DnsUpdateRecord(record) = &intent.spec {
            status.conditions = self.of_update(key, record, error);
            return status;
        }
        if !matches!(key.kind(), Kind::Inbound | Kind::Compound) {
            status.conditions = vec![stored(error)];
            status.conditions.extend(enforced(intent));
            return status;
        }
        let desired = &configured.merged.desired;
        let name = answered_name(intent);
        let holder = name.as_ref().and_then(|name| desired.names.get(name));
        let is_granted = |key: &&Key| configured.objects.check_grant(grants, key).is_ok();
        let claimants = name.iter().flat_map(|name| configured.objects.claimants(name));
        let claimants: Vec<&Key> = claimants.filter(is_granted).collect();
        let is_of_intent = |pool: &PoolName| claimants.iter().any(|key| object_name(key) == pool.as_str());
        let take_overs = &configured.merged.take_overs;
        let waits = error.is_some() && name.as_ref().is_some_and(|name| take_overs.contains_key(name));
        let claim = match holder {
            Some(holder) if holder.pool.as_str() == object_name(key) => Claim::Held,
            Some(holder) if claimants.contains(&key) && is_of_intent(&holder.pool) && !waits => Claim::Joined,
            _ => Claim::None,
        };
        let pool = holder.filter(|_| claim != Claim::None).and_then(|holder| desired.pools.get(&holder.pool));
        status.members = pool.map(|pool| self.members(pool, intent)).unwrap_or_default();
        let is_served = *self.shared.declarations.served.borrow() >= object.revision;
        if let (Some(name), Some(pool), true) = (&name, pool, is_served) {
            status.answered = Some(Answered {
                name: name.to_string(),
                pool: pool.name.to_string(),
                policy: pool.policy.to_string(),
                ttl: pool.ttl.secs(),
                since: format!("{:.3}", object.changed.max(self.shared.lifecycle.started)),
            });
        }
        let mut others: Vec<&Key> = claimants.into_iter().filter(|other| *other != key).collect();
        others.sort();
        let is_up = status.members.iter().any(|member| member.eligible);
        let not_up = pool.filter(|_| !is_up).map(|pool| self.not_up(pool, &status.members)).unwrap_or_default();
        let hidden = name.as_ref().and_then(|name| hidden(configured, name));
        let not_answered = NotAnswered {
            waits,
            is_granted: configured.objects.check_grant(grants, key).is_ok(),
            error: error.clone(),
            holder: holder.map(elsewhere),
        };
        status.conditions = vec![
            accepted(intent, claim, &not_answered),
            conflict(claim, error.as_deref(), &others, hidden.as_deref()),
            ready(intent, claim, is_served, (is_up, not_up), &not_answered),
        ];
        status.conditions.extend(enforced(intent));
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
            SyncState::Standby => (false, "Standby"),
            SyncState::Failing => (false, "Failing"),
            SyncState::Starting => (false, "Starting"),
        };
        let refused = status.conditions.values().filter(|set| set.condition.is_refused()).count();
        let of_some = (refused > 0).then(|| format!("{refused} record sets were refused: see fairway publish status"));
        Condition::new("Published", holds, reason, status.error.clone().or(of_some).unwrap_or_default())
    }

    /// Lists members that are not up, with the source of their monitor: `eu1 is down (intent port 8443)`.
    fn not_up(&self, pool: &Pool, members: &[IntentMember]) -> String {
        let configured = &self.current.published.configured;
        let (desired, targets) = (&configured.merged.desired, self.current.serving.snapshot.targets());
        let member = |(declared, member): (&Member, &IntentMember)| {
            let addresses = desired.clusters.get(&declared.cluster).map(|cluster| &cluster.addresses[..]);
            let mut addresses =
                addresses.unwrap_or_default().iter().map(|address| (declared.cluster.clone(), *address));
            let target = addresses.find_map(|address| configured.uses.targets(&pool.name, &address).next());
            let probe = target
                .and_then(|target| probe_state(desired, &pool.name, &declared.cluster, &targets[target.0 as usize]));
            let probe = probe.map(|probe| format!(" ({})", probe.source())).unwrap_or_default();
            format!("{} is {}{probe}", member.cluster, member.reason)
        };
        let mut texts: Vec<_> = pool.members.iter().zip(members).map(member).take(NAMED_MAX).collect();
        if members.len() > NAMED_MAX {
            texts.push(format!("and {} more", members.len() - NAMED_MAX));
        }
        texts.join(", ")
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

/// Reasons why an intent without a claim is not answered.
struct NotAnswered {
    /// True if its project is granted the name.
    is_granted: bool,
    /// True if another tenant had the name, and the TTL of its answers is not over.
    waits: bool,
    /// The error that rejects it.
    error: Option<String>,
    /// Declaration that holds the name instead.
    holder: Option<String>,
}

/// Returns the acceptance of an object that claims no name.
fn stored(error: Option<String>) -> Condition {
    match error {
        None => Condition::new("Accepted", true, "Stored", String::new()),
        Some(error) => Condition::new("Accepted", false, "Invalid", error),
    }
}

fn accepted(intent: &Intent, claim: Claim, why: &NotAnswered) -> Condition {
    match (claim, &why.error) {
        (Claim::Held, _) => Condition::new("Accepted", true, "Valid", String::new()),
        (Claim::Joined, _) => Condition::new("Accepted", true, "JoinedAnother", String::new()),
        (Claim::None, _) if !is_external(intent) => Condition::new("Accepted", true, "NotExternal", String::new()),
        (Claim::None, Some(error)) => {
            let reason = match why.is_granted {
                true if why.waits => "TakeOver",
                true => "Invalid",
                false => "NotGranted",
            };
            Condition::new("Accepted", reason == "TakeOver", reason, error.clone())
        }
        (Claim::None, None) => Condition::new("Accepted", true, "Pending", String::new()),
    }
}

/// Returns the condition about other claims to the name. `hidden` is about records that would hide it.
fn conflict(claim: Claim, error: Option<&str>, others: &[&Key], hidden: Option<&str>) -> Condition {
    match (claim, others) {
        (Claim::Held, []) if hidden.is_some() => {
            Condition::new("Conflict", true, "HidingRejected", hidden.unwrap_or_default().to_owned())
        }
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

fn ready(
    intent: &Intent,
    claim: Claim,
    is_served: bool,
    (is_up, not_up): (bool, String),
    why: &NotAnswered,
) -> Condition {
    let (holds, reason, message) = match claim {
        Claim::None if !is_external(intent) => (false, "NotExternal", None),
        Claim::None if !why.is_granted => (false, "NotGranted", why.error.clone()),
        Claim::None if why.waits => (false, "TakeOver", why.error.clone()),
        _ if !is_served => (false, "Pending", None),
        Claim::None if why.error.is_none() && why.holder.is_some() => (false, "NameTaken", why.holder.clone()),
        Claim::None => (false, "Rejected", why.error.clone()),
        _ if !is_up => (false, "NoMemberUp", Some(not_up)),
        _ => (true, "Served", None),
    };
    Condition::new("Ready", holds, reason, message.unwrap_or_default())
}

fn elsewhere(holder: &SteeredName) -> String {
    format!("{} is declared elsewhere, with pool {}", holder.name, holder.pool)
}

/// Returns a message about records of others that were rejected because they would have hidden a name.
fn hidden(configured: &Configured, name: &Name) -> Option<String> {
    let (above, rtype) = configured.rejected_over(name)?;
    Some(format!(
        "{rtype} records that a webhook owner contributes to {above} are rejected, because they would hide the name"
    ))
}

/// Returns the condition about what only a service mesh can enforce.
fn enforced(intent: &Intent) -> Option<Condition> {
    let fields = not_rendered(intent)?;
    let what = if fields.is_empty() { "the intent".to_owned() } else { fields.join(", ") };
    let message = format!("{what}: stored for the service mesh, and enforced nowhere, because no mesh is rendered yet");
    Some(Condition::new("Enforced", false, "NotRendered", message))
}

fn is_external(intent: &Intent) -> bool {
    match &intent.spec {
        IntentSpec::Inbound(inbound) => inbound.external_support,
        _ => true,
    }
}

/// Maximum number of other intents, or of members, that one message lists.
const NAMED_MAX: usize = 8;
