//! Renders webhook contributions: counts, times, members and warnings of each owner.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use fairway_api_types::{
    contributions_wire::{ContributedMember, ContributionState, ContributionWarning},
    objects_wire::Condition,
};
use fairway_contributions::{Held, Refused, RowOwners};
use fairway_control::{Control, ControlError, Published, contributed::ContributionLedger, declared::Declared};
use fairway_model::{ClusterName, Permille, Timestamp};
use fairway_providers::webhook_server::Scope;

use crate::objects::response::not_allowed;

/// Returns all contributions, by base path, owner and set identifier.
pub(crate) async fn contributions(control: &Control) -> Result<Vec<ContributionState>, ControlError> {
    let declared = control.objects()?.declared();
    let (published, ledger) = (control.shared().serving.published(), control.ledger()?);
    // 50,000 endpoints take some tens of milliseconds.
    let render = move || {
        let mut states = render(&declared, &published, &ledger);
        states.iter_mut().for_each(|state| state.warnings.extend(denied_members(state, &published)));
        states
    };
    tokio::task::spawn_blocking(render).await.map_err(|_| ControlError::Stopped)
}

/// Counts of one contribution.
#[derive(Default)]
struct Counts<'a> {
    names: BTreeSet<&'a str>,
    endpoints: usize,
    /// Seconds since 1970.
    since: u64,
    /// Held names.
    held: BTreeMap<&'a str, Held>,
}

fn render(declared: &Declared, published: &Published, ledger: &ContributionLedger) -> Vec<ContributionState> {
    let mut states = Vec::new();
    let lease = published.configured.settings.webhook.as_ref().and_then(|webhook| webhook.lease);
    for (scope, rows) in declared.contributed_rows() {
        let owners = RowOwners::of(&scope, &rows);
        let mut counts: BTreeMap<(Arc<str>, &str), Counts<'_>> = BTreeMap::new();
        for row in &rows {
            let endpoint = &row.row.endpoint;
            let of_owner = counts.entry((owners.of_row(row), &endpoint.set_identifier));
            let of_owner = of_owner.or_insert_with(|| Counts { since: row.row.since, ..Counts::default() });
            of_owner.names.insert(&endpoint.dns_name);
            of_owner.endpoints += 1;
            of_owner.since = of_owner.since.min(row.row.since);
            // Records of the registry are held with the names that they are about.
            if let Some(held) = row.row.held.filter(|_| row.companion_of().is_none()) {
                of_owner.held.insert(&row.text, held);
            }
        }
        let foreign = match owners.are_mixed() {
            true => ledger.foreign.current(&owners, &rows),
            false => Refused::new(),
        };
        for (owner, (_, _, set)) in foreign.keys() {
            // An owner may have nothing but refused writes.
            counts.entry((Arc::clone(owner), set)).or_default();
        }
        let last_seen = ledger.last_seen(&scope, declared);
        let client = Client { scope: &scope, last_seen, lease_weight: declared.lease_weight(&scope), lease };
        states.extend(counts.into_iter().map(|((owner, set), counts)| {
            let own = foreign.iter().filter(|((by, key), _)| *by == owner && key.2 == set);
            let warnings = own.map(|((_, (name, rtype, _)), of)| refused_write(name, rtype, of)).collect();
            ContributionState { warnings, ..client.state(&owner, set, &counts) }
        }));
    }
    add_members(&mut states, published);
    // The base path of a warning is not kept, so an owner with several paths has all warnings at each of them.
    let warnings: Vec<_> = published.configured.merged.contributed.warnings().collect();
    let mut conflicts = conflicts(declared, published);
    for state in &mut states {
        let own = warnings.iter().filter(|warning| *warning.owner == *state.owner && *warning.set == *state.set);
        let own = own.take(WARNINGS_MAX);
        let is_refused = !state.warnings.is_empty();
        state.warnings.extend(
            own.map(|warning| ContributionWarning { name: warning.name.to_string(), message: warning.message.clone() }),
        );
        state.warnings.truncate(WARNINGS_MAX);
        let free = WARNINGS_MAX - state.warnings.len();
        let of_state = conflicts.remove(&(state.path.clone(), state.owner.clone(), state.set.clone()));
        let conflicts = of_state.unwrap_or_default();
        state.conditions.push(match state.warnings.first().filter(|_| is_refused) {
            Some(first) => {
                Condition::new("Conflict", true, "OwnedByAnother", format!("{}: {}", first.name, first.message))
            }
            None => conflicts.condition(),
        });
        state.warnings.extend(conflicts.hidden.into_iter().take(free));
    }
    states
}

/// Returns the warning about a write to an endpoint of another owner.
fn refused_write(name: &str, rtype: &str, of: &str) -> ContributionWarning {
    let message = format!(
        "{rtype}: a write was refused, since the endpoint is that of {of}; give each client a base path of its own (/owners/NAME)"
    );
    ContributionWarning { name: name.to_owned(), message }
}

/// Conflicts of one contribution with names of others.
#[derive(Default)]
struct Conflicts {
    /// Its own NS, DNAME and CNAME records that were rejected, with the reasons.
    rejected: BTreeSet<String>,
    /// Warnings about its names that rejected records of others would have hidden.
    hidden: Vec<ContributionWarning>,
}

