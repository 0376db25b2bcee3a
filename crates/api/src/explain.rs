//! Renders an explanation of the answering code as the body of `GET /v1/explain`.

use fairway_api_types::explain_wire::{
    AddressHealth, ClientLocation, Explanation, MemberChoice, PoolChoice, Record, Step,
};
use fairway_api_types::{kubernetes_wire::WeightFactors, state_wire::ProbeState};
use fairway_control::{LoadObstacle as Obstacle, LoadPlan as Plan, configured::Configured};
use fairway_model::{Backend, ClusterName, Name, OverrideAction, PinnedPool, PoolName};
use fairway_zones::{
    Explained, ExplainedRecord, ExplainedStep, NodeKind, TargetIndex,
    steer::{self, AddressNote, Answer, Assignment, Basis, HashInput, MemberNote, Reason},
};

use crate::explain_words::{hex, policy_steps, scope_reason};
use crate::render::{pool_pin, weight_factors, word};

/// Facts about a target besides its health.
#[derive(Clone, Debug, Default)]
pub struct TargetNote {
    /// Reason why this server may not connect to it; `None` if it may.
    pub not_allowed: Option<String>,
    /// Its probe; `None` if nothing was probed.
    pub probe: Option<ProbeState>,
    /// Cause of the failure of its last probe, if known.
    pub cause: Option<String>,
}

/// Returns what is known about a target of a pool's cluster.
type Notes<'a> = &'a dyn Fn(&PoolName, &ClusterName, TargetIndex) -> TargetNote;

/// Returns the body of an explanation. `measured` is false if nothing was probed and health is assumed.
pub fn explanation(explained: &Explained, measured: bool, notes: Notes<'_>) -> Explanation {
    let records = |records: &[ExplainedRecord]| records.iter().map(record_of).collect();
    Explanation {
        at: None,
        snapshot: hex(explained.ids.snapshot),
        runtime_state: hex(explained.ids.runtime),
        epoch: explained.ids.epoch,
        name: explained.name.to_string(),
        rtype: explained.rtype.to_string(),
        client: explained.client.map(|network| network.to_string()),
        health: if measured { "measured" } else { "assumed" }.to_owned(),
        steps: explained.steps.iter().map(|step| step_of(step, notes)).collect(),
        rcode: explained.message.rcode.to_owned(),
        authoritative: explained.message.authoritative,
        answer: records(&explained.message.answer),
        authority: records(&explained.message.authority),
        additional: records(&explained.message.additional),
        scope: explained.message.scope,
        ttl_reason: explained.ttl_reason.clone(),
    }
}

/// Adds the overrides that pin pools to an explanation. `pinned` returns that of a pool.
pub fn show_pins<'a>(explanation: &mut Explanation, pinned: impl Fn(&PoolName) -> Option<PinnedPool<'a>>) {
    for choice in explanation.steps.iter_mut().filter_map(|step| step.pool.as_mut()) {
        let pool = PoolName::new(&choice.name).ok();
        choice.pinned = pool.and_then(|pool| pinned(&pool)).as_ref().map(pool_pin);
    }
}

/// Adds the factors of the weights of members to an explanation.
pub fn show_weights(explanation: &mut Explanation, configured: &Configured) {
    for Step { name, through, pool, .. } in &mut explanation.steps {
        let Some(choice) = pool else { continue };
        let pool = PoolName::new(&choice.name).ok().and_then(|pool| configured.merged.desired.pools.get(&pool));
        let (Some(pool), Ok(name)) = (pool, through.as_ref().unwrap_or(name).parse::<Name>()) else { continue };
        for member in &mut choice.members {
            let Some(of) = pool.members.iter().find(|of| of.cluster.as_str() == member.cluster) else { continue };
            let mut contributed = configured.contributed_members_of(&name);
            let origin = contributed.find(|contributed| contributed.member.cluster == of.cluster);
            member.weight_factors = weight_factors(configured, pool, of, origin.map(|found| found.origin));
        }
    }
}

/// Adds to an explanation what load control knows of the demand. `plan` returns what its last decision found for the client's class, and the
/// clusters that the numbers are of.
pub(crate) fn show_plans<'a>(
    explanation: &mut Explanation,
    explained: &Explained,
    plan: impl Fn(&steer::Explanation) -> Option<(&'a [Backend], &'a Plan)>,
) {
    let choices = explanation.steps.iter_mut().zip(&explained.steps);
    for (choice, pool) in choices.filter_map(|(step, of)| step.pool.as_mut().zip(of.pool.as_ref())) {
        let Some((clusters, plan)) = plan(pool) else { continue };
        choice.moving = Some(plan.moving.round() as u64);
        choice.obstacle = plan.obstacle.map(|obstacle| obstacle_word(obstacle).to_owned());
        for member in &mut choice.members {
            let place = clusters.iter().position(|backend| backend.cluster.as_str() == member.cluster);
            let at = |demands: &[f64]| place.map(|place| demands[place].round() as u64);
            (member.demand, member.best_demand) = (at(&plan.present), at(&plan.best));
        }
    }
}

fn obstacle_word(obstacle: Obstacle) -> &'static str {
    match obstacle {
        Obstacle::DeadBand => "deadBand",
        Obstacle::Rate => "rate",
        Obstacle::Room => "room",
    }
}

