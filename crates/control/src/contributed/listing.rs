//! Who brings what, since when, and how long it lasts; taking it out.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use fairway_model::{Permille, Timestamp};
use fairway_providers::webhook_server::{Edits, Refused, Scope};

use super::{ContributionLedger, Owners};
use crate::{Control, ControlError, Published, configured::Contributor, declared::Declared};
use fairway_api_types::contributions_wire::{ContributedMember, ContributionState, ContributionWarning, Eviction};
use fairway_store::objects::Author;

/// One contribution, while it is counted.
#[derive(Default)]
struct Counted<'a> {
    names: BTreeSet<&'a str>,
    endpoints: usize,
    since: u64,
}

impl Control {
    /// Everything that is brought, by base path, owner and set identifier.
    pub async fn contributions(&self) -> Result<Vec<ContributionState>, ControlError> {
        let declared = self.objects()?.declared();
        let (published, ledger) = (self.shared.serving.published(), self.ledger()?);
        // 50,000 endpoints take some tens of milliseconds.
        let listed = tokio::task::spawn_blocking(move || listed(&declared, &published, &ledger)).await;
        listed.map_err(|_| ControlError::Stopped)
    }

    /// Takes out what an owner brought; how many endpoints.
    pub async fn evict(&self, eviction: &Eviction, by: Author) -> Result<usize, ControlError> {
        let declared = self.objects()?.declared();
        let mut count = 0;
        for (scope, rows) in declared.contributed_rows() {
            if eviction.path.as_ref().is_some_and(|path| *path != scope.to_string()) {
                continue;
            }
            let owners = Owners::of(&scope, &rows);
            let is_meant = |set: &str| eviction.set.as_ref().is_none_or(|wanted| wanted == set);
            let gone = rows.iter().filter(|row| *owners.of_row(row) == *eviction.owner);
            let gone = gone.filter(|row| is_meant(&row.row.endpoint.set_identifier));
            let edits: Edits = gone.map(|row| (row.row.endpoint.key(), None)).collect();
            if edits.is_empty() {
                continue;
            }
            count += edits.len();
            self.ledger()?.commit(&scope, edits, by.clone()).await.map_err(|error| match error {
                Refused::Busy(what) | Refused::Large(what) => ControlError::NoStore(what),
            })?;
        }
        Ok(count)
    }

    fn ledger(&self) -> Result<Arc<ContributionLedger>, ControlError> {
        let ledger = self.shared.webhook.get().map(|(ledger, _)| Arc::clone(ledger));
        ledger.ok_or_else(|| ControlError::NoStore("the server is starting".to_owned()))
    }
}

fn listed(declared: &Declared, published: &Published, ledger: &ContributionLedger) -> Vec<ContributionState> {
    let mut listed = Vec::new();
    let lease = published.configured.settings.webhook.as_ref().and_then(|webhook| webhook.lease);
    for (scope, rows) in declared.contributed_rows() {
        let owners = Owners::of(&scope, &rows);
        let mut counted: BTreeMap<(Arc<str>, &str), Counted<'_>> = BTreeMap::new();
        for row in &rows {
            let endpoint = &row.row.endpoint;
            let own = counted.entry((owners.of_row(row), &endpoint.set_identifier));
            let own = own.or_insert_with(|| Counted { since: row.row.since, ..Counted::default() });
            own.names.insert(&endpoint.dns_name);
            own.endpoints += 1;
            own.since = own.since.min(row.row.since);
        }
        let clock = Clock::new(&scope, declared, ledger, lease);
        listed.extend(counted.into_iter().map(|((owner, set), own)| clock.state(&scope, &owner, set, &own)));
    }
    // An owner's conditions are told at each of its base paths: which one it was is not kept.
    let all: Vec<_> = published.configured.merged.contributed.conditions().collect();
    let mut members: HashMap<(&str, &str), Vec<ContributedMember>> = HashMap::new();
    for Contributor { name, member, origin, .. } in published.configured.origins() {
        let of = members.entry((&origin.owner, &origin.set)).or_default();
        if of.len() < MEMBERS_MAX {
            of.push(ContributedMember {
                name: name.to_string(),
                cluster: member.cluster.to_string(),
                weight: member.weight.0,
                declared: origin.weight.map(|weight| weight.0),
            });
        }
    }
    for state in &mut listed {
        state.members = members.get(&(&*state.owner, &*state.set)).cloned().unwrap_or_default();
        let all = all.iter();
        let own = all.filter(|told| *told.owner == *state.owner && *told.set == *state.set).take(CONDITIONS_MAX);
        state.warnings = own
            .map(|told| ContributionWarning { name: told.name.to_string(), message: told.message.clone() })
            .collect();
    }
    listed
}

/// When a writer was heard of, and what follows from it.
struct Clock {
    last_seen: Option<u64>,
    lease_weight: Permille,
    lease: Option<Duration>,
}

impl Clock {
    fn new(scope: &Scope, declared: &Declared, ledger: &ContributionLedger, lease: Option<Duration>) -> Self {
        Self { last_seen: ledger.last_seen(scope, declared), lease_weight: declared.lease_weight(scope), lease }
    }

    fn state(&self, scope: &Scope, owner: &str, set: &str, counted: &Counted<'_>) -> ContributionState {
        let text = |secs: u64| format!("{}", Timestamp::from_secs(secs));
        let after = |leases: u64| Some(text(self.last_seen? + leases * self.lease?.as_secs()));
        ContributionState {
            path: scope.to_string(),
            owner: owner.to_owned(),
            set: set.to_owned(),
            names: counted.names.len(),
            endpoints: counted.endpoints,
            since: text(counted.since),
            last_seen: self.last_seen.map(text),
            lease_weight: f64::from(self.lease_weight.thousandths()) / 1000.0,
            fades_at: after(1),
            gone_at: after(2),
            members: vec![],
            warnings: vec![],
        }
    }
}

/// Most members that are told of one contribution.
const MEMBERS_MAX: usize = 100;
/// Most conditions that are told of one contribution.
const CONDITIONS_MAX: usize = 100;