impl Conflicts {
    /// Returns the condition about both sides of a conflict.
    fn condition(&self) -> Condition {
        let (rejected, hidden) = (self.rejected.first(), self.hidden.first());
        let reason = match (rejected, hidden) {
            (Some(_), _) => "RecordsRejected",
            (None, Some(_)) => "HidingRejected",
            (None, None) => return Condition::new("Conflict", false, "NoConflict", String::new()),
        };
        let more = |count: usize| if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
        let rejected = rejected.map(|why| format!("rejected: {why}{}", more(self.rejected.len())));
        let hidden =
            hidden.map(|ContributionWarning { name, message }| format!("{name}: {message}{}", more(self.hidden.len())));
        let message = rejected.into_iter().chain(hidden).collect::<Vec<_>>().join("; ");
        Condition::new("Conflict", true, reason, message)
    }
}

/// Returns the conflicts about records that would hide names, by path, owner and set identifier of the contribution.
fn conflicts(declared: &Declared, published: &Published) -> HashMap<(String, String, String), Conflicts> {
    let mut found = HashMap::<_, Conflicts>::new();
    let configured = &published.configured;
    if configured.rejected.names.is_empty() {
        return found;
    }
    let mut owners_of_rejected = HashMap::<_, BTreeSet<_>>::new();
    let mut below = Vec::new();
    for (scope, rows) in declared.contributed_rows() {
        let owners = RowOwners::of(&scope, &rows);
        for row in rows.iter().filter(|row| row.companion_of().is_none()) {
            let Some((above, rtype)) = row.name.as_ref().and_then(|name| configured.rejected_over(name)) else {
                continue;
            };
            let (path, owner) = (scope.to_string(), owners.of_row(row).to_string());
            let endpoint = &row.row.endpoint;
            let contribution = (path.clone(), owner.clone(), endpoint.set_identifier.clone());
            if row.name.as_ref() != Some(above) || row.rtype() != Some(rtype) {
                below.push((contribution, endpoint.dns_name.clone(), (above.clone(), rtype)));
                continue;
            }
            let why = configured.rejected.names.get(&(above.clone(), Some(rtype)));
            found.entry(contribution).or_default().rejected.extend(why.cloned());
            owners_of_rejected.entry((above.clone(), rtype)).or_default().insert((path, owner));
        }
    }
    for (contribution, name, rejected) in below {
        let is_other = |owner: &(String, String)| (&owner.0, &owner.1) != (&contribution.0, &contribution.1);
        if !owners_of_rejected.get(&rejected).is_some_and(|owners| owners.iter().any(is_other)) {
            continue;
        }
        let (above, rtype) = rejected;
        let message = format!(
            "{rtype} records that another owner contributes to {above} are rejected, because they would hide this name"
        );
        found.entry(contribution).or_default().hidden.push(ContributionWarning { name, message });
    }
    found
}

fn add_members(states: &mut [ContributionState], published: &Published) {
    let mut members: HashMap<(&str, &str), Vec<ContributedMember>> = HashMap::new();
    for contributed in published.configured.contributed_members() {
        let of_owner = members.entry((&contributed.origin.owner, &contributed.origin.set)).or_default();
        if of_owner.len() < MEMBERS_MAX {
            of_owner.push(ContributedMember {
                name: contributed.name.to_string(),
                cluster: contributed.member.cluster.to_string(),
                weight: contributed.member.weight.0,
                declared: contributed.origin.weight.map(|weight| weight.0),
            });
        }
    }
    for state in states {
        state.members = members.get(&(&*state.owner, &*state.set)).cloned().unwrap_or_default();
    }
}

/// Returns warnings about members of a contribution that this server may not connect to.
fn denied_members(state: &ContributionState, published: &Published) -> Vec<ContributionWarning> {
    let warning = |member: &ContributedMember| {
        let target = published.denied.of_cluster(&ClusterName::new(&member.cluster).ok()?)?;
        let message = format!("TargetNotAllowed: {}", not_allowed(target));
        Some(ContributionWarning { name: member.name.clone(), message })
    };
    state.members.iter().filter_map(warning).take(WARNINGS_MAX).collect()
}

/// A webhook client, with its lease.
struct Client<'a> {
    scope: &'a Scope,
    /// Time of its last call, in seconds since 1970.
    last_seen: Option<u64>,
    lease_weight: Permille,
    lease: Option<Duration>,
}

impl Client<'_> {
    fn state(&self, owner: &str, set: &str, counts: &Counts<'_>) -> ContributionState {
        let text = |secs: u64| format!("{}", Timestamp::from_secs(secs));
        let after = |leases: u64| Some(text(self.last_seen? + leases * self.lease?.as_secs()));
        ContributionState {
            path: self.scope.to_string(),
            owner: owner.to_owned(),
            set: set.to_owned(),
            names: counts.names.len(),
            endpoints: counts.endpoints,
            since: text(counts.since),
            last_seen: self.last_seen.map(text),
            lease_weight: f64::from(self.lease_weight.thousandths()) / 1000.0,
            fades_at: after(1),
            gone_at: after(2),
            held: counts.held.len(),
            conditions: vec![held_condition(owner, &counts.held)],
            members: vec![],
            warnings: vec![],
        }
    }
}

/// Returns the condition about held names of an owner.
fn held_condition(owner: &str, held: &BTreeMap<&str, Held>) -> Condition {
    let Some((first, oldest)) = held.iter().min_by_key(|(_, held)| held.at) else {
        return Condition::new("Held", false, "NothingHeld", String::new());
    };
    let message = format!(
        "{} names that were withdrawn are held since {}, among them {first}, as their targets are healthy; `fairway contributions confirm \
         {owner}` removes them",
        held.len(),
        Timestamp::from_secs(oldest.at)
    );
    Condition::new("Held", true, <&str>::from(oldest.rule), message)
}

/// Maximum number of listed members of one contribution.
const MEMBERS_MAX: usize = 100;
/// Maximum number of listed warnings of one contribution.
const WARNINGS_MAX: usize = 100;