fn step_of(step: &ExplainedStep, notes: Notes<'_>) -> Step {
    let through = match &step.node {
        NodeKind::Wildcard { name, .. } | NodeKind::Delegation(name) | NodeKind::Dname(name) => Some(name),
        _ => None,
    };
    Step {
        name: step.name.to_string(),
        zone: step.zone.as_ref().map(ToString::to_string),
        node: word(&step.node),
        through: through.map(ToString::to_string),
        pool: step
            .pool
            .as_ref()
            .map(|pool| PoolChoice { location_source: step.place.clone(), ..pool_choice(pool, notes) }),
    }
}

/// Returns the choice of a pool.
pub(crate) fn pool_choice(pool: &steer::Explanation, notes: Notes<'_>) -> PoolChoice {
    let basis = match pool.choice.basis {
        Basis::Live => "live",
        Basis::Exhausted => "exhausted",
        Basis::Pending => "pending",
        Basis::Panic => "panic",
        Basis::Down => "down",
        Basis::NoFamily => "noFamily",
        Basis::Hidden => "hidden",
    };
    let result = match pool.choice.answer {
        Answer::Set(_) if !pool.members.iter().any(|m| m.reason.is_in()) => "fallback",
        Answer::Set(_) | Answer::Member(_) => "members",
        Answer::FallbackAddresses | Answer::FallbackCname => "fallback",
        Answer::Nothing => "nothing",
        Answer::Refuse => "refuse",
    };
    let depends_on = match pool.input {
        HashInput::Everyone => "everyone".to_owned(),
        HashInput::Client(client) => format!("client {}", client.network()),
        HashInput::Draw(_) => "draw".to_owned(),
    };
    let cluster = |number: &u8| pool.members[usize::from(*number)].cluster.to_string();
    let assignment = pool.assignment.map(|assignment| match assignment {
        Assignment::Slot => "slot",
        Assignment::Nearest => "nearest",
    });
    PoolChoice {
        name: pool.pool.to_string(),
        policy: pool.policy.to_string(),
        pinned: None,
        policy_steps: policy_steps(&pool.policy),
        location: location(pool),
        groups: pool.proof.groups.iter().map(|group| group.iter().map(cluster).collect()).collect(),
        assignment: assignment.map(str::to_owned),
        assignment_text: pool.assignment.map(|assignment| assignment.to_string()),
        slot: pool.proof.slot.map(|slot| slot.number),
        slot_cluster: pool.proof.slot.and_then(|slot| slot.member).as_ref().map(cluster),
        moving: None,
        obstacle: None,
        seed: hex(pool.proof.seed),
        key: hex(pool.proof.pool_key),
        chosen: pool.choice.members.as_slice().iter().map(cluster).collect(),
        basis: basis.to_owned(),
        basis_text: pool.choice.basis.to_string(),
        result: result.to_owned(),
        depends_on,
        location_source: None,
        tiers: pool.tiers.clone(),
        members: pool.members.iter().map(|member| member_choice(&pool.pool, member, notes)).collect(),
    }
}

fn member_choice(pool: &PoolName, member: &MemberNote, notes: Notes<'_>) -> MemberChoice {
    let note = |note: &AddressNote| address_health(note, notes(pool, &member.cluster, note.target));
    let addresses: Vec<_> = member.addresses.iter().map(note).collect();
    // A denied target is taken out as an override would, but no override exists that the reader could find.
    let denied = addresses.iter().find_map(|address| address.not_allowed.as_ref());
    let reason = match denied.filter(|_| member.reason == Reason::ForcedDown) {
        Some(denied) => format!("target not allowed: {denied}"),
        None => member.why(),
    };
    MemberChoice {
        cluster: member.cluster.to_string(),
        weight: member.weight.0,
        weight_factors: WeightFactors::default(),
        tier: member.tier,
        group: member.group,
        standby: member.standby,
        is_in: member.reason.is_in(),
        reason,
        schedule: member.schedule.as_ref().map(|schedule| schedule.to_string()),
        candidacy: member.candidacy.map(word),
        key: hex(member.terms.key),
        effective_weight: member.terms.share,
        slots: member.terms.slots,
        demand: None,
        best_demand: None,
        addresses,
    }
}

fn location(pool: &steer::Explanation) -> ClientLocation {
    let (client, place) = (pool.client, &pool.proof.location_class);
    ClientLocation {
        network: client.network().to_string(),
        block: place.block.map(|block| block.to_string()),
        class: place.class,
        classes: place.classes,
        scope: client.scope(),
        scope_reason: scope_reason(pool),
    }
}

fn address_health(note: &AddressNote, TargetNote { not_allowed, probe, cause }: TargetNote) -> AddressHealth {
    let action = note.health.override_action().filter(|_| not_allowed.is_none());
    AddressHealth {
        address: note.address.to_string(),
        eligibility: word(note.health.eligibility()),
        status: note.health.status().to_string(),
        override_action: action.as_ref().map(OverrideAction::to_string),
        not_allowed,
        probe,
        cause,
    }
}

fn record_of(record: &ExplainedRecord) -> Record {
    Record {
        name: record.owner.to_string(),
        rtype: record.rtype.to_string(),
        ttl: record.ttl.secs(),
        data: record.rdata.clone(),
    }
}

#[cfg(test)]
mod proof_tests;
